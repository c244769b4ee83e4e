"""Watching results."""

import asyncio
import io
import json
import time
from collections.abc import Iterator

import msgspec
import pytest

from foveate.watch import WAITING_LINES, Lines, readable, watch
from pipeline.alerts import Alert, AnyAlert, ModelAlert, decode_alert, encode_alert
from pipeline.errors import BrokerError, ConfigError
from pipeline.results import FrameSize, Models, Result, ResultDetection, Timings, encode_result
from pipeline.transport.base import Message, Outgoing
from pipeline.transport.mqtt import MqttTransport
from pipeline.transport.settings import MqttSettings, TlsSettings
from tests.support.brokers import HOST, Embedded, free_port, running, until


def result(seq: int = 41, camera: str = "plaza", labels: tuple[str, ...] = ("person",), **changes: object) -> Result:
    detections = [ResultDetection(label, 0.9, (0, 0, 9, 9), 3 + i, "edge") for i, label in enumerate(labels)]
    made = Result(
        camera=camera,
        epoch=1,
        seq=seq,
        captured_at="2026-03-01T12:00:01.200Z",
        media_ms=None,
        revision=0,
        final=True,
        origin="fused",
        reason="",
        frame=FrameSize(768, 576),
        detections=detections,
        timings_ms=Timings(total=63.4),
        deadline_ms=200,
        deadline_met=True,
        models=Models("a@1", "b@1"),
        bytes_up=8000,
    )
    return msgspec.structs.replace(made, **changes)


@pytest.fixture
def utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("utc")
def test_a_line_says_when_where_how_fast_and_what() -> None:
    line = readable(result(labels=("person", "dog", "person")))
    assert line == "12:00:01.200 plaza #41 fused 63 ms  person 2, dog 1  (track 3, 4, 5)"


@pytest.mark.usefixtures("utc")
@pytest.mark.parametrize(("tier", "said"), [("edge", "fused (edge)"), ("cloud", "fused (cloud)"), ("device", "fused")])
def test_a_line_says_which_tier_has_answered_where_it_was_not_the_agent(tier: str, said: str) -> None:
    assert readable(result(tier=tier)) == f"12:00:01.200 plaza #41 {said} 63 ms  person 1  (track 3)"


@pytest.mark.usefixtures("utc")
def test_a_line_tells_what_is_unusual() -> None:
    odd = result(labels=(), deadline_met=False, revision=2, timings_ms=Timings())
    assert readable(odd) == "12:00:01.200 plaza #41 fused LATE revision 2  nothing"
    many = readable(result(labels=("person",) * 12))
    assert many.endswith("person 12  (track 3, 4, 5, 6, 7, 8, 9, 10, ...)")


def test_names_from_outside_do_not_steer_the_terminal() -> None:
    assert "\x1b" not in readable(result(labels=("\x1b[2Jperson\n",)))


async def printed(lines: Lines) -> str:
    out = io.StringIO()
    task = asyncio.ensure_future(lines.print_to(out))
    await until(lambda: out.getvalue() != "")
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return out.getvalue()


async def test_retained_results_are_no_news_and_junk_is_told() -> None:
    lines = Lines(as_json=False)
    lines.take(Message("foveate/plaza/result", encode_result(result(1)), retain=True))
    for junk in (b"", b"\xff", b"[]", b'{"seq":1}', b"NaN"):
        lines.take(Message("foveate/plaza/result", junk))
    lines.take(Message("foveate/plaza/result", encode_result(result(2))))
    shown = (await printed(lines)).splitlines()
    assert len(shown) == 6
    assert all("not a result" in line for line in shown[:5])
    assert "#2" in shown[5]


async def test_json_is_one_result_per_line_and_nothing_else() -> None:
    lines = Lines(as_json=True)
    lines.take(Message("foveate/plaza/result", b"junk"))
    for seq in (1, 2):
        lines.take(Message("foveate/plaza/result", encode_result(result(seq))))
    assert [json.loads(line)["seq"] for line in (await printed(lines)).splitlines()] == [1, 2]


async def test_slow_output_loses_the_oldest_and_says_how_many() -> None:
    lines = Lines(as_json=False)
    for seq in range(WAITING_LINES + 7):
        lines.take(Message("foveate/plaza/result", encode_result(result(seq))))
    shown = (await printed(lines)).splitlines()
    assert shown[0].startswith("(7 lines skipped")
    assert "#7 " in shown[1]
    assert len(shown) == WAITING_LINES + 1


