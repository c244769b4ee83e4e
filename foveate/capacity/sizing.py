"""Edge nodes, workers and links for a number of cameras: the least of each that keeps the target. Pure."""

import math
from dataclasses import dataclass, replace

from foveate.capacity.queueing import Duration, ServiceTime, length, mean_wait_s, utilisation, wait
from foveate.simulation.workload import Workload, mean

MOST_UTILISATION = 0.8
"""Beyond it waits grow steeply, and the measured times are not that exact."""
TRANSFER_SHARE = 0.1
"""Of the time, a question may spend so much on a link whose rate is to be found."""
WIRE_OVERHEAD = 1 + 40 / 1460
"""Bytes on the link per byte of payload, with the headers of TCP and IP."""
REST_MS = 5.0
"""What a worker keeps back for the way down (``reply_margin_ms``)."""


@dataclass(frozen=True, slots=True)
class Demand:
    """What is wanted: ``share`` of the frames analysed at the edge, and of the questions to the cloud, in time.

    ``fps`` frames of each camera are due per second; ``peak`` times that in a peak, for which everything is sized.
    ``margin_ms`` before its deadline a frame is settled.
    """

    cameras: int
    fps: float
    deadline_ms: float
    share: float = 0.98
    peak: float = 1.0
    margin_ms: float = 20.0


@dataclass(frozen=True, slots=True)
class Load:
    """What one due frame asks for, measured: ``kept`` and ``asked`` are shares of the due and of the kept frames."""

    kept: float
    asked: float
    gate_ms: float
    encode_ms: float
    decode_ms: float
    question_bytes: float
    edge: ServiceTime
    cloud: ServiceTime

    @classmethod
    def of(cls, workload: Workload, full_frame_s: float) -> "Load":
        """The load of a workload, in which every frame with a place worth a second look is asked about, and every
        ``full_frame_s`` (0: never) a frame as a whole.
        """
        frames = workload.frames
        shots, whole_at_s = [], full_frame_s
        for frame in frames:
            if 0 < whole_at_s <= frame.at_s:
                shots.append(frame.whole)
                whole_at_s += full_frame_s
            elif frame.mosaic is not None:
                shots.append(frame.mosaic)
        known = shots or [frames[0].whole]
        return cls(
            kept=len(frames) / workload.sampled,
            asked=len(shots) / len(frames),
            gate_ms=mean([frame.gate_ms for frame in frames]),
            encode_ms=mean([shot.encode_ms for shot in known]),
            decode_ms=mean([shot.decode_ms for shot in known]),
            question_bytes=mean([float(shot.size_bytes) for shot in known]),
            edge=ServiceTime.measured([frame.edge_ms / 1000 for frame in frames]),
            cloud=ServiceTime.measured([shot.infer_ms / 1000 for shot in known]),
        )


@dataclass(frozen=True, slots=True)
class Way:
    """The network between a node and the workers. ``mbit_s`` None: a rate is to be found.

    ``jitter_ms`` is the standard deviation of a round trip.
    """

    rtt_ms: float = 4.0
    jitter_ms: float = 0.0
    mbit_s: float | None = None


@dataclass(frozen=True, slots=True)
class Part:
    """One kind of server: how many, and what each meets.

    Each has a queue of its own: a node's small model serves its cameras alone, and a broker hands requests to workers
    in turn, not to the one that is free.
    """

    name: str
    count: int
    rate_per_s: float
    service_ms: float
    utilisation: float
    wait_ms: float
    queue_length: float


@dataclass(frozen=True, slots=True)
class Sizing:
    """What is needed, or which part is too slow, in a sentence, where no number of servers helps.

    ``edge_ms`` and ``cloud_ms`` are the times from capture within which the wanted share is answered by the edge and by
    the cloud; ``lambda_edge`` is the share of the analysed frames that the edge answers alone when all goes well.
    """

    nodes: int
    workers: int
    link_mbit_s: float
    link_utilisation: float
    lambda_edge: float
    edge_ms: float
    cloud_ms: float
    parts: tuple[Part, ...] = ()
    too_slow: str = ""


