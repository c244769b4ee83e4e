"""The worker as its clients see it: one reply per request, in time or with a reason."""

import asyncio
import math
import random

import pytest

from cloud_worker.announce import offline
from cloud_worker.model_runner import decode_jpeg
from cloud_worker.warm_up import Prepared, RunTime
from pipeline.errors import FoveateError, ModelError
from pipeline.frames import Image
from pipeline.geometry import Size
from pipeline.timing import run_virtual
from pipeline.transport.base import Message, Outgoing
from pipeline.wire import topics
from pipeline.wire.codec import BadPayload, decode_worker_state, encode_request
from pipeline.wire.messages import Refusal, WireCrop, WorkerState
from tests.support.detectors import POISON_GREY, ScriptedDetector, grey_picture, jpeg_of
from tests.support.workers import Bench, Requester, bench, make_request


def on_gpu(batch: int) -> float:
    return 0.018 + 0.002 * batch


def labels(made: Bench, correlation: bytes) -> list[str]:
    return [found.label for crop in made.requester.reply_to(correlation).detections for found in crop]


def test_a_request_is_answered_once_with_its_key_and_durations() -> None:
    async def scene() -> None:
        async with bench([ScriptedDetector(run_s=lambda _batch: 0.02)], decode_s=0.003) as made:
            sent = await made.requester.send(make_request(7), grey=80)
            await asyncio.sleep(1)
            reply = made.requester.reply_to(sent)
            assert reply.key == ("a1", "plaza", 1, 7)
            assert (reply.worker, reply.model, reply.model_version, reply.refused) == ("w0", "m", "1", None)
            assert (reply.detections[0][0].label, reply.detections[0][0].box) == ("grey80", (8, 8, 24, 24))
            assert reply.queue_ms == pytest.approx(3)
            assert reply.infer_ms == pytest.approx(20)
            assert reply.total_ms == pytest.approx(23)
            assert (reply.batch_wait_ms, reply.batch_size) == (0, 1)

    run_virtual(scene())


def test_the_trace_context_of_a_request_travels_back() -> None:
    async def scene() -> None:
        async with bench([ScriptedDetector()]) as made:
            seen: list[Message] = []
            made.requester.transport.subscribe(topics.reply("a2"), seen.append)
            payload = encode_request(make_request(1, agent="a2"), jpeg_of(grey_picture(80)))
            await made.requester.transport.publish(
                Outgoing(
                    topics.request("cloud", "m"),
                    payload,
                    response_topic=topics.reply("a2"),
                    correlation=b"1",
                    properties={"traceparent": "00-aa-bb-01", "other": "x"},
                )
            )
            await asyncio.sleep(1)
            assert [each.properties for each in seen] == [{"traceparent": "00-aa-bb-01"}]

    run_virtual(scene())


def test_in_a_batch_each_bad_item_fails_alone_and_each_answer_goes_to_its_requester() -> None:
    """Case E03: 8 crops, number 3 a truncated JPEG, number 5 already expired, number 6 of another size."""

    async def scene() -> None:
        detector = ScriptedDetector(run_s=on_gpu)
        async with bench([detector], batch="fixed_window", batch_window_ms=20.0) as made:
            sent: dict[int, bytes] = {}
            for i in range(1, 9):
                request = make_request(i, camera=f"cam{i % 4}", budget_ms=5.0 if i == 5 else 500.0)
                if i == 3:
                    cut = encode_request(request, jpeg_of(grey_picture(24)))[:-20]
                    sent[i] = await made.requester.send_bytes(cut, str(i))
                else:
                    sent[i] = await made.requester.send(request, grey=8 * i, size=(96, 64) if i == 6 else (64, 64))
            await asyncio.sleep(1)
            assert made.requester.reply_to(sent[3]).refused is Refusal.BAD_PAYLOAD
            assert made.requester.reply_to(sent[5]).refused is Refusal.EXPIRED
            for i in (1, 2, 4, 6, 7, 8):
                assert made.requester.reply_to(sent[i]).key == ("a1", f"cam{i % 4}", 1, i)
                assert labels(made, sent[i]) == [f"grey{8 * i}"]
            assert sorted(map(sorted, detector.batches)) == [[8, 16, 32, 56, 64], [48]]

    run_virtual(scene())


