"""Messages between edge and worker. Durations cross the wire, clocks do not: a request carries its remaining budget."""

from enum import StrEnum
from typing import Literal

import msgspec

WIRE_VERSION = 1
"""First byte of every payload."""


AnswerSource = Literal["run", "joined", "cache"]
"""Where an answer comes from: a run of the model, the run of an identical request, or an answer to one before."""


class Refusal(StrEnum):
    """Why a worker does not answer a request; sent at once, so that the edge falls back early."""

    QUEUE_FULL = "queue_full"
    INFEASIBLE = "infeasible"  # cannot be done within the remaining budget
    EXPIRED = "expired"  # the budget ran out while it waited
    UNKNOWN_MODEL = "unknown_model"
    BAD_PAYLOAD = "bad_payload"
    TOO_LARGE = "too_large"
    FAILED = "failed"  # the model raised
    STOPPING = "stopping"
    CANCELLED = "cancelled"  # whoever asked has no use for the answer any more


class WireCrop(msgspec.Struct, frozen=True, array_like=True):
    """One crop: where it lies in the sent picture and which frame rectangle it shows (both x, y, width, height)."""

    placed: tuple[int, int, int, int]
    region: tuple[int, int, int, int]


class WireDetection(msgspec.Struct, frozen=True, array_like=True):
    """One detection; ``box`` is x1, y1, x2, y2 in pixels of the crop as sent (its top left corner is 0, 0)."""

    label: str
    score: float
    box: tuple[float, float, float, float]


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """Header of a request; the JPEG of the mosaic (or of the whole frame, as one crop) follows it."""

    agent: str
    camera: str
    epoch: int
    seq: int
    budget_ms: float
    weight: float
    kind: Literal["mosaic", "frame"]
    frame_width: int
    frame_height: int
    crops: list[WireCrop]
    model: str
    min_score: float

    @property
    def key(self) -> tuple[str, str, int, int]:
        return self.agent, self.camera, self.epoch, self.seq


class Echo(msgspec.Struct, frozen=True, kw_only=True):
    """Header of a probe, with nothing after it. A worker returns it at once, as a reply without detections: the way
    there and back is open. ``echo`` is its number, and the reply's ``seq``.

    ``give_up``: what the same agent asked before it, and what still waits, is of no use any more. A worker cannot know
    that of a picture that an outage held back on the way: its budget counts from its arrival.
    """

    echo: int
    give_up: bool = False


class Cancel(msgspec.Struct, frozen=True, kw_only=True):
    """Header of a cancellation, with nothing after it: requests that an agent has no use for any more, by the
    correlation data they were sent with.

    It goes to every worker of a target, since the agent cannot know which of them took a request. What waits, or comes
    after its cancellation, is refused as ``cancelled``; what is in the model is answered as ever.
    """

    correlations: list[bytes]


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """Header of a reply: detections per crop, in the order of the request, or a refusal; and the worker's durations.

    ``queue_ms`` until a batch took it, ``batch_wait_ms`` of that spent waiting for company, ``infer_ms`` in the model,
    ``total_ms`` from the arrival of the request to the handing over of this reply.
    """

    agent: str
    camera: str
    epoch: int
    seq: int
    worker: str
    model: str
    model_version: str
    detections: list[list[WireDetection]]
    queue_ms: float
    batch_wait_ms: float
    infer_ms: float
    total_ms: float
    batch_size: int = 0
    refused: Refusal | None = None
    detail: str = ""
    source: AnswerSource = "run"

    @property
    def key(self) -> tuple[str, str, int, int]:
        return self.agent, self.camera, self.epoch, self.seq


class WorkerModel(msgspec.Struct, frozen=True, kw_only=True):
    """A model that a worker serves."""

    name: str
    version: str
    label_set: str
    """First 12 hex digits of the SHA-256 of the newline-joined labels."""


class QueueFigures(msgspec.Struct, frozen=True, kw_only=True):
    """A queue over the last half minute. By Little's law ``arrivals_per_s`` times ``wait_ms`` is ``mean_length``.

    ``wait_ms`` is the mean of those that left, null where none did.
    """

    arrivals_per_s: float
    wait_ms: float | None
    mean_length: float


class BatchFigures(msgspec.Struct, frozen=True, kw_only=True):
    """The batches that a worker has run since its start: how many of each size, and by the reason that closed them.

    ``padded_share`` is the share of the model's input that was padding, null before the first; ``busy_s`` how many
    seconds the model has run in all.
    """

    sizes: dict[str, int] = {}
    reasons: dict[str, int] = {}
    busy_s: float = 0.0
    padded_share: float | None = None


class ReuseFigures(msgspec.Struct, frozen=True, kw_only=True):
    """Answers that cost no run, since the start of a worker: those that ``joined`` the run of an identical request, and
    those from the cache.

    ``hit_ratio`` h is the share of the answers that came from the cache, ``hit_ms`` and ``miss_ms`` what answers took
    with and without it, ``mean_ms`` is h * hit_ms + (1 - h) * miss_ms; each is null while there is nothing to tell.
    """

    joined: int = 0
    hits: int = 0
    misses: int = 0
    hit_ratio: float | None = None
    hit_ms: float | None = None
    miss_ms: float | None = None
    mean_ms: float | None = None
    held_bytes: int = 0


class WorkerState(msgspec.Struct, frozen=True, kw_only=True):
    """A worker's announcement (retained JSON; the will says ``online: false``).

    ``wait_ms`` is how long a newcomer would wait now, ``run_ms_p95`` what a run takes, by model: with them an agent can
    judge a worker that it has not asked for a while. ``location`` is where it is, ``energy_j`` what a request takes in
    joules, and ``transfer_cost`` what a byte to it counts, 1 on a budgeted uplink and 0 on the same wire; they are
    told by whoever runs the worker, null or empty where not.
    """

    worker: str
    online: bool
    tier: Literal["edge", "cloud"] = "cloud"
    models: list[WorkerModel] = []
    queue_length: int = 0
    queue_capacity: int = 0
    infer_ms_p95: float | None = None
    served: int = 0
    refused: dict[str, int] = {}
    beat: int = 0
    """Rises with every heartbeat, so that a stale retained ``online`` is seen to age without comparing clocks."""
    heartbeat_s: float = 5.0
    queue: QueueFigures | None = None
    batches: BatchFigures | None = None
    reuse: ReuseFigures | None = None
    wait_ms: float | None = None
    run_ms_p95: dict[str, float] = {}
    location: str = ""
    energy_j: float | None = None
    transfer_cost: float | None = None
