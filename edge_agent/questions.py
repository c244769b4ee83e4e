"""What a camera asks of the cloud, how it is sent, and what comes back."""

import hashlib
import math
from dataclasses import dataclass
from typing import Protocol

from pipeline.frames import FrameKey
from pipeline.policies.tier_cost import Tier
from pipeline.transport.base import Outgoing
from pipeline.wire import topics
from pipeline.wire.codec import encode_request
from pipeline.wire.messages import Reply, Request, WireCrop

NO_WAY = frozenset({"broker_down", "no_worker", "circuit_open"})
"""Reasons for which the cloud cannot be asked at all."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where requests can be sent, and for which model: the workers of a tier, or of those of them at one location."""

    name: str
    tier: Tier
    location: str
    model: str


@dataclass(frozen=True, slots=True)
class Question:
    """A request to be sent. ``settle_at_s`` is when the answer must be here, on the agent's own clock.

    A ``trial`` is about a frame that has its answer; it is there to be learned from. ``masked``: the picture shows
    nothing that the camera's masks hide, and nothing but crops. ``stands`` is the shortfall of the answer that there is
    already, the part of the best F1 that it lacks (None: there is none, or what it is worth is being found out).
    ``stage`` is 2 where another target is asked for a quick answer before this one's.
    """

    key: FrameKey
    kind: str
    frame_width: int
    frame_height: int
    crops: tuple[WireCrop, ...]
    jpeg: bytes
    settle_at_s: float
    weight: float
    trial: bool = False
    masked: bool = False
    stands: float | None = None
    stage: int = 1


@dataclass(frozen=True, slots=True)
class Answer:
    """A worker's answer and what the round trip cost. ``network_ms`` is the round trip less the worker's own time,
    ``tier`` the worker's. ``better``: it is to take the place of a quicker one that may have come before it; ``more``:
    such a one may follow. ``lesser``: it is that of the model which stands in on site for the larger one.
    """

    question: Question
    reply: Reply
    round_trip_ms: float
    network_ms: float
    tier: Tier = Tier.CLOUD
    better: bool = False
    more: bool = False
    lesser: bool = False

    @property
    def model(self) -> str:
        """Whose it is, with the version."""
        return f"{self.reply.model}@{self.reply.model_version}"


class AnswerListener(Protocol):
    """A camera that asks. Called on the event loop; each question has one answer, which a better one may follow, or
    none: a question whose time runs out is settled by the camera's own clock, and its answer may still come late.
    """

    def sent(self, question: Question, size_bytes: int, p95_ms: float | None) -> None:
        """The question is on its way; ``size_bytes`` is the whole payload, an answer is likely within ``p95_ms``. Once
        more for each further target that is asked it.
        """
        ...

    def answered(self, answer: Answer) -> None: ...

    def not_answered(self, key: FrameKey, reason: str, *, shed: bool) -> None:
        """The answer will not come: ``shed`` where the way was busy rather than down."""
        ...

    def reopened(self) -> None:
        """The way, which was down, is open again."""
        ...


def fits(reply: Reply, question: Question, agent: str) -> bool:
    """Whether a reply tells of each crop of this very frame, or refuses.

    The correlation data says which question is refused: a worker that could not read it does not know its key.
    """
    if reply.refused is not None:
        return reply.agent == agent
    key = question.key
    return reply.key == (agent, key.camera, key.epoch, key.seq) and len(reply.detections) == len(question.crops)


def request_message(
    question: Question, agent: str, target: Target, min_score: float, correlation: bytes, budget_ms: float
) -> Outgoing:
    """The request as it goes out; it expires with its budget, and its trace follows from the frame's key."""
    key = question.key
    request = Request(
        agent=agent,
        camera=key.camera,
        epoch=key.epoch,
        seq=key.seq,
        budget_ms=budget_ms,
        weight=question.weight,
        kind="frame" if question.kind == "frame" else "mosaic",
        frame_width=question.frame_width,
        frame_height=question.frame_height,
        crops=list(question.crops),
        model=target.model,
        min_score=min_score,
    )
    trace = hashlib.blake2b(f"{agent}/{key.camera}/{key.epoch}/{key.seq}".encode(), digest_size=24).hexdigest()
    return Outgoing(
        topic=topics.request(target.name, target.model),
        payload=encode_request(request, question.jpeg),
        response_topic=topics.reply(agent),
        correlation=correlation,
        expiry_s=max(1, math.ceil(budget_ms / 1000)),
        properties={"traceparent": f"00-{trace[:32]}-{trace[32:]}-01"},
    )
