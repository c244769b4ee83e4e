"""What goes out to subscribers and to the record file."""

import asyncio
import contextlib
import errno
import io
import json
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from edge_agent.publish import ALERTS_WAITING, RECORD_CAPACITY_BYTES, Publisher, RecordFile, RecordWriter
from pipeline.alerts import Alert, decode_alert
from pipeline.results import CameraState, Result, decode_result, encode_result
from pipeline.timing import run_virtual
from pipeline.transport.base import Message, Outgoing, PublishStatus
from pipeline.transport.memory import MemoryHub, MemoryTransport
from tests.support.brokers import running
from tests.support.records import Box, result

SINCE = datetime(2026, 3, 1, 12, tzinfo=UTC)
BOX: Box = (0.0, 0.0, 1.0, 1.0)


class Subscriber:
    """Notes what arrives under the prefix."""

    def __init__(self, hub: MemoryHub) -> None:
        self.transport, self.messages = MemoryTransport(hub, name="subscriber"), list[Message]()
        self.transport.subscribe("foveate/#", self.messages.append)

    def told(self, ending: str) -> list[bytes]:
        return [m.payload for m in self.messages if m.topic.endswith(ending)]


class Setting:
    """A publisher and a subscriber on one hub."""

    def __init__(self) -> None:
        self.hub = MemoryHub()
        self.transport = MemoryTransport(self.hub, will=Publisher.will("a1"), name="control")
        self.publisher, self.subscriber = Publisher("a1", self.transport), Subscriber(self.hub)


@asynccontextmanager
async def live() -> AsyncIterator[Setting]:
    s = Setting()
    async with running(s.subscriber.transport, s.transport):
        run = asyncio.ensure_future(s.publisher.run())
        await asyncio.sleep(0.01)
        try:
            yield s
        finally:
            run.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await run


def test_a_result_is_published_as_it_is() -> None:
    async def main() -> None:
        async with live() as s:
            await s.publisher.result(result(7, [BOX]))
            await asyncio.sleep(0.01)
            (told,) = s.subscriber.told("gate/result")
            assert decode_result(told) == result(7, [BOX])
            assert s.publisher.counters == {"sent": 1}

    run_virtual(main())


def test_counts_go_out_when_they_change_and_fall_to_zero() -> None:
    async def main() -> None:
        async with live() as s:
            for seq, boxes in enumerate([[BOX], [BOX], [BOX, BOX], [], []]):
                await s.publisher.result(result(seq, boxes))
            await asyncio.sleep(0.01)
            assert s.subscriber.told("count/person") == [b"1", b"2", b"0"]

    run_virtual(main())


def test_a_revision_tells_of_the_past_and_changes_no_count() -> None:
    async def main() -> None:
        async with live() as s:
            for one in (result(0, [BOX]), result(1, [BOX, BOX]), result(0, [], revision=1)):
                await s.publisher.result(one)
            await asyncio.sleep(0.01)
            assert s.subscriber.told("count/person") == [b"1", b"2"]
            assert [decode_result(told).revision for told in s.subscriber.told("gate/result")] == [0, 0, 1]

    run_virtual(main())


def test_a_camera_counts_for_itself() -> None:
    async def main() -> None:
        async with live() as s:
            await s.publisher.result(result(0, [BOX]))
            await s.publisher.result(result(0, camera="yard"))
            await asyncio.sleep(0.01)
            assert s.subscriber.told("gate/count/person") == [b"1"]
            assert s.subscriber.told("yard/count/person") == []

    run_virtual(main())


def test_state_and_availability_are_kept_for_those_who_come_later() -> None:
    async def main() -> None:
        async with live() as s:
            await s.publisher.state("gate", CameraState.STALE, "no picture for 5 s", SINCE)
            await s.publisher.result(result(0, [BOX]))
            await asyncio.sleep(0.01)
            late = Subscriber(s.hub)
            async with running(late.transport):
                await asyncio.sleep(0.01)
                assert late.told("agent/a1/available") == [b"online"]
                assert late.told("count/person") == [b"1"]
                assert late.told("result") == []
                (state,) = late.told("gate/state")
                assert json.loads(state) == {
                    "state": "stale",
                    "reason": "no picture for 5 s",
                    "since": "2026-03-01T12:00:00.000Z",
                }

    run_virtual(main())


