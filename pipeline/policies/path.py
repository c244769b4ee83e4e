"""What a second look over one path will take, from what earlier ones took: up, queue, cloud, down.

The worker says how long a request queued and was worked on; the rest of the round trip is the network's. So no two
clocks are compared. The network's part is split by size (``link_fit``): what grows with the request is the way up; of
what does not, the way down counts as half, an assumption on which no sum depends.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from pipeline.policies.latency import FreshEstimate
from pipeline.policies.link_fit import LEAST_MS_PER_KB, LinkFit

_RECENT = 32
_APART_S = 0.04
"""Of round trips that end closer together the slowest counts: many cameras would else fill the memory within a moment
in which nothing queues.
"""
_P95_LEAST = 8
_FORGOTTEN_S = 10.0
"""After so long a silence, how much round trips used to vary says nothing."""
_USUAL_GAIN = 1 / 8


@dataclass(frozen=True, slots=True)
class Forecast:
    """What a request is expected to take, part by part, and the whole in a bad case, in milliseconds."""

    up_ms: float
    queue_ms: float
    cloud_ms: float
    down_ms: float
    tail_ms: float

    @property
    def mean_ms(self) -> float:
        """The expected round trip."""
        return self.up_ms + self.queue_ms + self.cloud_ms + self.down_ms


@dataclass(frozen=True, slots=True)
class RoundTrip:
    """One answered request. ``ahead_bytes`` were still on the way up when its ``size_bytes`` were sent."""

    kind: str
    size_bytes: float
    ahead_bytes: float
    round_trip_ms: float
    queue_ms: float
    cloud_ms: float


@dataclass(frozen=True, slots=True)
class PathEstimate:
    """The latency model of one path. What it knows of a part is believed for ``holds_s`` after that part's newest
    sample: a prediction that keeps something from being tried would otherwise last for ever.

    ``deviation_ms`` is how far whole round trips were from what was expected (RFC 6298, section 2), ``recent_ms`` are
    the newest such differences, the last of them from ``recent_at_s`` on; ``backlog_bytes`` were on the way up at
    ``sent_at_s``.
    """

    holds_s: float = 1.0
    link: LinkFit = field(default_factory=LinkFit)
    queue: FreshEstimate = field(default_factory=lambda: FreshEstimate(1.0))
    cloud: Mapping[str, FreshEstimate] = field(default_factory=dict)
    deviation_ms: float = 0.0
    recent_ms: tuple[float, ...] = ()
    recent_at_s: float = float("-inf")
    usual_bytes: float = 0.0
    backlog_bytes: float = 0.0
    sent_at_s: float = float("-inf")

    @classmethod
    def holding(cls, holds_s: float) -> "PathEstimate":
        """A path of which nothing is known yet."""
        return cls(holds_s, queue=FreshEstimate(holds_s))

    def held_for(self, holds_s: float) -> "PathEstimate":
        """The path, whose parts are believed for another time from now on."""
        cloud = {kind: replace(each, holds_s=holds_s) for kind, each in self.cloud.items()}
        return replace(self, holds_s=holds_s, queue=replace(self.queue, holds_s=holds_s), cloud=cloud)

    def sent(self, size_bytes: float, now_s: float) -> "PathEstimate":
        """The path after a message went out."""
        return replace(self, backlog_bytes=self.ahead_bytes(now_s) + size_bytes, sent_at_s=now_s)

    def ahead_bytes(self, now_s: float) -> float:
        """What was sent before and is still on the way up, by the model."""
        if not self.backlog_bytes:
            return 0.0
        gone_bytes = max(0.0, now_s - self.sent_at_s) * 1e6 / self.link.ms_per_kb
        return max(0.0, self.backlog_bytes - gone_bytes)

    def answered(self, trip: RoundTrip, now_s: float) -> "PathEstimate":
        """The path after an answer, in time or late."""
        network_ms = max(0.0, trip.round_trip_ms - trip.queue_ms - trip.cloud_ms)
        on_the_way_bytes = trip.size_bytes + trip.ahead_bytes
        before = self.cloud.get(trip.kind, FreshEstimate(self.holds_s))
        usual_bytes = self.usual_bytes or trip.size_bytes
        return replace(
            self._compared(trip, now_s),
            link=self.link.add(on_the_way_bytes, network_ms, now_s),
            queue=self.queue.add(trip.queue_ms, now_s),
            cloud={**self.cloud, trip.kind: before.add(trip.cloud_ms, now_s)},
            usual_bytes=usual_bytes + _USUAL_GAIN * (trip.size_bytes - usual_bytes),
        )

    def _compared(self, trip: RoundTrip, now_s: float) -> "PathEstimate":
        """Note how far the round trip was from what was expected of it; a part that was not known is as expected."""
        if not self.deviation_ms or now_s - self.link.at_s > _FORGOTTEN_S:
            # RFC 6298 starts with half of the first sample; with three deviations a slow one would rule out the next.
            return replace(self, deviation_ms=trip.round_trip_ms / 4)
        queue_ms, cloud_ms = self.queue.mean_ms(now_s), self._cloud_ms(trip.kind, now_s)
        expected_ms = self.link.delay_ms(trip.size_bytes + trip.ahead_bytes)
        expected_ms += trip.queue_ms if queue_ms is None else queue_ms
        expected_ms += trip.cloud_ms if cloud_ms is None else cloud_ms
        difference_ms = trip.round_trip_ms - expected_ms
        compared = replace(self, deviation_ms=self.deviation_ms + (abs(difference_ms) - self.deviation_ms) / 4)
        if 0 <= now_s - self.recent_at_s < _APART_S:
            return replace(compared, recent_ms=(*self.recent_ms[:-1], max(self.recent_ms[-1], difference_ms)))
        return replace(compared, recent_ms=(*self.recent_ms[-_RECENT + 1 :], difference_ms), recent_at_s=now_s)

    def probed(self, size_bytes: float, ahead_bytes: float, round_trip_ms: float, now_s: float) -> "PathEstimate":
        """The path after the echo of a probe, which no worker has worked on; ``ahead_bytes`` as in ``RoundTrip``."""
        size_bytes += ahead_bytes
        difference_ms = abs(round_trip_ms - self.link.delay_ms(size_bytes))
        deviation_ms = self.deviation_ms and self.deviation_ms + (difference_ms - self.deviation_ms) / 4
        return replace(self, link=self.link.add(size_bytes, round_trip_ms, now_s), deviation_ms=deviation_ms)

    def forecast(
        self, size_bytes: float, now_s: float, kind: str = "mosaic", deviations: float = 3.0
    ) -> Forecast | None:
        """What a request sent now would take; the tail is the mean plus ``deviations`` deviations.

        None while nothing fresh is known of the network. A worker's part that is unknown, or has aged, counts as
        nothing: it is to be tried.
        """
        if not self._holds(now_s):
            return None
        fixed_ms = self.link.base_ms
        growing_ms = self.link.ms_per_kb * (size_bytes + self.ahead_bytes(now_s)) / 1000
        queue_ms, cloud_ms = self.queue.mean_ms(now_s) or 0.0, self._cloud_ms(kind, now_s) or 0.0
        up_ms, down_ms = fixed_ms / 2 + growing_ms, fixed_ms / 2
        tail_ms = up_ms + queue_ms + cloud_ms + down_ms + deviations * self.deviation_ms
        return Forecast(up_ms, queue_ms, cloud_ms, down_ms, tail_ms)

    def tails_ms(self, sizes_bytes: Mapping[str, float], now_s: float, deviations: float) -> dict[str, float]:
        """The tails of round trips by kind, for requests of these sizes or, where missing, of the usual one; those
        of kinds that nothing fresh is known of are left out.
        """
        known = (kind for kind in self.cloud if self._cloud_ms(kind, now_s) is not None)
        sizes = {kind: sizes_bytes.get(kind, self.usual_bytes) for kind in known}
        forecasts = {kind: self.forecast(size, now_s, kind, deviations) for kind, size in sizes.items()}
        return {kind: forecast.tail_ms for kind, forecast in forecasts.items() if forecast is not None}

    def most_bytes(self, within_ms: float, now_s: float, kind: str = "mosaic", deviations: float = 3.0) -> float | None:
        """The largest request whose tail is ``within_ms``, 0 where there is none. None where nothing fresh is known of
        the network, or of what a worker takes for this kind: it is to be tried.
        """
        least = self.forecast(0.0, now_s, kind, deviations)
        if least is None or self._cloud_ms(kind, now_s) is None:
            return None
        return max(0.0, (within_ms - least.tail_ms) * 1000 / self.link.ms_per_kb)

    def p95_ms(self, now_s: float, size_bytes: float | None = None, kind: str = "mosaic") -> float | None:
        """The 95th percentile of round trips: that of the recent ones, as far from their forecasts, for this size
        (the usual one where left out). None where there is no forecast, where nothing recent is known of what a worker
        takes for this kind, or where too few round trips are there to compare with.
        """
        forecast = self.forecast(self.usual_bytes if size_bytes is None else size_bytes, now_s, kind)
        if forecast is None or len(self.recent_ms) < _P95_LEAST or self._cloud_ms(kind, now_s) is None:
            return None
        rank = math.ceil(0.95 * len(self.recent_ms)) - 1
        return max(0.0, forecast.mean_ms + sorted(self.recent_ms)[rank])

    @property
    def bandwidth_bytes_s(self) -> float | None:
        """What the way up carries, from what it delivered; None before anything was."""
        return 1e6 / self.link.ms_per_kb if self.link.samples else None

    def bandwidth_most_bytes_s(self, now_s: float) -> float | None:
        """A bandwidth that the way up hardly exceeds, one standard deviation above the likeliest; None where what was
        delivered does not tell: on a fast link the size of a request does not matter.
        """
        line = self.link.line.aged(now_s - self.link.at_s) if self.link.samples else self.link.line
        least_ms_per_kb = line.ms_per_kb - math.sqrt(line.slope_var)
        return 1e6 / least_ms_per_kb if self.link.samples and least_ms_per_kb > LEAST_MS_PER_KB else None

    @property
    def used_at_s(self) -> float | None:
        """When the path was used last; None where it never carried an answer."""
        return max(self.sent_at_s, self.link.at_s) if self.link.samples else None

    def knows_worker(self, kind: str, now_s: float) -> bool:
        """Whether something fresh is known of what a worker takes for this kind."""
        return self._cloud_ms(kind, now_s) is not None

    def _holds(self, now_s: float) -> bool:
        return self.link.samples > 0 and now_s - self.link.at_s < self.holds_s

    def _cloud_ms(self, kind: str, now_s: float) -> float | None:
        estimate = self.cloud.get(kind)
        return None if estimate is None else estimate.mean_ms(now_s)
