"""How a released file comes to the edge: from the disk, over HTTP, or in retained chunks from the broker."""

import asyncio
import hashlib
import http.client
import threading
import urllib.error
import urllib.request
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import IO

from edge_agent.pools import Runner
from edge_agent.releases.files import ModelFolder
from pipeline.releases.manifest import Manifest
from pipeline.timing import Clock
from pipeline.transport.base import Message, Transport
from pipeline.wire import topics

CHUNKS_AT_ONCE = 8
"""Subscribed to at a time: brokers drop what of a burst a session has no room for (100 messages and less), and other
traffic on the link is not held up for long.
"""
CHUNK_WAIT_S = 20.0
HTTP_WAIT_S = 10.0
HTTP_LIMIT_S = 900.0
_BLOCK_BYTES = 64 * 1024
_NOT_HAD = (urllib.error.URLError, http.client.HTTPException, TimeoutError, ConnectionError, ValueError, OverflowError)
"""The last two are of addresses that cannot be asked: letters beyond ASCII, an empty part of a name, no such port."""


class FetchFailed(Exception):  # noqa: N818 - an expected end, told in words that are ready to be shown
    """A file could not be had, this time; says why in a sentence."""


class Fetcher:
    """Fetches files into the folder of models. ``open_session`` gives a session of its own for chunks, None for none.

    A file is trusted when its hash is the signed one, wherever it came from.
    """

    def __init__(
        self, folder: ModelFolder, open_session: Callable[[], Transport] | None, runner: Runner, clock: Clock
    ) -> None:
        self._folder, self._open_session, self._runner, self._clock = folder, open_session, runner, clock

    async def fetch(self, manifest: Manifest) -> Path:
        """The release's file, verified. Raises FetchFailed, and OSError where it cannot be kept."""
        if not await self._runner.run(partial(self._folder.has_model, manifest)):
            data = await self._data(manifest)
            await self._runner.run(partial(self._folder.keep_model, manifest, data))
        return self._folder.model_path(manifest)

    async def _data(self, manifest: Manifest) -> bytes:
        faults = []
        for url in manifest.urls:
            try:
                return await self._over_http(url, manifest)
            except FetchFailed as failed:
                faults.append(str(failed))
        try:
            return await self._over_mqtt(manifest)
        except FetchFailed as failed:
            raise FetchFailed("; ".join([*faults, str(failed)])) from failed

    async def _over_http(self, url: str, manifest: Manifest) -> bytes:
        stop, part = threading.Event(), await self._runner.run(partial(self._folder.part_path, manifest))
        try:
            return await self._runner.run(partial(download, url, manifest, part, self._clock, stop))
        finally:
            stop.set()  # where this is cancelled, the thread ends at its next block

    async def _over_mqtt(self, manifest: Manifest) -> bytes:
        if self._open_session is None:
            raise FetchFailed("there is no broker to have its chunks from")
        data = bytearray(manifest.size_bytes)
        for first in range(0, manifest.chunks, CHUNKS_AT_ONCE):
            numbers = range(first, min(first + CHUNKS_AT_ONCE, manifest.chunks))
            await _gather(self._open_session(), manifest, numbers, data)
        return await self._runner.run(partial(_whole, data, manifest))


async def _gather(session: Transport, manifest: Manifest, numbers: range, data: bytearray) -> None:
    """Have some chunks sent and put them in their places. Raises FetchFailed where one does not come."""
    missing = {topics.model_chunk(manifest.name, manifest.entry.sha256, number): number for number in numbers}
    came = asyncio.Event()

    def take(message: Message) -> None:
        number = missing.get(message.topic)
        if number is None:
            return
        start = number * manifest.chunk_bytes
        if len(message.payload) == min(manifest.chunk_bytes, manifest.size_bytes - start):
            data[start : start + len(message.payload)] = message.payload
            del missing[message.topic]
            came.set()

    for topic in missing:
        session.subscribe(topic, take, qos=1)
    running = asyncio.create_task(session.run(), name=f"fetch/{manifest.title}")
    try:
        while missing:
            came.clear()
            async with asyncio.timeout(CHUNK_WAIT_S):
                await came.wait()
    except TimeoutError:
        reason = session.state.reason or f"{len(missing)} of {len(numbers)} chunks did not come"
        raise FetchFailed(f"the broker does not have it: {reason}") from None
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def _whole(data: bytearray, manifest: Manifest) -> bytes:
    """The chunks as the file that they are to be; takes its time. Raises FetchFailed where they are another."""
    whole = bytes(data)
    if hashlib.sha256(whole).hexdigest() != manifest.entry.sha256:
        raise FetchFailed("the chunks at the broker are not the file that was signed")
    return whole


def download(url: str, manifest: Manifest, part: Path, clock: Clock, stop: threading.Event) -> bytes:
    """Get a file over HTTP into ``part``, from where an earlier attempt has ended, and give it; blocks.

    Raises FetchFailed, also for a file with another hash, which is begun anew, and OSError where it cannot be kept.
    """
    begun = part.stat().st_size if part.exists() else 0
    if begun < manifest.size_bytes:
        _download_rest(url, manifest, part, begun, (clock, stop))
    data = part.read_bytes()
    if hashlib.sha256(data).hexdigest() != manifest.entry.sha256:
        part.unlink()
        raise FetchFailed(f"{url} is not the file that was signed")
    return data


def _download_rest(url: str, manifest: Manifest, part: Path, begun: int, until: tuple[Clock, threading.Event]) -> None:
    headers = {"Range": f"bytes={begun}-"} if begun else {}
    request = urllib.request.Request(url, headers=headers)  # noqa: S310 - http or https, as the manifest's check says
    try:
        with urllib.request.urlopen(request, timeout=HTTP_WAIT_S) as response:  # noqa: S310 - as above
            continued = begun if response.status == http.client.PARTIAL_CONTENT else 0
            with part.open("ab" if continued else "wb") as file:
                have = continued + _copy(response, file, manifest.size_bytes - continued, until)
    except urllib.error.HTTPError as error:
        if error.code == http.client.REQUESTED_RANGE_NOT_SATISFIABLE:
            part.unlink()
        raise FetchFailed(f"{url} answers {error.code}") from error
    except _NOT_HAD as error:
        raise FetchFailed(f"{url} cannot be had ({getattr(error, 'reason', None) or error})") from error
    if have > manifest.size_bytes:
        part.unlink()
        raise FetchFailed(f"{url} has more than the {manifest.size_bytes} bytes that were signed")
    if have < manifest.size_bytes:
        raise FetchFailed(f"{url} ended after {have} of {manifest.size_bytes} bytes")


def _copy(source: IO[bytes], target: IO[bytes], most_bytes: int, until: tuple[Clock, threading.Event]) -> int:
    """Copy until the end, a stop, the time's limit, or the first block above ``most_bytes``; the bytes read."""
    (clock, stop), copied = until, 0
    give_up_at_s = clock.now_s() + HTTP_LIMIT_S
    while copied <= most_bytes and not stop.is_set() and clock.now_s() < give_up_at_s:
        block = source.read(_BLOCK_BYTES)
        if not block:
            break
        copied += len(block)
        if copied <= most_bytes:
            target.write(block)
    return copied
