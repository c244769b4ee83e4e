"""A gain model is fitted to both models' answers on a recording."""

import numpy as np
from numpy.typing import NDArray

from edge_agent.capture.settings import CaptureSettings
from edge_agent.settings import CameraSettings
from foveate.calibrate.replay import Looked, Replay, fit_gain
from pipeline.detections import Detections
from pipeline.geometry import Size
from pipeline.policies.change import NO_BOXES
from pipeline.policies.gain import PRIOR

SETTINGS = CameraSettings("gate", CaptureSettings(""))
REAL, GHOST = (50.0, 100.0, 90.0, 200.0), (400.0, 100.0, 440.0, 200.0)


def found(*rows: tuple[tuple[float, float, float, float], float]) -> Detections:
    return Detections.of([box for box, _ in rows], [score for _, score in rows], ["person"] * len(rows))


def haunted(count: int) -> list[Looked]:
    """A scene where one person stands, and the small model sees another one where the larger one sees nobody."""
    edge, cloud = found((REAL, 0.8), (GHOST, 0.45)), found((REAL, 0.9))
    return [Looked(n, n * 0.2, Size(640, 480), edge, cloud, NO_BOXES) for n in range(count)]


def gains(frames: list[Looked], model_frames: list[Looked]) -> NDArray[np.float64]:
    """Gain of the real and of the other person on the first frame, after learning from ``model_frames``."""
    replay = Replay(SETTINGS)
    entry = replay.observe(frames[0])
    return replay.survey(frames[0], entry, fit_gain(model_frames, SETTINGS, PRIOR)).gain


def test_a_fit_learns_what_the_larger_model_denies_and_what_it_confirms() -> None:
    before, after = gains(haunted(1), []), gains(haunted(1), haunted(60))
    assert after[1] > 0.8 > before[1]
    assert after[0] < 0.2


def test_asking_changes_what_is_published_and_wondering_does_not() -> None:
    [frame] = haunted(1)
    replay = Replay(SETTINGS)
    entry = replay.observe(frame)
    before, after = replay.what_if_asked(frame, entry)
    assert (len(before), len(after), len(replay.published(frame))) == (2, 1, 2)
    assert [len(one) for one in replay.ask(frame)] == [2, 1]
    assert len(replay.published(frame)) == 1


def test_without_frames_the_model_stays_as_it_was() -> None:
    assert fit_gain([], SETTINGS, PRIOR) is PRIOR
