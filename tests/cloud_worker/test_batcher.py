"""The batcher gives each job its one outcome and predicts what is ahead of a newcomer."""

import asyncio
from collections.abc import Sequence

import numpy as np
import pytest

from cloud_worker.batcher import Batcher, Policies
from cloud_worker.jobs import Job, ReplyAddress
from cloud_worker.outcomes import Answered, Outcome, Refused
from cloud_worker.queue import RequestQueue
from cloud_worker.replies import Durations
from pipeline.detections import Detections
from pipeline.frames import Image
from pipeline.geometry import Size
from pipeline.policies.admission import AdmissionBounds, AdmissionPolicy, CapacityAdmission, DeadlineAdmission
from pipeline.policies.batch import BatchPolicy, DeadlineBatching, FixedWindow, NoBatching
from pipeline.policies.schedule import SCHEDULING_KINDS
from pipeline.timing import LoopClock, run_virtual
from pipeline.wire.messages import Refusal
from tests.support.workers import make_request

PICTURE = np.zeros((64, 64, 3), np.uint8)
STOPPING = Refused(Refusal.STOPPING, "the worker is stopping")


class SlowModels:
    """Every run takes 100 ms of virtual time, and ``each_s`` for each further picture."""

    def __init__(self, each_s: float = 0.0) -> None:
        self._each_s = each_s

    async def detect(self, model: str, images: Sequence[Image], min_score: float) -> list[Detections] | str:
        await asyncio.sleep(0.1 + self._each_s * (len(images) - 1))
        return [Detections.none()] * len(images)


class Stand:
    """A batcher with its queue, run on the current loop; ``outcomes`` are in the order of delivery."""

    def __init__(
        self,
        batch: BatchPolicy | None = None,
        max_batch: int = 1,
        scheduling: str = "edf_weighted",
        admission: AdmissionPolicy | None = None,
        models: SlowModels | None = None,
    ) -> None:
        self.outcomes: list[tuple[int, Outcome, Durations]] = []
        self.queue = RequestQueue(SCHEDULING_KINDS[scheduling]())
        policies = Policies(
            admission or DeadlineAdmission(), AdmissionBounds(8, 10**9), batch or NoBatching(), max_batch
        )
        self.batcher = Batcher(policies, self.queue, models or SlowModels(), LoopClock(), self._deliver)
        self.task = asyncio.create_task(self.batcher.run())

    def _deliver(self, job: Job, outcome: Outcome, spent: Durations) -> None:
        self.outcomes.append((job.request.seq, outcome, spent))

    def submit(self, seq: int, budget_s: float, *, camera: str = "plaza", decoded: bool = True) -> Refused | None:
        """Admit a job and hand in its picture, at once or after half a second."""
        now_s = asyncio.get_running_loop().time()
        address = ReplyAddress("foveate/v1/rep/a1", b"c")
        request = make_request(seq, camera=camera)
        job = Job(request, memoryview(b""), Size(64, 64), address, now_s, now_s + budget_s)
        refused = self.batcher.admit(job)
        if refused is None:
            assert self.queue.next_encoded() is job
            if decoded:
                self._decoded(job)
            else:
                asyncio.get_running_loop().call_later(0.5, self._decoded, job)
        return refused

    def _decoded(self, job: Job) -> None:
        assert self.queue.decoded(job, PICTURE)
        self.batcher.wake()


def test_the_rest_of_the_running_batch_is_ahead_of_a_newcomer() -> None:
    async def scene() -> None:
        stand = Stand()
        assert stand.submit(1, budget_s=1.0) is None
        await asyncio.sleep(0.5)
        assert stand.submit(2, budget_s=1.0) is None
        await asyncio.sleep(0.03)
        refused = stand.submit(3, budget_s=0.169)
        assert refused is not None
        assert refused.refusal is Refusal.INFEASIBLE
        assert refused.detail == "needs 70.0 ms for what is ahead and 100.0 ms to run, 169.0 ms are left"
        assert stand.submit(4, budget_s=0.171) is None
        await asyncio.sleep(0.5)
        assert [seq for seq, outcome, _ in stand.outcomes if isinstance(outcome, Answered)] == [1, 2, 4]
        stand.task.cancel()

    run_virtual(scene())


def test_what_is_queued_with_a_later_deadline_is_not_ahead() -> None:
    async def scene() -> None:
        stand = Stand()
        assert stand.submit(1, budget_s=1.0) is None
        await asyncio.sleep(0.5)
        for seq in (2, 3, 4):
            assert stand.submit(seq, budget_s=9.0) is None
        await asyncio.sleep(0.01)
        assert stand.submit(5, budget_s=0.2) is None
        await asyncio.sleep(1)
        assert [seq for seq, _, _ in stand.outcomes] == [1, 2, 5, 3, 4]
        stand.task.cancel()

    run_virtual(scene())


