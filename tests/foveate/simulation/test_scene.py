"""Replaying a workload: which frames, and what a decision sends."""

import numpy as np
import pytest

from edge_agent.gate import jpeg
from foveate.simulation.scene import Scene, SceneFrame, question_bytes
from foveate.simulation.workload import Shot
from pipeline.geometry import Size
from pipeline.policies.offload import OVERHEAD_BYTES, OffloadDecision
from pipeline.policies.sampler import TokenClock
from pipeline.wire.codec import encode_request
from pipeline.wire.messages import Request, WireCrop
from tests.support.workloads import MOSAIC, WHOLE, frame, place, product, workload

SETTINGS = product().agent.cameras[0]


def two_places() -> SceneFrame:
    return SceneFrame.of(frame(0, 0.0, places=(place(x=100.0), place(x=300.0))), Size(768, 576))


def test_a_sampler_takes_what_is_due() -> None:
    scene = Scene.of(workload(frames=20, fps=10.0), TokenClock(5.0))
    assert [shown.frame.seq for shown in scene.frames] == list(range(0, 20, 2))


def test_the_due_places_are_the_candidates() -> None:
    shown = two_places()
    assert [candidate.box[0] for candidate in shown.due] == [100.0, 300.0]


def test_the_due_places_cost_what_was_recorded() -> None:
    shown = two_places()
    assert shown.shot(OffloadDecision("mosaic", "uncertain", shown.due), SETTINGS) is MOSAIC


def test_a_whole_frame_costs_what_was_recorded_for_it() -> None:
    assert two_places().shot(OffloadDecision("frame", "search_for_missed"), SETTINGS) is WHOLE


def test_fewer_places_are_laid_out_as_the_agent_does_and_cost_what_their_pixels_do() -> None:
    shown = two_places()
    shot = shown.shot(OffloadDecision("mosaic", "uncertain", shown.due[:1]), SETTINGS)
    width, height = 40 + 2 * SETTINGS.offload.padding_px, 100 + 2 * SETTINGS.offload.padding * 100
    pixels = shot.width_px * shot.height_px / (MOSAIC.width_px * MOSAIC.height_px)
    assert shot.shown_px == pytest.approx(width * height, rel=0.03)
    assert shot.infer_ms == pytest.approx(MOSAIC.infer_ms * pixels)
    in_proportion = (MOSAIC.size_bytes - OVERHEAD_BYTES) * shot.shown_px / MOSAIC.shown_px
    assert shot.size_bytes == pytest.approx(OVERHEAD_BYTES + in_proportion, abs=1)


@pytest.mark.parametrize("crops", [1, 8])
def test_a_question_is_as_large_as_the_real_payload(crops: int) -> None:
    wire = [WireCrop((200, 120, 97, 40), (512, 290, 130, 280))] * crops
    request = Request(
        agent="agent-name", camera="camera", epoch=1_796_046_237, seq=1234, budget_ms=163.2512, weight=1.0,
        kind="mosaic", frame_width=768, frame_height=576, crops=wire, model="nanodet-g", min_score=0.5,
    )  # fmt: skip
    picture = jpeg(np.zeros((160, 320, 3), np.uint8), 60)
    shot = Shot(len(picture), 320, 160, 30_000, crops, 1.0, 1.0, 1.0)
    assert question_bytes(shot) == pytest.approx(len(encode_request(request, picture)), abs=60)
