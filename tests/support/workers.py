"""A requester and workers on one in-process hub, for tests on virtual time."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

from cloud_worker.announce import offline
from cloud_worker.service import Runners, WorkerService
from cloud_worker.settings import ServedModel, WorkerSettings
from cloud_worker.warm_up import Prepared
from pipeline.timing import LoopClock
from pipeline.transport.base import Message, Outgoing
from pipeline.transport.memory import MemoryHub, MemoryTransport
from pipeline.wire import topics
from pipeline.wire.codec import BadPayload, decode_reply, encode_cancel, encode_echo, encode_request
from pipeline.wire.messages import Cancel, Echo, Reply, Request, WireCrop
from tests.support.detectors import ScriptedDetector, VirtualRunner, grey_picture, jpeg_of


def make_request(seq: int, **changes: object) -> Request:
    """A request for one 64 x 64 crop; any field may be changed."""
    fields: dict[str, object] = {
        "agent": "a1",
        "camera": "plaza",
        "epoch": 1,
        "seq": seq,
        "budget_ms": 500.0,
        "weight": 1.0,
        "kind": "mosaic",
        "frame_width": 640,
        "frame_height": 480,
        "crops": [WireCrop((0, 0, 64, 64), (10, 10, 64, 64))],
        "model": "m",
        "min_score": 0.3,
    }
    return Request(**(fields | changes))  # type: ignore[arg-type]  # the fields are those of Request, by name


class Requester:
    """Sends requests and collects the replies by correlation data."""

    def __init__(self, hub: MemoryHub, agent: str = "a1") -> None:
        self.transport = MemoryTransport(hub, name=agent)
        self.agent = agent
        self.replies: dict[bytes, list[tuple[float, Reply]]] = {}
        self.arrived = asyncio.Event()
        self.transport.subscribe(topics.reply(agent), self._on_reply)

    def _on_reply(self, message: Message) -> None:
        reply = decode_reply(message.payload)
        assert not isinstance(reply, BadPayload), reply.reason
        assert message.correlation is not None
        self.replies.setdefault(message.correlation, []).append((asyncio.get_running_loop().time(), reply))
        self.arrived.set()

    async def send(self, request: Request, grey: int = 80, size: tuple[int, int] = (64, 64)) -> bytes:
        """Send a flat picture of (width, height) pixels; the correlation data of the request."""
        return await self.send_bytes(encode_request(request, jpeg_of(grey_picture(grey, *size))), str(request.seq))

    async def probe(self, number: int, *, give_up: bool = False) -> bytes:
        """Send an echo probe; its correlation data."""
        return await self.send_bytes(encode_echo(Echo(echo=number, give_up=give_up)), f"echo{number}")

    async def cancel(self, *correlations: bytes) -> None:
        """Cancel requests."""
        payload = encode_cancel(Cancel(correlations=list(correlations)))
        await self.transport.publish(Outgoing(topics.cancel("cloud", self.agent), payload))

    async def send_bytes(self, payload: bytes, name: str, model: str = "m") -> bytes:
        correlation = name.encode()
        await self.transport.publish(
            Outgoing(
                topics.request("cloud", model),
                payload,
                response_topic=topics.reply(self.agent),
                correlation=correlation,
            )
        )
        return correlation

    def reply_to(self, correlation: bytes) -> Reply:
        """The one reply to a request."""
        [(_, reply)] = self.replies[correlation]
        return reply


class Bench:
    """A hub with workers and one requester, all connected."""

    def __init__(self) -> None:
        self.hub = MemoryHub()
        self.requester = Requester(self.hub)
        self.services: list[WorkerService] = []
        self.transports: list[MemoryTransport] = []
        self.tasks: list[asyncio.Task[None]] = []

    def add_worker(
        self, detector: ScriptedDetector, decode_s: float = 0.0, prepared: Prepared | None = None, **settings: object
    ) -> WorkerService:
        """Start one more worker; ``settings`` are fields of WorkerSettings.

        Each request is worked on by itself unless told otherwise: most tests send the same picture many times.
        """
        own = {"worker": f"w{len(self.services)}", "reply_margin_ms": 0.0, "coalesce": False, "cache_ttl_s": 0.0}
        chosen = WorkerSettings(models=(ServedModel(detector.name),), **(own | settings))  # type: ignore[arg-type]
        transport = MemoryTransport(self.hub, will=offline(chosen.worker), name=chosen.worker)
        runners = Runners(VirtualRunner(lambda: detector.last_run_s), VirtualRunner(lambda: decode_s))
        service = WorkerService(chosen, {detector.name: detector}, transport, LoopClock(), runners, prepared)
        self.services.append(service)
        self.transports.append(transport)
        self.tasks.append(asyncio.create_task(service.run()))
        return service

    def kill_first(self) -> None:
        """End the oldest worker as a killed process ends: no goodbye, and the broker publishes its will."""
        self.services.pop(0)
        transport = self.transports.pop(0)
        transport.abort()
        transport._hub = MemoryHub()  # its session must not be taken up again before the cancellation arrives
        self.tasks.pop(0).cancel()

    async def connected(self) -> None:
        for transport in (self.requester.transport, *self.transports):
            await transport.wait_connected()


@asynccontextmanager
async def bench(detectors: Iterable[ScriptedDetector], **settings: object) -> AsyncIterator[Bench]:
    """Workers, one per detector, that are stopped at the end."""
    made = Bench()
    requester = asyncio.create_task(made.requester.transport.run())
    for detector in detectors:
        made.add_worker(detector, **settings)  # type: ignore[arg-type]  # the fields of WorkerSettings, by name
    await made.connected()
    try:
        yield made
    finally:
        for service in made.services:
            service.stop()
        await asyncio.gather(*made.tasks, return_exceptions=False)
        requester.cancel()
