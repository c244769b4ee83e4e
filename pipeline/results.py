"""What a subscriber sees: one message per final result. Published as JSON; ``foveate schema result``."""

from enum import StrEnum
from typing import Annotated, Literal

import msgspec

SCHEMA_VERSION: Literal[1] = 1


class Origin(StrEnum):
    """How a frame's final result came about."""

    CLOUD = "cloud"  # the large model answered for the whole frame
    FUSED = "fused"  # the large model's crops joined with the edge's boxes
    EDGE = "edge"  # the edge's own answer; no second look was asked for
    EDGE_TIMEOUT = "edge_timeout"  # a second look was asked for and did not come by the deadline
    EDGE_SHED = "edge_shed"  # a second look was wanted and refused or displaced on the way
    CARRIED = "carried"  # not analysed: boxes moved here along their tracks


class DropReason(StrEnum):
    """Why a frame ended without a result."""

    OVERWRITTEN = "overwritten"  # a newer frame of a live source took its place before it was admitted
    UNUSABLE = "unusable"  # not a picture that can be analysed (damaged, empty, over the pixel limit)
    STOPPED = "stopped"  # the run ended before the frame was answered


class CameraState(StrEnum):
    """The one state a camera is in."""

    CONNECTING = "connecting"
    WAITING_KEYFRAME = "waiting_keyframe"
    LIVE = "live"
    STALE = "stale"
    FROZEN = "frozen"
    DARK = "dark"
    AUTH_FAILED = "auth_failed"
    OFFLINE = "offline"
    INVALID_INPUT = "invalid_input"
    UNSUPPORTED_CODEC = "unsupported_codec"
    FINISHED = "finished"


Number = Annotated[float, msgspec.Meta(description="finite")]


class FrameSize(msgspec.Struct, frozen=True):
    """Size of the upright frame in pixels."""

    width: int
    height: int


class ResultDetection(msgspec.Struct, frozen=True):
    """One object: ``box`` is [x1, y1, x2, y2] in frame pixels, inside the frame."""

    label: str
    score: Number
    box: tuple[Number, Number, Number, Number]
    track_id: int | None
    source: Literal["edge", "cloud", "track"]


class Timings(msgspec.Struct, frozen=True):
    """Where the time went, in milliseconds; null where the frame did not pass that way.

    ``network`` is the round trip less the worker's own total, so no two clocks are compared.
    """

    wait: Number | None = None
    gate: Number | None = None
    edge: Number | None = None
    encode: Number | None = None
    network: Number | None = None
    cloud_queue: Number | None = None
    cloud_infer: Number | None = None
    resolve: Number | None = None
    total: Number | None = None


class Models(msgspec.Struct, frozen=True):
    """The models behind an answer, as name@version; null where one had no part in it."""

    edge: str | None
    cloud: str | None


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """The answer for one frame.

    The key (camera, epoch, seq) names the frame; ``final`` is false where a revision of it may follow. ``tier`` is
    where the answer comes from: the agent itself (device), a worker on site (edge), or one elsewhere (cloud); null in
    records of versions that did not tell.
    """

    schema: Literal[1] = SCHEMA_VERSION
    camera: str
    epoch: int
    seq: int
    captured_at: str
    media_ms: Number | None
    revision: int
    final: bool
    origin: Literal["cloud", "fused", "edge", "edge_timeout", "edge_shed", "carried"]
    reason: str
    frame: FrameSize
    detections: list[ResultDetection]
    timings_ms: Timings
    deadline_ms: Number
    deadline_met: bool
    models: Models
    bytes_up: int
    tier: Literal["device", "edge", "cloud"] | None = None


def encode_result(result: Result) -> bytes:
    """The result as one line of JSON (UTF-8, no NaN: msgspec writes non-finite numbers as null)."""
    return msgspec.json.encode(result)


def decode_result(data: bytes | str) -> Result:
    """Parse one result. Raises msgspec.ValidationError with the path of what is wrong."""
    return msgspec.json.decode(data, type=Result)
