"""How much work a run did, so that two runs can be held against each other."""

from dataclasses import dataclass

import msgspec

from foveate.bench.accuracy import Record
from pipeline.results import Origin


@dataclass(frozen=True, slots=True)
class Work:
    """What was done for one frame."""

    analysed: bool
    asked: bool
    answered: bool


NO_WORK = Work(analysed=False, asked=False, answered=False)


class Counts(msgspec.Struct, frozen=True):
    """What a run over a clip came to: frames in all, by how far they went, bytes of the pictures sent up."""

    frames: int
    analysed: int
    asked: int
    answered: int
    bytes_up: int


class SerialRun(msgspec.Struct, frozen=True):
    """A run of the serial loop: its work, and the seconds from before the first read to after the last result."""

    counts: Counts
    duration_s: float

    @property
    def frames_per_s(self) -> float:
        """Frames answered per second."""
        return self.counts.frames / self.duration_s


def work_of(record: Record) -> dict[int, Work]:
    """What was done for each frame of a record."""
    return {
        seq: Work(
            analysed=result.origin != Origin.CARRIED.value,
            asked=result.bytes_up > 0,
            answered=result.models.cloud is not None,
        )
        for seq, result in record.items()
    }


def counts_of(record: Record) -> Counts:
    """The work of a record in numbers."""
    work = work_of(record).values()
    return Counts(
        frames=len(record),
        analysed=sum(w.analysed for w in work),
        asked=sum(w.asked for w in work),
        answered=sum(w.answered for w in work),
        bytes_up=sum(result.bytes_up for result in record.values()),
    )