def test_after_a_new_broker_everything_kept_is_told_again_in_its_newest_form() -> None:
    async def main() -> None:
        async with live() as s:
            await s.publisher.state("gate", CameraState.LIVE, "", SINCE)
            await s.publisher.result(result(0, [BOX]))
            await asyncio.sleep(0.01)
            s.hub.stop()
            await asyncio.sleep(1)
            await s.publisher.state("gate", CameraState.OFFLINE, "unreachable", SINCE)
            await s.publisher.result(result(1, [BOX, BOX]))
            assert s.publisher.counters == {"sent": 1, "not_connected": 1, "retained_not_connected": 1}
            s.hub.start()
            await asyncio.sleep(1)
            late = Subscriber(s.hub)
            async with running(late.transport):
                await asyncio.sleep(0.01)
                assert json.loads(late.told("gate/state")[-1])["state"] == "offline"
                assert late.told("count/person") == [b"2"]
                assert late.told("available") == [b"online"]

    run_virtual(main())


def test_an_agent_that_dies_is_offline_by_its_will_and_one_that_stops_says_so() -> None:
    async def main() -> None:
        async with live() as s:
            await s.publisher.goodbye()
            await asyncio.sleep(0.01)
            assert s.subscriber.told("available")[-1] == b"offline"
        async with live() as s:
            s.transport.abort()
            await asyncio.sleep(0)
            await asyncio.sleep(0.01)
            assert b"offline" in s.subscriber.told("available")

    run_virtual(main())


def test_what_is_retained_is_sent_until_the_session_has_taken_it() -> None:
    async def main() -> None:
        async with live() as s:
            publish, refusals = s.transport.publish, [PublishStatus.BACKLOG, PublishStatus.NOT_CONNECTED] * 2

            async def busy(outgoing: Outgoing) -> PublishStatus:
                if outgoing.retain and refusals:
                    return refusals.pop()
                return await publish(outgoing)

            s.transport.publish = busy  # type: ignore[method-assign]  # a session whose link is clogged for a moment
            await s.publisher.result(result(0, [BOX]))
            await s.publisher.state("gate", CameraState.STALE, "no picture for 5 s", SINCE)
            await asyncio.sleep(5)
            assert s.subscriber.told("count/person") == [b"1"]
            (state,) = s.subscriber.told("gate/state")
            assert json.loads(state)["state"] == "stale"
            assert not s.publisher._unsent

    run_virtual(main())


def test_a_message_that_is_refused_is_not_sent_over_and_over() -> None:
    async def main() -> int:
        async with live() as s:
            sent = 0

            async def refuse(outgoing: Outgoing) -> PublishStatus:
                nonlocal sent
                sent += 1
                return PublishStatus.REFUSED

            s.transport.publish = refuse  # type: ignore[method-assign]  # a broker that forbids the topic
            await s.publisher.state("gate", CameraState.STALE, "no picture for 5 s", SINCE)
            await asyncio.sleep(60)
            return sent

    assert run_virtual(main()) == 1


# The record.


def recorded(written: list[bytes]) -> list[Result]:
    return [decode_result(line) for line in b"".join(written).splitlines()]


def test_the_record_holds_every_result_in_order_one_per_line() -> None:
    async def main() -> list[bytes]:
        written, begun = list[bytes](), threading.Event()

        def write(data: bytes) -> None:
            written.append(data)
            begun.set()

        writer = RecordWriter(write)
        run = asyncio.ensure_future(writer.run())
        for seq in range(100):
            writer.add(result(seq))
            await asyncio.sleep(0.04)
        assert await asyncio.to_thread(begun.wait, 10)  # it writes without being told to stop
        run.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await run
        return written

    assert [one.seq for one in recorded(run_virtual(main()))] == list(range(100))