def test_a_batch_that_raises_is_retried_one_by_one_once() -> None:
    """Case E03: a picture whose inference raises, and a model that raises only in a batch."""

    async def scene() -> None:
        detector = ScriptedDetector(fails=lambda greys: len(greys) > 1 or POISON_GREY in greys)
        async with bench([detector], batch="fixed_window") as made:
            greys = [8, 16, POISON_GREY, 24]
            sent = [await made.requester.send(make_request(i), grey=grey) for i, grey in enumerate(greys)]
            await asyncio.sleep(1)
            assert detector.batches == [greys, [8], [16], [POISON_GREY], [24]]
            assert [made.requester.reply_to(one).refused for one in sent] == [None, None, Refusal.FAILED, None]
            assert "cannot run" in made.requester.reply_to(sent[2]).detail
            assert [labels(made, sent[i]) for i in (0, 1, 3)] == [["grey8"], ["grey16"], ["grey24"]]

    run_virtual(scene())


def test_a_retry_that_would_come_too_late_is_not_run() -> None:
    """Case E03: nothing waits for another's failure."""

    async def scene() -> None:
        detector = ScriptedDetector(run_s=lambda _batch: 0.1, fails=lambda greys: len(greys) > 1)
        async with bench([detector], batch="fixed_window") as made:
            sent = [await made.requester.send(make_request(i, budget_ms=150.0), grey=8 * i) for i in range(3)]
            await asyncio.sleep(1)
            assert [made.requester.reply_to(one).refused for one in sent] == [None, Refusal.EXPIRED, Refusal.EXPIRED]

    run_virtual(scene())


@pytest.mark.parametrize(
    ("batch", "window_ms"), [("deadline", 0.0), ("none", 0.0), ("aimd", 0.0), ("fixed_window", 20.0)]
)
def test_a_lone_request_never_waits_longer_than_its_policy_says(batch: str, window_ms: float) -> None:
    """Case E04, first half: one request per second."""

    async def scene() -> None:
        async with bench([ScriptedDetector(run_s=on_gpu)], batch=batch, batch_window_ms=20.0) as made:
            sent = []
            for i in range(10):
                sent.append(await made.requester.send(make_request(i)))
                await asyncio.sleep(1)
            for one in sent:
                reply = made.requester.reply_to(one)
                assert reply.queue_ms <= window_ms + 0.1
                assert reply.batch_wait_ms <= reply.queue_ms

    run_virtual(scene())


def test_a_burst_runs_in_full_batches() -> None:
    """Case E04, second half: 50 at once, at most 8 together."""

    async def scene() -> None:
        detector = ScriptedDetector(run_s=on_gpu)
        async with bench([detector], batch="fixed_window", batch_window_ms=20.0) as made:
            sent = [await made.requester.send(make_request(i), grey=8 * (i % 30)) for i in range(50)]
            await asyncio.sleep(2)
            assert [len(greys) for greys in detector.batches] == [8] * 6 + [2]
            waits_ms = sorted(made.requester.reply_to(one).queue_ms for one in sent)
            assert waits_ms[math.ceil(0.95 * 50) - 1] <= math.ceil(50 / 8) * on_gpu(8) * 1e3 + 20

    run_virtual(scene())


def test_the_deadline_policy_learns_to_batch_where_it_gains() -> None:
    async def scene() -> None:
        detector = ScriptedDetector(run_s=on_gpu)
        async with bench([detector]) as made:
            for burst in range(6):
                for i in range(16):
                    await made.requester.send(make_request(100 * burst + i))
                await asyncio.sleep(0.6)
            assert max(map(len, detector.batches)) == 8
            assert made.services[0].statistics().batches["full"] > 0

    run_virtual(scene())


