"""The shortest way to an answer for each job: along with an identical one that is under way, or by the model."""

from collections import deque
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, replace
from hashlib import blake2b

from cloud_worker.jobs import Job
from cloud_worker.outcomes import Answered, Deliver, Outcome, Refused
from cloud_worker.queue import RequestQueue
from cloud_worker.replies import Durations
from pipeline.policies.coalescing import Coalescing, End, Role
from pipeline.timing import Clock
from pipeline.wire.messages import Refusal

Enqueue = Callable[[Job, Job | None], Refused | None]
"""Queues a job, in the place of another where one is given; or says why not."""

NO_ROOM = Refused(Refusal.QUEUE_FULL, "as many requests as may wait for the answer to another")


@dataclass(frozen=True, slots=True)
class Question:
    """All that an answer depends on. ``contract`` stands for the model, its version and how it takes pictures.

    ``min_score`` is part of it, although a lower one would do: an answer is never for a question that was not asked.
    """

    contract: Hashable
    picture: Hashable
    min_score: float


class Answers:
    """Takes each job on once and delivers its one outcome. Runs on the event loop, and never waits.

    A job that asks what another asks that is queued or in the model follows it. What befalls one alone (its time is up,
    it gives way) hands the question over to the next, which is queued anew with its own deadline.
    """

    def __init__(
        self,
        contracts: Mapping[str, Hashable],
        queue: RequestQueue,
        enqueue: Enqueue,
        clock: Clock,
        deliver: Deliver,
        most_followers: int,
    ) -> None:
        self._contracts = contracts
        self._queue = queue
        self._enqueue = enqueue
        self._clock = clock
        self._deliver = deliver
        self._flights: Coalescing[Hashable, Job] = Coalescing(most_followers)
        self._coalesces = most_followers > 0
        self._questions: dict[Job, Hashable] = {}
        self._orphans: deque[Job] = deque()
        self._busy = False
        self.joined = 0
        """Answers that came from the run of another job."""

    def admit(self, job: Job) -> None:
        """Take a job on, or refuse it. Others may give way to it, and have their outcomes then."""
        question = self._question(job)
        leader = self._flights.leader(question)
        under_way = leader is not None and not self._queue.holds(leader)
        role = self._flights.role(question, job.deadline_s, under_way=under_way)
        if leader is not None:
            job = replace(job, jpeg=leader.jpeg)  # the same bytes, held once
        refused = NO_ROOM if role is Role.NO_ROOM else None
        if role in (Role.LEADS, Role.TAKES_OVER):
            refused = self._queued(job, leader if role is Role.TAKES_OVER else None)
        if refused is None:
            self._flights.enter(question, job, job.deadline_s, role)
            self._questions[job] = question
        else:
            self._deliver(job, refused, self.waited(job))
        self._hand_over()

    def settle(self, job: Job, outcome: Outcome, spent: Durations) -> None:
        """A job that was queued has its outcome; those that asked the same share it or go on without it."""
        settled = self._flights.ended(self._questions.pop(job), _end(outcome))
        self._deliver(job, outcome, spent)
        for follower in settled.with_it:
            del self._questions[follower]
            self.joined += isinstance(outcome, Answered)
            self._deliver(follower, outcome, self._shared(follower, spent))
        if settled.next_leader is not None:
            self._orphans.append(settled.next_leader)
            self._hand_over()

    def withdraw(self, agent: str, refused: Refused) -> None:
        """An agent has no use any more for what it asked and what still waits."""
        for job in [job for job in self._questions if job.address.agent == agent]:
            if self._flights.withdraw(self._questions[job], job):
                del self._questions[job]
                self._deliver(job, refused, self.waited(job))
        for job in self._queue.remove_where(lambda job: job.address.agent == agent, self._clock.now_s()):
            self.settle(job, refused, self.waited(job))

    def waited(self, job: Job) -> Durations:
        """What a job has spent that did nothing but wait."""
        waited_ms = (self._clock.now_s() - job.arrived_s) * 1e3
        return Durations(queue_ms=waited_ms, total_ms=waited_ms)

    def _question(self, job: Job) -> Hashable:
        if not self._coalesces:
            return job.key
        picture = blake2b(job.jpeg, digest_size=16).digest(), len(job.jpeg)
        return Question(self._contracts[job.request.model], picture, job.request.min_score)

    def _queued(self, job: Job, in_place_of: Job | None) -> Refused | None:
        """Queue a job. What gives way meanwhile is handed over afterwards: admission counts on a queue at rest."""
        was_busy, self._busy = self._busy, True
        refused = self._enqueue(job, in_place_of)
        self._busy = was_busy
        return refused

    def _hand_over(self) -> None:
        if self._busy:
            return
        self._busy = True
        while self._orphans:
            job = self._orphans.popleft()
            refused = self._queued(job, None)
            if refused is not None:
                self.settle(job, refused, self.waited(job))
        self._busy = False

    def _shared(self, follower: Job, spent: Durations) -> Durations:
        """The durations of an answer that another job was run for: it waited, and saw the end of the run."""
        total_ms = (self._clock.now_s() - follower.arrived_s) * 1e3
        infer_ms = min(spent.infer_ms, total_ms)
        return Durations(queue_ms=total_ms - infer_ms, infer_ms=infer_ms, total_ms=total_ms)


def _end(outcome: Outcome) -> End:
    if isinstance(outcome, Answered) or outcome.refusal in (Refusal.BAD_PAYLOAD, Refusal.STOPPING):
        return End.FOR_ALL
    return End.FAILED if outcome.refusal is Refusal.FAILED else End.FOR_ITSELF
