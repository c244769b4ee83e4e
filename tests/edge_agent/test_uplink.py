"""The way to the cloud, against a worker that answers as scripted, on virtual time."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from cloud_worker.jobs import ReplyAddress
from cloud_worker.replies import Durations, ReplyWriter
from edge_agent.lanes import AskerSettings
from edge_agent.probes import REFRESH_EVERY_S
from edge_agent.questions import Answer, Question
from edge_agent.settings import UplinkSettings
from edge_agent.uplink import Uplink
from pipeline.errors import ConfigError
from pipeline.frames import FrameKey
from pipeline.policies.breaker import Circuit
from pipeline.timing import LoopClock, run_virtual
from pipeline.transport.base import Message, Outgoing, PublishStatus
from pipeline.transport.memory import MemoryHub, MemoryTransport
from pipeline.wire import topics
from pipeline.wire.codec import BadPayload, decode_echo, decode_request, encode_reply, encode_worker_state
from pipeline.wire.messages import Echo, Refusal, Reply, Request, WireCrop, WireDetection, WorkerModel, WorkerState
from tests.support.brokers import running
from tests.support.detectors import grey_picture, jpeg_of

SETTINGS = UplinkSettings(model="m", uplink_kbps=None, in_flight=2, late_s=2.0, misses_to_open=3, probe_every_s=1.0)
BUDGET_S = 0.18
JPEG = jpeg_of(grey_picture(80))
ECHOES = ReplyWriter("w", {})
CROP = WireCrop((0, 0, 64, 64), (10, 10, 64, 64))


def question(seq: int, now_s: float, *, camera: str = "hall", budget_s: float = BUDGET_S) -> Question:
    return Question(FrameKey(camera, 1, seq), "mosaic", 640, 480, (CROP,), JPEG, now_s + budget_s, 1.0)


def reply_to(request: Request, **changes: object) -> Reply:
    fields: dict[str, object] = {
        "agent": request.agent,
        "camera": request.camera,
        "epoch": request.epoch,
        "seq": request.seq,
        "worker": "w",
        "model": "m",
        "model_version": "1",
        "detections": [[WireDetection("person", 0.9, (1.0, 2.0, 3.0, 4.0))]],
        "queue_ms": 1.0,
        "batch_wait_ms": 0.0,
        "infer_ms": 20.0,
        "total_ms": 25.0,
    }
    return Reply(**(fields | changes))  # type: ignore[arg-type] # the fields are those of Reply, by name


Script = Callable[["Worker", Message, Request], Awaitable[None]]


def after(delay_s: float, times: int = 1, **changes: object) -> Script:
    """Answer so many times after a delay."""

    async def play(worker: "Worker", message: Message, request: Request) -> None:
        await asyncio.sleep(delay_s)
        for _ in range(times):
            await worker.send(message, encode_reply(reply_to(request, **changes)))

    return play


async def never(worker: "Worker", message: Message, request: Request) -> None:
    """Give no answer."""


async def returned(worker: "Worker", message: Message) -> None:
    """Return a probe, as it is to be done."""
    await worker.send(message, ECHOES.echo(ReplyAddress(topics.reply("a1"), b"?"), worker.probes[-1]))


class Worker:
    """Takes requests on, and answers each by the script of the moment."""

    def __init__(self, hub: MemoryHub, script: Script) -> None:
        self.transport, self.script = MemoryTransport(hub, name="w"), script
        self.requests: list[Request] = []
        self.probes: list[Echo] = []
        self.echoes, self.echo = True, returned
        self.held, self.most_held = 0, 0
        self._tasks = set[asyncio.Task[None]]()
        self.transport.subscribe(topics.request_share("workers", "cloud", "m"), self._on_request)

    def _on_request(self, message: Message) -> None:
        if (echo := decode_echo(message.payload)) is not None:
            self.probes.append(echo)
            if self.echoes:
                self._later(self.echo(self, message))
            return
        decoded = decode_request(message.payload)
        assert not isinstance(decoded, BadPayload), decoded.reason
        self.requests.append(decoded[0])
        self._later(self._play(message, decoded[0]))

    def _later(self, deed: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(deed)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _play(self, message: Message, request: Request) -> None:
        self.held += 1
        self.most_held = max(self.most_held, self.held)
        await self.script(self, message, request)
        self.held -= 1

    async def send(self, message: Message, payload: bytes, *, retain: bool = False) -> None:
        assert message.response_topic is not None
        await self.transport.publish(
            Outgoing(message.response_topic, payload, correlation=message.correlation, retain=retain)
        )

    async def announce(self, beat: int, *, online: bool = True, retain: bool = True) -> None:
        state = WorkerState(
            worker="w",
            online=online,
            models=[WorkerModel(name="m", version="1", label_set="0" * 12)],
            beat=beat,
            heartbeat_s=5.0,
        )
        await self.transport.publish(Outgoing(topics.worker("w"), encode_worker_state(state), qos=1, retain=retain))


class Camera:
    """Notes what becomes of its questions."""

    def __init__(self) -> None:
        self.sent_bytes: dict[int, int] = {}
        self.answers: list[tuple[float, int]] = []
        self.failures: list[tuple[int, str, bool]] = []
        self.last: Answer | None = None
        self.reopenings = 0
        self.p95_ms: float | None = None

    def sent(self, question: Question, size_bytes: int, p95_ms: float | None) -> None:
        self.sent_bytes[question.key.seq] = size_bytes
        self.p95_ms = p95_ms

    def answered(self, answer: Answer) -> None:
        self.answers.append((round(LoopClock().now_s(), 3), answer.question.key.seq))
        self.last = answer

    def not_answered(self, key: FrameKey, reason: str, *, shed: bool) -> None:
        self.failures.append((key.seq, reason, shed))

    def reopened(self) -> None:
        self.reopenings += 1


class Setting:
    """An uplink with one camera, and a worker, on one hub."""

    def __init__(self, script: Script, settings: UplinkSettings = SETTINGS) -> None:
        self.hub = MemoryHub()
        self.bulk, self.control = MemoryTransport(self.hub, name="bulk"), MemoryTransport(self.hub, name="control")
        self.uplink = Uplink("a1", settings, self.bulk, self.control, LoopClock())
        self.camera, self.worker = Camera(), Worker(self.hub, script)
        self.uplink.register("hall", self.camera)

    @property
    def counters(self) -> dict[str, int]:
        return dict(self.uplink.counters)

    def circuit(self) -> Circuit:
        """The circuit's state now; a property would be taken for one that stays."""
        return self.uplink.main.circuit.circuit

    async def ask(self, seq: int, *, camera: str = "hall", budget_s: float = BUDGET_S) -> None:
        await self.uplink.ask(question(seq, LoopClock().now_s(), camera=camera, budget_s=budget_s))