def test_the_deadline_policy_runs_one_at_a_time_where_batches_gain_nothing() -> None:
    async def scene() -> None:
        detector = ScriptedDetector(run_s=lambda batch: 0.02 * batch)
        async with bench([detector]) as made:
            for burst in range(6):
                for i in range(16):
                    await made.requester.send(make_request(100 * burst + i))
                await asyncio.sleep(0.6)
            assert sum(len(greys) > 1 for greys in detector.batches) <= 3, "three trials, and then no more"

    run_virtual(scene())


def test_past_saturation_about_the_capacity_is_answered_and_all_of_it_in_time() -> None:
    """Two and a half times as many as one thread can do: a queue without deadlines would be late with everything."""

    async def scene() -> None:
        async with bench([ScriptedDetector(run_s=lambda batch: 0.02 * batch)]) as made:
            sent = []
            for i in range(500):
                sent.append(await made.requester.send(make_request(i, budget_ms=100.0)))
                await asyncio.sleep(0.008)
            await asyncio.sleep(1)
            replies = [made.requester.reply_to(one) for one in sent]
            answered = [reply for reply in replies if reply.refused is None]
            assert len(answered) >= 0.95 * 500 * 0.008 / 0.02
            assert sum(reply.total_ms > 100.001 for reply in answered) <= 5
            reasons = {reply.refused for reply in replies} - {None}
            assert reasons <= {Refusal.INFEASIBLE, Refusal.EXPIRED}

    run_virtual(scene())


@pytest.mark.parametrize(
    ("slow_share", "slow_factor", "spread"),
    [(0.0, 1.0, 0.5), (0.06, 6.0, 0.1)],
    ids=["widely spread", "one in sixteen six times as slow"],
)
def test_run_times_that_vary_neither_break_promises_nor_stop_the_work(
    slow_share: float, slow_factor: float, spread: float
) -> None:
    """Past saturation: most of the mean capacity is answered in time, and only what nobody could foresee is late."""
    chance = random.Random(1)
    runs_s: list[float] = []
    slow_runs: list[int] = []

    def run_s(_batch: int) -> float:
        slow = chance.random() < slow_share
        slow_runs.extend([len(runs_s)] * slow)
        runs_s.append(0.015 * (slow_factor if slow else 1.0) * chance.lognormvariate(0, spread))
        return runs_s[-1]

    async def scene() -> None:
        async with bench([ScriptedDetector(run_s=run_s)]) as made:
            sent = []
            for i in range(1000):
                sent.append(await made.requester.send(make_request(i, budget_ms=100.0)))
                await asyncio.sleep(chance.expovariate(90))
            lasted_s = asyncio.get_running_loop().time()
            await asyncio.sleep(1)
            answered = [reply for one in sent if (reply := made.requester.reply_to(one)).refused is None]
            in_time = sum(reply.total_ms <= 100 for reply in answered)
            assert in_time * sum(runs_s) / len(runs_s) >= 0.85 * lasted_s
            assert len(answered) - in_time <= 0.04 * len(answered) + 1.5 * len(slow_runs)

    run_virtual(scene())


def test_more_than_the_queue_holds_is_refused_at_once() -> None:
    async def scene() -> None:
        async with bench([ScriptedDetector(run_s=lambda _batch: 0.1)], queue_capacity=2, batch="none") as made:
            sent = [await made.requester.send(make_request(i, budget_ms=900.0)) for i in range(5)]
            await asyncio.sleep(0.001)
            early = [made.requester.reply_to(one) for one in sent if one in made.requester.replies]
            assert {reply.refused for reply in early} == {Refusal.QUEUE_FULL}
            await asyncio.sleep(2)
            assert sum(made.requester.reply_to(one).refused is None for one in sent) == 5 - len(early)
            assert len(early) >= 2

    run_virtual(scene())


def test_the_queue_is_bounded_in_bytes_with_the_decoded_picture_counted() -> None:
    async def scene() -> None:
        async with bench([ScriptedDetector()], queue_capacity_bytes=64 * 64 * 3 + 2000) as made:
            fits = await made.requester.send(make_request(1))
            too_big = await made.requester.send(make_request(2), size=(128, 64))
            await asyncio.sleep(1)
            assert made.requester.reply_to(fits).refused is None
            assert made.requester.reply_to(too_big).refused is Refusal.QUEUE_FULL

    run_virtual(scene())


