"""What is published of a frame, by the functions that the stages share with plain loops."""

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge_agent.frame_work import answer, draw, masked
from edge_agent.region_of_interest import RegionError, bind
from edge_agent.settings import CameraSettings, Polygon
from edge_agent.tracking.history import Tracker
from pipeline.detections import Detections
from pipeline.frames import Frame, FrameKey, Image
from pipeline.geometry import Size
from pipeline.mosaic import Layout
from pipeline.policies.offload import Candidate, Kind, OffloadDecision, Why
from pipeline.policies.tier_cost import Tier
from pipeline.policies.tier_offers import Privacy
from pipeline.wire.messages import WireCrop
from tests.support.agents import PERSON_XYXY, camera

SIZE = Size(200, 160)


@pytest.mark.parametrize(("most_fps", "shown"), [(None, 0), (4.0, 0), (0.4, 1)])
def test_boxes_are_moved_along_for_as_long_as_the_lowered_sample_rate_leaves_a_frame_away(
    most_fps: float | None, shown: int
) -> None:
    settings = camera()
    tracker = Tracker(settings.tracker)
    for seq in range(5):
        tracker.observe(seq, seq / 10, Detections.of([PERSON_XYXY], [0.9], ["person"]))
    assert len(answer(tracker, None, 0.4 + 2.4, SIZE, settings, most_fps)) == shown


masks = st.lists(
    st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=3, max_size=6).map(tuple), min_size=1, max_size=3
).map(tuple)
places = st.lists(
    st.tuples(st.floats(0, 180), st.floats(0, 140), st.floats(5, 120), st.floats(5, 120)), min_size=1, max_size=4
)
TO_THE_CLOUD_MASKED = Privacy(masked_only=frozenset({Tier.CLOUD}))


def picture_of(image: Image, decision: OffloadDecision, settings: CameraSettings) -> tuple[Layout, bytes]:
    return draw(Frame(FrameKey("gate", 1, 1), image, 0.0, None), decision, settings)


@settings(max_examples=60)
@given(masks, places, st.sampled_from(["mosaic", "frame"]), st.integers(0, 2**32 - 1))
def test_not_a_byte_of_what_is_sent_depends_on_a_pixel_under_a_mask(
    masked: tuple[Polygon, ...], boxes: list[tuple[float, float, float, float]], kind: Kind, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    image, hidden = rng.integers(0, 256, (2, SIZE.height, SIZE.width, 3), np.uint8)
    counts = bind((), masked, SIZE).mask if any_left(masked) else np.zeros((SIZE.height, SIZE.width), np.uint8)
    assert counts is not None
    other = np.where(counts[..., None] > 0, image, hidden).astype(np.uint8)
    candidates = tuple(
        Candidate((x, y, min(x + w, SIZE.width), min(y + h, SIZE.height)), Why.MOTION, 0.5) for x, y, w, h in boxes
    )
    decision = OffloadDecision(kind, "", candidates if kind == "mosaic" else ())
    private = camera(masks=masked, privacy=TO_THE_CLOUD_MASKED)
    assert picture_of(image, decision, private) == picture_of(other, decision, private)


def any_left(masked: tuple[Polygon, ...]) -> bool:
    """Whether the masks leave anything of the frame: an agent refuses a camera of which nothing is left."""
    try:
        bind((), masked, SIZE)
    except RegionError:
        return False
    return True


def test_masks_are_painted_over_only_where_a_tier_asks_for_it() -> None:
    image = np.full((SIZE.height, SIZE.width, 3), (0, 0, 255), np.uint8)
    half = ((0.0, 0.0), (0.5, 0.0), (0.5, 1.0), (0.0, 1.0))
    decision = OffloadDecision("frame", "")
    plain = picture_of(image, decision, camera())
    assert picture_of(image, decision, camera(masks=(half,))) == plain
    at_home = Privacy(frozenset({Tier.DEVICE, Tier.EDGE}), masked_only=frozenset({Tier.CLOUD}))
    assert picture_of(image, decision, camera(masks=(half,), privacy=at_home)) == plain
    _, data = picture_of(image, decision, camera(masks=(half,), privacy=TO_THE_CLOUD_MASKED))
    shown = np.asarray(cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR), np.uint8)
    assert shown[:, :95].std() < 1
    assert (shown[:, 110:, 2] > 240).all()


@pytest.mark.parametrize(
    ("kind", "region", "masks_given", "expected"),
    [
        ("mosaic", (0, 0, 100, 160), True, True),
        ("mosaic", (0, 0, 200, 160), True, False),
        ("frame", (0, 0, 200, 160), True, False),
        ("mosaic", (0, 0, 100, 160), False, False),
    ],
)
def test_masked_is_a_picture_of_crops_with_masks(
    kind: str, region: tuple[int, int, int, int], masks_given: bool, expected: bool
) -> None:
    private = camera(masks=(((0, 0), (9, 0), (9, 9)),) if masks_given else (), privacy=TO_THE_CLOUD_MASKED)
    assert masked(kind, [WireCrop((0, 0, 50, 80), region)], SIZE, private) is expected