@asynccontextmanager
async def live(script: Script, settings: UplinkSettings = SETTINGS) -> AsyncIterator[Setting]:
    """A connected setting whose worker has announced itself."""
    setting = Setting(script, settings)
    async with running(setting.bulk, setting.control, setting.worker.transport):
        await setting.worker.announce(0)
        run = asyncio.ensure_future(setting.uplink.run())
        await asyncio.sleep(0.001)
        try:
            yield setting
        finally:
            run.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await run


# What becomes of a question.


def test_an_answer_in_time_reaches_its_camera_once_with_what_it_cost() -> None:
    async def main() -> None:
        async with live(after(0.05)) as s:
            await s.ask(1)
            await asyncio.sleep(1)
            assert [seq for _, seq in s.camera.answers] == [1]
            assert s.camera.failures == []
            assert s.camera.last is not None
            assert s.camera.last.round_trip_ms == pytest.approx(50, abs=1)
            assert s.camera.last.network_ms == pytest.approx(25, abs=1)
            assert s.counters == {"sent": 1, "answered": 1}

    run_virtual(main())


def test_the_request_carries_the_budget_that_is_left_and_says_where_the_answer_goes() -> None:
    async def main() -> None:
        async with live(after(0.01)) as s:
            asked_s = LoopClock().now_s()
            await asyncio.sleep(0.05)
            await s.uplink.ask(question(7, asked_s))
            await asyncio.sleep(1)
            (request,) = s.worker.requests
            assert request.key == ("a1", "hall", 1, 7)
            assert request.budget_ms == pytest.approx(130, abs=1)
            assert (request.model, request.min_score) == ("m", SETTINGS.asked_score)
            assert request.crops == [CROP]
            assert s.camera.sent_bytes[7] > len(JPEG)

    run_virtual(main())


def test_a_late_answer_is_handed_over_and_counted_as_late() -> None:
    async def main() -> None:
        async with live(after(0.5)) as s:
            await s.ask(1)
            await asyncio.sleep(3)
            assert [seq for _, seq in s.camera.answers] == [1]
            assert s.counters == {"sent": 1, "missed": 1, "late": 1}

    run_virtual(main())


