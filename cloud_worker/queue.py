"""The requests that wait, most urgent first. Plain data: no event loop, no clock."""

from bisect import insort
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from cloud_worker.jobs import Job
from pipeline.frames import Image
from pipeline.geometry import Size


@dataclass(slots=True, eq=False)
class _Entry:
    job: Job
    rank: tuple[float, float, int]
    decoding: bool = False
    image: Image | None = None


@dataclass(frozen=True, slots=True)
class ReadyGroup:
    """Decoded jobs of one kind, most urgent first; ``others_wait``: decoded jobs of another kind are there too."""

    jobs: tuple[Job, ...]
    others_wait: bool


class RequestQueue:
    """Earliest deadline first; among equal deadlines the higher weight, then the earlier arrival.

    A job is added encoded, decoded while it waits, and taken decoded. Bounded by the admission policy, which sees
    ``len`` and ``held_bytes``; what has been taken is no longer held. Keys are unique: duplicates never get here.
    """

    def __init__(self) -> None:
        self._order: list[_Entry] = []
        self._by_key: dict[tuple[str, str, int, int], _Entry] = {}
        self._added = 0
        self._held_bytes = 0

    def __len__(self) -> int:
        return len(self._order)

    @property
    def held_bytes(self) -> int:
        return self._held_bytes

    @property
    def earliest_deadline_s(self) -> float | None:
        return self._order[0].job.deadline_s if self._order else None

    def add(self, job: Job) -> None:
        """Put an admitted job in. Raises ValueError when its key is already queued."""
        if job.key in self._by_key:
            raise ValueError(f"request {job.key} is already queued")
        self._added += 1
        entry = _Entry(job, (job.deadline_s, -job.request.weight, self._added))
        insort(self._order, entry, key=lambda e: e.rank)
        self._by_key[job.key] = entry
        self._held_bytes += job.held_bytes

    def next_encoded(self) -> Job | None:
        """The most urgent job that nobody decodes yet; it now counts as being decoded."""
        for entry in self._order:
            if entry.image is None and not entry.decoding:
                entry.decoding = True
                return entry.job
        return None

    def decoded(self, job: Job, image: Image) -> bool:
        """Hand in a job's picture; False when the job has left meanwhile."""
        entry = self._by_key.get(job.key)
        if entry is None or entry.job is not job:
            return False
        entry.image = image
        return True

    def remove(self, job: Job) -> bool:
        """Take a job out; False when it has left already."""
        entry = self._by_key.get(job.key)
        if entry is None or entry.job is not job:
            return False
        self._take_out(entry)
        return True

    def remove_where(self, doomed: Callable[[Job], bool]) -> list[Job]:
        """Take out and return the jobs that ``doomed`` names."""
        leaving = [entry for entry in self._order if doomed(entry.job)]
        for entry in leaving:
            self._take_out(entry)
        return [entry.job for entry in leaving]

    def ready_group(self) -> ReadyGroup | None:
        """The kind of the most urgent decoded job, and what else is decoded of it; None when nothing is."""
        ready = [entry.job for entry in self._order if entry.image is not None]
        if not ready:
            return None
        jobs = tuple(job for job in ready if job.kind == ready[0].kind)
        return ReadyGroup(jobs, others_wait=len(jobs) < len(ready))

    def take(self, jobs: tuple[Job, ...]) -> list[Image]:
        """Take decoded jobs out; their pictures in the same order. Raises KeyError for one that is not there."""
        entries = [self._by_key[job.key] for job in jobs]
        images = [entry.image for entry in entries if entry.image is not None]
        if len(images) < len(jobs):
            raise KeyError("a job that is not decoded cannot be taken")
        for entry in entries:
            self._take_out(entry)
        return images

    def ahead_of(self, deadline_s: float) -> Counter[tuple[str, Size]]:
        """How many jobs of each kind would run before a newcomer with this deadline."""
        return Counter(entry.job.kind for entry in self._order if entry.job.deadline_s <= deadline_s)

    def _take_out(self, entry: _Entry) -> None:
        self._order.remove(entry)
        del self._by_key[entry.job.key]
        self._held_bytes -= entry.job.held_bytes
