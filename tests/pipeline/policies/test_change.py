"""Change detection: light is not motion, noise is not motion, an object is."""

from collections.abc import Callable, Iterator

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from pipeline.frames import Image
from pipeline.policies.change import AdaptiveChange, ChangeDecision, ChangeSettings, NoChangeDetection

HEIGHT, WIDTH, FPS = 288, 384, 5.0
HEARTBEAT = ChangeSettings().max_gap_s
OBJECT = (slice(100, 170), slice(150, 197))
"""Rows and columns of a rectangle of 3 % of the picture."""

Levels = NDArray[np.float64]
Light = Callable[[int], Levels]
"""Factor on the scene's light in frame n: (height, 1) or a scalar array."""


def scene(*, textured: bool = False) -> Levels:
    """The still scene as (height, width) float grey levels; textured with things between black and white."""
    grey = np.full((HEIGHT, WIDTH), 117.0)
    if textured:
        rng = np.random.default_rng(3)
        grey = cv2.resize(rng.uniform(20, 200, (18, 24)), (WIDTH, HEIGHT), interpolation=cv2.INTER_CUBIC)
    return np.asarray(grey)


def picture(grey: Levels) -> Image:
    """(height, width, 3) uint8 BGR from grey levels."""
    return np.asarray(cv2.cvtColor(cv2.convertScaleAbs(np.maximum(grey, 0)), cv2.COLOR_GRAY2BGR), np.uint8)


NOISE = np.random.default_rng(1).normal(0, 1.5, (7, HEIGHT, WIDTH))
"""Noise of a camera in grey levels, for frame n the (n mod 7)th."""


def steady(n: int) -> Levels:
    return np.array(1.0)


def pumping(n: int) -> Levels:
    """Gain of +-8 % at 2 Hz."""
    return np.array(1 + 0.08 * np.sin(2 * np.pi * 2 * n / FPS + 0.3))


def rolling(cycles_per_s: float) -> Light:
    """Bands of +-5 %, as of lamps on a 50 Hz grid, that roll over the picture."""

    def light(n: int) -> Levels:
        rows = np.arange(HEIGHT)[:, None] / HEIGHT
        return np.asarray(1 + 0.05 * np.sin(2 * np.pi * (3 * rows + cycles_per_s * n / FPS)))

    return light


LIGHTS = pytest.mark.parametrize(
    "light",
    [steady, pumping, rolling(0.1), rolling(0.5), rolling(1.3), rolling(2.1)],
    ids=["steady", "pumping", "slow bands", "bands", "fast bands", "bands that jump"],
)
TEXTURES = pytest.mark.parametrize("textured", [False, True], ids=["plain", "textured"])


def watch(
    seconds: float, light: Light, *, textured: bool, enters_at_s: float | None = None
) -> Iterator[tuple[float, ChangeDecision]]:
    """Decisions on a scene; a rectangle with a contrast of 60 levels may enter."""
    detector, still = AdaptiveChange(ChangeSettings()), scene(textured=textured)
    for n in range(int(seconds * FPS)):
        grey = still.copy()
        if enters_at_s is not None and n / FPS >= enters_at_s:
            grey[OBJECT] = np.where(grey[OBJECT] > 128, grey[OBJECT] - 60, grey[OBJECT] + 60)
        yield n / FPS, detector.look(picture(grey * light(n) + NOISE[n % 7]), n / FPS)


def unprompted(decisions: Iterator[tuple[float, ChangeDecision]]) -> list[tuple[float, str]]:
    """When and why frames were kept other than at the start and by the maximum gap."""
    return [(at_s, d.reason) for at_s, d in decisions if d.keep and d.reason not in {"first", "max_gap"}]


@TEXTURES
@LIGHTS
def test_light_that_flickers_keeps_few_frames_beyond_the_heartbeat(light: Light, textured: bool) -> None:
    assert len(unprompted(watch(60, light, textured=textured))) <= 2


@TEXTURES
@LIGHTS
def test_a_rectangle_that_enters_is_caught_at_once_and_its_place_is_told(light: Light, textured: bool) -> None:
    decisions = list(watch(32, light, textured=textured, enters_at_s=30.2))
    caught = [(at_s, d) for at_s, d in decisions if at_s >= 30.2 and d.reason == "changed"]
    assert caught
    at_s, decision = caught[0]
    assert at_s <= 31.2
    inside = [
        box for box in decision.motion.tolist() if 140 < box[0] < 160 and 90 < box[1] < 110 and 187 < box[2] < 207
    ]
    assert len(inside) == 1


