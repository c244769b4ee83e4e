"""A camera that learns, as the service sees it."""

from dataclasses import dataclass
from typing import Protocol

from edge_agent.lessons.store import Overview


@dataclass(frozen=True, slots=True)
class Look:
    """How a camera is doing now.

    ``current`` and ``candidate`` are models as name@version; ``own`` is whether the current one is the camera's own,
    ``stage`` how far the candidate has come and ``reason`` why. ``drifted`` says that a model has stopped being right
    and another one is wanted. ``agreement`` is F1 against the larger model, ``look_ms`` the P50 of a look.
    """

    current: str
    own: bool
    candidate: str | None = None
    stage: str = "none"
    reason: str = ""
    drifted: bool = False
    agreement: float | None = None
    uplink_kbit_s: float = 0.0
    look_ms: float | None = None
    analysed_fps: float = 0.0


class Subject(Protocol):
    """See the module."""

    @property
    def name(self) -> str: ...

    @property
    def objects(self) -> tuple[str, ...]:
        """The classes that the camera reports; empty for all."""
        ...

    @property
    def threshold(self) -> float:
        """The score from which it publishes a detection."""
        ...

    def overview(self) -> Overview:
        """What its lessons hold, as it was counted last."""
        ...

    def look(self) -> Look:
        """How it is doing, at once."""
        ...
