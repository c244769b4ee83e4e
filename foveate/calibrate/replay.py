"""A camera's analysed frames with the answers of both models, and its tracker and fusion played over them again."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from random import Random

import numpy as np
from numpy.typing import NDArray

from edge_agent.candidates import Survey, survey
from edge_agent.frame_work import answer
from edge_agent.fusion import fuse
from edge_agent.settings import CameraSettings
from edge_agent.tracking.history import Entry, Tracker, analysed_answer
from edge_agent.tracking.tracks import step
from pipeline.detections import Detections
from pipeline.geometry import BoxArray, Size
from pipeline.policies.gain import GainModel
from pipeline.policies.outcomes import changed_places

LEARNING_SHARES = (0.2, 0.5)
"""Shares of the frames that are asked about while a model is fitted: what is predicted depends on what was asked."""
_NEW_IDS = 1 << 40
"""Ids of tracks that nobody gets to see begin here."""


@dataclass(frozen=True, slots=True, eq=False)
class Looked:
    """An analysed frame: what the small model and, on the whole frame, the larger one see; where it moves (n, 4)."""

    seq: int
    scene_s: float
    size: Size
    edge: Detections
    cloud: Detections
    motion: BoxArray


class Replay:
    """Tracker and fusion of one camera without a network: an answer is there at once."""

    def __init__(self, settings: CameraSettings) -> None:
        self._settings = settings
        self._tracker = Tracker(settings.tracker)

    def observe(self, frame: Looked) -> Entry:
        """Take in what the small model saw."""
        return self._tracker.observe(frame.seq, frame.scene_s, frame.edge)

    def survey(self, frame: Looked, entry: Entry, model: GainModel) -> Survey:
        """What a second look could bring."""
        settings = self._settings
        return survey(entry, frame.motion, frame.size, model, settings.candidates, settings.tracker)

    def ask(self, frame: Looked) -> tuple[Detections, Detections]:
        """Take in the larger model's answer to the whole frame: what was, and what is now to be published."""
        before = self.published(frame)
        self.correct(frame, frame.cloud, whole_frame(frame.size))
        return before, self.published(frame)

    def correct(self, frame: Looked, cloud: Detections, looked_at: BoxArray) -> None:
        """Take in what the larger model sees in some regions (n, 4)."""
        self._tracker.correct(frame.seq, fuse(frame.edge, cloud, looked_at))

    def published(self, frame: Looked) -> Detections:
        """What is published for an analysed frame."""
        entry = self._tracker.entry(frame.seq)
        if entry is None:
            raise RuntimeError(f"frame {frame.seq} was observed and is not remembered")
        return analysed_answer(entry, frame.size, self._settings.tracker)

    def carried(self, scene_s: float, size: Size) -> Detections:
        """What is published for a frame that was not analysed."""
        return answer(self._tracker, None, scene_s, size, self._settings)

    def what_if_asked(self, frame: Looked, entry: Entry) -> tuple[Detections, Detections]:
        """What ``ask`` would return; nothing is taken in."""
        tracking = self._settings.tracker
        seen = fuse(entry.seen.detections, frame.cloud, whole_frame(frame.size))
        then = replace(entry, seen=seen, after=step(entry.before, seen, entry.at_s, _NEW_IDS, tracking))
        return analysed_answer(entry, frame.size, tracking), analysed_answer(then, frame.size, tracking)


def whole_frame(size: Size) -> BoxArray:
    """The region (1, 4) of a look at everything."""
    return np.array([[0, 0, size.width, size.height]], np.float32)


def fit_gain(frames: Sequence[Looked], settings: CameraSettings, model: GainModel, seed: int = 0) -> GainModel:
    """Fit a gain model, beginning with ``model``, to both models' answers on a recording.

    The recording is played with different shares of it asked about; on every frame, asked about or not, it is learned
    what asking changes.
    """
    features, changed, unseen = [], [], []
    for share in LEARNING_SHARES:
        for seen, places, at_none in _lessons(frames, settings, model, share, Random(seed)):
            features.append(seen.features)
            changed.append(places)
            unseen.append(at_none)
    if not features:
        return model
    # The same frames count once, however often they were played.
    weight = np.full(sum(map(len, changed)), 1.0 / len(LEARNING_SHARES))
    model = model.learn(np.concatenate(features), np.concatenate(changed), weight)
    for count in unseen[:: len(LEARNING_SHARES)]:
        model = model.learn_unseen(count)
    return model


def _lessons(
    frames: Sequence[Looked], settings: CameraSettings, model: GainModel, share: float, rng: Random
) -> Iterator[tuple[Survey, NDArray[np.bool_], int]]:
    replay = Replay(settings)
    for frame in frames:
        entry = replay.observe(frame)
        seen = replay.survey(frame, entry, model)
        places, at_none = changed_places(seen.places.xyxy, *replay.what_if_asked(frame, entry))
        yield seen, places, at_none
        if rng.random() < share:
            replay.ask(frame)
