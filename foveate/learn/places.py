"""Where the commands find what is learned: by a configuration, or by a state folder alone."""

import os
from dataclasses import dataclass
from pathlib import Path

from edge_agent.capture.settings import CaptureSettings
from edge_agent.lessons.store import LessonStore
from edge_agent.settings import CameraSettings
from foveate.config.load import load
from foveate.config.models import Configuration
from foveate.config.settings import plan
from foveate.learn.folders import CameraFolders, default_state_dir
from foveate.learn.values import GeneralModel
from foveate.plan import Plan
from pipeline.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Place:
    """A state folder, and the plan that its cameras run by."""

    state_dir: Path
    plan: Plan

    @property
    def agent(self) -> str:
        return self.plan.agent.agent

    @property
    def general(self) -> GeneralModel:
        """The edge model that a learned one is held against."""
        edge = self.plan.edge_model
        return GeneralModel(name=edge.name, input_size=edge.input_size, models_dir=self.plan.models_dir)

    def folders(self, camera: str) -> CameraFolders:
        return CameraFolders(self.state_dir, camera)

    def store(self, camera: str) -> LessonStore:
        return LessonStore(self.folders(camera).lessons, self.settings(camera).lessons.most_bytes)

    def settings(self, camera: str) -> CameraSettings:
        """The camera's settings; the usual ones of a camera that the configuration does not have."""
        known = {one.name: one for one in self.plan.agent.cameras}
        return known.get(camera) or CameraSettings(camera, CaptureSettings(""))

    def cameras(self) -> list[str]:
        """The cameras of the configuration, and all that have lessons here."""
        folder = self.state_dir / "lessons"
        kept = [entry.name for entry in folder.iterdir() if entry.is_dir()] if folder.is_dir() else []
        return sorted({*kept, *(camera.name for camera in self.plan.agent.cameras)})

    @property
    def no_camera(self) -> str:
        """What there is to say of a folder without cameras."""
        state = "has no lessons" if self.state_dir.is_dir() else "does not exist"
        return (
            f"the state folder {self.state_dir} {state}: 'foveate run SOURCE --learn' takes some, "
            f"'foveate learn lessons --from VIDEO' takes them from a recording, --state-dir names another folder."
        )

    def one_camera(self, named: str | None) -> str:
        """The camera that is meant: the one that is named, or the only one there is. Raises ConfigError."""
        cameras = self.cameras()
        if not cameras:
            raise ConfigError(self.no_camera)
        if named is not None:
            if named not in cameras:
                raise ConfigError(f"{self.state_dir} has no camera {named!r}: it has {', '.join(cameras)}.")
            return named
        if len(cameras) != 1:
            raise ConfigError(
                f"{self.state_dir} has {len(cameras)} cameras ({', '.join(cameras)}): name one with --camera."
            )
        return cameras[0]


def place(config: Path | None, state_dir: Path | None) -> Place:
    """The place that the options name; the user's own state folder where they name none. Raises ConfigError."""
    if config is not None and state_dir is not None:
        raise ConfigError("name a configuration with -c or a folder with --state-dir, not both.")
    configuration = load(config, os.environ) if config is not None else Configuration()
    if config is not None and configuration.agent.state_dir is None:
        raise ConfigError(f"{config} keeps nothing that is learned: add agent.state_dir, or name a folder instead.")
    folder = configuration.agent.state_dir or state_dir or default_state_dir(os.environ)
    return Place(folder.absolute(), plan(configuration))
