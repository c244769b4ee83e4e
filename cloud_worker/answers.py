"""The shortest way to an answer for each job: from the cache, along with an identical one, or by the model."""

import asyncio
from collections import deque
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, replace
from hashlib import blake2b

from cloud_worker.jobs import Job
from cloud_worker.outcomes import GAVE_WAY, Answered, Deliver, Outcome, Refused
from cloud_worker.queue import RequestQueue
from cloud_worker.replies import Durations
from pipeline.detections import Detections
from pipeline.policies.admission import AdmissionBounds
from pipeline.policies.coalescing import Coalescing, End, Role
from pipeline.policies.result_cache import CacheGain, ResultCache
from pipeline.policies.room import Held, makes_room
from pipeline.timing import Clock
from pipeline.wire.messages import Refusal, ReuseFigures

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


@dataclass(frozen=True, slots=True)
class Reuse:
    """What may be answered without a run. ``contracts`` are those of the models by name; ``most_followers`` of 0 runs
    identical requests each by itself.
    """

    contracts: Mapping[str, Hashable]
    most_followers: int
    cache: ResultCache[Question, Detections]


class Answers:
    """Takes each job on once and delivers its one outcome. Runs on the event loop, and never waits.

    A job that asks what another asks that is queued or in the model follows it. What befalls one alone (its time is up,
    it gives way) hands the question over to the next, which is queued anew with its own deadline.
    """

    def __init__(self, reuse: Reuse, queue: RequestQueue, enqueue: Enqueue, clock: Clock, deliver: Deliver) -> None:
        self._contracts = reuse.contracts
        self._most_followers = reuse.most_followers
        self._coalesces = reuse.most_followers > 0
        self._flights: Coalescing[Hashable, Job] = Coalescing(reuse.most_followers)
        self._cache = reuse.cache
        self._gain = CacheGain()
        self._queue = queue
        self._enqueue = enqueue
        self._clock = clock
        self._deliver = deliver
        self._questions: dict[Job, Question | None] = {}
        self._keys: set[Hashable] = set()
        self._orphans: deque[Job] = deque()
        self._settled = asyncio.Event()
        self._busy = False
        self._joined = 0

    def figures(self) -> ReuseFigures:
        """What was answered without a run, as announced."""
        gain = self._gain
        return ReuseFigures(
            joined=self._joined,
            hits=gain.hits,
            misses=gain.misses,
            hit_ratio=gain.ratio,
            hit_ms=_ms(gain.mean_hit_s),
            miss_ms=_ms(gain.mean_miss_s),
            mean_ms=_ms(gain.mean_s),
            held_bytes=self._cache.held_bytes,
        )

    def holds(self, key: Hashable) -> bool:
        """Whether a job with this key has been taken on and has no outcome yet."""
        return key in self._keys

    def admit(self, job: Job) -> None:
        """Take a job on, or refuse it. Others may give way to it, and have their outcomes then."""
        question = self._question(job)
        if question is not None and (known := self._cache.get(question, self._clock.now_s())) is not None:
            took_s = self._clock.now_s() - job.arrived_s
            self._gain.hit(took_s)
            self._deliver(job, Answered(known, 0, "cache"), Durations(total_ms=took_s * 1e3))
            return
        key = self._key(job, question)
        leader = self._flights.leader(key)
        under_way = leader is not None and not self._queue.holds(leader)
        role = self._flights.role(key, job.deadline_s, under_way=under_way)
        if role is Role.NO_ROOM and self._makes_room(job):
            role = self._flights.role(key, job.deadline_s, under_way=under_way)
        if leader is not None:
            job = replace(job, jpeg=leader.jpeg)  # the same bytes, held once
        refused = NO_ROOM if role is Role.NO_ROOM else None
        if role in (Role.LEADS, Role.TAKES_OVER):
            refused = self._queued(job, leader if role is Role.TAKES_OVER else None)
        if refused is None:
            self._flights.enter(key, job, job.deadline_s, role)
            self._questions[job] = question
            self._keys.add(job.key)
        else:
            self._deliver(job, refused, self.waited(job))
        self._hand_over()

    def settle(self, job: Job, outcome: Outcome, spent: Durations) -> None:
        """A job that was queued has its outcome; those that asked the same share it or go on without it."""
        question = self._left(job)
        settled = self._flights.ended(self._key(job, question), _end(outcome))
        self._deliver(job, outcome, spent)
        self._settled.set()
        shared = outcome
        if isinstance(outcome, Answered):
            if question is not None:
                self._cache.put(question, outcome.found, _size_bytes(outcome.found), self._clock.now_s())
            self._gain.miss(spent.total_ms / 1e3)
            self._joined += len(settled.with_it)
            shared = replace(outcome, source="joined")
        for follower in settled.with_it:
            self._left(follower)
            shared_spent = self._shared(follower, spent)
            if isinstance(outcome, Answered):  # it was not in the cache either, and waited for the run
                self._gain.miss(shared_spent.total_ms / 1e3)
            self._deliver(follower, shared, shared_spent)
        if settled.next_leader is not None:
            self._orphans.append(settled.next_leader)
            self._hand_over()

    def withdraw(self, unwanted: Callable[[Job], bool], refused: Refused) -> None:
        """Refuse of what waits whatever is of no use any more. What is in the model goes on."""
        for job in [job for job in self._questions if unwanted(job)]:
            if self._flights.withdraw(self._key(job, self._questions[job]), job):
                self._left(job)
                self._deliver(job, refused, self.waited(job))
        for job in self._queue.remove_where(unwanted, self._clock.now_s()):
            self.settle(job, refused, self.waited(job))

    async def wait_settled(self) -> None:
        """Return at a moment at which every job that was taken on has its outcome."""
        while self._questions:
            self._settled.clear()
            await self._settled.wait()

    def waited(self, job: Job) -> Durations:
        """What a job has spent that did nothing but wait."""
        waited_ms = (self._clock.now_s() - job.arrived_s) * 1e3
        return Durations(queue_ms=waited_ms, total_ms=waited_ms)

    def _left(self, job: Job) -> Question | None:
        """Forget a job that has its outcome; what it asked."""
        self._keys.discard(job.key)
        return self._questions.pop(job)

    def _question(self, job: Job) -> Question | None:
        """What a job asks; None where nobody would compare it with anything."""
        if not self._coalesces and not self._cache.keeps:
            return None
        picture = blake2b(job.jpeg, digest_size=16).digest(), len(job.jpeg)
        return Question(self._contracts[job.request.model], picture, job.request.min_score)

    def _key(self, job: Job, question: Question | None) -> Hashable:
        return question if self._coalesces else job.key

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

    def _makes_room(self, newcomer: Job) -> bool:
        """Whether one more may follow because somebody gave way, of an agent that follows more often."""
        followers = self._flights.followers()
        held = [Held(each.request.agent, 0) for _, each in followers]
        bounds = AdmissionBounds(self._most_followers, capacity_bytes=1)
        gone = [followers[place] for place in makes_room(held, Held(newcomer.request.agent, 0), bounds) or ()]
        for key, job in gone:
            self._flights.withdraw(key, job)
            self._left(job)
            self._deliver(job, GAVE_WAY, self.waited(job))
        return bool(gone)

    def _shared(self, follower: Job, spent: Durations) -> Durations:
        """The durations of an answer that another job was run for: it waited, and saw the end of the run."""
        total_ms = (self._clock.now_s() - follower.arrived_s) * 1e3
        infer_ms = min(spent.infer_ms, total_ms)
        return Durations(queue_ms=total_ms - infer_ms, infer_ms=infer_ms, total_ms=total_ms)


def _end(outcome: Outcome) -> End:
    if isinstance(outcome, Answered) or outcome.refusal in (Refusal.BAD_PAYLOAD, Refusal.STOPPING):
        return End.FOR_ALL
    return End.FAILED if outcome.refusal is Refusal.FAILED else End.FOR_ITSELF


def _size_bytes(found: Detections) -> int:
    return sum(array.nbytes for array in (found.xyxy, found.score, found.label, found.source, found.track_id))


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1e3
