"""The uplink on a link that cannot carry all that its cameras ask, on virtual time."""

import asyncio
from collections import Counter
from random import Random

import numpy as np

from edge_agent.questions import Answer, Question
from edge_agent.uplink import Uplink
from pipeline.frames import FrameKey
from pipeline.network.link import Link, LinkSettings
from pipeline.network.rate import constant
from pipeline.timing import LoopClock, run_virtual
from pipeline.transport.memory import MemoryHub, MemoryTransport
from pipeline.transport.shaped import ShapedTransport
from tests.edge_agent.test_uplink import CROP, SETTINGS, Worker, after
from tests.support.brokers import running
from tests.support.detectors import jpeg_of

LINK_BYTES_S, ROUND_TRIP_S, WORKER_S = 100_000.0, 0.08, 0.016
CAMERAS, FOR_S = 8, 30.0
JPEG = jpeg_of(np.random.default_rng(1).integers(0, 255, (64, 64, 3), dtype=np.uint8))


class Asker:
    """A camera that counts what became of its questions."""

    def __init__(self) -> None:
        self.on_time, self.late, self.given_up = 0, 0, Counter[str]()

    def sent(self, *_: object) -> None:
        """Nothing to count."""

    def reopened(self) -> None:
        """Nothing to count."""

    def answered(self, answer: Answer) -> None:
        in_time = LoopClock().now_s() <= answer.question.settle_at_s
        self.on_time += in_time
        self.late += not in_time

    def not_answered(self, _key: FrameKey, reason: str, *, shed: bool) -> None:
        self.given_up[reason] += 1


async def asks(uplink: Uplink, number: int, period_s: float) -> None:
    """Ask with deadlines of 200 or 400 ms, at about a period, without waiting for anything."""
    rng, budget_s = Random(number), (0.2, 0.4)[number % 2]
    await asyncio.sleep(rng.random() * period_s)
    async with asyncio.TaskGroup() as questions:
        for seq in range(int(FOR_S / period_s)):
            key, now_s = FrameKey(f"c{number}", 1, seq), LoopClock().now_s()
            question = Question(key, "mosaic", 640, 480, (CROP,), JPEG, now_s + budget_s, 1.0)
            questions.create_task(uplink.ask(question))
            await asyncio.sleep(period_s * rng.uniform(0.7, 1.3))


async def beats(worker: Worker) -> None:
    for beat in range(100):
        await worker.announce(beat)
        await asyncio.sleep(5)


async def overload(share: float) -> list[Asker]:
    """Cameras that ask ``share`` times what the link carries."""
    hub = MemoryHub()
    up = Link(LinkSettings(constant(LINK_BYTES_S), ROUND_TRIP_S / 2), 1)
    down = Link(LinkSettings(constant(3 * LINK_BYTES_S), ROUND_TRIP_S / 2), 2)
    bulk = ShapedTransport(MemoryTransport(hub, name="bulk"), up, down, LoopClock())
    control, askers = MemoryTransport(hub, name="control"), [Asker() for _ in range(CAMERAS)]
    worker = Worker(hub, after(WORKER_S, queue_ms=0.0, infer_ms=WORKER_S * 1e3, total_ms=WORKER_S * 1e3))
    uplink = Uplink("a1", SETTINGS, bulk, control, LoopClock())
    for number, asker in enumerate(askers):
        uplink.register(f"c{number}", asker)
    async with running(bulk, control, worker.transport):
        tasks = [asyncio.create_task(uplink.run()), asyncio.create_task(beats(worker))]
        await asyncio.sleep(0.01)
        period_s = CAMERAS * len(JPEG) / (LINK_BYTES_S * share)
        await asyncio.gather(*(asks(uplink, number, period_s) for number in range(CAMERAS)))
        await asyncio.sleep(3)
        for task in tasks:
            task.cancel()
    return askers


def goodput(askers: list[Asker]) -> float:
    """Bytes answered in time, as a share of what the link carries."""
    return sum(asker.on_time for asker in askers) * len(JPEG) / (LINK_BYTES_S * FOR_S)


def test_below_saturation_nearly_everything_is_answered_in_time() -> None:
    assert goodput(run_virtual(overload(0.6))) > 0.95 * 0.6


def test_past_saturation_the_link_is_full_of_questions_that_are_answered_in_time() -> None:
    askers = run_virtual(overload(1.5))
    assert goodput(askers) > 0.9
    assert sum(asker.late for asker in askers) < 10
    assert all(asker.given_up.keys() <= {"too_late_to_send", "displaced"} for asker in askers)
    on_time = [asker.on_time for asker in askers]
    assert max(on_time) < 1.3 * min(on_time)
