"""Whether a smaller twin of a model earns its place: it must be faster and must not see worse."""

import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from foveate.models.clips import sampled_frames
from foveate.models.scoring import Truth, as_truth, best_f1
from pipeline.detections import Detections
from pipeline.detectors.base import Detector
from pipeline.errors import ModelError
from pipeline.timing import Clock

LARGEST_F1_LOSS = 0.01
LEAST_F1 = 0.3
"""An original below it does not show what the truth says, so no loss can be measured with it."""
LEAST_AGREEMENT = 0.9
"""F1 of the twin against the original's own detections above ``SURE_SCORE``."""
SURE_SCORE = 0.5
LEAST_SCORE = 0.2
"""Detections below it are not asked for; the thresholds of ``best_f1`` start here."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Measured figures of an original and its twin on one clip.

    Times are medians of one detection in milliseconds, preparation included. F1 is None where there was no truth, and
    ``agreement`` None where there was.
    """

    frames: int
    original_ms: float
    twin_ms: float
    original_f1: float | None
    twin_f1: float | None
    agreement: float | None

    @property
    def time_ratio(self) -> float:
        return self.twin_ms / self.original_ms

    def figures(self) -> str:
        """The figures in words."""
        parts = [f"{self.twin_ms:.1f} ms against {self.original_ms:.1f} ms (ratio {self.time_ratio:.2f})"]
        if self.original_f1 is not None and self.twin_f1 is not None:
            parts.append(f"F1 {self.twin_f1:.3f} against {self.original_f1:.3f}")
        if self.agreement is not None:
            parts.append(f"agreement {self.agreement:.3f}")
        return f"{', '.join(parts)}, over {self.frames} frames"

    def losses(self) -> list[str]:
        """What speaks against the twin; empty where it may be used."""
        losses = []
        if self.time_ratio >= 1:
            losses.append("it is not faster")
        if self.original_f1 is not None and self.twin_f1 is not None:
            loss = self.original_f1 - self.twin_f1
            if loss > LARGEST_F1_LOSS:
                losses.append(f"its F1 is {loss:.3f} lower, more than the {LARGEST_F1_LOSS} allowed")
        if self.agreement is not None and self.agreement < LEAST_AGREEMENT:
            losses.append(f"its agreement is under {LEAST_AGREEMENT}")
        return losses


def compare(
    original: Detector, twin: Detector, clip: Path, every: int, truth: Mapping[int, Truth] | None, clock: Clock
) -> Verdict:
    """Run both models on every ``every``-th frame in turn, so that a busy machine slows both alike, and score them.

    Without truth the original's own sure detections are the measure.
    """
    found: tuple[dict[int, Detections], dict[int, Detections]] = ({}, {})
    times_ms: tuple[list[float], list[float]] = ([], [])
    for number, image in sampled_frames(clip, every):
        for model, detections, times in zip((original, twin), found, times_ms, strict=True):
            begin_s = clock.now_s()
            detections[number] = model.detect([image], LEAST_SCORE)[0]
            times.append((clock.now_s() - begin_s) * 1e3)
    medians = [statistics.median(times) for times in times_ms]
    if truth is None:
        measure = {number: as_truth(detections, SURE_SCORE) for number, detections in found[0].items()}
        if not any(len(frame.xyxy) for frame in measure.values()):
            raise ModelError(
                f"Cannot judge on {clip}: {original.name} finds nothing there with a score of {SURE_SCORE} or more; "
                "name a clip with objects, or ground truth."
            )
        return Verdict(len(found[0]), medians[0], medians[1], None, None, best_f1(found[1], measure, None))
    labels = sorted({str(label) for frame in truth.values() for label in frame.label})
    scores = [best_f1(detections, truth, labels) for detections in found]
    if scores[0] < LEAST_F1:
        raise ModelError(
            f"Cannot judge on {clip}: {original.name} itself has an F1 of {scores[0]:.3f} there, under {LEAST_F1}; "
            "check that the ground truth belongs to the clip and that its label is the model's."
        )
    return Verdict(len(found[0]), medians[0], medians[1], scores[0], scores[1], None)
