"""Forms batches from the queue, runs them, and gives each job its one outcome."""

import asyncio
import contextlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

from cloud_worker.batch_tally import BatchTally
from cloud_worker.forecast import Forecast
from cloud_worker.jobs import Job
from cloud_worker.model_runner import Models
from cloud_worker.outcomes import GAVE_WAY, Answered, Deliver, Outcome, Refused, given_up
from cloud_worker.queue import ReadyGroup, RequestQueue
from cloud_worker.replies import Durations
from cloud_worker.settings import WorkerSettings
from cloud_worker.warm_up import RunTime
from pipeline.frames import Image
from pipeline.geometry import Size
from pipeline.policies.admission import (
    ADMISSION_KINDS,
    Admission,
    AdmissionBounds,
    AdmissionPolicy,
    QueueLoad,
    Refuse,
)
from pipeline.policies.batch import BATCH_KINDS, BatchPolicy, BatchView, Wait
from pipeline.policies.batch_latency import ArrivalGaps
from pipeline.policies.schedule import Drop, DropReason, Service
from pipeline.timing import Clock
from pipeline.wire.messages import Refusal

SHORTEST_SLEEP_S = 1e-4
"""Timers may fire a rounding error early; without a floor that would spin."""
HUNG_S = 10.0
HUNG_TIMES = 20.0
"""A run of the model that takes longer than this, and than so many times its predicted time, hangs."""


@dataclass(frozen=True, slots=True)
class Policies:
    """The decisions of one worker."""

    admission: AdmissionPolicy
    bounds: AdmissionBounds
    batch: BatchPolicy
    max_batch: int

    @classmethod
    def chosen(cls, settings: WorkerSettings) -> "Policies":
        """Those that the settings name."""
        return cls(
            ADMISSION_KINDS[settings.admission](),
            AdmissionBounds(settings.queue_capacity, settings.queue_capacity_bytes),
            BATCH_KINDS[settings.batch](settings.batch_window_ms / 1e3),
            settings.max_batch,
        )


@dataclass(slots=True, eq=False)
class _Run:
    """The batch under way: what of it has no outcome yet, and when it should be done."""

    jobs: list[Job]
    taken_s: float
    company_since_s: float | None
    expected_end_s: float
    hung_at_s: float = float("inf")


