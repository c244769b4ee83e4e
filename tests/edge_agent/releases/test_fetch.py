import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from edge_agent.pools import Inline, SpareThreads
from edge_agent.releases import fetch
from edge_agent.releases.fetch import Fetcher, FetchFailed
from edge_agent.releases.files import ModelFolder
from pipeline.releases.manifest import Manifest
from pipeline.timing import LoopClock, MonotonicClock, run_virtual
from pipeline.transport.base import Outgoing
from pipeline.transport.memory import MemoryHub, MemoryTransport
from pipeline.wire import topics
from tests.support.brokers import running
from tests.support.releases import manifest_of

FILE = bytes(range(256)) * 1500
"""Of 12 chunks, more than are asked for at once."""


@contextmanager
def host(answer: Callable[[BaseHTTPRequestHandler], None]) -> Iterator[str]:
    """An HTTP server on this machine; its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer(self)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=[0.01])
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/models/own"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def send(handler: BaseHTTPRequestHandler, data: bytes, status: int = 200, length: int | None = None) -> None:
    handler.send_response(status)
    handler.send_header("Content-Length", str(len(data) if length is None else length))
    handler.end_headers()
    handler.wfile.write(data)


def whole(handler: BaseHTTPRequestHandler) -> None:
    send(handler, FILE)


def ranges(handler: BaseHTTPRequestHandler) -> None:
    """Give what is asked for, of a file that breaks off in the middle where all is asked for."""
    asked = handler.headers.get("Range")
    if asked is None:
        send(handler, FILE[:100_000], length=len(FILE))
    else:
        send(handler, FILE[int(asked.removeprefix("bytes=").rstrip("-")) :], 206)


def fetch_from(folder: Path, url: str) -> bytes:
    """Fetch over HTTP alone."""
    fetcher = Fetcher(ModelFolder(folder), None, SpareThreads(), MonotonicClock())
    return asyncio.run(fetcher.fetch(manifest_of(FILE, urls=(url,)))).read_bytes()


def test_a_file_comes_over_http_and_is_not_fetched_again(tmp_path: Path) -> None:
    with host(whole) as url:
        assert fetch_from(tmp_path, url) == FILE
    assert fetch_from(tmp_path, url) == FILE


def test_a_download_that_broke_off_is_continued(tmp_path: Path) -> None:
    with host(ranges) as url:
        with pytest.raises(FetchFailed, match=r"own .*(ended after|cannot be had)"):
            fetch_from(tmp_path, url)
        (part,) = (tmp_path / "files").iterdir()
        assert part.read_bytes() == FILE[:100_000]
        assert fetch_from(tmp_path, url) == FILE
    assert [path.suffix for path in (tmp_path / "files").iterdir()] == [".onnx"]


def test_a_host_that_knows_no_ranges_sends_the_file_anew(tmp_path: Path) -> None:
    ModelFolder(tmp_path).part_path(manifest_of(FILE)).write_bytes(FILE[:1000])
    with host(whole) as url:
        assert fetch_from(tmp_path, url) == FILE


@pytest.mark.parametrize(
    ("answer", "words", "left"),
    [
        (lambda handler: send(handler, b"no", 404), "answers 404", 1),
        (lambda handler: send(handler, b"no", 416), "answers 416", 0),
        (lambda handler: send(handler, FILE[::-1]), "is not the file that was signed", 0),
        (lambda handler: send(handler, FILE + b"x"), "has more than the 384000 bytes", 0),
        (lambda handler: send(handler, FILE * 100), "has more than the 384000 bytes", 0),
        (lambda handler: handler.wfile.write(b"what?\r\n\r\n"), "cannot be had", 1),
    ],
)
def test_what_is_not_the_file_is_refused_and_only_a_host_that_fails_is_continued_from(
    answer: Callable[[BaseHTTPRequestHandler], None], words: str, left: int, tmp_path: Path
) -> None:
    ModelFolder(tmp_path).part_path(manifest_of(FILE)).write_bytes(b"begun")
    with host(answer) as url, pytest.raises(FetchFailed, match=words):
        fetch_from(tmp_path, url)
    assert [path.suffix for path in (tmp_path / "files").iterdir()] == [".part"] * left


def test_a_damaged_file_on_the_disk_is_fetched_again(tmp_path: Path) -> None:
    manifest = manifest_of(FILE)
    path = ModelFolder(tmp_path).model_path(manifest)
    path.parent.mkdir(parents=True)
    path.write_bytes(FILE[::-1])
    with host(whole) as url:
        assert fetch_from(tmp_path, url) == FILE


async def retain(hub: MemoryHub, manifest: Manifest, file: bytes, without: int | None = None) -> None:
    session = MemoryTransport(hub)
    async with running(session):
        for number in range(manifest.chunks):
            if number != without:
                start = number * manifest.chunk_bytes
                chunk = file[start : start + manifest.chunk_bytes]
                topic = topics.model_chunk("own", manifest.entry.sha256, number)
                await session.publish(Outgoing(topic, chunk, retain=True))


def over_mqtt(folder: Path, file: bytes, *, without: int | None = None, urls: tuple[str, ...] = ()) -> bytes:
    """Fetch from a broker that retains ``file``, or most of it."""

    async def main() -> bytes:
        hub, manifest = MemoryHub(), manifest_of(FILE, urls=urls)
        await retain(hub, manifest, file, without)
        path = await Fetcher(ModelFolder(folder), lambda: MemoryTransport(hub), Inline(), LoopClock()).fetch(manifest)
        return path.read_bytes()

    return run_virtual(main())


def test_a_file_comes_in_chunks_from_the_broker(tmp_path: Path) -> None:
    assert over_mqtt(tmp_path, FILE) == FILE


def test_the_broker_is_asked_where_the_host_does_not_answer(tmp_path: Path) -> None:
    with host(lambda handler: send(handler, b"", 500)) as url:
        pass  # gone by now
    assert over_mqtt(tmp_path, FILE, urls=(url,)) == FILE


def test_a_chunk_that_is_missing_ends_the_attempt_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(FetchFailed, match="1 of 4 chunks did not come"):
        over_mqtt(tmp_path, FILE, without=9)


def test_chunks_of_another_file_or_of_a_wrong_length_are_no_model(tmp_path: Path) -> None:
    with pytest.raises(FetchFailed, match="not the file that was signed"):
        over_mqtt(tmp_path, FILE[::-1])
    with pytest.raises(FetchFailed, match="1 of 4 chunks did not come"):
        over_mqtt(tmp_path, FILE[:-1])


def test_a_broker_that_is_away_is_no_way(tmp_path: Path) -> None:
    async def main() -> None:
        hub = MemoryHub()
        hub.stop()
        fetcher = Fetcher(ModelFolder(tmp_path), lambda: MemoryTransport(hub), Inline(), LoopClock())
        with pytest.raises(FetchFailed, match="not started"):
            await fetcher.fetch(manifest_of(FILE))

    run_virtual(main())


def test_a_slow_host_is_given_up_and_continued_another_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch, "HTTP_LIMIT_S", -1.0)
    with host(whole) as url, pytest.raises(FetchFailed, match="ended after 0 of 384000"):
        fetch_from(tmp_path, url)


@pytest.mark.parametrize("url", ["http://127.0.0.1:1/modèle", "http://127.0.0.1:99999/own", "http://a..b/own"])
def test_an_address_that_cannot_be_asked_is_a_failure_like_another(tmp_path: Path, url: str) -> None:
    with pytest.raises(FetchFailed, match="cannot be had"):
        fetch_from(tmp_path, url)
