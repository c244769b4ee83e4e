"""What a camera keeps at home does not leave: the pictures that a running agent sends, decoded."""

import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge_agent.lessons.settings import LessonSettings
from edge_agent.settings import CameraSettings, Polygon, UplinkSettings
from edge_agent.site_exit import place_of
from pipeline.frames import Image
from pipeline.policies.tier_cost import PRESETS, Tier
from pipeline.policies.tier_offers import Privacy
from pipeline.policies.tiers import TIER_KINDS
from pipeline.timing import run_virtual
from pipeline.transport.memory import MemoryHub
from pipeline.wire.codec import MOST_ECHO_BYTES, BadPayload, decode_request
from pipeline.wire.messages import Refusal, Request
from tests.support.agents import (
    HEIGHT,
    PERSON_XYXY,
    UNSURE_PERSON,
    WIDTH,
    Cloud,
    Deed,
    Pictures,
    SmallModel,
    Stage,
    camera,
    play,
)

RED_BGR = (0, 0, 255)
MASK = (((0.0, 0.0), (0.4, 0.0), (0.4, 1.0), (0.0, 1.0)),)
"""The left of the frame, and with it a part of the person that the small model sees."""
MASKED = Privacy(masked_only=frozenset({Tier.CLOUD}))
AT_HOME = Privacy(frozenset({Tier.DEVICE, Tier.EDGE}))


def secret(masks: tuple[Polygon, ...]) -> Callable[[int], Image]:
    """Grey pictures with something that moves, and bright red under the masks."""

    def paint(seq: int) -> Image:
        image = np.full((HEIGHT, WIDTH, 3), 100 + 40 * (seq % 2), np.uint8)
        left = 4 * seq % (WIDTH - 30)
        image[60:100, left : left + 30] = 30
        for mask in masks:
            cv2.fillPoly(image, [np.round(np.array(mask) * (WIDTH, HEIGHT)).astype(np.int32)], RED_BGR)
        return image

    return paint


def sent(made: Stage) -> list[tuple[Tier, Request, Image]]:
    """All pictures that have left the agent: to which tier, as what, and decoded."""
    found = []
    for message in made.heard:
        place, decoded = place_of(message.topic), decode_request(message.payload)
        if place is not None and not isinstance(decoded, BadPayload):
            request, jpeg = decoded
            image = cv2.imdecode(np.frombuffer(jpeg, np.uint8), cv2.IMREAD_COLOR)
            found.append((place.tier, request, np.asarray(image, np.uint8)))
    return found


def is_red(image: Image) -> bool:
    blue, green, red = (image[..., channel].astype(int) for channel in range(3))
    return bool(((red - green > 60) & (red - blue > 60)).any())


def watched(private: CameraSettings, *, count: int = 20, **changes: Any) -> Stage:
    """A live camera that shows red under its masks, and a worker in the cloud."""
    source = Pictures(count=count, paint=secret(private.masks))
    return run_virtual(play(source, model=SmallModel(UNSURE_PERSON), cameras=[private], **changes))


def on_site(*deeds: Deed) -> Callable[[MemoryHub], Cloud]:
    return lambda hub: Cloud(hub, deeds, name="e", tier="edge", location="hall")


def eager(**changes: Any) -> CameraSettings:
    """A camera that sends much: whole frames every half second, each tried again as crops."""
    plain = camera(**changes)
    return replace(plain, offload=replace(plain.offload, full_frame_s=0.5, trial_share=1.0))


refusals = st.sampled_from([None, None, None, Refusal.QUEUE_FULL, Refusal.STOPPING])
boxes = st.tuples(st.floats(0, 0.6), st.floats(0, 0.6), st.floats(0.1, 0.39), st.floats(0.1, 0.39))
masks = st.lists(
    boxes.map(lambda b: ((b[0], b[1]), (b[0] + b[2], b[1]), (b[0] + b[2], b[1] + b[3]), (b[0], b[1] + b[3]))),
    min_size=1,
    max_size=2,
).map(tuple)


