"""How far a camera's release has come: retained at ``foveate/v1/rollout/{agent}/{camera}``, and the commands to it."""

from typing import Literal

import msgspec

from pipeline.results import Number

StageName = Literal["none", "shadow", "canary", "full", "withdrawn", "rolled_back", "fallen_back"]
Command = Literal["pause", "promote", "rollback"]
"""``pause`` lets no candidate go further and answer no frame, ``promote`` takes it a stage on and ends a pause,
``rollback`` gives it up, or the current model where there is no candidate.
"""


Role = Literal["candidate", "current"]


class Audited(msgspec.Struct, frozen=True, kw_only=True):
    """A model's mean F1 against the larger model over some frames, and the 95th percentile of its looks in ms."""

    f1: Number | None = None
    p95_ms: Number | None = None


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """What is released to a camera, which may be of a ``group`` and is at a ``site``.

    Models are name@version. ``evidence`` says how near each gate is to a withdrawal and ``in_favour`` to a promotion,
    from 0 to 1; ``canary_share`` is the share of the frames since the candidate came that it has answered.
    ``drift`` is how the current model, one of the camera's own, does in the audits that go on. ``refused`` is the last
    release that came to nothing here, and why. ``since`` and ``at`` are wall times, RFC 3339.
    """

    schema: Literal[1] = 1
    agent: str
    camera: str
    group: str = ""
    site: str = ""
    stage: StageName
    paused: bool = False
    candidate: str = ""
    current: str = ""
    reason: str = ""
    since: str
    at: str
    comparisons: int = 0
    with_objects: int = 0
    judged: dict[Role, Audited] = {}
    evidence: dict[str, float] = {}
    canary_share: float = 0.0
    audits: int = 0
    drift: Audited | None = None
    released_f1: Number | None = None
    learn_again: bool = False
    refused: str = ""


class Order(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A command to a camera's release, sent to ``foveate/v1/rollout/{agent}/{camera}/set``."""

    command: Command


def encode_standing(standing: Standing) -> bytes:
    """The standing as JSON."""
    return msgspec.json.encode(standing)


def decode_standing(data: bytes) -> Standing:
    """Parse a standing. Raises msgspec.ValidationError or DecodeError."""
    return msgspec.json.decode(data, type=Standing)


def encode_order(command: Command) -> bytes:
    """A command as JSON."""
    return msgspec.json.encode(Order(command=command))


def decode_order(data: bytes) -> Order:
    """Parse a command. Raises msgspec.ValidationError or DecodeError."""
    return msgspec.json.decode(data, type=Order)
