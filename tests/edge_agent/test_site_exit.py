"""The last check on pictures, and the account of what has left."""

import asyncio
import logging
from collections.abc import Iterable

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_agent.departures import Departures, Place
from edge_agent.settings import CameraSettings
from edge_agent.site_exit import TOLD_EVERY_S, SiteExit, place_of
from pipeline.policies.tier_cost import Tier
from pipeline.policies.tier_offers import Privacy
from pipeline.timing import run_virtual
from pipeline.transport.base import Message, Outgoing, PublishStatus
from pipeline.transport.memory import MemoryHub, MemoryTransport
from pipeline.wire import topics
from pipeline.wire.codec import encode_echo, encode_request
from pipeline.wire.messages import Echo, Request, WireCrop
from tests.support.agents import camera

MASK = (((0.0, 0.0), (0.5, 0.0), (0.5, 1.0), (0.0, 1.0)),)
SIDE_PX = 64
_PICTURE = cv2.imencode(".jpg", np.full((SIDE_PX, SIDE_PX, 3), 90, np.uint8))[1].tobytes()


def picture(
    kind: str = "mosaic", *, name: str = "gate", level: str = "cloud", region: tuple[int, ...] = (8, 8, 32, 32)
) -> Outgoing:
    """A request as an agent sends it, about a frame of 64 x 64 pixels."""
    request = Request(
        agent="a1",
        camera=name,
        epoch=1,
        seq=1,
        budget_ms=100.0,
        weight=1.0,
        kind="frame" if kind == "frame" else "mosaic",
        frame_width=SIDE_PX,
        frame_height=SIDE_PX,
        crops=[WireCrop((0, 0, 32, 32), region)],  # type: ignore[arg-type] # four numbers
        model="m",
        min_score=0.5,
    )
    return Outgoing(topics.request(level, "m"), encode_request(request, _PICTURE))


class Site:
    """An exit, and what has come out of it."""

    def __init__(self, *cameras: CameraSettings) -> None:
        self.hub = MemoryHub()
        self.departures = {one.name: Departures() for one in cameras}
        self.exit = SiteExit(MemoryTransport(self.hub), cameras, self.departures)
        self.out: list[Message] = []

    async def send(self, messages: Iterable[Outgoing], rest_s: float = 0.01) -> list[PublishStatus]:
        outside = MemoryTransport(self.hub, name="outside")
        outside.subscribe("#", self.out.append)
        sessions = [asyncio.create_task(one.run()) for one in (outside, self.exit)]
        telling = asyncio.create_task(self.exit.tell())
        await self.exit.wait_connected()
        statuses = [await self.exit.publish(message) for message in messages]
        await asyncio.sleep(rest_s)
        for task in (*sessions, telling):
            task.cancel()
        await asyncio.gather(*sessions, telling, return_exceptions=True)
        return statuses


privacies = st.builds(Privacy, st.frozensets(st.sampled_from(Tier)), st.frozensets(st.sampled_from(Tier)))
messages = st.tuples(
    st.sampled_from(["mosaic", "frame"]), st.sampled_from(["edge", "edge@hall", "cloud", "cloud@north", "lab"])
)


@given(privacies, st.booleans(), st.lists(messages, max_size=6))
def test_only_what_a_camera_allows_comes_out_and_every_byte_of_it_is_accounted_for(
    privacy: Privacy, has_masks: bool, asked: list[tuple[str, str]]
) -> None:
    site = Site(camera(privacy=privacy, masks=MASK if has_masks else ()))
    statuses = run_virtual(site.send([picture(kind, level=level) for kind, level in asked]))
    for (kind, level), status in zip(asked, statuses, strict=True):
        tier = Tier.EDGE if level.startswith("edge") else Tier.CLOUD  # of an unknown tier nothing good is known
        masked = has_masks and kind == "mosaic" and bool(privacy.masked_only & privacy.tiers - {Tier.DEVICE})
        allowed = tier in privacy.tiers and (tier not in privacy.masked_only or masked)
        assert status is (PublishStatus.SENT if allowed else PublishStatus.REFUSED)
    assert len(site.out) == statuses.count(PublishStatus.SENT)
    assert site.exit.counters.total() == statuses.count(PublishStatus.REFUSED)
    assert sum(site.departures["gate"].by_tier.values()) == sum(len(message.payload) for message in site.out)


