"""How a camera draws its crops, and what it tries to learn whether another way is cheaper or better."""

from dataclasses import dataclass, replace

import numpy as np

from edge_agent.settings import CameraSettings
from pipeline.detections import Detections
from pipeline.frames import Frame, FrameKey
from pipeline.policies.crop_arms import CropArm
from pipeline.policies.learned_arms import LearnedArms
from pipeline.policies.offload import Candidate
from pipeline.policies.outcomes import agreement_at, drawn


def with_arm(settings: CameraSettings, arm: CropArm) -> CameraSettings:
    """The settings with crops drawn as the arm says."""
    return replace(
        settings,
        offload=replace(settings.offload, padding=arm.padding),
        mosaic=replace(settings.mosaic, scale=arm.scale, least_scale=min(settings.mosaic.least_scale, arm.scale)),
        images=replace(settings.images, mosaic_quality=arm.quality),
    )


def configured_arm(settings: CameraSettings) -> CropArm:
    """How the settings draw crops."""
    return CropArm(settings.offload.padding, settings.mosaic.scale, settings.images.mosaic_quality)


TRIAL_EPOCH = 0
"""No run's, and before all: a worker answers each key once, and in the queue for the uplink a trial gives way."""


@dataclass(frozen=True, slots=True, eq=False)
class Trial:
    """Places of a frame that has gone whole, to be shown once more as the arm draws them, under a ``key`` of its own.

    ``reference`` is what the larger model saw on the whole frame (None: not known yet); ``size`` what the picture
    takes, in multiples of what the first arm takes for the same places.
    """

    key: FrameKey
    frame: Frame
    places: tuple[Candidate, ...]
    arm: CropArm
    reference: Detections | None = None
    size: float = 0.0


class CropArms:
    """The arms of one camera, and the one trial that is prepared or under way."""

    def __init__(self, settings: CameraSettings, learned: LearnedArms | None = None) -> None:
        self._configured = settings
        self.learned = learned or LearnedArms.beginning(configured_arm(settings))
        self._trial: Trial | None = None
        self._begun = self.trials = 0

    @property
    def learned(self) -> LearnedArms:
        """What is known. What was learned from another first arm, as a configuration has changed, does not count."""
        return self._learned

    @learned.setter
    def learned(self, learned: LearnedArms) -> None:
        first = configured_arm(self._configured)
        self._learned = learned if learned.first == first else LearnedArms.beginning(first)
        self._drawing = with_arm(self._configured, self._learned.current)

    @property
    def drawing(self) -> CameraSettings:
        """The camera's settings with crops drawn by the current arm."""
        return self._drawing

    def of(self, arm: CropArm) -> CameraSettings:
        """The camera's settings with crops drawn by ``arm``."""
        return with_arm(self._configured, arm)

    def asked_whole(self, frame: Frame, places: tuple[Candidate, ...]) -> None:
        """A frame with these places goes whole. A share of such frames is drawn for a trial."""
        key, self._trial = frame.key, None
        if places and drawn(f"arms/{key.camera}/{key.epoch}/{key.seq}", self._configured.offload.trial_share):
            self._begun += 1
            # Epochs count seconds and trials come more rarely, so that no later run uses the number again.
            own = FrameKey(key.camera, TRIAL_EPOCH, key.epoch + self._begun)
            self._trial = Trial(own, frame, places, self._learned.next_trial)

    def seen_whole(self, key: FrameKey, reference: Detections) -> Trial | None:
        """The larger model's answer to a whole frame; the trial that it makes possible."""
        if self._trial is None or self._trial.frame.key != key or self._trial.reference is not None:
            return None
        self._trial = replace(self._trial, reference=reference)
        return self._trial

    def shown(self, trial: Trial, size: float) -> None:
        """A trial is on its way, in a picture of that ``size``."""
        self._trial = replace(trial, size=size)

    def gave_up(self, key: FrameKey) -> None:
        """There will be no answer to the trial, or to the frame that it needs."""
        if self._trial is not None and key in (self._trial.key, self._trial.frame.key):
            self._trial = None

    def answered(self, key: FrameKey, found: Detections) -> None:
        """Learn from the larger model's answer to a trial."""
        trial = self._trial
        if trial is None or trial.key != key or trial.reference is None:
            return
        self._trial = None
        asked = np.array([place.box for place in trial.places], np.float32)
        self.trials += 1
        self.learned = self._learned.learn(trial.arm, agreement_at(asked, found, trial.reference), trial.size)