def test_an_answer_that_is_of_no_use_any_more_is_ignored_and_counted() -> None:
    async def main() -> None:
        async with live(after(BUDGET_S + SETTINGS.late_s + 0.1)) as s:
            await s.ask(1)
            await asyncio.sleep(5)
            assert s.camera.answers == []
            assert s.counters == {"sent": 1, "missed": 1, "unexpected_reply": 1}

    run_virtual(main())


def test_an_answer_that_comes_twice_is_taken_once() -> None:
    async def main() -> None:
        async with live(after(0.05, times=2)) as s:
            await s.ask(1)
            await asyncio.sleep(1)
            assert [seq for _, seq in s.camera.answers] == [1]
            assert s.counters == {"sent": 1, "answered": 1, "unexpected_reply": 1}

    run_virtual(main())


@pytest.mark.parametrize(
    ("refusal", "shed"),
    [
        (Refusal.QUEUE_FULL, True),
        (Refusal.INFEASIBLE, True),
        (Refusal.TOO_LARGE, True),
        (Refusal.STOPPING, False),
        (Refusal.UNKNOWN_MODEL, False),
        (Refusal.FAILED, False),
    ],
)
def test_a_refusal_is_told_at_once_as_busy_or_as_down(refusal: Refusal, shed: bool) -> None:
    async def main() -> None:
        async with live(after(0.01, refused=refusal, detections=[])) as s:
            await s.ask(1)
            await asyncio.sleep(0.03)
            assert s.camera.failures == [(1, refusal.value, shed)]
            assert s.camera.answers == []
            assert s.counters == {"sent": 1, f"refused_{refusal.value}": 1}

    run_virtual(main())


def test_a_refusal_of_what_could_not_be_read_is_known_by_its_correlation_alone() -> None:
    async def main(agent: str) -> list[tuple[int, str, bool]]:
        unread: dict[str, object] = {"agent": agent, "camera": "-", "epoch": 0, "seq": 0, "model": "", "detections": []}
        async with live(after(0.01, refused=Refusal.TOO_LARGE, **unread)) as s:  # type: ignore[arg-type] # fields of Reply, by name
            await s.ask(1)
            await asyncio.sleep(0.05)
            return s.camera.failures

    assert run_virtual(main("a1")) == [(1, "too_large", True)]
    assert run_virtual(main("a2")) == [(1, "bad_reply", False)]


@pytest.mark.parametrize(
    "changes",
    [{"seq": 99}, {"camera": "yard"}, {"epoch": 2}, {"agent": "a2"}, {"detections": []}, {"detections": [[], []]}],
    ids=["another frame", "another camera", "another run", "another agent", "no crop", "too many crops"],
)
def test_an_answer_that_does_not_fit_its_question_never_lands_on_a_frame(changes: dict[str, object]) -> None:
    async def main() -> None:
        async with live(after(0.01, **changes)) as s:  # type: ignore[arg-type] # fields of Reply, by name
            await s.ask(1)
            await asyncio.sleep(1)
            assert s.camera.answers == []
            assert s.camera.failures == [(1, "bad_reply", False)]
            assert s.counters == {"sent": 1, "bad_reply": 1}

    run_virtual(main())


def test_bytes_that_are_no_answer_free_the_place_and_open_the_breaker_in_the_end() -> None:
    async def garbage(worker: Worker, message: Message, request: Request) -> None:
        await worker.send(message, b"\xff\x00 nonsense")

    async def main() -> None:
        async with live(garbage) as s:
            for seq in range(3):
                await s.ask(seq)
                await asyncio.sleep(0.01)
            assert s.camera.failures == [(seq, "bad_reply", False) for seq in range(3)]
            assert s.circuit() is Circuit.OPEN

    run_virtual(main())


def test_answers_that_nobody_asked_for_or_that_were_kept_by_the_broker_are_ignored_and_counted() -> None:
    async def retained(worker: Worker, message: Message, request: Request) -> None:
        payload = encode_reply(reply_to(request))
        await worker.send(replace(message, correlation=b"unknown"), payload)
        await worker.send(replace(message, correlation=None), payload)

    async def main() -> None:
        async with live(retained) as s:
            await s.ask(1)
            await asyncio.sleep(0.01)
            assert s.counters == {"sent": 1, "unexpected_reply": 2}
            (correlation,) = s.uplink.main.flights
            s.uplink._on_reply(
                Message("t", encode_reply(reply_to(s.worker.requests[0])), retain=True, correlation=correlation)
            )
            assert s.camera.answers == []
            assert s.counters["unexpected_reply"] == 3

    run_virtual(main())