@TEXTURES
@pytest.mark.parametrize("gain", [0.85, 1.2])
def test_a_step_of_exposure_is_no_change(textured: bool, gain: float) -> None:
    detector, still = AdaptiveChange(ChangeSettings(max_gap_s=100)), scene(textured=textured)
    for n in range(10):
        detector.look(picture(still + NOISE[n % 7]), n / FPS)
    after = [detector.look(picture(still * gain + NOISE[n % 7]), n / FPS) for n in range(10, 20)]
    assert {decision.reason for decision in after} == {"unchanged"}
    assert all(len(decision.motion) == 0 for decision in after)


def test_exposure_that_pumps_does_not_hide_a_faint_object() -> None:
    detector = AdaptiveChange(ChangeSettings())
    for n in range(60):
        grey = scene()
        if n == 59:
            grey[OBJECT] += 25
        decision = detector.look(picture(grey * pumping(n) + NOISE[n % 7]), n / FPS)
    assert decision.reason == "changed"
    assert len(decision.motion) == 1


def test_a_black_night_keeps_few_frames_beyond_the_heartbeat() -> None:
    detector, noise = AdaptiveChange(ChangeSettings()), NOISE / 1.5 * 2
    pictures = (picture(3 + noise[n % 7]) for n in range(300))
    assert len(unprompted((n / FPS, detector.look(image, n / FPS)) for n, image in enumerate(pictures))) <= 2


def test_a_still_picture_is_kept_at_the_heartbeat_alone() -> None:
    detector, still = AdaptiveChange(ChangeSettings()), picture(scene(textured=True))
    kept = [n / FPS for n in range(50) if detector.look(still, n / FPS).keep]
    assert kept == pytest.approx([HEARTBEAT * n for n in range(10)])


def test_a_switch_to_infrared_keeps_few_frames_and_leaves_no_blindness() -> None:
    detector, day = AdaptiveChange(ChangeSettings()), scene(textured=True)
    night = np.clip(200 - 0.6 * day, 0, 255)  # grass is dark by day and bright in infrared
    kept, caught_s = 0, None
    for n in range(int(14 * FPS)):
        at_s = n / FPS
        share = min(1.0, max(0.0, (at_s - 10.0) / 0.4))
        grey = (1 - share) * day + share * night
        if at_s >= 11.4:
            grey = grey.copy()
            grey[OBJECT] += 60
        decision = detector.look(picture(grey + NOISE[n % 7]), at_s)
        if 10.0 <= at_s < 11.4 and decision.reason not in {"unchanged", "max_gap"}:
            kept += 1
        if 10.4 < at_s < 11.4:
            assert len(decision.motion) == 0
        if at_s >= 11.4 and decision.reason == "changed" and caught_s is None:
            caught_s = at_s
    assert kept <= 2
    assert caught_s is not None
    assert caught_s <= 13.4


def test_a_large_change_is_learned_at_once_and_claims_no_motion() -> None:
    detector, day = AdaptiveChange(ChangeSettings()), scene(textured=True)
    detector.look(picture(day), 0.0)
    switched = detector.look(picture(255 - day), 0.2)
    after = detector.look(picture(255 - day), 0.4)
    assert (switched.keep, switched.reason, len(switched.motion)) == (True, "scene_changed", 0)
    assert (after.keep, len(after.motion)) == (False, 0)


def test_slow_movement_adds_up_until_it_shows() -> None:
    detector = AdaptiveChange(ChangeSettings(max_gap_s=1e6))
    reasons = []
    for n in range(200):
        grey = scene()
        left = 50 + n * 0.1  # a tenth of a pixel per frame: never more than noise from one frame to the next
        canvas = cv2.warpAffine(
            np.full((40, 40), 60.0), np.array([[1, 0, left], [0, 1, 60.0]]), (WIDTH, HEIGHT), borderValue=0.0
        )
        reasons.append(detector.look(picture(grey + canvas), n / FPS).reason)
    assert 2 <= reasons.count("changed") <= 40


def test_where_the_scene_is_never_idle_sampling_is_uniform() -> None:
    detector, rng = AdaptiveChange(ChangeSettings()), np.random.default_rng(5)
    reasons = []
    for n in range(300):
        grey = scene()
        left, top = rng.integers(0, WIDTH - 60), rng.integers(0, HEIGHT - 60)
        if n < 200:
            grey[top : top + 60, left : left + 60] += 60
        reasons.append(detector.look(picture(grey), n / FPS).reason)
    assert set(reasons[100:200]) <= {"changed", "scene_changed", "never_idle"}
    assert "never_idle" in reasons[200:204]
    assert reasons[-1] in {"unchanged", "max_gap"}


