"""Whether a worker takes a request on, decided the moment it arrives, so that the edge can fall back early."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from pipeline.wire.messages import Refusal


@dataclass(frozen=True, slots=True)
class AdmissionBounds:
    """What the queue may hold."""

    capacity: int
    capacity_bytes: int


@dataclass(frozen=True, slots=True)
class QueueLoad:
    """What the worker holds when a request arrives.

    ``ahead_s`` is the predicted time until the model is free for the newcomer: the rest of the running batch and
    everything that scheduling puts before it and does not give up for it. ``run_s`` is the newcomer's own predicted
    run, None while nothing is known.
    """

    length: int
    held_bytes: int
    ahead_s: float
    run_s: float | None


@dataclass(frozen=True, slots=True)
class Admit:
    """Take the request on."""


@dataclass(frozen=True, slots=True)
class Refuse:
    """Refuse the request at once; ``detail`` is one sentence with the figures."""

    refusal: Refusal
    detail: str


Admission = Admit | Refuse


class AdmissionPolicy(Protocol):
    """Decides on one arriving request of ``request_bytes`` that must be answered by ``deadline_s``."""

    def decide(
        self, load: QueueLoad, bounds: AdmissionBounds, request_bytes: int, deadline_s: float, now_s: float
    ) -> Admission: ...


class CapacityAdmission:
    """Takes whatever there is room for; the baseline that knows no deadlines."""

    def decide(
        self, load: QueueLoad, bounds: AdmissionBounds, request_bytes: int, deadline_s: float, now_s: float
    ) -> Admission:
        del deadline_s, now_s
        if load.length >= bounds.capacity:
            return Refuse(Refusal.QUEUE_FULL, f"{load.length} requests are queued, the limit is {bounds.capacity}")
        if load.held_bytes + request_bytes > bounds.capacity_bytes:
            return Refuse(
                Refusal.QUEUE_FULL,
                f"{load.held_bytes} bytes are queued, {request_bytes} more exceed the limit of {bounds.capacity_bytes}",
            )
        return Admit()


class DeadlineAdmission:
    """Takes what there is room for and what is predicted to be done in time.

    While nothing is known about run times the request is admitted: it is the measurement.
    """

    def decide(
        self, load: QueueLoad, bounds: AdmissionBounds, request_bytes: int, deadline_s: float, now_s: float
    ) -> Admission:
        left_s = deadline_s - now_s
        if left_s <= 0:
            return Refuse(Refusal.INFEASIBLE, "the remaining budget is used up by the way back")
        room = CapacityAdmission().decide(load, bounds, request_bytes, deadline_s, now_s)
        if isinstance(room, Refuse):
            return room
        if load.run_s is not None and load.ahead_s + load.run_s > left_s:
            return Refuse(
                Refusal.INFEASIBLE,
                f"needs {load.ahead_s * 1e3:.1f} ms for what is ahead and {load.run_s * 1e3:.1f} ms to run, "
                f"{left_s * 1e3:.1f} ms are left",
            )
        return Admit()


ADMISSION_KINDS: Mapping[str, Callable[[], AdmissionPolicy]] = {
    "deadline": DeadlineAdmission,
    "capacity": CapacityAdmission,
}