# How many are under way.


def test_one_more_waits_and_a_newer_one_takes_its_place() -> None:
    async def main() -> None:
        async with live(after(0.05)) as s:
            for seq in (1, 2, 3, 4):
                await s.ask(seq)
            assert len(s.worker.requests) + s.worker.held <= 2
            assert s.camera.failures == [(3, "displaced", True)]
            await asyncio.sleep(1)
            assert [seq for _, seq in s.camera.answers] == [1, 2, 4]
            assert s.worker.most_held == SETTINGS.in_flight

    run_virtual(main())


def test_what_has_waited_too_long_is_not_sent() -> None:
    async def main() -> None:
        async with live(never) as s:
            for seq in (1, 2, 3):
                await s.ask(seq)
            await asyncio.sleep(1)
            assert [request.seq for request in s.worker.requests] == [1, 2]
            assert s.camera.failures == [(3, "too_late_to_send", True)]

    run_virtual(main())


def test_a_missed_question_frees_its_place_at_its_time() -> None:
    async def main() -> None:
        async with live(never) as s:
            await s.ask(1)
            await asyncio.sleep(0.1)
            await s.ask(2)
            await s.ask(3)
            await asyncio.sleep(0.1)
            assert [request.seq for request in s.worker.requests] == [1, 2, 3]
            assert s.worker.requests[2].budget_ms == pytest.approx(100, abs=3)

    run_virtual(main())


def test_a_patient_question_waits_for_its_turn_instead_of_being_displaced() -> None:
    async def main() -> None:
        async with live(after(0.05)) as s:
            s.uplink.register("hall", s.camera, AskerSettings(patient=True))
            for seq in range(6):
                await s.ask(seq, budget_s=10.0)
            await asyncio.sleep(1)
            assert [seq for _, seq in s.camera.answers] == list(range(6))
            assert s.camera.failures == []
            assert s.worker.most_held == SETTINGS.in_flight

    run_virtual(main())


def test_cameras_have_places_of_their_own() -> None:
    async def main() -> None:
        async with live(after(0.05)) as s:
            yard = Camera()
            s.uplink.register("yard", yard)
            for seq in (1, 2, 3):
                await s.ask(seq)
            await s.uplink.ask(question(9, LoopClock().now_s(), camera="yard"))
            await asyncio.sleep(1)
            assert [seq for _, seq in yard.answers] == [9]
            assert yard.answers[0][0] < s.camera.answers[-1][0]
            assert s.uplink.bytes_per_s("yard") == pytest.approx(s.uplink.bytes_per_s("hall") / 3, rel=0.05)

    run_virtual(main())


class Hanging(MemoryTransport):
    """A session whose publish takes very long and then fails."""

    async def publish(self, outgoing: Outgoing) -> PublishStatus:
        if outgoing.topic.endswith("/req/cloud/m"):
            await asyncio.sleep(10)
            return PublishStatus.NOT_CONNECTED
        return await super().publish(outgoing)


def test_a_publish_that_hangs_until_after_the_deadline_frees_its_place_once() -> None:
    async def main() -> None:
        hub = MemoryHub()
        bulk, control, camera = Hanging(hub), MemoryTransport(hub), Camera()
        uplink = Uplink("a1", SETTINGS, bulk, control, LoopClock())
        uplink.register("hall", camera)
        async with running(bulk, control):
            run = asyncio.ensure_future(uplink.run())
            await uplink.ask(question(1, LoopClock().now_s()))
            assert uplink.main.lanes["hall"].in_flight == 0
            assert uplink.main.flights == {}
            run.cancel()

    run_virtual(main())