def test_what_gives_way_to_a_camera_that_has_had_less_is_refused_at_once_and_once() -> None:
    async def scene() -> None:
        stand = Stand()
        for seq in range(3):  # the plaza has had its runs, and run times are known
            assert stand.submit(seq, budget_s=1.0) is None
            await asyncio.sleep(0.2)
        assert stand.submit(3, budget_s=1.0) is None
        await asyncio.sleep(0.01)
        assert stand.submit(4, budget_s=0.25) is None  # in time behind the run under way
        assert stand.submit(5, budget_s=0.28, camera="yard") is None
        [(seq, outcome, spent)] = stand.outcomes[3:]
        assert isinstance(outcome, Refused)
        assert (seq, outcome.refusal, spent.total_ms) == (4, Refusal.INFEASIBLE, 0.0)
        await asyncio.sleep(1)
        assert [(seq, type(outcome)) for seq, outcome, _ in stand.outcomes[4:]] == [(3, Answered), (5, Answered)]
        stand.task.cancel()

    run_virtual(scene())


@pytest.mark.parametrize(("kind", "order"), [("fifo", [1, 2, 3]), ("edf", [1, 3, 2])])
def test_plain_scheduling_keeps_its_order_and_runs_what_is_late(kind: str, order: list[int]) -> None:
    async def scene() -> None:
        stand = Stand(scheduling=kind, admission=CapacityAdmission())
        for seq, budget_s in ((1, 0.12), (2, 0.15), (3, 0.11)):
            assert stand.submit(seq, budget_s=budget_s) is None
            await asyncio.sleep(0.001)
        await asyncio.sleep(1)
        assert [seq for seq, outcome, _ in stand.outcomes if isinstance(outcome, Answered)] == order
        stand.task.cancel()

    run_virtual(scene())


def test_an_abandoned_run_has_had_its_outcome_when_its_answer_comes() -> None:
    async def scene() -> None:
        stand = Stand()
        stand.submit(1, budget_s=1.0)
        await asyncio.sleep(0.05)
        stand.batcher.abandon_run(STOPPING)
        await asyncio.sleep(1)
        [(seq, outcome, spent)] = stand.outcomes
        assert (seq, outcome) == (1, STOPPING)
        assert spent.total_ms == pytest.approx(50)
        stand.task.cancel()

    run_virtual(scene())


def test_a_job_that_is_never_decoded_is_refused_when_its_time_is_up() -> None:
    async def scene() -> None:
        stand = Stand()
        now_s = asyncio.get_running_loop().time()
        address = ReplyAddress("foveate/v1/rep/a1", b"c")
        stand.batcher.admit(Job(make_request(1), memoryview(b""), Size(64, 64), address, now_s, now_s + 0.2))
        await asyncio.sleep(0.199)
        assert stand.outcomes == []
        await asyncio.sleep(0.002)
        [(_, outcome, _)] = stand.outcomes
        assert isinstance(outcome, Refused)
        assert outcome.refusal is Refusal.EXPIRED
        assert (len(stand.queue), stand.queue.held_bytes) == (0, 0)
        stand.task.cancel()

    run_virtual(scene())


def test_the_wait_for_company_begins_anew_when_those_who_waited_have_left() -> None:
    async def scene() -> None:
        stand = Stand(FixedWindow(1.0), max_batch=2)
        assert stand.submit(1, budget_s=0.05) is None
        await asyncio.sleep(0.02)
        assert stand.submit(2, budget_s=9.0, decoded=False) is None
        await asyncio.sleep(3)
        [(_, gone, _), (seq, answer, spent)] = stand.outcomes
        assert isinstance(gone, Refused)
        assert gone.refusal is Refusal.EXPIRED
        assert (seq, type(answer)) == (2, Answered)
        assert spent.batch_wait_ms == pytest.approx(500, abs=1)  # of the window's second one half went into decoding
        stand.task.cancel()

    run_virtual(scene())


def test_whoever_is_left_out_of_a_full_batch_hears_of_it_when_that_begins() -> None:
    async def scene() -> None:
        stand = Stand(DeadlineBatching(), max_batch=2, models=SlowModels(each_s=0.05))
        for seq in (0, 1, 2):  # one alone, then two together: both times are known
            assert stand.submit(seq, budget_s=9.0) is None
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.5)
        assert [outcome.batch_size for _, outcome, _ in stand.outcomes if isinstance(outcome, Answered)] == [1, 2, 2]
        assert stand.submit(3, budget_s=9.0) is None
        await asyncio.sleep(0.05)
        assert stand.submit(4, budget_s=0.05 + 0.12) is None  # enough to run alone, too little to run with another
        for seq, budget_s in ((5, 0.255), (6, 0.301)):  # after it there would be no time for both
            assert stand.submit(seq, budget_s=budget_s) is None
        await asyncio.sleep(0.051)
        assert [seq for seq, _, _ in stand.outcomes[3:]] == [4, 3], "the next batch begins first"
        assert isinstance(stand.outcomes[3][1], Refused)
        assert stand.outcomes[3][1].refusal is Refusal.EXPIRED
        await asyncio.sleep(0.2)
        assert [seq for seq, outcome, _ in stand.outcomes[5:] if isinstance(outcome, Answered)] == [5, 6]
        stand.task.cancel()

    run_virtual(scene())