def size(demand: Demand, load: Load, way: Way) -> Sizing:
    """The least numbers with which the demand is met at its peak."""
    sizer, idle = _Sizer(demand, load, way), _Counts(0, 0)
    if sizer.edge_ms(idle) > sizer.usable_ms:
        return sizer.sizing(idle, sizer.edge_too_slow())
    cloud_too_slow = ""
    if load.asked and sizer.cloud_ms(idle) > sizer.usable_ms:
        cloud_too_slow = sizer.cloud_too_slow()
        sizer = _Sizer(demand, replace(load, asked=0.0), way)
    counts = sizer.least()
    if counts.nodes > demand.cameras:
        return sizer.sizing(idle, sizer.camera_too_much())
    return sizer.sizing(counts, cloud_too_slow)


def with_counts(demand: Demand, load: Load, way: Way, nodes: int, workers: int) -> Sizing:
    """What comes of numbers that are given; without workers the edge answers alone."""
    return _Sizer(demand, load if workers else replace(load, asked=0.0), way).sizing(_Counts(nodes, workers))


def bits_s(questions_per_s: float, load: Load) -> float:
    """What questions put on a link."""
    return questions_per_s * load.question_bytes * WIRE_OVERHEAD * 8


@dataclass(frozen=True, slots=True)
class _Counts:
    """Nodes and workers; 0 stands for so many that nobody waits."""

    nodes: int
    workers: int