@given(
    st.lists(
        st.tuples(st.sampled_from([0.0, 0.01, 0.06, 0.3]), st.sampled_from(["ok", "late", "never", "busy", "down"])),
        min_size=1,
        max_size=15,
    ),
    st.integers(1, 3),
)
@hypothesis_settings(max_examples=40, deadline=None)
def test_every_question_ends_at_most_once_and_the_bound_holds(moves: list[tuple[float, str]], in_flight: int) -> None:
    scripts: dict[str, Script] = {
        "ok": after(0.05),
        "late": after(0.7),
        "never": never,
        "busy": after(0.01, refused=Refusal.QUEUE_FULL, detections=[]),
        "down": after(0.01, refused=Refusal.STOPPING, detections=[]),
    }

    async def play(worker: Worker, message: Message, request: Request) -> None:
        await scripts[moves[request.seq][1]](worker, message, request)

    async def main() -> None:
        async with live(play, replace(SETTINGS, in_flight=in_flight)) as s:
            lane = s.uplink.main.lanes["hall"]
            for seq, (gap_s, _) in enumerate(moves):
                await asyncio.sleep(gap_s)
                await s.ask(seq)
                assert 0 <= lane.in_flight <= in_flight
            await asyncio.sleep(5)
            ended = [seq for _, seq in s.camera.answers] + [seq for seq, _, _ in s.camera.failures]
            silent = [r.seq for r in s.worker.requests if moves[r.seq][1] == "never"]
            assert sorted(ended + silent) == list(range(len(moves)))
            assert lane.in_flight == 0
            assert len(s.uplink.main.waiting) == 0
            assert s.uplink.main.flights == {}

    run_virtual(main())


# What a camera may expect.


def test_nobody_is_asked_while_the_broker_is_down() -> None:
    async def main() -> None:
        async with live(after(0.01)) as s:
            s.hub.stop()
            await asyncio.sleep(0.01)
            assert (s.uplink.outlook("hall", 3).reachable, s.uplink.outlook("hall", 3).reason) == (False, "broker_down")
            await s.ask(1)
            assert s.camera.failures == [(1, "not_connected", False)]
            s.hub.start()
            await asyncio.sleep(0.01)
            await s.worker.announce(1)
            await asyncio.sleep(0.01)
            assert s.uplink.outlook("hall", 3).reachable

    run_virtual(main())


def test_without_a_worker_there_is_no_way() -> None:
    async def main() -> None:
        async with live(after(0.01)) as s:
            assert s.uplink.outlook("hall", 3).reachable
            await s.worker.announce(1, online=False)
            await asyncio.sleep(0.01)
            assert s.uplink.outlook("hall", 3).reason == "no_worker"

    run_virtual(main())


def test_a_stale_online_that_the_broker_kept_ages_out_and_does_not_come_back_with_a_reconnect() -> None:
    async def main() -> None:
        async with live(after(0.01)) as s:
            await asyncio.sleep(10)
            assert s.uplink.outlook("hall", 3).reachable
            s.control.abort()  # comes back and hears the same announcement again
            await asyncio.sleep(5.1)
            assert s.control.state.connects == 2
            assert s.uplink.outlook("hall", 3).reason == "no_worker"
            await s.worker.announce(1)
            await asyncio.sleep(0.01)
            assert s.uplink.outlook("hall", 3).reachable

    run_virtual(main())


def test_an_announcement_that_cannot_be_read_is_counted_and_harms_nothing() -> None:
    async def main() -> None:
        async with live(after(0.01)) as s:
            await s.worker.transport.publish(Outgoing(topics.worker("x"), b"{not json"))
            await asyncio.sleep(0.01)
            assert s.counters == {"bad_worker_state": 1}
            assert s.uplink.outlook("hall", 3).reachable

    run_virtual(main())


async def miss(s: Setting, *seqs: int) -> None:
    for seq in seqs:
        await s.ask(seq)
        await asyncio.sleep(0.2)


def test_after_three_misses_the_circuit_opens_and_the_echo_of_a_probe_closes_it_again() -> None:
    async def main() -> None:
        async with live(never) as s:
            s.worker.echoes, s.camera.reopenings = False, 0
            await miss(s, 0, 1, 2)
            assert s.circuit() is Circuit.PROBING
            assert s.uplink.outlook("hall", 3).reason == "circuit_open"
            await s.ask(3)
            assert s.camera.failures == [(3, "circuit_open", False)]
            assert s.camera.reopenings == 0
            s.worker.echoes = True
            await asyncio.sleep(1)
            assert s.circuit() is Circuit.CLOSED
            assert s.uplink.outlook("hall", 3).reachable
            assert s.camera.reopenings == 1
            assert len(s.worker.requests) == 3  # no picture had to go to find out

    run_virtual(main())


def test_while_the_circuit_is_open_the_bound_of_unanswered_probes_holds() -> None:
    async def main() -> None:
        async with live(never) as s:
            s.worker.echoes = False
            await miss(s, 0, 1, 2)
            await asyncio.sleep(9.7)
            assert len(s.worker.probes) == 3
            assert all(echo.give_up for echo in s.worker.probes)
            await asyncio.sleep(50)
            assert 3 < len(s.worker.probes) <= 3 * 6 + 3  # a probe is lost after ten seconds, and another one may go

    run_virtual(main())


