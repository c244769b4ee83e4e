"""What the status page shows: immutable values made by the agent, read by the web server."""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from edge_agent.status.reuse import ReuseStatus
from pipeline.alerts import Alert
from pipeline.wire.messages import BatchFigures, ReuseFigures


class Percentiles(msgspec.Struct, frozen=True):
    """P50 and P99 in milliseconds over the last minute; null without samples."""

    p50_ms: float | None
    p99_ms: float | None
    samples: int


class AttainmentStatus(msgspec.Struct, frozen=True):
    """Frames accepted for analysis since the start, and those answered in time without and with the cloud."""

    within_ms: float
    target: float
    accepted: int
    hit_edge: int
    hit_cloud: int
    share: float | None
    met: bool | None


class BreachStatus(msgspec.Struct, frozen=True):
    """A latency budget that is breached; ``stage`` null is the whole segment."""

    segment: str
    stage: str | None
    p99_ms: float | None
    budget_ms: float
    since: str


class SteeringStatus(msgspec.Struct, frozen=True, kw_only=True):
    """What a camera holds to when it asks the cloud.

    ``mode`` is open, saving or edge; ``price_per_kb`` the least predicted gain, in boxes put right, that 1,000 bytes
    must bring; ``agreement`` the F1 of edge against cloud on whole frames (null: too few yet). ``route`` says whether
    the small model (edge) or the larger one (cloud) looks first.
    """

    mode: str
    price_per_kb: float
    agreement: float | None
    route: str
    route_reason: str


class CropsStatus(msgspec.Struct, frozen=True, kw_only=True):
    """How crops are drawn now, and how many trials have taught it; ``scale`` is what a breach leaves of it."""

    padding: float
    scale: float
    quality: int
    trials: int


class PathStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The way to the workers of a tier, as predicted for a request of the usual size; ``age_s`` since it was last
    heard of. The four parts add up to the expected round trip; ``tail_ms`` is a bad case.
    """

    tier: str
    bandwidth_kbit_s: float | None
    request_bytes: float
    up_ms: float
    queue_ms: float
    cloud_ms: float
    down_ms: float
    tail_ms: float
    age_s: float


class TargetStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Where requests can be sent: the workers of a tier, or of those of them at one ``location``, that serve ``model``.

    ``workers`` are online; ``closed`` is why nothing is asked of it now, empty where it is asked. ``round_trip_ms`` is
    expected for a usual request (null: nothing fresh is known). Since the start: requests ``asked`` of it, ``answered``
    in time or late, ``refused``, ``moved`` from it to another target, and ``bytes_up`` to it.
    """

    target: str
    tier: str
    location: str
    model: str
    workers: int
    closed: str
    round_trip_ms: float | None
    in_flight: int
    asked: int
    answered: int
    refused: int
    moved: int
    bytes_up: int


class TiersStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Where a camera's pictures may go and have gone, and who answers.

    ``allowed`` are the tiers that may have them, ``masked_only`` those of them that get masked crops alone. ``plan`` is
    whom it asks at present, a quick answer first where there are two; empty where it asks nobody.
    ``answers`` are results by the tier that gave them, ``sent_bytes`` pictures by the tier that got them, and
    ``leaving_site_bytes`` those of them that left the site.
    """

    allowed: list[str]
    masked_only: list[str]
    plan: list[str]
    answers: dict[str, int]
    sent_bytes: dict[str, int]
    leaving_site_bytes: int


class LearningStatus(msgspec.Struct, frozen=True, kw_only=True):
    """How a camera that learns is getting on.

    ``stage`` is collecting, training, proving, learned or general (enough lessons, and the general model still looks);
    ``in_words`` says it in a sentence. ``way`` is how its model comes about, own or adapt. While it trains ``progress``
    is 0..1 and ``left_s`` an estimate. ``last`` is what the last training came to.
    """

    stage: str
    in_words: str
    lessons: int
    way: str | None = None
    progress: float | None = None
    left_s: float | None = None
    current: str = ""
    candidate: str | None = None
    agreement: float | None = None
    last: str = ""


class LearningPoint(msgspec.Struct, frozen=True, kw_only=True):
    """One minute of a camera that learns: agreement is F1 against the larger model, ``look_ms`` the small model's."""

    at: str
    lessons: int
    agreement: float | None
    uplink_kbit_s: float
    look_ms: float | None
    model: str