def masked_right_half() -> NDArray[np.uint8]:
    mask = np.full((HEIGHT, WIDTH), 255, np.uint8)
    mask[:, WIDTH // 2 :] = 0
    return mask


def test_what_moves_behind_a_mask_is_not_noticed() -> None:
    detector, rng = AdaptiveChange(ChangeSettings(), masked_right_half()), np.random.default_rng(6)
    for n in range(50):
        grey = scene()
        grey[:, WIDTH // 2 + 8 :] = rng.uniform(0, 255)  # a screen that shows something else each time
        decision = detector.look(picture(grey), n / FPS)
        assert decision.reason in {"first", "unchanged", "max_gap"}
        assert len(decision.motion) == 0


def test_a_mask_does_not_make_the_rest_less_sensitive() -> None:
    detector, rng = AdaptiveChange(ChangeSettings(), masked_right_half()), np.random.default_rng(7)
    for n in range(30):
        grey = scene()
        grey[:, WIDTH // 2 + 8 :] = rng.uniform(0, 255)
        if n == 29:
            grey[120:135, 60:75] += 40
        decision = detector.look(picture(grey), n / FPS)
    assert decision.reason == "changed"
    assert len(decision.motion) == 1


def test_a_change_of_all_that_is_not_masked_is_a_change_of_scene() -> None:
    mask = np.zeros((HEIGHT, WIDTH), np.uint8)
    mask[:, : WIDTH // 5] = 255
    detector, day = AdaptiveChange(ChangeSettings(), mask), scene(textured=True)
    detector.look(picture(day), 0.0)
    assert detector.look(picture(255 - day), 0.2).reason == "scene_changed"


def test_a_mask_of_everything_is_no_error_and_shows_nothing() -> None:
    detector = AdaptiveChange(ChangeSettings(), np.zeros((HEIGHT, WIDTH), np.uint8))
    detector.look(picture(scene()), 0.0)
    assert detector.look(picture(scene() * 0.3), 0.2).reason == "unchanged"


def test_a_new_size_or_a_fall_of_time_starts_anew() -> None:
    detector = AdaptiveChange(ChangeSettings())
    still = picture(scene())
    detector.look(still, 5.0)
    assert detector.look(still[:200], 5.2).reason == "first"
    assert detector.look(still[:200], 1.0).reason == "max_gap"
    assert detector.look(still[:200], 1.2).reason == "unchanged"


def test_the_first_frame_is_kept_and_no_frame_is_changed_by_looking() -> None:
    detector, still = AdaptiveChange(ChangeSettings()), picture(scene(textured=True))
    still.setflags(write=False)
    before = still.copy()
    assert detector.look(still, 0.0).reason == "first"
    detector.look(still, 0.2)
    assert (still == before).all()


@pytest.mark.parametrize(("height", "width"), [(1, 1), (2, 3), (361, 641), (1, 4000), (4000, 1)])
def test_odd_tiny_and_extreme_shapes_are_looked_at(height: int, width: int) -> None:
    detector, rng = AdaptiveChange(ChangeSettings()), np.random.default_rng(8)
    for n in range(5):
        image = rng.integers(0, 256, (height, width, 3), dtype=np.uint8)
        motion = detector.look(image, n / FPS).motion
        assert motion.shape == (len(motion), 4)
        assert (motion[:, :2] < motion[:, 2:]).all()


@given(st.integers(0, 340), st.integers(0, 240), st.integers(12, 40), st.integers(12, 40))
@settings(max_examples=30, deadline=None)
def test_a_motion_box_lies_in_the_frame_and_holds_what_entered(left: int, top: int, width: int, height: int) -> None:
    detector, grey = AdaptiveChange(ChangeSettings()), scene()
    detector.look(picture(grey), 0.0)
    grey[top : top + height, left : left + width] += 60
    motion = detector.look(picture(grey), 0.2).motion
    assert len(motion) == 1
    x1, y1, x2, y2 = motion[0].tolist()
    assert 0 <= x1 <= left
    assert 0 <= y1 <= top
    assert min(left + width, WIDTH) <= x2 <= WIDTH
    assert min(top + height, HEIGHT) <= y2 <= HEIGHT
    assert (x2 - x1) <= width + 20
    assert (y2 - y1) <= height + 20


def test_uniform_keeps_everything_and_still_tells_where_something_moved() -> None:
    detector, grey = NoChangeDetection(ChangeSettings()), scene()
    assert [detector.look(picture(grey), n / FPS).keep for n in range(5)] == [True] * 5
    grey[OBJECT] += 60
    decision = detector.look(picture(grey), 1.0)
    assert (decision.keep, decision.reason, len(decision.motion)) == (True, "uniform", 1)
