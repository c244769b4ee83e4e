"""What the records of a system say, over all seeds: scores with intervals, latency, hits, bytes."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from foveate.bench.bootstrap import SEGMENT_S, Counts, Interval, f1, f1_interval, paired_interval
from foveate.bench.report_page.records import FrameRecord, Run, RunHead
from pipeline.results import Origin

Array = NDArray[np.float64]
NAN = float("nan")


@dataclass(frozen=True, eq=False)
class System:
    """One system with one setting on one playlist over one network: its runs, one per seed."""

    runs: tuple[Run, ...]

    @property
    def head(self) -> RunHead:
        """Of the first run; system, setting and what was played are those of all."""
        return self.runs[0].head

    @cached_property
    def frames(self) -> tuple[FrameRecord, ...]:
        return tuple(frame for run in self.runs for frame in run.frames)

    def segments(self, score: str = "slo", clip: str | None = None) -> dict[int, Counts]:
        """Right, wrong and missed (3,) by segment of 5 s, the seeds together; of one clip where it is named."""
        out: defaultdict[int, Counts] = defaultdict(lambda: np.zeros(3))
        for frame in self.frames:
            if clip is None or frame.clip == clip:
                out[int(frame.at_s / SEGMENT_S)] += getattr(frame.scores, score)
        return dict(out)

    def f1(self, score: str = "slo", clip: str | None = None) -> float:
        """Pooled F1; NaN where the clip is not in the playlist."""
        segments = self.segments(score, clip)
        return float(f1(sum(segments.values(), np.zeros(3)))) if segments else NAN

    @cached_property
    def sf1(self) -> Interval:
        """Streaming F1 by the deadline, IoU 0.5."""
        return f1_interval(self.segments())

    def less(self, other: "System") -> Interval:
        """Streaming F1 less the other's, segment by segment."""
        return paired_interval(self.segments(), other.segments())

    @cached_property
    def by_seed(self) -> tuple[float, float]:
        """The least and the most streaming F1 of a seed."""
        each = [System((run,)).f1() for run in self.runs]
        return min(each), max(each)

    @cached_property
    def latency_ms(self) -> Array:
        """Sorted, of the frames that were looked at and answered: from capture to the first answer."""
        return _sorted_ms(f.latency_s for f in self.frames if f.origin != Origin.CARRIED.value)

    @cached_property
    def corrected_ms(self) -> Array:
        """Sorted, of the frames whose answer was published anew: from capture to the last one."""
        return _sorted_ms(f.corrected_s for f in self.frames if f.corrected_s != f.latency_s)

    @cached_property
    def stale_ms(self) -> Array:
        """Sorted, when a frame is due: the age of what the larger model said last."""
        return _sorted_ms(f.stale_s for f in self.frames)

    def hits(self, *, cloud: bool) -> float:
        """The share of all captured frames that was answered in time, by the edge alone or with the cloud's part."""
        return sum(self._in_time(frame) and frame.cloud is cloud for frame in self.frames) / len(self.frames)

    @property
    def goodput(self) -> float:
        """Answers in time per second."""
        return sum(map(self._in_time, self.frames)) / self._seconds

    @property
    def kbps(self) -> float:
        """Kilobits per second at the socket, over the whole playlist."""
        return sum(run.head.uplink_bytes for run in self.runs) * 8 / 1000 / self._seconds

    @property
    def peak_kbps(self) -> float:
        """The most kilobits in any whole second of any seed, counted when they are sent."""
        most = 0.0
        for run in self.runs:
            seconds: defaultdict[int, int] = defaultdict(int)
            for frame in run.frames:
                if frame.sent_at_s is not None:
                    seconds[int(frame.sent_at_s)] += frame.sent_bytes
            most = max(most, max(seconds.values(), default=0) * 8 / 1000)
        return most

    @property
    def share_of_jpeg(self) -> float:
        return sum(run.head.uplink_bytes for run in self.runs) / sum(run.head.jpeg_bytes for run in self.runs)

    @property
    def share_of_h264(self) -> float:
        return sum(run.head.uplink_bytes for run in self.runs) / sum(run.head.h264_bytes for run in self.runs)

    @property
    def count_accuracy(self) -> float:
        """Mean of 1 - |found - true| / max(found, true); 1 where both are 0."""
        return float(np.mean([1 - abs(f.found - f.true) / max(f.found, f.true, 1) for f in self.frames]))

    @property
    def model_load(self) -> tuple[float, float]:
        """Seconds of the small and of the larger model per second of video."""
        spent = sum(run.head.edge_s for run in self.runs), sum(run.head.cloud_s for run in self.runs)
        return spent[0] / self._seconds, spent[1] / self._seconds

    @property
    def _seconds(self) -> float:
        return sum(run.head.duration_s for run in self.runs)

    def _in_time(self, frame: FrameRecord) -> bool:
        return frame.latency_s is not None and frame.latency_s <= self.head.slo_s + 1e-6


def _sorted_ms(values_s: Iterable[float | None]) -> Array:
    return np.sort(np.array([1000 * value for value in values_s if value is not None], np.float64))


def quantile(values: Array, share: float) -> float:
    """NaN of nothing."""
    return float(np.quantile(values, share)) if len(values) else NAN


def systems(runs: Iterable[Run]) -> list[System]:
    """Runs that differ in the seed alone, together; in the order of name and rate."""
    groups: defaultdict[tuple[str, ...], list[Run]] = defaultdict(list)
    for run in runs:
        head = run.head
        groups[head.group, head.system, head.setting, head.playlist, head.network].append(run)
    found = [System(tuple(sorted(group, key=lambda run: run.head.seed))) for group in groups.values()]
    return sorted(found, key=lambda system: (system.head.system, system.head.rate, system.head.setting))


def value_at(curve: Sequence[tuple[float, float]], x: float) -> float | None:
    """A curve's value between its points, which need no order; None outside of them."""
    points = sorted(curve)
    if not points or not points[0][0] <= x <= points[-1][0]:
        return None
    return float(np.interp(x, [px for px, _ in points], [py for _, py in points]))


def least_cost(curve: Sequence[tuple[float, float]], value: float) -> float | None:
    """The least x, between two points in the order of x or at one, at which a curve (x, y) reaches a value."""
    points = sorted(curve)
    for (x0, y0), (x1, y1) in pairwise(points):
        if y0 >= value:
            return x0
        if y1 >= value:
            return x0 + (x1 - x0) * (value - y0) / (y1 - y0)
    return points[-1][0] if points and points[-1][1] >= value else None


def front(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """The points (cost, value) that no other one beats in both, in the order of cost."""
    out: list[tuple[float, float]] = []
    for cost, value in sorted(points, key=lambda point: (point[0], -point[1])):
        if not out or value > out[-1][1]:
            out.append((cost, value))
    return out