class Batcher:
    """Owns the queue. ``admit`` may be called at any time on the event loop; ``run`` does the rest.

    Every admitted job is delivered exactly once. Nothing past its deadline, or that can no longer meet it, is run.
    """

    def __init__(self, policies: Policies, queue: RequestQueue, models: Models, clock: Clock, deliver: Deliver) -> None:
        self._policies = policies
        self._queue = queue
        self._models = models
        self._clock = clock
        self._deliver = deliver
        self._forecast = Forecast(policies.max_batch)
        self._gaps = ArrivalGaps()
        self._changed = asyncio.Event()
        self._run: _Run | None = None
        self._company: tuple[tuple[str, Size], float] | None = None
        self.tally = BatchTally()

    def warmed(self, times: Iterable[RunTime]) -> None:
        """Take in what was measured before the first request."""
        now_s = self._clock.now_s()
        for each in times:
            self._forecast.warmed((each.model, each.bucket), each.batch, each.run_s, now_s)

    def infer_p95_s(self, model: str) -> float | None:
        """The 95th percentile of the newest kind of run of a model."""
        return self._forecast.latency.p95_of_newest_s(model)

    def wait_s(self) -> float:
        """How long a newcomer would wait that goes before nothing."""
        return self._queue.work_s(self._service(self._clock.now_s()))

    def admit(self, job: Job, in_place_of: Job | None = None) -> Refused | None:
        """Queue a job, or say why not. What is queued may give way to it, and has its outcome then.

        ``in_place_of``: a queued job with the same picture, which leaves without an outcome where this one is queued.
        """
        now_s = self._clock.now_s()
        self._gaps.observe(*job.kind, now_s)
        service = self._service(now_s)
        prospect = self._queue.prospect(job, service, now_s)
        drops = [each for each in prospect.drops if each[0] is not in_place_of]
        self._give_up((each for each in drops if each[1].reason is DropReason.HOPELESS), now_s)
        leaving = () if in_place_of is None else (in_place_of,)
        making_room: tuple[Job, ...] = ()
        verdict = self._judge(job, prospect.ahead_s, leaving, now_s)
        if in_place_of is None and isinstance(verdict, Refuse) and verdict.refusal is Refusal.QUEUE_FULL:
            making_room = tuple(self._queue.room_for(job, self._policies.bounds))
            verdict = self._judge(job, prospect.ahead_s, making_room, now_s)
        if isinstance(verdict, Refuse):
            return Refused(verdict.refusal, verdict.detail)
        for gone in making_room:
            if self._queue.remove(gone, now_s):
                self._refuse(gone, GAVE_WAY)
        self._give_up(drops, now_s)
        if in_place_of is None:
            self._queue.add(job)
        else:
            self._queue.replace(in_place_of, job, now_s)
        self._changed.set()
        return None

    def _judge(self, job: Job, ahead_s: float, leaving: Sequence[Job], now_s: float) -> Admission:
        """What admission says of a job, were those that leave gone."""
        run_s = self._forecast.latency.times(*job.kind, now_s).p90_s(1)
        held_bytes = self._queue.held_bytes - sum(each.held_bytes for each in leaving)
        load = QueueLoad(len(self._queue) - len(leaving), held_bytes, ahead_s, run_s)
        return self._policies.admission.decide(
            load, self._policies.bounds, job.held_bytes, deadline_s=job.deadline_s, now_s=now_s
        )

    def wake(self) -> None:
        """Something in the queue changed."""
        self._changed.set()

    def refuse_overdue(self) -> None:
        """Give up, with a refusal, every queued job that scheduling no longer sees in time."""
        now_s = self._clock.now_s()
        self._give_up(self._queue.drops(self._service(now_s), now_s), now_s)

    def refuse_all(self, refused: Refused) -> None:
        """Deliver a refusal for everything queued."""
        for job in self._queue.remove_where(lambda _job: True, self._clock.now_s()):
            self._refuse(job, refused)

    def abandon_run(self, refused: Refused) -> None:
        """Deliver a refusal for what is in the model now; its answer, should one come, goes nowhere."""
        if self._run is not None:
            for job in list(self._run.jobs):
                self._finish(self._run, job, refused, 0.0)

    @property
    def hangs(self) -> bool:
        """Whether the model has been in one run for so long that nothing can be hoped from it."""
        return self._run is not None and self._clock.now_s() > self._run.hung_at_s

    async def run(self) -> None:
        """Form and run batches until cancelled."""
        while True:
            self._changed.clear()
            self.refuse_overdue()
            group = self._queue.ready_group()
            kind = None if group is None else group.jobs[0].kind
            if self._company is not None and self._company[0] != kind:
                self._company = None  # those who waited for company have left
            if group is None:
                await self._sleep_until(self._queue.earliest_deadline_s)
                continue
            decision = self._policies.batch.decide(self._view(group))
            if isinstance(decision, Wait):
                if self._company is None:
                    self._company = group.jobs[0].kind, self._clock.now_s()
                await self._sleep_until(min(decision.until_s, group.jobs[0].deadline_s))
                continue
            in_time = (job for job in group.jobs if job.deadline_s >= decision.due_from_s)
            jobs = tuple(islice(in_time, decision.size))
            self.tally.count(jobs, decision.reason)
            await self._run_batch(jobs)

    def _view(self, group: ReadyGroup) -> BatchView:
        now_s = self._clock.now_s()
        model, bucket = group.jobs[0].kind
        return BatchView(
            now_s=now_s,
            deadlines_s=tuple(sorted(job.deadline_s for job in group.jobs)),
            oldest_arrival_s=min(job.arrived_s for job in group.jobs),
            next_arrival_s=self._gaps.next_s(model, bucket),
            others_wait=group.others_wait,
            max_batch=self._policies.max_batch,
            times=self._forecast.latency.times(model, bucket, now_s),
            kind=(model, bucket),
        )

    async def _sleep_until(self, until_s: float | None) -> None:
        delay_s = None if until_s is None else max(until_s - self._clock.now_s(), SHORTEST_SLEEP_S)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(delay_s):
                await self._changed.wait()

    async def _run_batch(self, jobs: tuple[Job, ...]) -> None:
        now_s = self._clock.now_s()
        images = self._queue.take(jobs, now_s)
        predicted_s = self._forecast.latency.times(*jobs[0].kind, now_s).typical_s(len(jobs)) or 0.0
        company_since_s = None if self._company is None else self._company[1]
        run = self._run = _Run(list(jobs), now_s, company_since_s, now_s + predicted_s)
        self._company = None
        self.refuse_overdue()  # what cannot wait for the end of this run hears of it now
        try:
            fault = await self._attempt(run, jobs, images)
            if fault is not None and len(jobs) > 1:
                for job, image in zip(jobs, images, strict=True):
                    await self._alone(run, job, image)
        finally:
            self._run = None

    async def _alone(self, run: _Run, job: Job, image: Image) -> None:
        """Second try for one job of a batch that failed, unless its time is up."""
        now_s = self._clock.now_s()
        if job.deadline_s <= now_s + (self._forecast.latency.times(*job.kind, now_s).p90_s(1) or 0.0):
            refused = Refused(Refusal.EXPIRED, "its batch failed and no time is left to run it alone")
            self._finish(run, job, refused, 0.0)
        else:
            await self._attempt(run, (job,), [image])

    async def _attempt(self, run: _Run, jobs: tuple[Job, ...], images: list[Image]) -> str | None:
        """Run the model once and deliver; the fault instead where a larger batch failed."""
        started_s = self._clock.now_s()
        kind = jobs[0].kind
        predicted_s = self._forecast.latency.times(*kind, started_s).typical_s(len(jobs)) or 0.0
        run.hung_at_s = started_s + max(HUNG_S, HUNG_TIMES * predicted_s)
        found = await self._models.detect(kind[0], images, min(job.request.min_score for job in jobs))
        ended_s = self._clock.now_s()
        infer_ms = (ended_s - started_s) * 1e3
        self.tally.ran(ended_s - started_s)
        if isinstance(found, str):
            if len(jobs) == 1:
                self._finish(run, jobs[0], Refused(Refusal.FAILED, found), infer_ms)
            return found
        self._forecast.observe(kind, len(jobs), ended_s - started_s, ended_s)
        budget_s = min(job.deadline_s - job.arrived_s for job in jobs)
        self._policies.batch.ran(kind, len(jobs), ended_s - started_s, budget_s)
        for job in jobs:
            self._queue.served(job, (ended_s - started_s) / len(jobs), ended_s)
        loop = asyncio.get_running_loop()  # they are told once the next batch has begun: the model is free now
        for job, detections in zip(jobs, found, strict=True):
            loop.call_soon(self._finish, run, job, Answered(detections, len(jobs)), infer_ms)
        return None

    def _finish(self, run: _Run, job: Job, outcome: Outcome, infer_ms: float) -> None:
        if job not in run.jobs:
            return  # abandoned meanwhile: it has had its outcome
        run.jobs.remove(job)
        queue_ms = (run.taken_s - job.arrived_s) * 1e3
        since_s = run.taken_s if run.company_since_s is None else max(run.company_since_s, job.arrived_s)
        wait_ms = (run.taken_s - since_s) * 1e3
        self._deliver(job, outcome, Durations(queue_ms, wait_ms, infer_ms, self._since_ms(job)))

    def _give_up(self, drops: Iterable[tuple[Job, Drop]], now_s: float) -> None:
        for job, drop in drops:
            if self._queue.remove(job, now_s):
                self._refuse(job, given_up(drop))

    def _refuse(self, job: Job, refused: Refused) -> None:
        waited_ms = self._since_ms(job)
        self._deliver(job, refused, Durations(queue_ms=waited_ms, total_ms=waited_ms))

    def _since_ms(self, job: Job) -> float:
        return (self._clock.now_s() - job.arrived_s) * 1e3

    def _service(self, now_s: float) -> Service:
        rest_s = 0.0 if self._run is None else max(self._run.expected_end_s - now_s, 0.0)
        return self._forecast.service(rest_s, now_s)
