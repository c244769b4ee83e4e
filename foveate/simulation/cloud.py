"""The workers of a simulated fleet: the real queue, admission and batch policy, around a model that only takes time."""

import math
from collections.abc import Sequence

from cloud_worker.jobs import Job
from cloud_worker.settings import WorkerSettings
from foveate.simulation.events import EventLoop
from foveate.simulation.outcome import Tally
from foveate.simulation.questions import Question
from foveate.simulation.worker_decisions import WorkerDecisions, new_job
from pipeline.policies.batch import Wait
from pipeline.wire.messages import Refusal


class SimulatedWorker:
    """One worker: decodes one picture at a time while its model runs one batch at a time.

    Each further picture of a batch adds ``together`` of its own time: 1 on a CPU, where batches gain nothing.
    """

    def __init__(self, loop: EventLoop, settings: WorkerSettings, together: float, tally: Tally) -> None:
        self._loop, self._settings, self._together, self._tally = loop, settings, together, tally
        self._decisions = WorkerDecisions(settings)
        self._questions: dict[tuple[str, str, int, int], Question] = {}
        self._decoding = self._running = False
        self._expected_end_s = 0.0
        self._wake_at_s = math.inf

    def receive(self, question: Question) -> None:
        """A request arrives; it is queued, or refused at once."""
        now_s = self._loop.now_s
        job = new_job(question, now_s, self._settings)
        gone, refusal = self._decisions.admit(job, self._free_s(), now_s)
        self._questions[job.key] = question
        self._refuse(gone)
        if refusal is not None:
            self._refuse([(job, refusal)])
            return
        self._decode_next()
        if self._wake_at_s < math.inf:
            self._form_batch()  # this may be the company that is waited for

    def _free_s(self) -> float:
        return max(0.0, self._expected_end_s - self._loop.now_s) if self._running else 0.0

    def _refuse(self, gone: Sequence[tuple[Job, Refusal]]) -> None:
        for job, refusal in gone:
            self._tally.refused[refusal.value] += 1
            waited_ms = (self._loop.now_s - job.arrived_s) * 1000
            question = self._questions.pop(job.key)
            question.asker.reply(question, waited_ms, 0.0, refusal)

    def _decode_next(self) -> None:
        if self._decoding:
            return
        job = self._decisions.next_encoded()
        if job is not None:
            self._decoding = True
            decode_s = self._questions[job.key].shot.decode_ms / 1000
            self._loop.at(self._loop.now_s + decode_s, self._decoded, job)

    def _decoded(self, job: Job) -> None:
        self._decoding = False
        self._decisions.decoded(job)
        self._decode_next()
        self._form_batch()

    def _form_batch(self) -> None:
        """What the real worker does whenever something has changed and its model is idle."""
        if self._running:
            return
        now_s = self._loop.now_s
        self._refuse(self._decisions.drop(0.0, now_s))
        choice = self._decisions.choose(now_s)
        if choice is None:
            return
        if isinstance(choice, Wait):
            self._wake(choice.until_s)
        else:
            self._run(choice)

    def _wake(self, at_s: float) -> None:
        if at_s < self._wake_at_s or self._wake_at_s <= self._loop.now_s:
            self._wake_at_s = at_s
            self._loop.at(at_s, self._woken)

    def _woken(self, _nothing: None) -> None:
        self._wake_at_s = math.inf
        self._form_batch()

    def _run(self, jobs: tuple[Job, ...]) -> None:
        now_s, tally = self._loop.now_s, self._tally
        self._expected_end_s = now_s + self._decisions.take(jobs, now_s)
        times_s = sorted(self._questions[job.key].shot.infer_ms / 1000 for job in jobs)
        run_s = times_s[-1] + self._together * sum(times_s[:-1])
        tally.worker_busy_s += run_s
        tally.runs += len(jobs)
        tally.worker_queue_s += sum(now_s - job.arrived_s for job in jobs)
        tally.hopeless_runs += sum(job.deadline_s <= now_s for job in jobs)
        self._running = True
        self._loop.at(now_s + run_s, self._ran, (jobs, now_s))

    def _ran(self, run: tuple[tuple[Job, ...], float]) -> None:
        jobs, started_s = run
        run_s = self._loop.now_s - started_s
        self._running = False
        self._decisions.ran(jobs, run_s, self._loop.now_s)
        for job in jobs:
            question = self._questions.pop(job.key)
            question.asker.reply(question, (started_s - job.arrived_s) * 1000, run_s * 1000, None)
        self._form_batch()
