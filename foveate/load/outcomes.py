"""What became of each request, and the sum of it."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from foveate.load.arrivals import Arrival

LATE_SEND_S = 0.005
"""A request that goes out so long after its moment is counted: the generator, or the way out, was behind."""


class End(StrEnum):
    """How a request ended. ``ANSWERED`` is in time or late, by its own deadline."""

    ANSWERED = "answered"
    REFUSED = "refused"
    UNANSWERED = "unanswered"  # given up by its sender: neither an answer nor a refusal has come
    NOT_SENT = "not_sent"  # the session did not take it, or its time was up before it could go


@dataclass(frozen=True, slots=True)
class Served:
    """What a reply says of the server's part, in ms; ``batch_size`` is 0 where it did not run for it."""

    total_ms: float = 0.0
    queue_ms: float = 0.0
    batch_wait_ms: float = 0.0
    infer_ms: float = 0.0
    batch_size: int = 0
    source: str = "run"
    server: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """One request and its end. ``sent_s`` and ``ended_s`` count like ``arrival.at_s``, from the beginning of the run.

    ``reason`` says why it was refused or not sent. ``replies`` counts all that came for it; more than one is a fault.
    """

    arrival: Arrival
    end: End
    sent_s: float | None = None
    ended_s: float | None = None
    reason: str = ""
    served: Served | None = None
    replies: int = 0

    @property
    def in_time(self) -> bool:
        """Whether it was answered, counted from its moment, within its deadline."""
        if self.end is not End.ANSWERED or self.ended_s is None:
            return False
        return self.ended_s - self.arrival.at_s <= self.arrival.deadline_s

    @property
    def round_trip_ms(self) -> float | None:
        """From its moment to its answer; None without one."""
        if self.end is not End.ANSWERED or self.ended_s is None:
            return None
        return (self.ended_s - self.arrival.at_s) * 1e3


@dataclass(frozen=True, slots=True)
class Percentiles:
    """Of the answers, in ms: the least values that 50, 95 and 99 per cent do not exceed."""

    p50_ms: float
    p95_ms: float
    p99_ms: float

    @classmethod
    def of(cls, values_ms: Sequence[float]) -> "Percentiles | None":
        """None without values."""
        if not values_ms:
            return None
        p50, p95, p99 = np.percentile(values_ms, (50, 95, 99), method="inverted_cdf").tolist()
        return cls(p50, p95, p99)


@dataclass(frozen=True, slots=True)
class Summary:
    """A run in figures. Always: offered = sent + not sent, sent = in time + late + refused + unanswered.

    ``segments``: percentiles of the answers' ``round_trip`` and of its parts: ``network`` (all outside the server's own
    total), ``queue`` (without the wait for company), ``batch_wait`` and ``infer``. ``batch_sizes``, ``sources`` and
    ``servers`` count answers. ``late_sends`` went out more than 5 ms after their moment, the worst by
    ``worst_send_lag_ms``: the generator did not keep up, or the way out did not take them.
    """

    duration_s: float
    offered: int
    sent: int
    in_time: int
    late: int
    refused: Mapping[str, int]
    unanswered: int
    not_sent: Mapping[str, int]
    answered_twice: int
    late_sends: int
    worst_send_lag_ms: float
    segments: Mapping[str, Percentiles | None]
    batch_sizes: Mapping[int, int]
    sources: Mapping[str, int]
    servers: Mapping[str, int]

    @property
    def goodput_per_s(self) -> float:
        """Answers in time per second of offered load."""
        return self.in_time / self.duration_s

    @property
    def offered_per_s(self) -> float:
        return self.offered / self.duration_s

    @property
    def missed(self) -> int:
        """Requests without an answer in time, whatever the reason, those that were never sent among them."""
        return self.offered - self.in_time

    @property
    def miss_share(self) -> float:
        return self.missed / self.offered if self.offered else 0.0

    @property
    def kept_up(self) -> bool:
        """Whether at most 1 % went out late or not at all; otherwise the run says more of the generator, and of the way
        out, than of the server.
        """
        return self.late_sends + sum(self.not_sent.values()) <= 0.01 * self.offered


def summarise(outcomes: Iterable[Outcome], duration_s: float) -> Summary:
    """Add up the outcomes of one run that offered load for ``duration_s``. Raises ValueError where that is not above 0.

    What comes without ``served`` has no segments but its round trip.
    """
    if not duration_s > 0:
        raise ValueError(f"a run of {duration_s} s has no rates")
    every = list(outcomes)
    answered = [each for each in every if each.end is End.ANSWERED]
    sent = [each for each in every if each.end is not End.NOT_SENT]
    in_time = sum(each.in_time for each in every)
    lags_s = [each.sent_s - each.arrival.at_s for each in sent if each.sent_s is not None]
    served = [each.served for each in answered if each.served is not None]
    return Summary(
        duration_s=duration_s,
        offered=len(every),
        sent=len(sent),
        in_time=in_time,
        late=len(answered) - in_time,
        refused=_by_reason(every, End.REFUSED),
        unanswered=sum(each.end is End.UNANSWERED for each in every),
        not_sent=_by_reason(every, End.NOT_SENT),
        answered_twice=sum(each.replies > 1 for each in every),
        late_sends=sum(lag_s > LATE_SEND_S for lag_s in lags_s),
        worst_send_lag_ms=max(lags_s, default=0.0) * 1e3,
        segments=_segments(answered),
        batch_sizes=dict(sorted(Counter(each.batch_size for each in served).items())),
        sources=dict(Counter(each.source for each in served)),
        servers=dict(sorted(Counter(each.server for each in served).items())),
    )


def _by_reason(outcomes: Iterable[Outcome], end: End) -> dict[str, int]:
    return dict(sorted(Counter(each.reason for each in outcomes if each.end is end).items()))


def _segments(answered: Sequence[Outcome]) -> dict[str, Percentiles | None]:
    parts: dict[str, list[float]] = {name: [] for name in ("round_trip", "network", "queue", "batch_wait", "infer")}
    for each in answered:
        round_trip_ms, served = each.round_trip_ms, each.served
        if round_trip_ms is None:
            continue
        parts["round_trip"].append(round_trip_ms)
        if served is not None:
            # The way begins when it is sent; what a late send adds is in the round trip alone.
            since_sent_ms = ((each.ended_s or 0.0) - (each.sent_s or 0.0)) * 1e3
            parts["network"].append(max(0.0, since_sent_ms - served.total_ms))
            parts["queue"].append(max(0.0, served.queue_ms - served.batch_wait_ms))
            parts["batch_wait"].append(served.batch_wait_ms)
            parts["infer"].append(served.infer_ms)
    return {name: Percentiles.of(values) for name, values in parts.items()}
