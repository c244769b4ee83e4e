"""Change detection outdoors: storms of change, things that move for ever, light that creeps, a camera that shakes."""

from collections.abc import Callable

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from pipeline.frames import Image
from pipeline.policies.change import AdaptiveChange, ChangeDecision, ChangeSettings
from pipeline.policies.keep import News

HEIGHT, WIDTH, FPS, CAMERA_FPS = 288, 384, 5.0, 25.0
Levels = NDArray[np.float64]
Scene = Callable[[float], Levels]
"""The grey levels (height, width) at a time in seconds."""

NOISE = np.random.default_rng(1).normal(0, 1.5, (7, HEIGHT, WIDTH))
NOTHING_NEW = News(elsewhere=False, tracked=False)


def texture(seed: int, cells: tuple[int, int], width: int = WIDTH) -> Levels:
    """Soft patches between black and white, so many up and across."""
    patches = np.random.default_rng(seed).uniform(20, 200, cells)
    return np.asarray(cv2.resize(patches, (width, HEIGHT), interpolation=cv2.INTER_CUBIC))


GARDEN = texture(3, (18, 24))
PANORAMA = texture(4, (36, 700), width=11_200)


def picture(grey: Levels, n: int) -> Image:
    """(height, width, 3) uint8 BGR with a camera's noise."""
    noise = NOISE[n % 7, : grey.shape[0], : grey.shape[1]]
    return np.asarray(cv2.cvtColor(cv2.convertScaleAbs(np.maximum(grey + noise, 0)), cv2.COLOR_GRAY2BGR), np.uint8)


def watch(
    scene: Scene, seconds: float, from_s: float = 0.0, detector: AdaptiveChange | None = None
) -> list[tuple[float, ChangeDecision]]:
    """Decisions at five looks per second, where no look ever finds anything."""
    detector = detector or AdaptiveChange(ChangeSettings())
    seen = []
    for n in range(int(from_s * FPS), int((from_s + seconds) * FPS)):
        at_s = n / FPS
        decision = detector.look(picture(scene(at_s), n), at_s)
        if decision.keep:
            detector.learn(at_s, NOTHING_NEW)
        seen.append((at_s, decision))
    return seen


def unprompted(seen: list[tuple[float, ChangeDecision]], from_s: float, to_s: float) -> list[str]:
    """Why frames were kept in a time, other than at the start, by the maximum gap, or to learn."""
    usual = {"first", "max_gap", "audit"}
    return [d.reason for at_s, d in seen if from_s <= at_s < to_s and d.keep and d.reason not in usual]


def motion_boxes(seen: list[tuple[float, ChangeDecision]], from_s: float, to_s: float) -> int:
    return sum(len(d.motion) for at_s, d in seen if from_s <= at_s < to_s)


def panned(at_s: float) -> Levels:
    """A camera that turns by 20 pixels per frame from second 10 to second 20."""
    left = round(20 * CAMERA_FPS * min(max(at_s - 10.0, 0.0), 10.0))
    return PANORAMA[:, left : left + WIDTH]


def rainy_night(at_s: float) -> Levels:
    """Thirty bright streaks in each frame until second 30."""
    grey = np.full((HEIGHT, WIDTH), 12.0)
    rng = np.random.default_rng(round(at_s * CAMERA_FPS))
    for x, y, slant, length in rng.integers((0, 0, -12, 15), (WIDTH, HEIGHT, 12, 40), (30 if at_s < 30 else 0, 4)):
        cv2.line(grey, (int(x), int(y)), (int(x + slant), int(y + length)), 200.0, 2)
    return grey