def test_a_worker_that_returns_probes_and_answers_nothing_is_tried_once_a_second() -> None:
    async def main() -> None:
        async with live(never) as s:
            seq = 0
            while LoopClock().now_s() < 20:
                if s.uplink.outlook("hall", 3).reachable:
                    await s.ask(seq)
                    seq += 1
                await asyncio.sleep(0.1)
            assert 15 <= len(s.worker.requests) <= 45

    run_virtual(main())


def test_a_worker_that_does_not_know_probes_closes_the_circuit_by_refusing_one() -> None:
    async def old(worker: Worker, message: Message) -> None:
        address = ReplyAddress(topics.reply("a1"), message.correlation or b"")
        await worker.send(message, ECHOES.refusal(address, None, Refusal.BAD_PAYLOAD, "?", Durations()).payload)

    async def main() -> None:
        async with live(never) as s:
            s.worker.echo = old
            await miss(s, 0, 1, 2)
            assert s.circuit() is Circuit.CLOSED
            assert s.counters["echoes"] == 1

    run_virtual(main())


def test_what_was_under_way_when_the_circuit_opened_neither_opens_it_again_nor_counts_as_a_round_trip() -> None:
    async def main() -> None:
        async with live(never) as s:
            s.worker.script = after(0.5)
            for seq in range(4):
                await s.ask(seq, budget_s=0.1)
                await asyncio.sleep(0.06 if seq else 0.1)
            # 0, 1 and 2 are missed by now, 3 is not yet; the probe has closed the circuit on trial.
            assert (s.counters["missed"], s.uplink.main.circuit.circuit) == (3, Circuit.CLOSED)
            await asyncio.sleep(0.1)
            assert (s.counters["missed"], s.uplink.main.circuit.circuit) == (4, Circuit.CLOSED)
            await asyncio.sleep(0.6)
            assert s.counters["late"] == 4
            assert s.uplink.outlook("hall", 3).round_trip_ms == {}

    run_virtual(main())


def test_a_link_that_takes_no_more_opens_the_circuit_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async def full(outgoing: Outgoing) -> PublishStatus:
        return PublishStatus.BACKLOG

    async def main() -> None:
        async with live(after(0.01)) as s:
            with monkeypatch.context() as patch:
                patch.setattr(s.bulk, "publish", full)
                await s.ask(0)
                assert s.camera.failures == [(0, "backlog", True)]
                await asyncio.sleep(0.5)
                assert s.uplink.outlook("hall", 3).reason == "circuit_open"
            await asyncio.sleep(0.6)
            assert s.circuit() is Circuit.CLOSED

    run_virtual(main())


def test_a_sign_of_life_from_a_worker_is_followed_by_a_probe_at_once() -> None:
    async def main() -> None:
        async with live(never) as s:
            s.worker.echoes = False
            await miss(s, 0, 1, 2)
            await asyncio.sleep(5)
            s.worker.echoes = True
            await s.worker.announce(1)
            await asyncio.sleep(0.001)
            assert s.circuit() is Circuit.CLOSED

    run_virtual(main())


def test_the_echo_of_a_probe_from_before_a_sign_of_life_closes_the_circuit_too() -> None:
    async def main() -> None:
        async with live(never) as s:
            s.worker.echo = held_back
            await miss(s, 0, 1, 2)
            sent = len(s.worker.probes)
            s.worker.echo = swallowed
            await s.worker.announce(1)
            await asyncio.sleep(0.001)
            assert len(s.worker.probes) == sent + 1
            assert s.circuit() is Circuit.PROBING
            await asyncio.sleep(0.5)
            assert s.circuit() is Circuit.CLOSED

    async def held_back(worker: Worker, message: Message) -> None:
        await asyncio.sleep(0.4)
        await returned(worker, message)

    async def swallowed(worker: Worker, message: Message) -> None:
        """Give no answer."""

    run_virtual(main())


def test_a_session_that_comes_back_is_probed_at_once() -> None:
    async def main() -> None:
        async with live(never) as s:
            s.worker.echoes = False
            await miss(s, 0, 1, 2)
            await asyncio.sleep(5)
            s.worker.echoes = True
            s.camera.reopenings = 0
            s.bulk.abort()
            await asyncio.sleep(0.001)
            assert s.circuit() is Circuit.CLOSED
            assert s.camera.reopenings == 1

    run_virtual(main())