def test_a_crop_as_large_as_the_frame_is_a_whole_frame() -> None:
    site = Site(camera(privacy=Privacy(masked_only=frozenset({Tier.CLOUD})), masks=MASK))
    whole, part = picture(region=(0, 0, SIDE_PX, SIDE_PX)), picture(region=(0, 0, SIDE_PX, SIDE_PX - 1))
    assert run_virtual(site.send([whole, part])) == [PublishStatus.REFUSED, PublishStatus.SENT]
    assert site.exit.counters == {"withheld_not_masked": 1}


def test_what_cannot_be_read_or_is_of_nobody_known_does_not_leave() -> None:
    site = Site(camera())
    garbled = Outgoing(topics.request("cloud", "m"), picture().payload[:-9] + b"garbled.." * 100)
    assert run_virtual(site.send([garbled, picture(name="other")])) == [PublishStatus.REFUSED] * 2
    assert site.exit.counters == {"withheld_unreadable": 1, "withheld_unknown_camera": 1}


def test_probes_and_all_that_is_no_request_pass_uncounted() -> None:
    site = Site(camera(privacy=Privacy(frozenset({Tier.DEVICE}))))
    probe = Outgoing(topics.request("cloud", "m"), encode_echo(Echo(echo=1)))
    other = Outgoing("foveate/gate/result", b"{}")
    assert run_virtual(site.send([probe, other])) == [PublishStatus.SENT] * 2
    assert site.departures["gate"].by_place == {}


def test_what_finds_no_connection_has_not_left() -> None:
    site = Site(camera())
    assert run_virtual(site.exit.publish(picture())) is PublishStatus.NOT_CONNECTED
    assert site.departures["gate"].by_place == {}


@pytest.mark.parametrize(
    ("topic", "place"),
    [
        (topics.request("edge", "m"), Place(Tier.EDGE)),
        (topics.request(topics.target("edge", "hall/2"), "m"), Place(Tier.EDGE, "hall_2")),
        (topics.request("cloud", "m"), Place(Tier.CLOUD)),
        (topics.request("lab", "m"), Place(Tier.CLOUD)),
        (topics.result("gate"), None),
    ],
)
def test_tier_and_location_are_read_from_the_topic(topic: str, place: Place | None) -> None:
    assert place_of(topic) == place


def test_what_leaves_is_logged_once_a_minute_and_at_the_end_and_silence_is_not(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "edge_agent.site_exit")
    site = Site(camera(), camera("hall"))
    sent = [picture(level="cloud@north"), picture(level="cloud@north"), picture(level="edge", name="hall")]
    run_virtual(site.send(sent, rest_s=3 * TOLD_EVERY_S))
    size_bytes = len(sent[0].payload)
    assert caplog.messages == [
        f"camera gate sent {2 * size_bytes} bytes of pictures to tier cloud, location north, leaving the site",
        f"camera hall sent {size_bytes} bytes of pictures to tier edge, on site",
    ]
    caplog.clear()
    run_virtual(Site(camera()).send([picture()], rest_s=0.01))
    assert [message.partition(" sent ")[0] for message in caplog.messages] == ["camera gate"]


def test_a_refusal_is_counted_each_time_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    site = Site(camera(privacy=Privacy(frozenset({Tier.DEVICE, Tier.EDGE}))))
    run_virtual(site.send([picture(), picture(), picture("frame")]))
    assert caplog.messages == ["a picture of camera gate was withheld from tier cloud: forbidden"]
    assert site.exit.counters == {"withheld_forbidden": 3}