def test_what_cannot_be_done_in_time_is_refused_at_once_when_run_times_are_known() -> None:
    """Case E04, in the end."""

    async def scene() -> None:
        detector = ScriptedDetector(run_s=lambda _batch: 0.1)
        async with bench([detector]) as made:
            first = await made.requester.send(make_request(1, budget_ms=30.0))
            await asyncio.sleep(0.5)
            assert made.requester.reply_to(first).refused is None, "nothing was known yet: it is the measurement"
            second = await made.requester.send(make_request(2, budget_ms=90.0))
            await asyncio.sleep(0.001)
            assert made.requester.reply_to(second).refused is Refusal.INFEASIBLE
            third = await made.requester.send(make_request(3, budget_ms=110.0))
            await asyncio.sleep(0.5)
            assert made.requester.reply_to(third).refused is None
            assert len(detector.batches) == 2

    run_virtual(scene())


def test_bad_requests_are_refused_each_with_its_reason_and_the_next_good_one_is_answered() -> None:
    async def scene() -> None:
        detector = ScriptedDetector()
        async with bench([detector], pixel_limit=10_000) as made:
            whole = encode_request(make_request(1), jpeg_of(grey_picture(80)))
            header = whole[: whole.index(b"\xff\xd8")]
            other = encode_request(make_request(5), jpeg_of(grey_picture(80)))
            huge = other[: other.index(b"\xff\xd8")]
            no_data = bytes.fromhex("ffd8ffc0000b080040004001011100ffd9")
            claims = {
                "garbage": (b"\x00" * 50, Refusal.BAD_PAYLOAD),
                "nothing": (b"", Refusal.BAD_PAYLOAD),
                "half": (whole[: len(whole) // 2], Refusal.BAD_PAYLOAD),
                "size and no data": (header + no_data, Refusal.BAD_PAYLOAD),
                "65,500 x 65,500": (huge + no_data.replace(b"\x00\x40\x00\x40", b"\xff\xdc" * 2), Refusal.TOO_LARGE),
            }
            for name, (payload, expected) in claims.items():
                sent = await made.requester.send_bytes(payload, name)
                await asyncio.sleep(0.1)
                assert made.requester.reply_to(sent).refused is expected, name
            sent = await made.requester.send_bytes(
                encode_request(make_request(2, model="n"), jpeg_of(grey_picture(80))), "model"
            )
            large = await made.requester.send(make_request(3), size=(128, 128))
            good = await made.requester.send(make_request(4))
            await asyncio.sleep(0.1)
            assert made.requester.reply_to(sent).refused is Refusal.UNKNOWN_MODEL
            assert made.requester.reply_to(large).refused is Refusal.TOO_LARGE
            assert made.requester.reply_to(good).refused is None

    run_virtual(scene())


def test_requests_that_are_retained_or_name_no_reply_topic_are_ignored_and_counted() -> None:
    """Case D05."""

    async def scene() -> None:
        detector = ScriptedDetector()
        async with bench([detector]) as made:
            payload = encode_request(make_request(1), jpeg_of(grey_picture(80)))
            topic = topics.request("cloud", "m")
            await made.requester.transport.publish(Outgoing(topic, payload, correlation=b"1"))
            reply_topic = topics.reply("a1")
            await made.requester.transport.publish(Outgoing(topic, payload, response_topic=reply_topic))
            stored = Message(topic, payload, retain=True, response_topic=reply_topic, correlation=b"1")
            made.services[0]._on_message(stored)
            await asyncio.sleep(1)
            assert made.services[0].statistics().ignored == {"no_address": 2, "retained": 1}
            assert (made.requester.replies, detector.batches) == ({}, [])

    run_virtual(scene())


def test_a_worker_with_a_location_takes_what_is_asked_of_it_and_of_its_tier() -> None:
    async def scene() -> None:
        detector = ScriptedDetector()
        async with bench([detector], tier="edge", location="hall") as made:
            for seq, target in enumerate(("edge", "edge@hall", "edge@yard", "cloud"), 1):
                await made.requester.transport.publish(
                    Outgoing(
                        topics.request(target, "m"),
                        encode_request(make_request(seq), jpeg_of(grey_picture(80))),
                        response_topic=topics.reply("a1"),
                        correlation=target.encode(),
                    )
                )
            await asyncio.sleep(1)
            assert made.requester.replies.keys() == {b"edge", b"edge@hall"}

    run_virtual(scene())


def test_a_key_that_comes_again_with_another_picture_is_a_duplicate_for_as_long_as_the_first_waits() -> None:
    async def scene() -> None:
        detector = ScriptedDetector(run_s=lambda _batch: 2.0)
        async with bench([detector], batch="none", duplicate_window_s=1.0) as made:
            await made.requester.send(make_request(1, budget_ms=60_000.0), grey=80)
            await made.requester.send(make_request(2, budget_ms=60_000.0), grey=100)
            await asyncio.sleep(1.5)  # the second waits, and its key is no longer remembered
            await made.requester.send_bytes(
                encode_request(make_request(2, budget_ms=60_000.0), jpeg_of(grey_picture(120))), "again"
            )
            later = await made.requester.send(make_request(3, budget_ms=60_000.0), grey=144)
            await asyncio.sleep(10)
            assert made.requester.replies.keys() == {b"1", b"2", b"3"}
            assert labels(made, later) == ["grey144"]
            assert made.services[0].statistics().ignored == {"duplicate": 1}

    run_virtual(scene())


def test_a_duplicate_is_run_and_answered_once() -> None:
    """Case D06."""

    async def scene() -> None:
        detector = ScriptedDetector()
        async with bench([detector]) as made:
            for wait_s in (0.0, 0.01, 1.0):
                await made.requester.send(make_request(1))
                await asyncio.sleep(wait_s)
            other = await made.requester.send(make_request(1, camera="gate"))
            await asyncio.sleep(1)
            assert len(detector.batches) == 2
            assert made.requester.replies.keys() == {other}
            assert len(made.requester.replies[other]) == 2
            assert made.services[0].statistics().ignored == {"duplicate": 2}

    run_virtual(scene())


def test_two_workers_share_the_load_and_when_one_dies_the_other_takes_it_all() -> None:
    """Case D10: 200 numbered requests, one of two workers killed half-way."""

    async def scene() -> None:
        async with bench([ScriptedDetector(run_s=lambda _: 0.004), ScriptedDetector(run_s=lambda _: 0.004)]) as made:
            states: list[WorkerState | BadPayload] = []
            sent = []
            for i in range(200):
                sent.append(await made.requester.send(make_request(i)))
                await asyncio.sleep(0.005)
                if i == 99:
                    for _ in range(3):
                        sent.append(await made.requester.send(make_request(1000 + len(sent))))
                    made.kill_first()
            await asyncio.sleep(1)
            replies = [made.requester.reply_to(one) for one in sent if one in made.requester.replies]
            by_worker = {name: [reply.seq for reply in replies if reply.worker == name] for name in ("w0", "w1")}
            assert 40 <= len(by_worker["w0"]) <= 55
            assert set(range(100, 200)) <= set(by_worker["w1"])
            lost = len(sent) - len(replies)
            assert 1 <= lost <= 3, "only what the dead worker held is lost"

            made.requester.transport.subscribe(topics.ANY_WORKER, lambda message: states.append(read(message)))
            made.requester.transport.abort()
            await made.requester.transport.wait_connected()
            await asyncio.sleep(0.1)
            told = {state.worker: state.online for state in states if isinstance(state, WorkerState)}
            assert told == {"w0": False, "w1": True}

    run_virtual(scene())


def read(message: Message) -> WorkerState | BadPayload:
    return decode_worker_state(message.payload)


def test_a_model_that_hangs_does_not_keep_a_stopped_worker() -> None:
    async def scene() -> None:
        async with bench([ScriptedDetector(run_s=lambda _batch: 3600.0)]) as made:
            held = await made.requester.send(make_request(1, budget_ms=9000.0))
            await asyncio.sleep(0.1)
            made.services[0].stop()
            started_s = asyncio.get_running_loop().time()
            await made.tasks[0]
            assert asyncio.get_running_loop().time() - started_s < 5
            await asyncio.sleep(0.1)
            assert made.requester.reply_to(held).refused is Refusal.STOPPING

    run_virtual(scene())


def test_a_worker_whose_model_hangs_says_goodbye_and_ends_with_a_fault() -> None:
    """A supervisor starts it again; until then agents know that it is gone."""

    async def scene() -> None:
        made, runs_s = Bench(), [0.02, 0.02, 3600.0]
        made.add_worker(ScriptedDetector(run_s=lambda _batch: runs_s.pop(0)))
        requester = asyncio.ensure_future(made.requester.transport.run())
        states: list[WorkerState | BadPayload] = []
        made.requester.transport.subscribe(
            topics.ANY_WORKER, lambda message: states.append(decode_worker_state(message.payload))
        )
        await made.connected()
        for seq in range(3):
            held = await made.requester.send(make_request(seq, budget_ms=9000.0))
            await asyncio.sleep(0.1)
        started_s = asyncio.get_running_loop().time()
        with pytest.raises(FoveateError, match="the model hangs") as fault:
            await made.tasks[0]
        assert 10 <= asyncio.get_running_loop().time() - started_s < 15
        assert fault.value.exit_code == 1  # not the code of a model that would fail again
        await asyncio.sleep(0.1)
        last = states[-1]
        assert isinstance(last, WorkerState)
        assert not last.online
        assert made.requester.reply_to(held).refused is Refusal.STOPPING
        requester.cancel()

    run_virtual(scene())


@pytest.mark.parametrize("run_s", [0.4, 2.0])
def test_a_model_that_is_merely_slow_is_left_alone(run_s: float) -> None:
    async def scene() -> None:
        runs_s = [run_s, run_s, 19 * run_s]
        async with bench([ScriptedDetector(run_s=lambda _batch: runs_s.pop(0))], max_batch=1) as made:
            for seq in range(3):
                await made.requester.send(make_request(seq, budget_ms=600_000.0))
                await asyncio.sleep(2 * run_s)
            await asyncio.sleep(20 * run_s)
            assert not made.tasks[0].done()
            assert made.services[0].statistics().answered == 3

    run_virtual(scene())


def test_a_part_that_fails_ends_the_worker_with_its_own_error() -> None:
    async def scene() -> None:
        made = Bench()
        service = made.add_worker(ScriptedDetector())

        async def broken() -> None:
            raise ModelError("the model is gone")

        service._decoder.run = broken  # type: ignore[method-assign]  # one part is made to fail
        with pytest.raises(ModelError, match="the model is gone"):
            await made.tasks[0]

    run_virtual(scene())


def test_one_reply_goes_to_every_request_with_an_address_and_the_counters_add_up() -> None:
    async def scene() -> None:
        async with bench([ScriptedDetector()], queue_capacity=3) as made:
            for i in range(40):
                request = make_request(i, budget_ms=30.0 + 10 * (i % 7), crops=[WireCrop((0, 0, 9, 9), (0, 0, 9, 9))])
                await made.requester.send(request)
                await asyncio.sleep(0.004 * (i % 4))
            await made.requester.send_bytes(b"?", "bad")
            await asyncio.sleep(1)
            assert all(len(replies) == 1 for replies in made.requester.replies.values())
            assert len(made.requester.replies) == 41
            done = made.services[0].statistics()
            assert done.received == 41 == done.answered + sum(done.refused.values())
            assert (done.queued, done.ignored, done.replies_lost) == (0, {}, {})

    run_virtual(scene())


def test_a_probe_comes_back_at_once_past_a_full_queue() -> None:
    async def scene() -> None:
        async with bench([ScriptedDetector(run_s=lambda _: 1.0)], queue_capacity=2) as made:
            sent = [await made.requester.send(make_request(i, budget_ms=9000.0)) for i in range(3)]
            probe = await made.requester.probe(7)
            await asyncio.sleep(0.001)
            reply = made.requester.reply_to(probe)
            assert (reply.agent, reply.seq, reply.refused, reply.detections) == ("a1", 7, None, [])
            await asyncio.sleep(5)
            assert [made.requester.reply_to(one).refused for one in sent] == [None, None, Refusal.QUEUE_FULL]
            done = made.services[0].statistics()
            assert (done.received, done.answered, done.echoed) == (4, 2, 1)

    run_virtual(scene())


def test_a_probe_gives_up_what_its_own_agent_asked_before_and_nothing_else() -> None:
    async def scene() -> None:
        async with bench([ScriptedDetector(run_s=lambda _: 0.1)]) as made:
            other = Requester(made.hub, agent="a2")
            session = asyncio.create_task(other.transport.run())
            await other.transport.wait_connected()
            running = await made.requester.send(make_request(0, budget_ms=9000.0))
            await asyncio.sleep(0.01)  # it is in the model now
            stale = [await made.requester.send(make_request(i, budget_ms=9000.0)) for i in (1, 2)]
            theirs = await other.send(make_request(3, agent="a2", budget_ms=9000.0))
            await made.requester.probe(1, give_up=True)
            fresh = await made.requester.send(make_request(4, budget_ms=9000.0))
            await asyncio.sleep(1)
            assert [made.requester.reply_to(one).refused for one in stale] == [Refusal.EXPIRED] * 2
            assert [made.requester.reply_to(one).refused for one in (running, fresh)] == [None, None]
            assert other.reply_to(theirs).refused is None
            session.cancel()

    run_virtual(scene())


def test_a_worker_that_stops_returns_no_probe() -> None:
    async def scene() -> None:
        async with bench([ScriptedDetector(run_s=lambda _: 1.0)]) as made:
            await made.requester.send(make_request(0, budget_ms=9000.0))
            await asyncio.sleep(0.01)
            made.services[0].stop()
            probe = await made.requester.probe(1)
            await asyncio.sleep(0.1)
            assert probe not in made.requester.replies

    run_virtual(scene())


def test_the_will_is_the_offline_announcement() -> None:
    will = offline("w0", "edge", "hall")
    assert (will.topic, will.retain, will.qos) == ("foveate/v1/worker/w0", True, 1)
    assert decode_worker_state(will.payload) == WorkerState(worker="w0", online=False, tier="edge", location="hall")


def test_a_worker_says_goodbye_as_one_of_its_tier() -> None:
    async def scene() -> None:
        async with bench([ScriptedDetector()], tier="edge", location="hall") as made:
            said: list[WorkerState | BadPayload] = []
            made.requester.transport.subscribe(
                topics.ANY_WORKER, lambda message: said.append(decode_worker_state(message.payload)), qos=1
            )
            made.services[0].stop()
            await made.tasks[0]
            assert said[-1] == WorkerState(worker="w0", online=False, tier="edge", location="hall")

    run_virtual(scene())


def test_what_the_warm_up_measured_spares_the_trial_of_batches() -> None:
    async def scene(gains: bool) -> list[int]:
        made, detector = Bench(), ScriptedDetector(run_s=on_gpu if gains else lambda batch: 0.02 * batch)
        times = [RunTime("m", Size(64, 64), n, on_gpu(n) if gains else 0.02 * n) for n in [*range(8, 0, -1)] * 3]
        made.add_worker(detector, prepared=Prepared(run_times=times))
        requester = asyncio.create_task(made.requester.transport.run())
        await made.connected()
        for i in range(17):
            await made.requester.send(make_request(i, budget_ms=2000.0))
        await asyncio.sleep(2)
        requester.cancel()
        made.services[0].stop()
        await made.tasks[0]
        return [len(greys) for greys in detector.batches]

    assert run_virtual(scene(gains=True)) == [1, 8, 8]
    assert run_virtual(scene(gains=False)) == [1] * 17


def test_a_slow_warm_up_refuses_nobody() -> None:
    async def scene() -> None:
        made = Bench()
        made.add_worker(ScriptedDetector(), prepared=Prepared(run_times=[RunTime("m", Size(64, 64), 1, 9.0)]))
        requester = asyncio.create_task(made.requester.transport.run())
        await made.connected()
        sent = await made.requester.send(make_request(1, budget_ms=100.0))
        await asyncio.sleep(1)
        assert made.requester.reply_to(sent).refused is None
        requester.cancel()

    run_virtual(scene())


def test_pictures_of_one_input_size_run_together_and_batches_are_announced() -> None:
    async def scene() -> None:
        made, detector = Bench(), ScriptedDetector(run_s=on_gpu)
        fixed = Prepared(input_of={"m": lambda _picture: Size(128, 128)})
        made.add_worker(detector, prepared=fixed, batch="fixed_window", batch_window_ms=20.0)
        requester = asyncio.create_task(made.requester.transport.run())
        await made.connected()
        for i, width in enumerate((64, 96, 128)):
            await made.requester.send(make_request(i), size=(width, 64))
        await asyncio.sleep(1)
        assert list(map(len, detector.batches)) == [3]
        figures = made.services[0].worker_state().batches
        assert figures is not None
        assert (figures.sizes, figures.reasons) == ({"3": 1}, {"window": 1})
        assert figures.padded_share == pytest.approx(1 - (64 + 96 + 128) * 64 / (3 * 128 * 128))
        requester.cancel()

    run_virtual(scene())


def test_an_agent_that_floods_the_queue_gives_way_to_one_that_asks_little() -> None:
    async def scene() -> None:
        async with bench([ScriptedDetector(run_s=lambda _batch: 0.1)], queue_capacity=4, batch="none") as made:
            flood = [await made.requester.send(make_request(i, budget_ms=9000.0)) for i in range(8)]
            await asyncio.sleep(0.01)
            early = len(made.requester.replies)
            modest = [
                await made.requester.send(make_request(i, agent="a2", budget_ms=9000.0)) for i in (100, 101)
            ]  # the first finds the place of what runs
            await asyncio.sleep(0.01)
            refused = [made.requester.reply_to(one) for one in flood if one in made.requester.replies]
            assert len(refused) == early + 1
            assert {reply.refused for reply in refused} == {Refusal.QUEUE_FULL}
            assert sum("gave way to an agent" in reply.detail for reply in refused) == 1
            await asyncio.sleep(2)
            assert [made.requester.reply_to(one).refused for one in modest] == [None, None]

    run_virtual(scene())


def test_nobody_gives_way_to_what_cannot_be_in_time() -> None:
    async def scene() -> None:
        async with bench([ScriptedDetector(run_s=lambda _batch: 0.1)], queue_capacity=4, batch="none") as made:
            await made.requester.send(make_request(99))
            await asyncio.sleep(1)
            for i in range(8):
                await made.requester.send(make_request(i, budget_ms=9000.0))
            await asyncio.sleep(0.01)
            before = len(made.requester.replies)
            hopeless = await made.requester.send(make_request(100, agent="a2", budget_ms=50.0))
            await asyncio.sleep(0.01)
            assert made.requester.reply_to(hopeless).refused is Refusal.INFEASIBLE
            assert len(made.requester.replies) == before + 1

    run_virtual(scene())


def test_what_has_expired_behind_a_long_run_is_not_even_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[int] = []

    def watched(jpeg: memoryview, size: Size) -> Image | None:
        image = decode_jpeg(jpeg, size)
        assert image is not None
        decoded.append(round(float(image.mean()) / 8))
        return image

    monkeypatch.setattr("cloud_worker.decoder.decode_jpeg", watched)

    async def scene() -> None:
        async with bench([ScriptedDetector(run_s=lambda _batch: 0.5)], decode_s=0.03, batch="none") as made:
            await made.requester.send(make_request(9, budget_ms=9000.0), grey=72)
            await asyncio.sleep(0.1)
            sent = [await made.requester.send(make_request(i, budget_ms=50.0), grey=8 * i) for i in range(1, 6)]
            await asyncio.sleep(0.2)
            assert [made.requester.reply_to(one).refused for one in sent] == [Refusal.EXPIRED] * 5
            assert decoded == [9, 1, 2], "at the end of the second their time is up, and the model is busy yet"

    run_virtual(scene())