def test_a_way_that_nobody_uses_is_measured_by_rare_probes_that_cost_nobody_a_question() -> None:
    async def main() -> None:
        async with live(after(0.05)) as s:
            await asyncio.sleep(20)
            assert s.worker.probes == []  # nobody has ever asked
            await s.ask(1)
            await asyncio.sleep(0.1)
            samples = s.uplink.main.path.link.samples
            await asyncio.sleep(2 * REFRESH_EVERY_S + 1)
            assert [echo.give_up for echo in s.worker.probes] == [False, False]
            assert s.uplink.main.path.link.samples == samples + 2
            assert s.counters == {"sent": 1, "answered": 1, "echoes": 2}

    run_virtual(main())


def test_a_way_that_is_used_is_not_probed_beside() -> None:
    async def main() -> None:
        async with live(after(0.05)) as s:
            for seq in range(4):
                await s.ask(seq)
                await asyncio.sleep(REFRESH_EVERY_S - 0.1)
            assert s.worker.probes == []

    run_virtual(main())


@pytest.mark.parametrize(("held_back_s", "taken"), [(0.2, 1), (3.0, 0)])
def test_an_echo_that_an_outage_held_back_is_no_measure_of_the_way(held_back_s: float, taken: int) -> None:
    async def held_back(worker: Worker, message: Message) -> None:
        await asyncio.sleep(held_back_s)
        await returned(worker, message)

    async def main() -> None:
        async with live(after(0.05)) as s:
            s.worker.echo = held_back
            await s.ask(1)
            await asyncio.sleep(REFRESH_EVERY_S + held_back_s + 0.2)
            assert s.uplink.main.path.link.samples == 1 + taken

    run_virtual(main())


def test_a_busy_worker_does_not_open_the_breaker_and_a_stopping_one_does() -> None:
    async def main(refusal: Refusal) -> Circuit:
        async with live(after(0.01, refused=refusal, detections=[])) as s:
            for seq in range(4):
                await s.ask(seq)
                await asyncio.sleep(0.02)
            return s.uplink.main.circuit.circuit

    assert run_virtual(main(Refusal.QUEUE_FULL)) is Circuit.CLOSED
    assert run_virtual(main(Refusal.STOPPING)) is Circuit.OPEN


@pytest.mark.parametrize("refusal", [Refusal.QUEUE_FULL, Refusal.INFEASIBLE, Refusal.EXPIRED])
def test_a_camera_holds_back_from_a_busy_worker_ever_longer_until_it_answers_again(refusal: Refusal) -> None:
    async def pause_s(s: Setting, seq: int) -> float:
        """Ask, and see how long one is told that the way is busy."""
        await s.ask(seq)
        await asyncio.sleep(0.011)
        since_s = LoopClock().now_s()
        while s.uplink.outlook("hall", 3).reason == "busy":  # noqa: ASYNC110 - how long it lasts is what is measured
            await asyncio.sleep(0.001)
        return LoopClock().now_s() - since_s

    async def main() -> None:
        async with live(after(0.01, refused=refusal, detections=[])) as s:
            s.uplink.register("yard", Camera())
            pauses_s = [await pause_s(s, seq) for seq in range(8)]
            assert pauses_s == pytest.approx([0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0], abs=0.01)
            await s.ask(8)
            await asyncio.sleep(0.011)
            assert not s.uplink.outlook("hall", 3).reachable
            assert s.uplink.outlook("yard", 3).reachable  # the other camera finds out for itself
            await s.ask(9)
            assert s.camera.failures[-1] == (9, "busy", True)
            await asyncio.sleep(2)
            s.worker.script = after(0.01)
            await s.ask(10)
            await asyncio.sleep(0.02)
            s.worker.script = after(0.01, refused=refusal, detections=[])
            assert await pause_s(s, 11) == pytest.approx(0.05, abs=0.01)

    run_virtual(main())


def test_what_waits_is_not_sent_to_a_worker_that_has_just_refused_for_want_of_room() -> None:
    async def main() -> None:
        async with live(after(0.01, refused=Refusal.QUEUE_FULL, detections=[])) as s:
            for seq in range(3):
                await s.ask(seq)
            await asyncio.sleep(0.1)
            assert [request.seq for request in s.worker.requests] == [0, 1]
            assert sorted(s.camera.failures) == [(0, "queue_full", True), (1, "queue_full", True), (2, "busy", True)]

    run_virtual(main())


