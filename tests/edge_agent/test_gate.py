"""The gate binds its parts to the size of the frames."""

from dataclasses import replace

import cv2
import numpy as np
import pytest

from edge_agent.capture.settings import CaptureSettings
from edge_agent.gate import Gate, Gated, baseline_bytes, jpeg
from edge_agent.region_of_interest import RegionError
from edge_agent.settings import CameraSettings
from edge_agent.tracking.history import Tracker
from edge_agent.tracking.tracks import TrackerSettings
from pipeline.detections import Detections
from pipeline.frames import Frame, FrameKey, Image
from pipeline.geometry import Size
from pipeline.policies.change import ChangeSettings

CAMERA = CameraSettings("hall", CaptureSettings("synthetic:"), sample_fps=5.0)
LEFT_HALF = ((0.0, 0.0), (0.5, 0.0), (0.5, 1.0), (0.0, 1.0))


def grey(width: int, height: int, level: int = 90) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    return np.full((height, width, 3), level, np.uint8)


def test_frames_are_due_at_the_sampling_rate() -> None:
    gate = Gate(CAMERA)
    assert [n for n in range(20) if gate.due(n / 10)] == list(range(0, 20, 2))


def test_a_still_scene_is_kept_first_and_then_not() -> None:
    gate = Gate(CAMERA)
    gate.fit(Size(64, 48))
    assert [gate.look(grey(64, 48), at_s).keep for at_s in (0.0, 0.2, 0.4)] == [True, False, False]


def test_uniform_keeps_every_frame() -> None:
    gate = Gate(CameraSettings("hall", CaptureSettings("synthetic:"), change_detection="uniform"))
    gate.fit(Size(64, 48))
    assert all(gate.look(grey(64, 48), at_s).keep for at_s in (0.0, 0.2, 0.4))


def test_the_region_is_bound_once_per_size_and_anew_when_the_size_changes() -> None:
    gate = Gate(CameraSettings("hall", CaptureSettings("synthetic:"), roi=LEFT_HALF))
    first = gate.fit(Size(200, 100))
    assert gate.fit(Size(200, 100)) is first
    turned = gate.fit(Size(100, 200))
    assert (turned.window.width, turned.window.height) == (50, 200)
    assert gate.look(grey(100, 200), 0.0).reason == "first"


def test_motion_outside_the_region_is_not_noticed() -> None:
    gate = Gate(CameraSettings("hall", CaptureSettings("synthetic:"), roi=LEFT_HALF))
    gate.fit(Size(200, 100))
    gate.look(grey(200, 100), 0.0)
    moved = grey(200, 100)
    moved[20:60, 140:180] = 200
    assert len(gate.look(moved, 0.2).motion) == 0
    moved[20:60, 20:60] = 200
    assert len(gate.look(moved, 0.4).motion) == 1


def test_a_region_that_does_not_fit_is_told_and_one_that_does_is_taken_later() -> None:
    gate = Gate(CameraSettings("hall", CaptureSettings("synthetic:"), roi=((300, 10), (400, 10), (400, 90))))
    with pytest.raises(RegionError):
        gate.fit(Size(200, 100))
    assert gate.fit(Size(640, 480)).window.x == 300


def test_looking_before_the_size_is_known_is_a_mistake() -> None:
    with pytest.raises(RuntimeError, match="fit"):
        Gate(CAMERA).look(grey(64, 48), 0.0)


def test_a_picture_becomes_a_jpeg_of_its_size_and_better_quality_costs_more() -> None:
    noise = np.random.default_rng(1).integers(0, 255, (48, 64, 3), dtype=np.uint8)
    small, large = jpeg(noise, 30), jpeg(noise, 90)
    decoded = cv2.imdecode(np.frombuffer(small, np.uint8), cv2.IMREAD_COLOR)
    assert decoded is not None
    assert decoded.shape == (48, 64, 3)
    assert len(small) < len(large)
    assert baseline_bytes(Frame(FrameKey("c", 1, 0), noise, 0.0, None)) == len(jpeg(noise, 80))


def person(x: float) -> Detections:
    return Detections.of([(x, 10.0, x + 60, 130.0)], [0.8], ["person"])


def walk(gate: Gate, speed_px_s: float, seconds: float) -> list[tuple[float, Gated]]:
    """A dark figure that walks through the picture, which the small model finds in every frame that it is shown."""
    gate.fit(Size(384, 288))
    tracker, seen = Tracker(TrackerSettings()), []
    for n in range(int(seconds * 5)):
        at_s = n / 5
        left = 20 + speed_px_s * at_s
        image = grey(384, 288)
        image[10:130, int(left) : int(left) + 60] = 220
        gated = gate.look(image, at_s)
        if gated.keep:
            gate.tracks(tracker.observe(n, at_s, person(left)))
        seen.append((at_s, gated))
    return seen


def still(**changes: object) -> Gate:
    """A gate that keeps no frame for its age alone."""
    change = ChangeSettings(max_gap_s=60.0, audit_share=0.0, learn=False)
    return Gate(replace(CAMERA, change=change, **changes))  # type: ignore[arg-type] # settings by name


def test_a_slow_walker_is_looked_at_less_often_than_every_sampled_frame() -> None:
    seen = walk(still(), 20.0, 15)
    late = [gated for at_s, gated in seen if at_s >= 8]
    assert 10 <= sum(gated.keep for gated in late) <= 0.6 * len(late)
    assert {gated.reason for gated in late} <= {"changed", "not_due", "unchanged"}
    assert "not_due" in {gated.reason for gated in late}