SMALL_GARDEN = np.asarray(cv2.resize(GARDEN, (WIDTH // 2, HEIGHT // 2), interpolation=cv2.INTER_AREA))


def spiders_thread(at_s: float) -> Levels:
    """One bright line that waves for ever, on a picture of half the size."""
    y = np.arange(20, 120, 5)
    x = 75 + 12.5 * np.sin(4.4 * at_s) * np.sin(np.pi * (y - 20) / 100) + 2 * np.sin(5.3 * at_s)
    grey = SMALL_GARDEN.copy()
    cv2.polylines(grey, [np.stack([x, y], axis=1).astype(np.int32)], isClosed=False, color=240.0, thickness=2)
    return grey


def tree(at_s: float) -> Levels:
    y, x = np.mgrid[0:100, 0:80]
    grey = GARDEN.copy()
    leaves = np.sin(x / 5 + 3 * np.sin(2.1 * at_s + y / 20)) * np.cos(y / 6 + 2 * np.sin(1.3 * at_s))
    grey[50:150, 200:280] = 110 + 60 * leaves
    return grey


def flag(at_s: float) -> Levels:
    grey = GARDEN.copy()
    grey[40:100, 60:140] = 110 + 70 * np.sign(np.sin(np.arange(80) / 9 + 4.7 * at_s))[None, :]
    return grey


def sunlight(at_s: float) -> Levels:
    """A lit half that creeps over the floor."""
    lit = np.clip((50 + 0.6 * at_s - np.arange(WIDTH)) / 6 + 0.5, 0, 1)
    return np.asarray(GARDEN * (1 + 0.5 * lit))


def slow_shadow(at_s: float) -> Levels:
    """A shadow as wide as a fifth of the picture that crosses it in four minutes."""
    left, x = 20 + 1.5 * at_s, np.arange(WIDTH)
    shade = np.clip((x - left) / 8, 0, 1) * np.clip((left + 80 - x) / 8, 0, 1)
    return np.asarray(GARDEN * (1 - 0.4 * shade))


def shaken(most_px: float) -> Scene:
    """A finely textured scene seen by a camera that shakes by so much."""
    still = texture(5, (72, 96))

    def scene(at_s: float) -> Levels:
        dx, dy = np.random.default_rng(round(at_s * 1000)).uniform(-most_px, most_px, 2)
        moved = cv2.warpAffine(
            still, np.array([[1, 0, dx], [0, 1, dy]]), (WIDTH, HEIGHT), borderMode=cv2.BORDER_REPLICATE
        )
        return np.asarray(moved)

    return scene


STORMS = pytest.mark.parametrize(
    ("scene", "begins_s", "ends_s"), [(panned, 10.0, 20.0), (rainy_night, 0.0, 30.0)], ids=["a camera turns", "rain"]
)


@STORMS
def test_in_a_storm_two_frames_a_second_are_kept_and_no_motion_is_claimed(
    scene: Scene, begins_s: float, ends_s: float
) -> None:
    seen = watch(scene, ends_s)
    raging_s = begins_s + 1.2
    kept = [at_s for at_s, d in seen if at_s >= raging_s and d.keep]
    assert len(kept) <= 2 * (ends_s - raging_s) + 1
    assert kept[-1] > ends_s - 1.2
    assert motion_boxes(seen, raging_s, ends_s) == 0


@STORMS
def test_within_two_seconds_after_a_storm_the_scene_is_known_again(
    scene: Scene, begins_s: float, ends_s: float
) -> None:
    seen = watch(scene, ends_s + 12.0)
    assert "storm" in {d.reason for at_s, d in seen if at_s < ends_s}
    assert unprompted(seen, ends_s + 2.0, ends_s + 12.0) == []
    assert motion_boxes(seen, ends_s, ends_s + 12.0) == 0


@STORMS
def test_who_enters_after_a_storm_is_seen_at_once(scene: Scene, begins_s: float, ends_s: float) -> None:
    def with_visitor(at_s: float) -> Levels:
        grey = scene(at_s).copy()
        if at_s >= ends_s + 2.5:
            grey[100:170, 150:197] += 60
        return grey

    seen = watch(with_visitor, ends_s + 3.0)
    seen_at_once = next(d for at_s, d in seen if at_s >= ends_s + 2.5)
    assert seen_at_once.reason == "changed"
    assert len(seen_at_once.motion) == 1


@pytest.mark.parametrize("people", [8, 15])
def test_people_who_walk_are_no_storm(people: int) -> None:
    def crowd(at_s: float) -> Levels:
        grey = GARDEN.copy()
        for n in range(people):
            left, top = int((40 * n + (12 + n % 8) * at_s) % (WIDTH - 20)), int((HEIGHT - 50) * n / people)
            grey[top : top + 40, left : left + 18] = 240 - 30 * (n % 2)
        return grey

    seen = watch(crowd, 30)
    assert "storm" not in {d.reason for _, d in seen}
    assert motion_boxes(seen, 5, 30) > 25 * FPS


@pytest.mark.parametrize(("scene", "known_s"), [(tree, 30.0), (flag, 40.0)], ids=["a tree", "a flag"])
def test_what_waves_for_ever_stops_counting(scene: Scene, known_s: float) -> None:
    seen = watch(scene, known_s + 60)
    assert len(unprompted(seen, 0, 10)) > 10
    assert len(unprompted(seen, known_s, known_s + 60)) <= 2
    assert motion_boxes(seen, known_s, known_s + 60) == 0


def test_beside_a_tree_that_waves_a_visitor_is_still_seen() -> None:
    detector = AdaptiveChange(ChangeSettings())
    watch(tree, 40, detector=detector)

    def with_visitor(at_s: float) -> Levels:
        grey = tree(at_s)
        grey[180:250, 60:107] += 60
        return grey

    _, decision = watch(with_visitor, 0.2, from_s=40, detector=detector)[0]
    assert decision.reason == "changed"
    assert len(decision.motion) == 1


def test_a_thread_that_waves_for_ten_minutes_costs_the_first_of_them() -> None:
    seen = watch(spiders_thread, 600)
    assert len(unprompted(seen, 60, 600)) <= 9 * 2
    shown = [(at_s, d) for at_s, d in seen if d.keep]
    assert motion_boxes(shown, 60, 600) <= 540 * 0.2


@pytest.mark.parametrize("scene", [sunlight, slow_shadow], ids=["sunlight", "a shadow"])
def test_light_that_creeps_is_neither_change_nor_motion(scene: Scene) -> None:
    seen = watch(scene, 180)
    assert unprompted(seen, 0, 180) == []
    assert motion_boxes(seen, 0, 180) == 0


@pytest.mark.parametrize("most_px", [1.0, 2.0])
def test_a_camera_that_shakes_a_little_sees_no_change(most_px: float) -> None:
    seen = watch(shaken(most_px), 60)
    assert len(unprompted(seen, 0, 60)) <= 5
    assert motion_boxes(seen, 0, 60) == 0


def test_a_visitor_is_seen_by_a_camera_that_shakes() -> None:
    scene = shaken(2.0)

    def with_visitor(at_s: float) -> Levels:
        grey = scene(at_s)
        if at_s >= 10:
            grey[100:170, 150:197] = np.where(grey[100:170, 150:197] > 128, 40, 220)
        return grey

    first = next((at_s, d) for at_s, d in watch(with_visitor, 11) if at_s >= 10 and d.keep)
    assert first[0] <= 10.2
    assert first[1].reason == "changed"


def test_looks_that_nobody_analysed_are_forgotten() -> None:
    detector = AdaptiveChange(ChangeSettings(max_gap_s=0.1))
    for n in range(100):
        detector.look(picture(GARDEN, n), n / FPS)
    assert len(detector._looks) <= 16
    detector.learn(0.2, NOTHING_NEW)


def switched_to_infrared(at_s: float) -> Image:
    """Colours until second 10, then grey with another gain, blended over ten frames of the camera; a visitor a second
    after that.
    """
    share = min(max(at_s - 10.0, 0.0) * CAMERA_FPS / 10, 1.0)
    day, night = GARDEN[:, :, None] * np.array([0.5, 1.0, 0.8]), np.repeat(0.6 * GARDEN[:, :, None] + 50, 3, axis=2)
    image = (1 - share) * day + share * night + NOISE[round(at_s * FPS) % 7, :, :, None]
    if at_s >= 11.4:
        image[100:170, 150:197] += 60
    return np.asarray(np.clip(image, 0, 255), np.uint8)


def test_a_switch_from_colour_to_infrared_keeps_two_frames_at_most_and_hides_nobody() -> None:
    detector = AdaptiveChange(ChangeSettings())
    seen = [(n / FPS, detector.look(switched_to_infrared(n / FPS), n / FPS)) for n in range(int(14 * FPS))]
    assert len(unprompted(seen, 10.0, 11.4)) <= 2
    assert motion_boxes(seen, 0.0, 11.4) == 0
    assert next(at_s for at_s, d in seen if at_s >= 11.4 and d.reason == "changed") <= 13.4