ALERT = Alert(
    camera="plaza",
    segment="edge",
    state="breached",
    p99_ms=62.0,
    budget_ms=40.0,
    since="2026-03-01T12:00:01.000Z",
    action="lower_sample_rate",
    detail="edge: P99 of 62.0 ms is above the budget of 40 ms",
    at="2026-03-01T12:00:01.200Z",
)


@pytest.mark.usefixtures("utc")
async def test_alerts_have_a_line_of_their_own_among_the_results() -> None:
    lines = Lines(as_json=False)
    lines.take(Message("foveate/plaza/result", encode_result(result(1))))
    lines.take_alert(Message("foveate/plaza/alert", encode_alert(ALERT)))
    lines.take_alert(Message("foveate/plaza/alert", encode_result(result(2))))
    shown = (await printed(lines)).splitlines()
    assert shown[1] == "12:00:01.200 plaza ALERT breached  edge: P99 of 62.0 ms is above the budget of 40 ms"
    assert shown[2].startswith("foveate/plaza/alert: not an alert")


GIVEN_UP = ModelAlert(
    camera="plaza",
    state="withdrawn",
    given_up="own@1",
    current="nanodet@1",
    detail="own@1: it shows nothing",
    at="2026-03-01T12:00:01.200Z",
)


@pytest.mark.usefixtures("utc")
async def test_a_model_that_was_given_up_has_a_line_of_its_own() -> None:
    lines = Lines(as_json=False)
    lines.take_alert(Message("foveate/plaza/alert", encode_alert(GIVEN_UP)))
    assert await printed(lines) == "12:00:01.200 plaza ALERT withdrawn  own@1: it shows nothing\n"


@pytest.mark.parametrize("alert", [ALERT, GIVEN_UP])
async def test_alerts_are_lines_of_json_too(alert: AnyAlert) -> None:
    lines = Lines(as_json=True)
    lines.take_alert(Message("foveate/plaza/alert", encode_alert(alert)))
    assert decode_alert(await printed(lines)) == alert


class Closing(io.StringIO):
    """Output whose reader leaves after some lines, as ``head`` does."""

    def write(self, text: str) -> int:
        if self.getvalue().count("\n") >= 2:
            raise BrokenPipeError
        return super().write(text)


@pytest.mark.parametrize("camera", [None, "plaza"])
async def test_it_prints_what_is_published_until_its_reader_leaves(camera: str | None) -> None:
    broker = Embedded()
    broker.start()
    agent = MqttTransport(MqttSettings(HOST, broker.port))
    out = Closing()
    async with running(agent):
        watching = asyncio.ensure_future(watch(f"mqtt://{HOST}:{broker.port}", camera, as_json=False, out=out))
        seq = 0
        async with asyncio.timeout(20):
            while not watching.done():
                seq += 1
                for name in ("plaza", "yard"):
                    await agent.publish(Outgoing(f"foveate/{name}/result", encode_result(result(seq, name))))
                await asyncio.sleep(0.02)
        await watching
    broker.stop()
    assert " plaza #" in out.getvalue()
    assert (" yard #" in out.getvalue()) is (camera is None)


async def test_no_broker_is_one_sentence_with_the_address_and_the_cause() -> None:
    port = free_port()
    with pytest.raises(BrokerError) as caught:
        await watch(f"mqtt://ann:secret@{HOST}:{port}", None, as_json=False, out=io.StringIO(), connect_within_s=0.3)
    assert f"{HOST}:{port}" in str(caught.value)
    assert "refused" in str(caught.value)
    assert "secret" not in str(caught.value)


async def test_tls_files_that_are_missing_are_a_configuration_error() -> None:
    tls = TlsSettings(ca_file="/nowhere/ca.pem")
    with pytest.raises(ConfigError, match=r"ca\.pem"):
        await watch(f"mqtts://{HOST}:{free_port()}", None, as_json=False, out=io.StringIO(), tls=tls)


async def test_a_bad_camera_name_is_a_configuration_error() -> None:
    with pytest.raises(ConfigError, match="camera"):
        await watch(f"mqtt://{HOST}", "a/b", as_json=False, out=io.StringIO())
