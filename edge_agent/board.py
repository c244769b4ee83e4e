"""What is known of one camera: counters, windows and the newest picture, for the page, the metrics and the summary."""

from collections import Counter
from dataclasses import dataclass
from datetime import datetime

from edge_agent.status.snapshot import Percentiles
from pipeline.frames import Image
from pipeline.ledger import Ledger
from pipeline.metrics.histogram import LogHistogram
from pipeline.metrics.windows import Rate, SlidingWindow
from pipeline.results import CameraState, Origin, Result

WINDOW_S = 60.0
WINDOW_VALUES = 4096
SEGMENTS = ("network", "queue", "edge", "cloud")


@dataclass(frozen=True, slots=True, eq=False)
class Picture:
    """An analysed frame and its result, to be drawn when somebody looks."""

    image: Image
    result: Result


class Board:
    """Counters of one camera since the start, and windows over the last minute."""

    def __init__(self, now: datetime) -> None:
        self.ledger = Ledger()
        self.state, self.reason, self.since = CameraState.CONNECTING, "opening the source", now
        self.latency, self.latency_analysed = LogHistogram(), LogHistogram()
        self.on_time = 0
        self.bytes_up = 0
        self.first_capture_s: float | None = None
        self.last_result_s: float | None = None
        self.jpeg_samples, self.jpeg_sample_bytes = 0, 0
        self.counters: Counter[str] = Counter()
        self.counts: dict[str, int] = {}
        self.picture: Picture | None = None
        self.captured_rate, self.analysed_rate = Rate(10.0), Rate(10.0)
        self._recent = SlidingWindow(WINDOW_S, WINDOW_VALUES)
        self._segments = {name: SlidingWindow(WINDOW_S, WINDOW_VALUES) for name in SEGMENTS}

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

    def published(self, result: Result, now_s: float) -> None:
        """Note one final result."""
        total_ms = result.timings_ms.total or 0.0
        self.last_result_s = now_s
        self.latency.add(total_ms)
        self.on_time += result.deadline_met
        self.counts = dict(Counter(found.label for found in result.detections))
        if result.origin != Origin.CARRIED.value:
            self.latency_analysed.add(total_ms)
            self._recent.add(total_ms, now_s)
            self.analysed_rate.add(now_s)
            self._note_segments(result, now_s)

    def _note_segments(self, result: Result, now_s: float) -> None:
        t = result.timings_ms
        edge = [part for part in (t.gate, t.edge, t.encode) if part is not None]
        for name, value in (("network", t.network), ("queue", t.cloud_queue), ("cloud", t.cloud_infer)):
            if value is not None:
                self._segments[name].add(value, now_s)
        if edge:
            self._segments["edge"].add(sum(edge), now_s)

    def recent_latency(self, now_s: float) -> Percentiles:
        """End-to-end latency of analysed frames over the last minute."""
        return _percentiles(self._recent, now_s)

    def segments(self, now_s: float) -> dict[str, Percentiles]:
        """The four latency segments over the last minute."""
        return {name: _percentiles(window, now_s) for name, window in self._segments.items()}

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