def test_stopping_in_the_middle_of_a_write_keeps_the_order_and_loses_nothing() -> None:
    async def main() -> list[bytes]:
        written, begun, go_on = list[bytes](), threading.Event(), threading.Event()

        def slowly(data: bytes) -> None:
            begun.set()
            go_on.wait(10)
            written.append(data)

        writer = RecordWriter(slowly)
        writer.add(result(0))
        run = asyncio.ensure_future(writer.run())
        await asyncio.to_thread(begun.wait, 10)
        writer.add(result(1))
        run.cancel()
        await asyncio.sleep(0)
        go_on.set()
        with contextlib.suppress(asyncio.CancelledError):
            await run
        return written

    assert [one.seq for one in recorded(asyncio.run(main()))] == [0, 1]


def test_results_beyond_the_bound_of_bytes_are_counted_as_lost_and_room_comes_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    written = list[bytes]()
    writer, line_bytes = RecordWriter(written.append), len(encode_result(result(0))) + 1
    monkeypatch.setattr("edge_agent.publish.RECORD_CAPACITY_BYTES", 10 * line_bytes)
    for _ in range(13):
        writer.add(result(0))
    assert writer.lost == 3
    asyncio.run(writer.flush())
    writer.add(result(0))
    asyncio.run(writer.flush())
    assert len(recorded(written)) == 11
    assert writer.lost == 3


def test_the_bound_of_the_record_is_16_mib() -> None:
    assert RECORD_CAPACITY_BYTES == 16 * 2**20


class FullDisk(io.FileIO):
    """Takes only so many bytes, some of a write as well."""

    room_bytes = 0

    def write(self, data: Any, /) -> int:
        if self.room_bytes == 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        taken = super().write(memoryview(data)[: self.room_bytes])
        self.room_bytes -= taken
        return taken


def test_a_disk_that_is_full_for_a_while_leaves_whole_lines_and_a_true_count(tmp_path: Path) -> None:
    size = len(encode_result(result(0))) + 1
    with FullDisk(tmp_path / "r.jsonl", "wb") as file:
        writer = RecordWriter(RecordFile(file).write)
        for seq, room_bytes in enumerate([10_000, size // 2, 10_000]):
            file.room_bytes = room_bytes
            writer.add(result(seq))
            asyncio.run(writer.flush())
    assert [one.seq for one in recorded([(tmp_path / "r.jsonl").read_bytes()])] == [0, 2]
    assert (writer.lost, writer.fault) == (1, "No space left on device")


def test_nothing_is_written_when_there_is_nothing() -> None:
    written = list[bytes]()
    asyncio.run(RecordWriter(written.append).flush())
    assert written == []


def alert(number: int) -> Alert:
    moment = "2026-03-01T12:00:00.000Z"
    return Alert(
        camera="gate",
        segment="edge",
        state="breached",
        p99_ms=float(number),
        budget_ms=40.0,
        since=moment,
        detail="",
        at=moment,
    )


def test_an_alert_is_published_once_and_not_retained() -> None:
    async def main() -> list[Message]:
        async with live() as s:
            s.publisher.alert(alert(1))
            await asyncio.sleep(0.01)
            s.hub.stop()
            await asyncio.sleep(0.01)
            s.hub.start()
            await asyncio.sleep(20.0)
            assert s.publisher.counters["alerts_sent"] == 1
            return [m for m in s.subscriber.messages if m.topic == "foveate/gate/alert"]

    [heard] = run_virtual(main())
    assert decode_alert(heard.payload) == alert(1)
    assert not heard.retain


def test_of_too_many_alerts_without_a_broker_the_oldest_give_way_and_are_counted() -> None:
    async def main() -> list[bytes]:
        async with live() as s:
            s.hub.stop()
            await asyncio.sleep(0.01)
            for number in range(ALERTS_WAITING + 3):
                s.publisher.alert(alert(number))
            await asyncio.sleep(2.0)
            s.hub.start()
            await asyncio.sleep(20.0)
            assert s.publisher.counters["alerts_lost"] == 3
            return s.subscriber.told("/alert")

    heard = [decode_alert(payload) for payload in run_virtual(main())]
    assert heard == [alert(number) for number in range(3, ALERTS_WAITING + 3)]
