from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from foveate.models.judge import Verdict, compare
from foveate.models.scoring import Truth
from pipeline.detections import Detections
from pipeline.errors import ModelError
from pipeline.frames import Image
from pipeline.timing import ManualClock
from tests.support.clips import write_clip

BOX, OTHER = [8.0, 8, 40, 40], [60.0, 8, 90, 40]


class TimedDetector:
    """A detector that always says the same and takes a stated time on a clock moved by hand."""

    version = "1"
    labels = ("person",)

    def __init__(self, name: str, clock: ManualClock, boxes: Sequence[Sequence[float]], takes_s: float) -> None:
        self.name = name
        self._clock, self._boxes, self._takes_s = clock, boxes, takes_s

    def detect(self, images: Sequence[Image], min_score: float) -> list[Detections]:
        self._clock.advance(self._takes_s)
        return [Detections.of(self._boxes, [0.9] * len(self._boxes), ["person"] * len(self._boxes)) for _ in images]


@pytest.fixture
def clip(tmp_path: Path) -> Path:
    return write_clip(tmp_path / "clip.avi", [np.full((64, 96, 3), i, np.uint8) for i in range(12)])


def judged(clip: Path, original: list[list[float]], twin: list[list[float]], ratio: float, truth: bool) -> Verdict:
    clock = ManualClock()
    first, second = TimedDetector("m", clock, original, 0.01), TimedDetector("m-int8", clock, twin, 0.01 * ratio)
    row = Truth(np.array([BOX], np.float32), np.array(["person"]), np.array([False]))
    return compare(first, second, clip, 3, dict.fromkeys(range(1, 13), row) if truth else None, clock)


def test_a_faster_twin_that_sees_the_same_loses_nothing(clip: Path) -> None:
    verdict = judged(clip, [BOX], [BOX], 0.5, truth=True)
    assert (verdict.frames, verdict.losses()) == (4, [])
    assert verdict.time_ratio == pytest.approx(0.5)
    assert (verdict.original_f1, verdict.twin_f1, verdict.agreement) == (1.0, 1.0, None)
    assert verdict.figures() == "5.0 ms against 10.0 ms (ratio 0.50), F1 1.000 against 1.000, over 4 frames"


def test_a_twin_that_is_not_faster_is_refused(clip: Path) -> None:
    assert judged(clip, [BOX], [BOX], 1.01, truth=True).losses() == ["it is not faster"]


def test_a_twin_that_sees_worse_than_the_truth_allows_is_refused_with_the_loss(clip: Path) -> None:
    (loss,) = judged(clip, [BOX], [BOX, OTHER], 0.5, truth=True).losses()
    assert loss == "its F1 is 0.333 lower, more than the 0.01 allowed"


def test_without_truth_agreement_with_the_original_decides(clip: Path) -> None:
    assert judged(clip, [BOX, OTHER], [BOX, OTHER], 0.5, truth=False).agreement == 1.0
    verdict = judged(clip, [BOX, OTHER], [BOX], 0.5, truth=False)
    assert verdict.agreement == pytest.approx(2 / 3)
    assert verdict.losses() == ["its agreement is under 0.9"]


def test_nothing_is_judged_by_truth_that_the_original_does_not_see(clip: Path) -> None:
    with pytest.raises(ModelError, match="belongs to the clip"):
        judged(clip, [OTHER], [OTHER], 0.5, truth=True)


def test_nothing_is_judged_on_a_clip_in_which_the_original_finds_nothing(clip: Path) -> None:
    with pytest.raises(ModelError, match="finds nothing there"):
        judged(clip, [], [], 0.5, truth=False)
