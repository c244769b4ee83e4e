"""Fills a camera's store with the lessons of a recording, taught by the larger model."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
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
from pipeline.errors import SourceError
from pipeline.frames import Image
from pipeline.timing import wall_time

LOOKS_PER_S = 5.0
"""As often as a live camera is looked at."""
USUAL_FPS = 25.0
"""Of recordings whose header says nothing that can be meant."""
Told = Callable[[float], None]


@dataclass(frozen=True, slots=True)
class Filled:
    """What came of a recording: how many frames the larger model saw, how many lessons were kept, and how many not."""

    looked: int
    kept: int
    left_out: int


def fill_from(recording: Path, settings: CameraSettings, store: LessonStore, plan: Plan, told: Told) -> Filled:
    """Have the larger model look at a recording, and keep what it teaches; ``told`` hears of the share that is done.

    Takes as long as the model's looks. The lessons count as taken until now. Raises SourceError and ModelError.
    """
    if not recording.is_file():
        raise SourceError(f"the recording {recording} does not exist; name a video file.")
    fps, total = frames_per_s(recording), count_frames(recording)
    every = max(1, round(fps / LOOKS_PER_S))
    images, edge = settings.images, read_manifest(plan.models_dir).entry(plan.edge_model.name)
    as_sent = (images.frame_height_px, images.frame_width_px)
    cloud = load_detector(plan.agent.uplink.model, input_size=as_sent, threads=1, models_dir=plan.models_dir)
    found = []
    for number, image in sampled_frames(recording, every):
        found.append(cloud.detect([image], LEAST_SCORE)[0])
        told(number / total)
    began = wall_time().astimezone() - timedelta(seconds=total / fps)
    teacher, taught = f"{cloud.name}@{cloud.version}", f"{edge.name}@{edge.version}"
    kept = left_out = 0
    frames = _timed(recording, every, fps)
    for lesson in lessons_from(frames, found, settings, teacher=teacher, edge=taught, began=began):
        added = store.add(lesson).kept
        kept, left_out = kept + added, left_out + (not added)
    store.close()
    return Filled(len(found), kept, left_out)


def frames_per_s(recording: Path) -> float:
    """The rate that a recording's header states, or the usual one where that cannot be meant."""
    capture = cv2.VideoCapture(str(recording), cv2.CAP_FFMPEG)
    try:
        stated = float(capture.get(cv2.CAP_PROP_FPS))
    finally:
        capture.release()
    return stated if 0.1 <= stated <= 1000 else USUAL_FPS


def _timed(recording: Path, every: int, fps: float) -> Iterator[tuple[float, Image]]:
    return (((number - 1) / fps, image) for number, image in sampled_frames(recording, every))
