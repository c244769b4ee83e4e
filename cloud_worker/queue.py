"""The requests that wait, most urgent first. Plain data: no event loop, no clock."""

from collections import Counter
from collections.abc import Callable, Container
from dataclasses import dataclass
from itertools import takewhile

from cloud_worker.jobs import Job
from pipeline.frames import Image
from pipeline.metrics.little import QueueFlow, QueueMeter
from pipeline.policies.admission import AdmissionBounds
from pipeline.policies.agenda import Agenda
from pipeline.policies.room import Held, makes_room
from pipeline.policies.schedule import Drop, Scheduling, Service, Ticket, WeightedEarliestDeadline


@dataclass(slots=True, eq=False)
class _Entry:
    job: Job
    ticket: Ticket
    decoding: bool = False
    image: Image | None = None


@dataclass(frozen=True, slots=True)
class ReadyGroup:
    """Decoded jobs of one kind, most urgent first; ``others_wait``: decoded jobs of another kind are there too."""

    jobs: tuple[Job, ...]
    others_wait: bool


@dataclass(frozen=True, slots=True)
class Prospect:
    """What a newcomer would meet: ``ahead_s`` until its turn, and the jobs that are given up, for whatever reason."""

    ahead_s: float
    drops: tuple[tuple[Job, Drop], ...]


