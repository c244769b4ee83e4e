"""What the agent and a reader process say to each other: one JSON line each way, pixels in the shared file.

The agent sends one ``Order``, then ``NEXT`` for every answer it wants. The reader says ``Opening`` when it begins to
open the source, then ``Opened`` or ``Over``; after that, one ``Picture``, ``Idle`` or ``Over`` for each ``NEXT``.
"""

import msgspec

from edge_agent.capture.address import SourceKind
from pipeline.results import CameraState

NEXT = b"next\n"


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """What to open and how. Travels on standard input, because it carries the password."""

    kind: SourceKind
    target: str
    realtime: bool
    username: str | None
    password: str | None
    rtsp_transport: str
    open_timeout_s: float
    read_timeout_s: float
    pixel_limit: int
    shared_file: int
    """Descriptor of the file that takes the pixels."""
    wait_s: float = 0.0
    """Wait this long before opening."""
    probe: bool = False
    """Cut the wait short when a host or device that was out of reach is there again."""

    def __repr__(self) -> str:
        return f"Order({self.kind.value})"  # target and password are secrets


class Opening(msgspec.Struct, frozen=True, tag="opening"):
    """The wait is over and the libraries are loaded."""

    opencv: str
    ffmpeg: str


class Opened(msgspec.Struct, frozen=True, tag="opened"):
    """The source is open; ``total_frames`` is what its header says, None where that makes no sense."""

    total_frames: int | None


class Picture(msgspec.Struct, frozen=True, tag="picture"):
    """A picture lies in the shared file as (height, width, 3) uint8 BGR until the next ``NEXT``."""

    height: int
    width: int
    captured_at_s: float
    media_ms: float | None
    lost: int
    unusable: int


class Idle(msgspec.Struct, frozen=True, tag="idle"):
    """No new picture yet, and no fault either; ask again."""


class Over(msgspec.Struct, frozen=True, tag="over"):
    """The session ended; ``final`` when trying again will not help. Carries what was not handed over."""

    state: CameraState
    reason: str
    final: bool
    lost: int = 0
    unusable: int = 0


Answer = Opening | Opened | Picture | Idle | Over


def encode(message: Order | Answer) -> bytes:
    """One message as a line."""
    return msgspec.json.encode(message) + b"\n"


def decode_answer(line: bytes) -> Answer:
    """Parse a reader's line. Raises msgspec.MsgspecError on anything else."""
    return msgspec.json.decode(line, type=Answer)


def decode_order(line: bytes) -> Order:
    """Parse the agent's first line. Raises msgspec.MsgspecError on anything else."""
    return msgspec.json.decode(line, type=Order)