@dataclass(frozen=True, slots=True)
class _Sizer:
    demand: Demand
    load: Load
    way: Way

    @property
    def usable_ms(self) -> float:
        return self.demand.deadline_ms - self.demand.margin_ms

    @property
    def kept_rate(self) -> float:
        """Frames per second that reach the small models in the peak."""
        return self.demand.cameras * self.demand.fps * self.demand.peak * self.load.kept

    @property
    def asked_rate(self) -> float:
        """Questions per second in the peak."""
        return self.kept_rate * self.load.asked

    def edge_ms(self, counts: _Counts) -> float:
        """Within this the wanted share is answered by the edge."""
        return self.load.gate_ms + self._looked(counts).percentile_s(self.demand.share) * 1000

    def cloud_ms(self, counts: _Counts) -> float:
        """Within this the wanted share of questions is answered by the cloud."""
        load, way = self.load, self.way
        there_and_back = Duration(way.rtt_ms / 1000, (way.jitter_ms / 1000) ** 2)
        random = self._looked(counts) + there_and_back + _served(self.asked_rate, counts.workers, load.cloud)
        fixed_ms = load.gate_ms + load.encode_ms + self.transfer_ms() + load.decode_ms + REST_MS
        return fixed_ms + random.percentile_s(self.demand.share) * 1000

    def _looked(self, counts: _Counts) -> Duration:
        return _served(self.kept_rate, counts.nodes, self.load.edge)

    def transfer_ms(self) -> float:
        """How long a question takes to pass a link that is free."""
        mbit_s = self.way.mbit_s
        return bits_s(1.0, self.load) / (mbit_s * 1000) if mbit_s else self.usable_ms * TRANSFER_SHARE

    def least(self) -> _Counts:
        """As few servers as keep within their utilisation; then more where it helps most, until the target is met."""
        nodes = max(1, math.ceil(self.kept_rate * self.load.edge.mean_s / MOST_UTILISATION), self._nodes_for_links())
        counts = _Counts(nodes, max(1, math.ceil(self.asked_rate * self.load.cloud.mean_s / MOST_UTILISATION)))
        while not self._meets(counts) and counts.nodes <= self.demand.cameras:
            more_nodes = replace(counts, nodes=counts.nodes + _step(counts.nodes))
            more_workers = replace(counts, workers=counts.workers + _step(counts.workers))
            if not self.asked_rate or self.edge_ms(counts) > self.usable_ms:
                counts = more_nodes
            else:
                counts = min(more_nodes, more_workers, key=self.cloud_ms)
        return counts

    def _meets(self, counts: _Counts) -> bool:
        late = self.edge_ms(counts) > self.usable_ms
        return not late and (not self.asked_rate or self.cloud_ms(counts) <= self.usable_ms)

    def _nodes_for_links(self) -> int:
        mbit_s = self.way.mbit_s
        return math.ceil(bits_s(self.asked_rate, self.load) / 1e6 / (mbit_s * MOST_UTILISATION)) if mbit_s else 1

    def sizing(self, counts: _Counts, too_slow: str = "") -> Sizing:
        """These numbers, and what comes of them."""
        nodes, workers = counts.nodes, counts.workers if self.asked_rate else 0
        parts = []
        if nodes:
            parts.append(_part("edge node", nodes, self.kept_rate, self.load.edge))
        if nodes and workers:
            parts.append(_part("worker", workers, self.asked_rate, self.load.cloud))
        link_mbit_s = bits_s(self.asked_rate / nodes, self.load) / 1e6 if nodes else 0.0
        least_mbit_s = max(link_mbit_s / MOST_UTILISATION, bits_s(1.0, self.load) / (self.transfer_ms() * 1000))
        has_mbit_s = self.way.mbit_s or (least_mbit_s if workers else 0.0)
        return Sizing(
            nodes=nodes,
            workers=workers,
            link_mbit_s=has_mbit_s,
            link_utilisation=link_mbit_s / has_mbit_s if has_mbit_s else 0.0,
            lambda_edge=1 - self.load.asked if workers else 1.0,
            edge_ms=self.edge_ms(counts),
            cloud_ms=self.cloud_ms(counts),
            parts=tuple(parts),
            too_slow=too_slow,
        )

    def edge_too_slow(self) -> str:
        ms = self.edge_ms(_Counts(0, 0))
        return f"the small model is too slow: gate and model take {ms:.0f} ms, {self._there()}; choose a smaller input."

    def cloud_too_slow(self) -> str:
        """Which part of the way to the cloud takes longest, where it takes too long though nobody waits."""
        parts = {
            "the small model": self.load.edge.mean_s * 1000,
            "the way there and back": self.way.rtt_ms + self.transfer_ms(),
            "the larger model": self.load.cloud.mean_s * 1000,
        }
        slowest = max(parts, key=lambda name: parts[name])
        return (
            f"the cloud is too slow, and the edge answers alone: {self.cloud_ms(_Counts(0, 0)):.0f} ms where nobody "
            f"waits, {self._there()}; {parts[slowest]:.0f} ms are {slowest}."
        )

    def camera_too_much(self) -> str:
        """What a node with a single camera does not keep up with."""
        if self._nodes_for_links() > self.demand.cameras:
            needs = bits_s(self.asked_rate / self.demand.cameras, self.load) / 1e6
            return f"the link is too slow: one camera needs {needs:.2f} Mbit/s, the link has {self.way.mbit_s:.2f}."
        busy = utilisation(self.kept_rate / self.demand.cameras, self.load.edge)
        return (
            f"the small model is too slow: one camera keeps it busy for {busy:.0%} of the time; analyse fewer frames."
        )

    def _there(self) -> str:
        return f"and {self.usable_ms:.0f} of {self.demand.deadline_ms:.0f} ms are there"


def _step(count: int) -> int:
    return max(1, count // 50)


def _served(rate: float, servers: int, service: ServiceTime) -> Duration:
    """Wait and service at one of some servers with its part of the rate; at one of infinitely many for 0."""
    return service.duration + wait(rate / servers, service) if servers else service.duration


def _part(name: str, count: int, rate: float, service: ServiceTime) -> Part:
    each = rate / count
    wait_s = mean_wait_s(each, service)
    return Part(
        name, count, each, service.mean_s * 1000, utilisation(each, service), wait_s * 1000, length(each, wait_s)
    )