class RequestQueue:
    """Jobs in the order of a scheduling policy; each camera of each agent is a flow of its own.

    A job is added encoded, decoded while it waits, and taken decoded. Bounded by the admission policy, which sees
    ``len`` and ``held_bytes``; what has been taken is no longer held. Keys are unique: duplicates never get here.
    """

    def __init__(self, scheduling: Scheduling | None = None) -> None:
        self._agenda = Agenda(scheduling or WeightedEarliestDeadline())
        self._entries: dict[int, _Entry] = {}
        self._by_key: dict[tuple[str, str, int, int], _Entry] = {}
        self._added = 0
        self._held_bytes = 0
        self._meter = QueueMeter()

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def held_bytes(self) -> int:
        return self._held_bytes

    @property
    def earliest_deadline_s(self) -> float | None:
        return min((entry.job.deadline_s for entry in self._entries.values()), default=None)

    def flow(self, now_s: float) -> QueueFlow:
        """What has gone through lately, for Little's law."""
        return self._meter.flow(now_s)

    def add(self, job: Job) -> None:
        """Put an admitted job in. Raises ValueError when its key is already queued."""
        if job.key in self._by_key:
            raise ValueError(f"request {job.key} is already queued")
        entry = _Entry(job, self._ticket(job))
        self._added += 1
        self._agenda.add(entry.ticket)
        self._entries[entry.ticket.number] = self._by_key[job.key] = entry
        self._held_bytes += job.held_bytes
        self._meter.arrived(job.arrived_s)

    def holds(self, job: Job) -> bool:
        """Whether a job waits here."""
        entry = self._by_key.get(job.key)
        return entry is not None and entry.job is job

    def replace(self, old: Job, new: Job, now_s: float) -> None:
        """Let a job wait in the place of another that has the same picture, decoded or not. Raises KeyError."""
        entry = self._by_key[old.key]
        image = entry.image
        self._take_out(entry, now_s)
        self.add(new)
        if image is not None:
            self.decoded(new, image)

    def prospect(self, job: Job, service: Service, now_s: float) -> Prospect:
        """What would become of the queue with a newcomer; nothing is taken out."""
        ticket = self._ticket(job)
        drops = self._agenda.drops(service, now_s, ticket)
        own = next((drop for drop in drops if drop.ticket is ticket), None)
        others = {drop.ticket.number: drop for drop in drops if drop is not own}
        ahead_s = self._ahead_s(ticket, others, service) if own is None else own.ahead_s
        return Prospect(ahead_s, tuple((self._entries[number].job, drop) for number, drop in others.items()))

    def work_s(self, service: Service) -> float:
        """How long it takes until all that waits is done, and what runs."""
        counts = Counter(entry.ticket.kind for entry in self._entries.values())
        return service.free_s + sum(service.together_s(kind, count) for kind, count in counts.items())

    def room_for(self, job: Job, bounds: AdmissionBounds) -> list[Job]:
        """What gives way where the queue has no room for a job; nothing where it has no right to any, or needs none."""
        entries = self._ordered()
        held = [Held(entry.job.request.agent, entry.job.held_bytes) for entry in entries]
        gone = makes_room(held, Held(job.request.agent, job.held_bytes), bounds)
        return [entries[place].job for place in gone or ()]

    def next_encoded(self) -> Job | None:
        """The most urgent job that nobody decodes yet; it now counts as being decoded."""
        for entry in self._ordered():
            if entry.image is None and not entry.decoding:
                entry.decoding = True
                return entry.job
        return None

    def decoded(self, job: Job, image: Image) -> bool:
        """Hand in a job's picture; False when the job has left meanwhile."""
        if not self.holds(job):
            return False
        self._by_key[job.key].image = image
        return True

    def remove(self, job: Job, now_s: float) -> bool:
        """Take a job out; False when it has left already."""
        if not self.holds(job):
            return False
        self._take_out(self._by_key[job.key], now_s)
        return True

    def remove_where(self, doomed: Callable[[Job], bool], now_s: float) -> list[Job]:
        """Take out and return the jobs that ``doomed`` names."""
        leaving = [entry for entry in self._ordered() if doomed(entry.job)]
        for entry in leaving:
            self._take_out(entry, now_s)
        return [entry.job for entry in leaving]

    def drops(self, service: Service, now_s: float) -> list[tuple[Job, Drop]]:
        """What the policy gives up now, and why; nothing is taken out."""
        return [(self._entries[drop.ticket.number].job, drop) for drop in self._agenda.drops(service, now_s)]

    def ready_group(self) -> ReadyGroup | None:
        """The kind of the most urgent decoded job, and what else is decoded of it; None when nothing is."""
        ready = [entry for entry in self._ordered() if entry.image is not None]
        if not ready:
            return None
        jobs = tuple(entry.job for entry in ready if entry.ticket.kind == ready[0].ticket.kind)
        return ReadyGroup(jobs, others_wait=len(jobs) < len(ready))

    def take(self, jobs: tuple[Job, ...], now_s: float) -> list[Image]:
        """Take decoded jobs out; their pictures in the same order. Raises KeyError for one that is not there."""
        entries = [self._by_key[job.key] for job in jobs]
        images = [entry.image for entry in entries if entry.image is not None]
        if len(images) < len(jobs):
            raise KeyError("a job that is not decoded cannot be taken")
        for entry in entries:
            self._take_out(entry, now_s)
        return images

    def served(self, job: Job, service_s: float, now_s: float) -> None:
        """A job has had so much of the model's time; its flow has had its turn."""
        self._agenda.served(job.flow, service_s, now_s)

    def _ahead_s(self, newcomer: Ticket, leaving: Container[int], service: Service) -> float:
        before = takewhile(lambda ticket: ticket is not newcomer, self._agenda.ordered_with(newcomer))
        counts = Counter(ticket.kind for ticket in before if ticket.number not in leaving)
        return service.free_s + sum(service.together_s(kind, count) for kind, count in counts.items())

    def _ticket(self, job: Job) -> Ticket:
        model, bucket = job.kind
        kind = model, bucket.width, bucket.height  # plain values: the policy looks them up often
        return Ticket(self._added, job.flow, kind, job.arrived_s, job.deadline_s, job.request.weight)

    def _ordered(self) -> list[_Entry]:
        return [self._entries[ticket.number] for ticket in self._agenda.ordered()]

    def _take_out(self, entry: _Entry, now_s: float) -> None:
        self._agenda.remove(entry.ticket)
        del self._entries[entry.ticket.number]
        del self._by_key[entry.job.key]
        self._held_bytes -= entry.job.held_bytes
        self._meter.left(now_s, now_s - entry.job.arrived_s)
