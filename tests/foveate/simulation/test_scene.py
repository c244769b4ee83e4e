"""Replaying a workload: which frames, and what a decision sends."""

import pytest

from foveate.simulation.scene import Scene, SceneFrame
from pipeline.policies.offload import OVERHEAD_BYTES, OffloadDecision
from pipeline.policies.sampler import TokenClock
from tests.support.workloads import MOSAIC, WHOLE, frame, place, workload


def two_places() -> SceneFrame:
    return SceneFrame.of(frame(0, 0.0, places=(place(x=100.0), place(x=300.0))))


def test_a_sampler_takes_what_is_due() -> None:
    scene = Scene.of(workload(frames=20, fps=10.0), TokenClock(5.0))
    assert [shown.frame.seq for shown in scene.frames] == list(range(0, 20, 2))


def test_the_due_places_are_the_candidates() -> None:
    shown = two_places()
    assert [candidate.box[0] for candidate in shown.due] == [100.0, 300.0]


def test_the_due_places_cost_what_was_recorded() -> None:
    shown = two_places()
    assert shown.shot(OffloadDecision("mosaic", "uncertain", shown.due)) is MOSAIC


def test_a_whole_frame_costs_what_was_recorded_for_it() -> None:
    assert two_places().shot(OffloadDecision("frame", "search_for_missed")) is WHOLE


def test_half_of_the_places_cost_half_of_the_pixels_and_of_the_time() -> None:
    shown = two_places()
    shot = shown.shot(OffloadDecision("mosaic", "uncertain", shown.due[:1]))
    assert shot.infer_ms == pytest.approx(MOSAIC.infer_ms / 2)
    assert shot.size_bytes == pytest.approx(OVERHEAD_BYTES + (MOSAIC.size_bytes - OVERHEAD_BYTES) / 2)
    assert (shot.height_px, shot.shown_px) == (MOSAIC.height_px / 2, MOSAIC.shown_px / 2)
