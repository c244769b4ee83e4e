"""A camera learns from its own answers."""

import numpy as np
import pytest

from edge_agent.candidates import CandidateSettings, Survey, as_candidates, survey
from edge_agent.gain_lessons import MOST_OPEN, GainLessons, audited
from edge_agent.tracking.history import Tracker
from edge_agent.tracking.tracks import TrackerSettings
from pipeline.detections import Detections
from pipeline.frames import FrameKey
from pipeline.geometry import BoxArray, Size
from pipeline.policies.change import NO_BOXES
from pipeline.policies.gain import PRIOR
from pipeline.policies.offload import OffloadDecision

SIZE = Size(640, 480)
RULES, TRACKING = CandidateSettings(), TrackerSettings()
HERE, THERE = (50.0, 100.0, 80.0, 180.0), (300.0, 100.0, 330.0, 180.0)


def found(*boxes: tuple[float, float, float, float]) -> Detections:
    return Detections.of(boxes, [0.5] * len(boxes), ["person"] * len(boxes))


def seen(*boxes: tuple[float, float, float, float]) -> Survey:
    entry = Tracker(TRACKING).observe(0, 0.0, found(*boxes))
    return survey(entry, NO_BOXES, SIZE, PRIOR, RULES, TRACKING)


def around(*boxes: tuple[float, float, float, float]) -> BoxArray:
    return np.array([(x1 - 10, y1 - 10, x2 + 10, y2 + 10) for x1, y1, x2, y2 in boxes], np.float32).reshape(-1, 4)


def key(seq: int) -> FrameKey:
    return FrameKey("gate", 1, seq)


def asked(lessons: GainLessons, seq: int, known: Survey, *, drawn: bool = False) -> None:
    places = as_candidates(known.places, known.gain, RULES, due_only=True)
    lessons.asked(key(seq), known, OffloadDecision("mosaic", "", places, drawn=places if drawn else ()))


def test_what_the_cloud_denies_again_and_again_becomes_worth_a_look() -> None:
    lessons, known = GainLessons(PRIOR, 0.03), seen(HERE)
    for seq in range(30):
        asked(lessons, seq, known)
        lessons.answered(key(seq), found(HERE), found(), around(HERE), whole=False)
    assert lessons.model.gain(known.features)[0] > 0.8 > known.gain[0]


def test_only_places_that_were_looked_at_teach() -> None:
    lessons, known = GainLessons(PRIOR, 0.03), seen(HERE, THERE)
    asked(lessons, 1, known)
    lessons.answered(key(1), found(HERE, THERE), found(THERE), around(HERE), whole=False)
    assert lessons.model.lessons == 1


def test_a_place_that_was_only_drawn_teaches_for_those_that_were_not() -> None:
    gains = []
    for drawn in (False, True):
        lessons, known = GainLessons(PRIOR, 0.1), seen(HERE)
        asked(lessons, 1, known, drawn=drawn)
        lessons.answered(key(1), found(HERE), found(), around(HERE), whole=False)
        gains.append(lessons.model.gain(known.features)[0])
    assert gains[1] > gains[0] > known.gain[0]


def test_whole_frames_teach_about_what_the_edge_does_not_see() -> None:
    lessons, known = GainLessons(PRIOR, 0.03), seen(HERE)
    for seq in range(10):
        lessons.asked(key(seq), known, OffloadDecision("frame", ""))
        everywhere = np.array([[0, 0, 640, 480]], np.float32)
        lessons.answered(key(seq), found(HERE), found(HERE, THERE), everywhere, whole=True)
    assert lessons.model.unseen_gain > 0.8


def test_an_answer_teaches_once_and_one_that_was_not_asked_for_nothing() -> None:
    lessons, known = GainLessons(PRIOR, 0.03), seen(HERE)
    lessons.answered(key(1), found(HERE), found(), around(HERE), whole=False)
    assert lessons.model is PRIOR
    asked(lessons, 1, known)
    for _ in range(2):
        lessons.answered(key(1), found(HERE), found(), around(HERE), whole=False)
    assert lessons.model.lessons == 1


def test_the_questions_without_an_answer_that_are_remembered_are_bounded() -> None:
    lessons, known = GainLessons(PRIOR, 0.03), seen(HERE)
    for seq in range(MOST_OPEN + 1):
        asked(lessons, seq, known)
    lessons.answered(key(0), found(HERE), found(), around(HERE), whole=False)
    assert lessons.model is PRIOR
    lessons.answered(key(1), found(HERE), found(), around(HERE), whole=False)
    assert lessons.model.lessons == 1


@pytest.mark.parametrize(("share", "drawn"), [(0.0, 0), (1.0, 50)])
def test_frames_are_drawn_by_their_keys(share: float, drawn: int) -> None:
    assert sum(audited(key(seq), share) for seq in range(50)) == drawn
