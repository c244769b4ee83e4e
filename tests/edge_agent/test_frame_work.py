"""What is published of a frame, by the functions that the stages share with plain loops."""

import pytest

from edge_agent.frame_work import answer
from edge_agent.tracking.history import Tracker
from pipeline.detections import Detections
from pipeline.geometry import Size
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