class RolloutStatus(msgspec.Struct, frozen=True, kw_only=True):
    """How a model that was released to a camera stands."""

    stage: str
    reason: str
    since: str
    paused: bool
    current: str
    candidate: str
    comparisons: int
    candidate_f1: float | None
    """Against the larger model, on the same frames as ``current_f1``; None before any."""
    current_f1: float | None
    canary_share: float
    audits: int
    """Of a camera's own model, since it was taken on."""
    refused: str


class CameraStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One camera at one moment. ``captured = sum(finals) + sum(drops) + in_flight``."""

    name: str
    title: str
    state: str
    reason: str
    since: str
    captured: int
    capture_fps: float
    analysed_fps: float
    finals: dict[str, int]
    drops: dict[str, int]
    in_flight: int
    deadline_ms: float
    deadline_hit_ratio: float | None
    latency: Percentiles
    segments: dict[str, Percentiles]
    """The four segments: network, queue, edge, cloud."""
    lambda_edge: float | None
    uplink_kbit_s: float
    counts: dict[str, int]
    """Objects by label in the newest result."""
    picture_seq: int | None
    attainment: AttainmentStatus | None = None
    budgets_ms: dict[str, float] = {}
    """Budgets by segment; empty where none are watched."""
    breaches: list[BreachStatus] = []
    turned_down: dict[str, str] = {}
    """What is turned down for breached budgets, in words, by action."""
    steps: dict[str, int] = {}
    """Steps taken by action."""
    steering: SteeringStatus | None = None
    crops: CropsStatus | None = None
    reuse: ReuseStatus | None = None
    """None where it is off."""
    learning: LearningStatus | None = None
    rollout: RolloutStatus | None = None
    """None where nothing was ever released to it."""
    tiers: TiersStatus | None = None


class WorkerStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A worker as the agent sees it."""

    worker: str
    online: bool
    reason: str
    tier: str
    models: list[str]
    queue_length: int
    infer_ms_p95: float | None
    location: str = ""
    wait_ms: float | None = None
    """How long a newcomer would wait there."""
    batches: BatchFigures | None = None
    """What it has run since its start; None where it does not tell."""
    reuse: ReuseFigures | None = None
    """Answers that cost no run; None where it does not tell."""


class QueueStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A queue over the last half minute: by Little's law ``expected_length``, rate times wait, is ``mean_length``."""

    name: str
    length: int
    arrivals_per_s: float
    wait_ms: float | None
    expected_length: float | None
    mean_length: float


class AgentStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The whole agent at one moment; the body of /api/status."""

    agent: str
    version: str
    started: str
    now: str
    broker: str
    broker_connected: bool
    broker_reason: str
    cloud: str
    """State of the circuit breaker: closed, open, probing; or off."""
    cameras: list[CameraStatus]
    workers: list[WorkerStatus]
    models: dict[str, str]
    ready: bool
    ready_reason: str
    alerts: list[Alert] = []
    """The newest, newest first."""
    segments: dict[str, Percentiles] = {}
    """The four segments over the frames of all cameras with budgets."""
    counters: dict[str, int] = {}
    """Events that are not the end of a frame, by kind, since the start."""
    queues: list[QueueStatus] = []
    paths: list[PathStatus] = []
    targets: list[TargetStatus] = []
    bytes_leaving_site: int = 0
    """Pictures of all cameras that have gone to workers of the tier cloud, since the start."""


class StatusSource(Protocol):
    """Where the page reads from: what is known, at once. ``picture`` draws, and is called in a thread."""

    def status(self) -> AgentStatus: ...

    def picture(self, camera: str) -> tuple[int, bytes] | None:
        """The newest annotated picture as (seq, JPEG), or None; drawn for a viewer, at most some times a second."""
        ...

    def learning_curve(self, camera: str) -> Sequence[LearningPoint]:
        """How the camera's learning has gone, oldest first; nothing where it does not learn."""
        ...


class LearningSource(Protocol):
    """Where the page hears of cameras that learn: what is known, at once."""

    def status(self, camera: str) -> LearningStatus | None: ...

    def curve(self, camera: str) -> Sequence[LearningPoint]: ...
