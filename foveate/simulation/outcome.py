"""What a simulation came to."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from pipeline.metrics.histogram import LogHistogram
from pipeline.results import Origin

_CLOUD = (Origin.CLOUD, Origin.FUSED)


@dataclass(slots=True, eq=False)
class Tally:
    """Counts that grow while a simulation runs; durations in seconds, sizes in bytes."""

    finals: Counter[Origin] = field(default_factory=Counter)
    reasons: dict[Origin, Counter[str]] = field(default_factory=lambda: {origin: Counter() for origin in Origin})
    latency: LogHistogram = field(default_factory=LogHistogram)
    round_trip: LogHistogram = field(default_factory=LogHistogram)
    refused: Counter[str] = field(default_factory=Counter)
    on_time: int = 0
    bytes_up: int = 0
    late_answers: int = 0
    edge_busy_s: float = 0.0
    worker_busy_s: float = 0.0
    worker_queue_s: float = 0.0
    runs: int = 0
    hopeless_runs: int = 0

    def answered(self, origin: Origin, reason: str, latency_s: float, deadline_s: float) -> None:
        """A frame was answered so long after its capture."""
        self.finals[origin] += 1
        self.reasons[origin][reason] += 1
        if origin is not Origin.CARRIED:
            self.latency.add(latency_s * 1000)
            self.on_time += latency_s <= deadline_s


@dataclass(frozen=True, slots=True)
class Outcome:
    """The account of a simulated fleet.

    ``kept`` frames passed the gate. ``hit_ratio`` is the share of them that was analysed and answered on time,
    ``lambda_edge`` the share of the analysed ones that was answered without the cloud; None without any. Utilisations
    are busy time over time, of one small model and of one worker. ``finals`` and ``reasons`` count frames, by
    origin.
    """

    duration_s: float
    kept: int
    finals: Mapping[str, int]
    reasons: Mapping[str, Mapping[str, int]]
    refused: Mapping[str, int]
    hit_ratio: float | None
    lambda_edge: float | None
    latency_ms: Mapping[str, float | None]
    round_trip_ms: Mapping[str, float | None]
    uplink_kbps: float
    late_answers: int
    edge_utilisation: float
    worker_utilisation: float
    worker_queue_ms: float
    asked_per_s: float
    hopeless_runs: int
    events: int


def outcome(tally: Tally, duration_s: float, nodes: int, workers: int, events: int) -> Outcome:
    """What the counts of ``duration_s`` seconds come to."""
    kept = sum(tally.finals.values())
    analysed = kept - tally.finals[Origin.CARRIED]
    cloud = sum(tally.finals[origin] for origin in _CLOUD)
    return Outcome(
        duration_s=duration_s,
        kept=kept,
        finals={origin.value: count for origin, count in sorted(tally.finals.items())},
        reasons={origin.value: dict(why.most_common()) for origin, why in tally.reasons.items() if why},
        refused=dict(tally.refused.most_common()),
        hit_ratio=tally.on_time / kept if kept else None,
        lambda_edge=1 - cloud / analysed if analysed else None,
        latency_ms=_percentiles(tally.latency),
        round_trip_ms=_percentiles(tally.round_trip),
        uplink_kbps=tally.bytes_up * 8 / 1000 / duration_s,
        late_answers=tally.late_answers,
        edge_utilisation=tally.edge_busy_s / duration_s / nodes,
        worker_utilisation=tally.worker_busy_s / duration_s / workers,
        worker_queue_ms=tally.worker_queue_s * 1000 / tally.runs if tally.runs else 0.0,
        asked_per_s=tally.round_trip.count / duration_s,
        hopeless_runs=tally.hopeless_runs,
        events=events,
    )


def _percentiles(histogram: LogHistogram) -> dict[str, float | None]:
    return {f"p{percent}": histogram.percentile(percent) for percent in (50, 95, 99)}
