"""One request on its way through the worker."""

from dataclasses import dataclass

from pipeline.geometry import Size
from pipeline.policies.buckets import SizeBuckets
from pipeline.wire.messages import Request

UNKNOWN_INPUT = SizeBuckets(32)
"""Stands in for a model that does not say what it makes of a picture's size."""


@dataclass(frozen=True, slots=True)
class ReplyAddress:
    """Where an answer goes: the request's response topic, its correlation data, its trace context if it had one."""

    topic: str
    correlation: bytes
    traceparent: str | None = None

    @property
    def agent(self) -> str:
        """The last level of the reply topic."""
        return self.topic.rsplit("/", 1)[-1]


@dataclass(frozen=True, slots=True, eq=False)
class Job:
    """A sound request. ``size`` is what the JPEG header says; both times are monotonic seconds of this process.

    ``bucket`` is the size of the model's input for it.
    """

    request: Request
    jpeg: memoryview
    size: Size
    address: ReplyAddress
    arrived_s: float
    deadline_s: float
    bucket: Size | None = None

    @property
    def key(self) -> tuple[str, str, int, int]:
        return self.request.key

    @property
    def flow(self) -> tuple[str, str]:
        """The agent and its camera: who is treated fairly."""
        return self.request.agent, self.request.camera

    @property
    def kind(self) -> tuple[str, Size]:
        """Model and size bucket; only jobs of one kind run together."""
        return self.request.model, self.bucket or UNKNOWN_INPUT.of(self.size)

    @property
    def held_bytes(self) -> int:
        """The memory it takes: the JPEG and the picture decoded from it."""
        return len(self.jpeg) + self.size.width * self.size.height * 3