def test_a_patient_camera_waits_for_bytes_and_keeps_to_the_budget() -> None:
    async def main() -> None:
        async with live(after(0.01), replace(SETTINGS, uplink_kbps=8.0, burst_s=1.0)) as s:
            s.uplink.register("hall", s.camera, AskerSettings(patient=True))
            started_s = LoopClock().now_s()
            for seq in range(20):
                assert s.uplink.outlook("hall", 3).tokens_bytes is None
                await s.ask(seq, budget_s=10.0)
            await asyncio.sleep(1)
            assert [seq for _, seq in s.camera.answers] == list(range(20))
            took_s = s.camera.answers[-1][0] - started_s
            sent_bytes = sum(s.camera.sent_bytes.values())
            assert sent_bytes <= 1000 * (took_s + 1) + s.camera.sent_bytes[0]
            assert took_s == pytest.approx(sent_bytes / 1000 - 1, abs=1)

    run_virtual(main())


def test_a_patient_camera_gives_up_where_the_budget_would_take_over_half_of_its_time() -> None:
    async def main() -> None:
        async with live(after(0.01), replace(SETTINGS, uplink_kbps=0.1, burst_s=1.0)) as s:
            s.uplink.register("hall", s.camera, AskerSettings(patient=True))
            await s.ask(1, budget_s=10.0)
            await s.ask(2, budget_s=10.0)
            assert s.camera.failures == [(2, "budget", True)]

    run_virtual(main())


def test_a_patient_camera_waits_for_a_busy_worker() -> None:
    async def main() -> None:
        async with live(after(0.01, refused=Refusal.QUEUE_FULL, detections=[])) as s:
            s.uplink.register("hall", s.camera, AskerSettings(patient=True))
            await s.ask(1, budget_s=10.0)
            await asyncio.sleep(0.02)
            s.worker.script = after(0.01)
            assert s.uplink.outlook("hall", 3).reachable
            await s.ask(2, budget_s=10.0)
            await asyncio.sleep(0.1)
            assert [request.seq for request in s.worker.requests] == [1, 2]
            assert [seq for _, seq in s.camera.answers] == [2]

    run_virtual(main())


def test_a_camera_in_a_storm_leaves_another_its_share_of_the_budget() -> None:
    async def main() -> None:
        async with live(after(0.01), replace(SETTINGS, uplink_kbps=80.0, burst_s=1.0)) as s:
            s.uplink.register("hall", s.camera)
            s.uplink.register("yard", Camera(), AskerSettings(weight=3.0))
            for seq in range(20):
                await s.ask(seq)
                await asyncio.sleep(0.02)
            tokens_bytes = s.uplink.outlook("hall", 3).tokens_bytes
            assert tokens_bytes is not None
            assert tokens_bytes < 0
            assert s.uplink.outlook("yard", 3).tokens_bytes is None

    run_virtual(main())


def test_the_round_trip_is_learned_and_counts_as_unknown_when_it_is_old() -> None:
    async def main() -> None:
        async with live(after(0.05)) as s:
            assert "mosaic" not in s.uplink.outlook("hall", 3).round_trip_ms
            for seq in range(30):
                await s.ask(seq)
                await asyncio.sleep(0.1)
            assert s.uplink.outlook("hall", 0).round_trip_ms["mosaic"] == pytest.approx(50, abs=2)
            await asyncio.sleep(1)
            assert "mosaic" not in s.uplink.outlook("hall", 3).round_trip_ms

    run_virtual(main())


def test_the_budget_is_spent_by_what_was_sent_and_comes_back_with_time() -> None:
    async def main() -> None:
        async with live(after(0.01), replace(SETTINGS, uplink_kbps=80.0, burst_s=2.0)) as s:
            assert s.uplink.outlook("hall", 3).tokens_bytes is None  # full: anything may go
            await s.ask(1)
            await asyncio.sleep(0)
            size_bytes = s.camera.sent_bytes[1]
            assert s.uplink.outlook("hall", 3).tokens_bytes == pytest.approx(20_000 - size_bytes, abs=50)
            await asyncio.sleep(size_bytes / 10_000 / 2)
            assert s.uplink.outlook("hall", 3).tokens_bytes == pytest.approx(20_000 - size_bytes / 2, abs=50)

    run_virtual(main())


def test_a_model_whose_name_cannot_be_a_topic_is_refused_at_once() -> None:
    hub = MemoryHub()
    with pytest.raises(ConfigError, match="model"):
        Uplink("a1", replace(SETTINGS, model="a/b"), MemoryTransport(hub), MemoryTransport(hub), LoopClockAtZero())


class LoopClockAtZero:
    """A clock for what is made outside an event loop."""

    def now_s(self) -> float:
        return 0.0
