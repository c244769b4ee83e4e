"""What is known of one camera: counters, windows and the newest picture, for the page, the metrics and the summary."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

import msgspec

from edge_agent.departures import Departures
from edge_agent.looks import Looks
from edge_agent.reuse_counts import ReuseCounts
from edge_agent.status.snapshot import Percentiles
from pipeline.frames import Image
from pipeline.ledger import Ledger
from pipeline.metrics.attainment import Attainment
from pipeline.metrics.histogram import LogHistogram
from pipeline.metrics.windows import HistogramWindow, Rate, SlidingWindow
from pipeline.policies.budgets import SEGMENT_STAGES, Budget
from pipeline.policies.tier_cost import NEAREST_FIRST, Tier
from pipeline.results import CameraState, Origin, Result, Timings

WINDOW_S = 60.0
WINDOW_VALUES = 4096
SEGMENTS = tuple(SEGMENT_STAGES)
LATE_COUNTERS = ("late_answers", "late_answers_used", "late_answers_dropped", "revisions")
"""What became of answers that came after their frame was settled; the first counts them all."""


@dataclass(frozen=True, slots=True, eq=False)
class Picture:
    """An analysed frame and its result, to be drawn when somebody looks."""

    image: Image
    result: Result


class Board:
    """Counters of one camera since the start, and windows over the last minute.

    ``within_ms`` is what its attainment is held against; None is each frame's own deadline.
    """

    def __init__(self, now: datetime, budgets: Iterable[Budget] = (), within_ms: float | None = None) -> None:
        self.ledger = Ledger()
        self.state, self.reason, self.since = CameraState.CONNECTING, "opening the source", now
        self.latency, self.latency_analysed = LogHistogram(), LogHistogram()
        self.on_time = 0
        self.attainment, self._within_ms = Attainment(), within_ms
        self.looks = Looks()
        self.carried: Counter[str] = Counter()
        self.answers_by_tier = dict.fromkeys(map(str, NEAREST_FIRST), 0)
        self.bytes_up, self.departures, self.reuse = 0, Departures(), ReuseCounts()
        self.first_capture_s: float | None = None
        self.last_result_s: float | None = None
        self.jpeg_samples, self.jpeg_sample_bytes = 0, 0
        self.counters: Counter[str] = Counter()
        self.counts: dict[str, int] = {}
        self.picture: Picture | None = None
        self.captured_rate, self.analysed_rate = Rate(10.0), Rate(10.0)
        self._recent = SlidingWindow(WINDOW_S, WINDOW_VALUES)
        self._segments = {name: (Budget(name, 0.0), SlidingWindow(WINDOW_S, WINDOW_VALUES)) for name in SEGMENTS}
        self.budgets = {budget: HistogramWindow(WINDOW_S) for budget in budgets}

    def went(self, state: CameraState, reason: str, now: datetime) -> bool:
        """Note the camera's state; False when nothing changed."""
        if (state, reason) == (self.state, self.reason):
            return False
        if state is not self.state:
            self.since = now
        self.state, self.reason = state, reason
        return True

    def captured(self, at_s: float) -> None:
        """Note that a frame was taken in."""
        self.captured_rate.add(at_s)
        if self.first_capture_s is None:
            self.first_capture_s = at_s

    def jpeg_sample(self, size_bytes: int) -> None:
        """Note what one whole frame would have cost as JPEG."""
        self.jpeg_samples += 1
        self.jpeg_sample_bytes += size_bytes

    def published(self, result: Result, now_s: float, *, accepted: bool = False) -> None:
        """Note one final result; a carried frame may have been ``accepted`` for analysis in vain."""
        total_ms = result.timings_ms.total or 0.0
        self.last_result_s = now_s
        self.latency.add(total_ms)
        self.on_time += result.deadline_met
        self.answers_by_tier[result.tier or Tier.DEVICE.value] += 1
        self.counts = dict(Counter(found.label for found in result.detections))
        if result.origin == Origin.CARRIED.value:
            self.carried[result.reason] += 1
        if accepted or result.origin != Origin.CARRIED.value:
            self._note_attainment(result, total_ms)
        if result.origin != Origin.CARRIED.value:
            self.latency_analysed.add(total_ms)
            self._recent.add(total_ms, now_s)
            self.analysed_rate.add(now_s)
            self._note_parts(result.timings_ms, now_s)

    def late_answer(self, cloud: Timings, now_s: float) -> None:
        """Note what an answer that came too late has taken: the slowest must not be missing where P99 is told."""
        self.counters["late_answers"] += 1
        self._note_parts(cloud, now_s)

    def _note_attainment(self, result: Result, total_ms: float) -> None:
        carried = result.origin == Origin.CARRIED.value
        in_time = result.deadline_met if self._within_ms is None else total_ms <= self._within_ms
        with_cloud = result.origin in (Origin.CLOUD.value, Origin.FUSED.value)
        self.attainment.add(in_time=in_time and not carried, with_cloud=with_cloud)

    def _note_parts(self, timings: Timings, now_s: float) -> None:
        stages_ms = msgspec.structs.asdict(timings)
        windows: list[tuple[Budget, SlidingWindow | HistogramWindow]] = [*self._segments.values()]
        windows += self.budgets.items()
        for budget, window in windows:
            if (spent_ms := budget.spent_ms(stages_ms)) is not None:
                window.add(spent_ms, now_s)

    def recent_latency(self, now_s: float) -> Percentiles:
        """End-to-end latency of analysed frames over the last minute."""
        return _percentiles(self._recent, now_s)

    def segments(self, now_s: float) -> dict[str, Percentiles]:
        """The four latency segments over the last minute."""
        return {name: _percentiles(window, now_s) for name, (_, window) in self._segments.items()}

    @property
    def answered(self) -> int:
        return self.latency.count

    @property
    def hit_ratio(self) -> float | None:
        """Share of all answers that were on time."""
        return self.on_time / self.answered if self.answered else None

    @property
    def lambda_edge(self) -> float | None:
        """Share of the analysed frames that were answered without the cloud."""
        finals = self.ledger.snapshot().finals
        analysed = sum(n for origin, n in finals.items() if origin != Origin.CARRIED.value)
        cloud = finals.get(Origin.CLOUD.value, 0) + finals.get(Origin.FUSED.value, 0)
        return 1.0 - cloud / analysed if analysed else None


def _percentiles(window: SlidingWindow, now_s: float) -> Percentiles:
    p50, p99 = window.percentiles(now_s, [50, 99])
    return Percentiles(p50, p99, window.count(now_s))