@settings(max_examples=40)
@given(
    tiers=st.frozensets(st.sampled_from(Tier)),
    masked_only=st.frozensets(st.sampled_from([Tier.EDGE, Tier.CLOUD])),
    masked=masks,
    mode=st.sampled_from(["adaptive", "cloud_only", "edge_only"]),
    deeds=st.lists(st.builds(Deed, st.sampled_from([0.03, 0.15, None]), refused=refusals), min_size=1, max_size=6),
    there=st.booleans(),
    choice=st.sampled_from(sorted(TIER_KINDS)),
    weights=st.sampled_from(sorted(PRESETS)),
)
def test_no_picture_goes_to_a_forbidden_tier_and_no_pixel_under_a_mask_leaves(
    tiers: frozenset[Tier],
    masked_only: frozenset[Tier],
    masked: tuple[Polygon, ...],
    mode: str,
    deeds: list[Deed],
    there: bool,
    choice: str,
    weights: str,
) -> None:
    made = watched(
        eager(privacy=Privacy(tiers, masked_only), masks=masked, mode=mode),
        others=[on_site(*deeds)] if there else (),
        deeds=deeds[::-1],
        uplink=UplinkSettings(choice=choice, weights=PRESETS[weights]),
    )
    pictures = sent(made)
    for tier, request, image in pictures:
        assert tier in tiers
        if tier in masked_only:
            assert request.kind == "mosaic"
            assert not is_red(image)
    # Whoever chooses has not even tried.
    assert not made.agent.site_exit.counters
    assert len(made.results()) == 20
    departures = made.agent.cameras[0].board.departures
    assert departures.by_tier == {name: sum(requests_bytes(made, Tier(name))) for name in ("edge", "cloud")}


def requests_bytes(made: Stage, tier: Tier) -> list[int]:
    """The sizes of the requests that have gone to a tier; probes are smaller than any picture."""
    found = [len(message.payload) for message in made.heard if (p := place_of(message.topic)) and p.tier is tier]
    return [size_bytes for size_bytes in found if size_bytes > MOST_ECHO_BYTES]


def test_without_a_word_whole_frames_go_and_masks_hide_nothing_of_them() -> None:
    pictures = sent(watched(eager(masks=MASK)))
    assert {request.kind for _, request, _ in pictures} == {"mosaic", "frame"}
    assert any(is_red(image) for _, _, image in pictures)


def test_masked_crops_are_asked_about_and_their_answers_count() -> None:
    made = watched(eager(privacy=MASKED, masks=MASK))
    pictures = sent(made)
    assert pictures
    assert {request.kind for _, request, _ in pictures} == {"mosaic"}
    assert "fused" in made.origins()
    assert {result.tier for result in made.results() if result.origin == "fused"} == {"cloud"}
    assert {result.tier for result in made.results() if result.origin == "edge"} <= {"device"}


@pytest.mark.parametrize(("privacy", "kinds"), [(Privacy(), {"frame"}), (MASKED, set()), (AT_HOME, set())])
def test_whole_frames_for_lessons_are_bound_by_it_too(privacy: Privacy, kinds: set[str], tmp_path: Path) -> None:
    lessons = LessonSettings(enabled=True, most_per_minute=60.0, least_apart_s=0.0)
    quiet = replace(camera(privacy=privacy, masks=MASK, lessons=lessons), objects=frozenset({"nothing"}))
    made = watched(quiet, count=60, state_dir=tmp_path)
    assert {request.kind for _, request, _ in sent(made) if request.kind == "frame"} == kinds


def test_a_camera_that_allows_the_device_alone_is_like_edge_only_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "edge_agent.camera")
    made = watched(eager(privacy=Privacy(frozenset({Tier.DEVICE}))))
    assert made.agent.cameras[0].settings.mode == "edge_only"
    assert "camera gate keeps its pictures on the device (tiers), as in the mode edge_only" in caplog.messages
    assert {result.reason for result in made.results() if result.origin == "edge"} == {"edge_only"}
    assert sent(made) == []


def test_a_person_half_under_a_mask_is_asked_about_without_that_half() -> None:
    x1, _, x2, _ = PERSON_XYXY
    assert x1 < MASK[0][1][0] * WIDTH < x2 + 40
    for _, request, image in sent(watched(eager(privacy=MASKED, masks=MASK))):
        for crop in request.crops:
            x, y, w, h = crop.placed
            assert not is_red(image[y : y + h, x : x + w])


def test_whole_frames_go_on_site_and_masked_crops_further() -> None:
    made = watched(eager(privacy=MASKED, masks=MASK), count=30, others=[on_site(Deed(0.15))], deeds=[Deed(0.02)])
    kinds = {(tier, request.kind) for tier, request, _ in sent(made)}
    assert (Tier.EDGE, "frame") in kinds
    assert (Tier.CLOUD, "mosaic") in kinds
    assert (Tier.CLOUD, "frame") not in kinds


def test_a_worker_on_site_that_cannot_be_asked_is_no_reason_to_draw_whole_frames_for_it() -> None:
    other = lambda hub: Cloud(hub, [Deed(0.03)], name="e", tier="edge", model="another")  # noqa: E731 - used once
    made = watched(eager(privacy=MASKED, masks=MASK), count=30, others=[other])
    assert {request.kind for _, request, _ in sent(made)} == {"mosaic"}
    assert "not_masked" not in {result.reason for result in made.results()}
