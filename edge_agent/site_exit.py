"""The one way by which pictures leave the agent: what a camera forbids is stopped here, and what goes is accounted for.

Whoever chooses a target goes by the camera's privacy too. This is the last check: it believes nobody, and reads tier,
camera and crops from the message itself.
"""

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping

from edge_agent.departures import Departures, Place
from edge_agent.frame_work import masked
from edge_agent.settings import CameraSettings
from pipeline.geometry import Size
from pipeline.policies.tier_cost import Tier
from pipeline.transport.base import Handler, Outgoing, PublishStatus, SessionState, Transport
from pipeline.wire import topics
from pipeline.wire.codec import BadPayload, decode_echo, decode_request
from pipeline.wire.messages import Request

_log = logging.getLogger(__name__)
TOLD_EVERY_S = 60.0


def place_of(topic: str) -> Place | None:
    """Where a message to a topic takes a picture; None where it is no request. A level that names no tier counts as
    the farthest one.
    """
    start = f"{topics.WIRE}/req/"
    if not topic.startswith(start):
        return None
    name, _, location = topic[len(start) :].partition("/")[0].partition("@")
    with contextlib.suppress(ValueError):
        return Place(Tier(name), location)
    return Place(Tier.CLOUD, location)


class SiteExit:
    """Implements ``Transport``: passes everything on to ``inner`` but the pictures that a camera forbids.

    Those are ``REFUSED``, counted by reason in ``counters``, and logged once for each camera, tier and reason.
    """

    def __init__(
        self, inner: Transport, cameras: Iterable[CameraSettings], departures: Mapping[str, Departures]
    ) -> None:
        self._inner, self._departures = inner, departures
        self._cameras = {camera.name: camera for camera in cameras}
        self._told: set[tuple[str, Tier, str]] = set()
        self.counters: Counter[str] = Counter()

    @property
    def state(self) -> SessionState:
        return self._inner.state

    def subscribe(self, topic_filter: str, handler: Handler, qos: int = 0) -> None:
        self._inner.subscribe(topic_filter, handler, qos)

    async def unsubscribe(self, topic_filter: str) -> None:
        await self._inner.unsubscribe(topic_filter)

    def on_connect(self, birth: Callable[[], Awaitable[None]]) -> None:
        self._inner.on_connect(birth)

    async def wait_connected(self) -> None:
        await self._inner.wait_connected()

    async def run(self) -> None:
        await self._inner.run()

    async def publish(self, outgoing: Outgoing) -> PublishStatus:
        place = place_of(outgoing.topic)
        if place is None or decode_echo(outgoing.payload) is not None:
            return await self._inner.publish(outgoing)
        decoded = decode_request(outgoing.payload)
        if isinstance(decoded, BadPayload):
            return self._refuse("", place, "unreadable")
        request, _ = decoded
        reason = self._forbidden(request, place)
        if reason:
            return self._refuse(request.camera, place, reason)
        status = await self._inner.publish(outgoing)
        if status is PublishStatus.SENT:
            self._departures[request.camera].add(place, len(outgoing.payload))
        return status

    def _forbidden(self, request: Request, place: Place) -> str:
        camera = self._cameras.get(request.camera)
        if camera is None:
            return "unknown_camera"
        size = Size(request.frame_width, request.frame_height)
        is_masked = masked(request.kind, request.crops, size, camera)
        hindrance = camera.privacy.hindrance(place.tier, masked=is_masked)
        return "" if hindrance is None else hindrance.value

    def _refuse(self, camera: str, place: Place, reason: str) -> PublishStatus:
        self.counters[f"withheld_{reason}"] += 1
        if (camera, place.tier, reason) not in self._told:
            self._told.add((camera, place.tier, reason))
            _log.error("a picture of camera %s was withheld from %s: %s", camera or "unknown", place, reason)
        return PublishStatus.REFUSED

    async def tell(self) -> None:
        """Log what each camera sends where, once a minute while something goes, until cancelled."""
        told: dict[tuple[str, Place], int] = {}
        try:
            while True:
                await asyncio.sleep(TOLD_EVERY_S)
                told = self._tell(told)
        finally:
            self._tell(told)

    def _tell(self, told: Mapping[tuple[str, Place], int]) -> dict[tuple[str, Place], int]:
        sent = dict(self._sent())
        for (camera, place), size_bytes in sent.items():
            if new_bytes := size_bytes - told.get((camera, place), 0):
                fate = "leaving the site" if place.tier is Tier.CLOUD else "on site"
                _log.info("camera %s sent %d bytes of pictures to %s, %s", camera, new_bytes, place, fate)
        return sent

    def _sent(self) -> Iterator[tuple[tuple[str, Place], int]]:
        for camera, departures in self._departures.items():
            yield from (((camera, place), size_bytes) for place, size_bytes in departures.by_place.items())