def test_a_fast_walker_is_looked_at_at_the_full_rate() -> None:
    seen = walk(still(), 75.0, 4)
    assert all(gated.keep for at_s, gated in seen if at_s >= 1)


def test_fixed_sampling_looks_at_a_slow_walker_as_often_as_it_changes() -> None:
    assert "not_due" not in {gated.reason for _, gated in walk(still(sampling="fixed"), 20.0, 15)}


def test_a_newcomer_does_not_wait_for_the_slow_walkers_turn() -> None:
    gate = still()
    walk(gate, 20.0, 10)
    image = grey(384, 288)
    image[10:130, 220:280] = 220
    image[150:250, 30:80] = 20
    gated = gate.look(image, 10.0)
    assert (gated.keep, gated.reason) == (True, "changed")


def test_a_bound_on_the_rate_holds_for_what_is_due() -> None:
    gate = Gate(CAMERA)
    assert len([n for n in range(100) if gate.due(n / 10, 1.0)]) in {10, 11}


def patches(rng: np.random.Generator) -> Image:
    """Some other view each time."""
    return np.asarray(cv2.resize(rng.integers(0, 255, (18, 24, 3), dtype=np.uint8), (384, 288)), np.uint8)


def test_one_cameras_storm_is_nothing_to_another_camera() -> None:
    stormy, calm, alone = Gate(CAMERA), Gate(CAMERA), Gate(CAMERA)
    rng = np.random.default_rng(4)
    for gate in (stormy, calm, alone):
        gate.fit(Size(384, 288))
    reasons = set()
    for n in range(50):
        at_s, scene = n / 5, grey(384, 288)
        scene[100:160, 4 * n : 4 * n + 40] = 220
        reasons.add(stormy.look(patches(rng), at_s).reason)
        beside, by_itself = calm.look(scene, at_s), alone.look(scene, at_s)
        assert (beside.keep, beside.reason) == (by_itself.keep, by_itself.reason)
        assert (beside.motion == by_itself.motion).all()
    assert "storm" in reasons


def test_tidings_that_nobody_collects_do_not_pile_up() -> None:
    gate, tracker = Gate(CAMERA), Tracker(TrackerSettings())
    for n in range(100):
        gate.tracks(tracker.observe(n, n / 5, person(20)))
    assert len(gate._heard) <= 16


def test_tracks_that_were_not_heard_of_for_long_are_expected_nowhere() -> None:
    gate = Gate(CAMERA)
    gate.fit(Size(640, 480))
    tracker = Tracker(TrackerSettings())
    for n in range(5):
        gate.tracks(tracker.observe(n, n / 5, person(20 + 10 * n)))
    assert len(gate._expected(1.0).places) == 1
    assert len(gate._expected(60.0).places) == 0


def test_answers_of_the_cloud_alone_that_come_in_another_order_do_not_take_time_back() -> None:
    gate = Gate(CAMERA)
    gate.fit(Size(640, 480))
    tracker = Tracker(TrackerSettings())
    first, second = (tracker.observe(n, n / 5, person(20 + 10 * n)) for n in range(2))
    gate.tracks_of_cloud(second)
    gate.tracks_of_cloud(first)
    [[x1, *_]] = gate._expected(0.2).places.tolist()
    assert x1 == pytest.approx(30, abs=4)


def test_tracks_of_another_size_of_frame_are_forgotten() -> None:
    gate = Gate(CAMERA)
    walk(gate, 6.0, 4)
    gate.fit(Size(200, 100))
    assert gate.look(grey(200, 100), 4.0).reason == "first"
    assert gate.look(grey(200, 100), 4.2).reason == "unchanged"


def fidget(gate: Gate, corrected: bool) -> list[bool]:
    """A person stands and moves a hand; the cloud changes each answer or none. Which frames were kept."""
    gate.fit(Size(384, 288))
    tracker, kept = Tracker(TrackerSettings()), []
    for n in range(60):
        image = grey(384, 288)
        image[60:72, 120:132] = 220 if n % 2 else 20
        decision = gate.look(image, n / 5)
        kept.append(decision.keep)
        if decision.keep:
            gate.tracks(tracker.observe(n, n / 5, person(100)))
            gate.corrected(n / 5, person(100), person(300) if corrected else person(100))
    return kept


def test_what_the_cloud_changes_is_a_reason_to_look_again() -> None:
    learning = replace(CAMERA, change=ChangeSettings(max_gap_s=60.0, audit_share=0.0), sampling="fixed")
    assert not any(fidget(Gate(learning), corrected=False)[30:])
    assert all(fidget(Gate(learning), corrected=True)[30:])


def test_what_was_learned_of_the_scene_outlives_the_gate_and_another_size_of_picture() -> None:
    learning = replace(CAMERA, change=ChangeSettings(max_gap_s=60.0, audit_share=0.0), sampling="fixed")
    first = Gate(learning)
    assert first.memory is None
    fidget(first, corrected=False)
    learned = first.memory
    assert learned is not None
    first.fit(Size(192, 144))
    assert first.memory == learned
    second = Gate(learning)
    second.recall(learned)
    assert second.memory == learned
    second.fit(Size(384, 288))
    assert second.memory == learned


def test_who_learns_nothing_recalls_nothing() -> None:
    learned = Gate(CAMERA)
    learned.fit(Size(384, 288))
    memory = learned.memory
    assert memory is not None
    for settings in (replace(CAMERA, change=ChangeSettings(learn=False)), replace(CAMERA, change_detection="uniform")):
        gate = Gate(settings)
        gate.recall(memory)
        gate.fit(Size(384, 288))
        assert gate.memory is None
