"""How right a recorded run was: the result published for each frame, held against true boxes."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np

from foveate.models.scoring import Truth, read_mot
from pipeline.errors import ConfigError
from pipeline.geometry import BoxArray
from pipeline.metrics.matching import Score, score_frame, total
from pipeline.results import Result, decode_result

NO_RESULT = "no result"
"""Stands where an origin would, for frames that the record does not have."""

Record = Mapping[int, Result]
"""The result published for each frame, by frame number from 0."""

_NOTHING: BoxArray = np.empty((0, 4), np.float32)


@dataclass(frozen=True, slots=True)
class OriginScore:
    """The frames that were answered in one way, and their pooled score."""

    frames: int
    score: Score


@dataclass(frozen=True, slots=True)
class Accuracy:
    """Scores of a record over ``frames`` frames; ``by_origin`` splits them by how each frame was answered."""

    frames: int
    answered: int
    score: Score
    by_origin: dict[str, OriginScore]


def read_record(path: Path, camera: str | None = None) -> dict[int, Result]:
    """Read what ``foveate run --record`` wrote; of a frame with revisions, what was published first counts.

    Raises ConfigError where the file cannot be read, or holds more than one run of one camera.
    """
    results: dict[int, Result] = {}
    cameras: set[str] = set()
    epochs: set[int] = set()
    try:
        with path.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                result = _result(line, path, number)
                cameras.add(result.camera)
                if camera is not None and result.camera != camera:
                    continue
                epochs.add(result.epoch)
                known = results.get(result.seq)
                if known is None or result.revision < known.revision:
                    results[result.seq] = result
    except OSError as error:
        raise ConfigError(f"Cannot read the record {path} ({error.strerror or error}): check the path.") from error
    if camera is None and len(cameras) > 1:
        raise ConfigError(f"{path} has the cameras {', '.join(sorted(cameras))}: choose one with --camera.")
    if len(epochs) > 1:
        raise ConfigError(f"{path} has {len(epochs)} runs in one file: record each run in a file of its own.")
    if not results:
        found = f"has only {', '.join(sorted(cameras))}" if cameras else "is empty"
        raise ConfigError(f"{path} {found}: name a record with results of the camera to be scored.")
    return results


def _result(line: bytes, path: Path, number: int) -> Result:
    try:
        result = decode_result(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(
            f"{path} line {number} is not a result ({error}): name a file that foveate run --record wrote."
        ) from error
    if result.seq < 0:
        raise ConfigError(f"{path} line {number} has frame number {result.seq}: frames are counted from 0.")
    return result


def read_truth(path: Path, label: str) -> dict[int, Truth]:
    """Read true boxes in MOT format by frame number from 1. Raises ConfigError where a row is none."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of a frame number that is no number; refused below
        truth = read_mot(path, label)
    bad = [n for n, frame in truth.items() if n < 1 or not np.isfinite(frame.xyxy).all()]
    if bad:
        raise ConfigError(
            f"{path} has a row of frame {bad[0]} that is no box (frames count from 1, boxes are finite): correct it."
        )
    return truth


def accuracy(record: Record, truth: Mapping[int, Truth], label: str, frames: int | None = None) -> Accuracy:
    """Score the first ``frames`` frames (None: all that the record or the truth has) at IoU 0.5.

    ``record`` counts frames from 0, ``truth`` from 1. A frame without a result scores as one without detections.
    """
    count = frames if frames is not None else max(max(record, default=-1) + 1, max(truth, default=0))
    scores: dict[str, list[Score]] = {}
    for seq in range(count):
        result, true = record.get(seq), truth.get(seq + 1)
        score = score_frame(
            boxes(result, label), _NOTHING if true is None else true.xyxy, None if true is None else true.ignored
        )
        scores.setdefault(NO_RESULT if result is None else result.origin, []).append(score)
    by_origin = {origin: OriginScore(len(scores[origin]), total(scores[origin])) for origin in sorted(scores)}
    missing = by_origin[NO_RESULT].frames if NO_RESULT in by_origin else 0
    return Accuracy(count, count - missing, total(part.score for part in by_origin.values()), by_origin)


def boxes(result: Result | None, label: str) -> BoxArray:
    """The boxes (n, 4) ``xyxy`` in frame pixels that a result has of a label."""
    found = [] if result is None else [d.box for d in result.detections if d.label == label]
    return np.array(found, dtype=np.float32).reshape(-1, 4)
