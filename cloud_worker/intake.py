"""What arrives, checked before anything is spent on it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from cloud_worker.jobs import Job, ReplyAddress
from cloud_worker.settings import WorkerSettings
from pipeline.geometry import Size
from pipeline.transport.base import Message
from pipeline.wire import topics
from pipeline.wire.codec import BadPayload, decode_request
from pipeline.wire.jpeg import jpeg_size
from pipeline.wire.messages import Refusal, Request


class Ignored(StrEnum):
    """Why a message gets no reply; counted, nothing else."""

    RETAINED = "retained"  # a stored request is of the past, and nobody waits for it
    NO_ADDRESS = "no_address"  # no response topic of an agent, or no correlation data
    STOPPING = "stopping"  # a probe, of a worker that stops
    DUPLICATE = "duplicate"  # the first of the same key has had, or will have, the one reply


@dataclass(frozen=True, slots=True)
class Rejected:
    """A message that can be answered but not worked on. ``request`` is None where the header cannot be read."""

    request: Request | None
    refusal: Refusal
    detail: str


def address_of(message: Message) -> ReplyAddress | Ignored:
    """Where the reply to a message goes. Only agents' reply topics count: a worker publishes nowhere else on demand."""
    if message.retain:
        return Ignored.RETAINED
    topic = message.response_topic or ""
    prefix = f"{topics.WIRE}/rep/"
    if not topic.startswith(prefix) or not topics.valid_level(topic.removeprefix(prefix)) or not message.correlation:
        return Ignored.NO_ADDRESS
    return ReplyAddress(topic, message.correlation, message.properties.get("traceparent"))


def read_request(
    message: Message,
    address: ReplyAddress,
    settings: WorkerSettings,
    served: Mapping[str, Callable[[Size], Size]],
    now_s: float,
) -> Job | Rejected:
    """Turn a message into a job, or say what is wrong with it. The deadline is this process's own: arrival + budget.

    ``served`` tells of each model by name what its input is for a picture of a given size.
    """
    if len(message.payload) > settings.request_limit_bytes:
        detail = f"{len(message.payload)} bytes, the limit is {settings.request_limit_bytes}"
        return Rejected(None, Refusal.TOO_LARGE, detail)
    decoded = decode_request(message.payload)
    if isinstance(decoded, BadPayload):
        return Rejected(decoded.request, decoded.refusal, decoded.reason)
    request, jpeg = decoded
    if request.model not in served:
        detail = f"model {request.model!r} is not served here; served: {', '.join(sorted(served))}"
        return Rejected(request, Refusal.UNKNOWN_MODEL, detail)
    width, height = jpeg_size(jpeg) or (0, 0)
    if not 0 < width * height <= settings.pixel_limit:
        detail = f"a picture of {width} x {height} pixels, the limit is {settings.pixel_limit} in all"
        return Rejected(request, Refusal.TOO_LARGE, detail)
    deadline_s = now_s + (request.budget_ms - settings.reply_margin_ms) / 1e3
    size = Size(width, height)
    return Job(request, jpeg, size, address, now_s, deadline_s, served[request.model](size))
