"""Fills a camera's store with the lessons of a recording, taught by the larger model."""

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import cv2

from edge_agent.lessons.offline import lessons_from
from edge_agent.lessons.store import LessonStore
from edge_agent.settings import CameraSettings
from foveate.bench.reference import LEAST_SCORE
from foveate.models.clips import count_frames, sampled_frames
from foveate.plan import Plan
from pipeline.detectors.loading import load_detector
from pipeline.detectors.manifest import read_manifest
from pipeline.errors import ConfigError, SourceError
from pipeline.frames import Image
from pipeline.timing import wall_time

LOOKS_PER_S = 5.0
"""As often as a live camera is looked at."""
USUAL_FPS = 25.0
"""Of recordings whose header says nothing that can be meant."""
Told = Callable[[float], None]


@dataclass(frozen=True, slots=True)
class Filled:
    """What came of a recording: how many frames the larger model saw, how many lessons were kept, and how many not;
    ``known`` ones were there already, and how often something could not be written is ``unwritten``.
    """

    looked: int
    kept: int
    left_out: int
    known: int
    unwritten: int


def fill_from(recording: Path, settings: CameraSettings, store: LessonStore, plan: Plan, told: Told) -> Filled:
    """Have the larger model look at a recording, and keep what it teaches; ``told`` hears of the share that is done.

    Takes as long as the model's looks. The lessons count as taken until the file was last written, so that a recording
    that is shown again is known: twice the same lessons would judge what was learned from them. Raises SourceError,
    ModelError, and ConfigError where the store cannot be written.
    """
    if not recording.is_file():
        raise SourceError(f"the recording {recording} does not exist; name a video file.")
    _check_writable(store.folder)
    fps, total = frames_per_s(recording), count_frames(recording)
    every = max(1, round(fps / LOOKS_PER_S))
    images, edge = settings.images, read_manifest(plan.models_dir).entry(plan.edge_model.name)
    as_sent = (images.frame_height_px, images.frame_width_px)
    cloud = load_detector(plan.agent.uplink.model, input_size=as_sent, threads=1, models_dir=plan.models_dir)
    found = []
    for number, image in sampled_frames(recording, every):
        found.append(cloud.detect([image], LEAST_SCORE)[0])
        told(number / total)
    began = _written(recording) - timedelta(seconds=total / fps)
    teacher, taught = f"{cloud.name}@{cloud.version}", f"{edge.name}@{edge.version}"
    known = {_moment_ms(taken_at_s) for taken_at_s in store.overview().taken_at_s}
    kept = left_out = known_already = 0
    for lesson in lessons_from(
        _timed(recording, every, fps), found, settings, teacher=teacher, edge=taught, began=began
    ):
        if _moment_ms(lesson.taken_at.timestamp()) in known:
            known_already += 1
            continue
        added = store.add(lesson).kept
        kept, left_out = kept + added, left_out + (not added)
    store.close()
    return Filled(len(found), kept, left_out, known_already, store.counters["unwritten"])


def frames_per_s(recording: Path) -> float:
    """The rate that a recording's header states, or the usual one where that cannot be meant."""
    capture = cv2.VideoCapture(str(recording), cv2.CAP_FFMPEG)
    try:
        stated = float(capture.get(cv2.CAP_PROP_FPS))
    finally:
        capture.release()
    return stated if 0.1 <= stated <= 1000 else USUAL_FPS


def _written(recording: Path) -> datetime:
    """When a recording was last written; now for one that is said to come from the future."""
    return min(datetime.fromtimestamp(recording.stat().st_mtime).astimezone(), wall_time().astimezone())


def _moment_ms(unix_s: float) -> int:
    return round(unix_s * 1000)


def _check_writable(folder: Path) -> None:
    """See that lessons can be kept before minutes of looks for them. Raises ConfigError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise ConfigError(
            f"lessons cannot be kept in {folder} ({error.strerror}): name another state folder with --state-dir."
        ) from error


def _timed(recording: Path, every: int, fps: float) -> Iterator[tuple[float, Image]]:
    return (((number - 1) / fps, image) for number, image in sampled_frames(recording, every))
