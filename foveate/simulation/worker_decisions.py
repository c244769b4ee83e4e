"""The door through which the simulator calls a worker's decision code, as ``cloud_worker/batcher.py`` does."""

from collections.abc import Iterable, Sequence
from itertools import islice

import numpy as np

from cloud_worker.forecast import Forecast
from cloud_worker.jobs import Job, ReplyAddress
from cloud_worker.queue import RequestQueue
from cloud_worker.settings import WorkerSettings
from foveate.simulation.questions import Question
from pipeline.frames import Image
from pipeline.geometry import Size
from pipeline.policies.admission import ADMISSION_KINDS, Admission, AdmissionBounds, QueueLoad, Refuse
from pipeline.policies.batch import BATCH_KINDS, BatchView, Fire, Wait
from pipeline.policies.batch_latency import ArrivalGaps
from pipeline.policies.schedule import SCHEDULING_KINDS, Drop, DropReason
from pipeline.wire.messages import Refusal, Request

_PICTURE: Image = np.zeros((1, 1, 3), np.uint8)
_JPEG = bytes(1 << 20)
_ADDRESS = ReplyAddress("", b"")
Refused = list[tuple[Job, Refusal]]


def new_job(question: Question, now_s: float, settings: WorkerSettings) -> Job:
    """A question as it arrives at a worker at ``now_s``; its budget is what was left of it when it was sent."""
    look, shot, camera = question.look, question.shot, question.camera
    budget_ms = (question.settle_at_s - question.sent_at_s) * 1000
    request = Request(
        agent=camera.agent,
        camera=camera.name,
        epoch=0,
        seq=look.number,
        budget_ms=budget_ms,
        weight=camera.settings.weight,
        kind="frame" if question.kind == "frame" else "mosaic",
        frame_width=0,
        frame_height=0,
        crops=[],
        model=settings.models[0].name,
        min_score=0.5,
    )
    picture = memoryview(_JPEG)[: shot.size_bytes]
    deadline_s = now_s + (budget_ms - settings.reply_margin_ms) / 1000
    return Job(request, picture, Size(shot.width_px, shot.height_px), _ADDRESS, now_s, deadline_s)


class WorkerDecisions:
    """What one worker decides by. Times are in seconds; ``free_s`` is how long the model is expected to be busy yet."""

    def __init__(self, settings: WorkerSettings) -> None:
        self._max_batch = settings.max_batch
        self._bounds = AdmissionBounds(settings.queue_capacity, settings.queue_capacity_bytes)
        self._admission = ADMISSION_KINDS[settings.admission]()
        self._batch = BATCH_KINDS[settings.batch](settings.batch_window_ms / 1000)
        self._queue = RequestQueue(SCHEDULING_KINDS[settings.scheduling]())
        self._gaps = ArrivalGaps()
        self._forecast = Forecast(settings.max_batch)

    def drop(self, free_s: float, now_s: float) -> Refused:
        """Take out what scheduling gives up now."""
        if not len(self._queue):
            return []
        return self._gone(self._queue.drops(self._forecast.service(free_s, now_s), now_s), now_s)

    def admit(self, job: Job, free_s: float, now_s: float) -> tuple[Refused, Refusal | None]:
        """Queue a job; what is given up for whatever reason, and why the job was not queued, if so."""
        self._gaps.observe(*job.kind, now_s)
        prospect = self._queue.prospect(job, self._forecast.service(free_s, now_s), now_s)
        hopeless = [each for each in prospect.drops if each[1].reason is DropReason.HOPELESS]
        gone = self._gone(hopeless, now_s)
        making_room: tuple[Job, ...] = ()
        verdict = self._judge(job, prospect.ahead_s, (), now_s)
        if isinstance(verdict, Refuse) and verdict.refusal is Refusal.QUEUE_FULL:
            making_room = tuple(self._queue.room_for(job, self._bounds))
            verdict = self._judge(job, prospect.ahead_s, making_room, now_s)
        if isinstance(verdict, Refuse):
            return gone, verdict.refusal
        gone += [(each, Refusal.QUEUE_FULL) for each in making_room if self._queue.remove(each, now_s)]
        gone += self._gone(prospect.drops, now_s)
        self._queue.add(job)
        return gone, None

    def _judge(self, job: Job, ahead_s: float, leaving: Sequence[Job], now_s: float) -> Admission:
        run_s = self._forecast.latency.times(*job.kind, now_s).p90_s(1)
        held_bytes = self._queue.held_bytes - sum(each.held_bytes for each in leaving)
        load = QueueLoad(len(self._queue) - len(leaving), held_bytes, ahead_s, run_s)
        return self._admission.decide(load, self._bounds, job.held_bytes, deadline_s=job.deadline_s, now_s=now_s)

    def _gone(self, drops: Iterable[tuple[Job, Drop]], now_s: float) -> Refused:
        return [
            (job, Refusal.EXPIRED if drop.reason is DropReason.HOPELESS else Refusal.INFEASIBLE)
            for job, drop in drops
            if self._queue.remove(job, now_s)
        ]

    def next_encoded(self) -> Job | None:
        """The job whose picture is decoded next."""
        return self._queue.next_encoded()

    def decoded(self, job: Job) -> None:
        """A picture is decoded."""
        self._queue.decoded(job, _PICTURE)

    def choose(self, now_s: float) -> tuple[Job, ...] | Wait | None:
        """The jobs to run now, or until when to wait for company; None where nothing is ready."""
        group = self._queue.ready_group()
        if group is None:
            return None
        kind = group.jobs[0].kind
        decision = self._batch.decide(
            BatchView(
                now_s=now_s,
                deadlines_s=tuple(sorted(job.deadline_s for job in group.jobs)),
                oldest_arrival_s=min(job.arrived_s for job in group.jobs),
                next_arrival_s=self._gaps.next_s(*kind),
                others_wait=group.others_wait,
                max_batch=self._max_batch,
                times=self._forecast.latency.times(*kind, now_s),
                kind=kind,
            )
        )
        if isinstance(decision, Fire):
            in_time = (job for job in group.jobs if job.deadline_s >= decision.due_from_s)
            return tuple(islice(in_time, decision.size))
        return Wait(min(decision.until_s, group.jobs[0].deadline_s))

    def take(self, jobs: tuple[Job, ...], now_s: float) -> float:
        """Take jobs out to run them; the time in seconds that this is expected to take."""
        self._queue.take(jobs, now_s)
        return self._forecast.latency.times(*jobs[0].kind, now_s).typical_s(len(jobs)) or 0.0

    def ran(self, jobs: tuple[Job, ...], run_s: float, now_s: float) -> None:
        """A batch has run."""
        self._forecast.observe(jobs[0].kind, len(jobs), run_s, now_s)
        budget_s = min(job.deadline_s - job.arrived_s for job in jobs)
        self._batch.ran(jobs[0].kind, len(jobs), run_s, budget_s)
        for job in jobs:
            self._queue.served(job, run_s / len(jobs), now_s)
