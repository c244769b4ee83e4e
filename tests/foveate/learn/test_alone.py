"""Two agents that would learn for one camera in one folder: the second one says so and starts nothing."""

from pathlib import Path

import pytest

from foveate.config.settings import for_sources, plan
from foveate.learn.alone import held, learning_alone
from foveate.learn.folders import CameraFolders
from foveate.learn.tables import training
from foveate.plan import Plan
from pipeline.errors import ConfigError


def agent(state_dir: Path, source: str = "synthetic:", *, learns: bool = True) -> Plan:
    keys = {"agent.state_dir": state_dir, "learn.enabled": learns, "cameras.lessons.enabled": True}
    return plan(for_sources([source], keys))


def test_a_second_agent_that_would_learn_for_the_same_camera_is_refused_until_the_first_has_ended(
    tmp_path: Path,
) -> None:
    with (
        learning_alone(agent(tmp_path)),
        pytest.raises(ConfigError, match="another agent learns for the camera synthetic in"),
        learning_alone(agent(tmp_path)),
    ):
        pass
    with learning_alone(agent(tmp_path)):
        pass


def test_agents_with_other_cameras_other_folders_or_without_learning_are_let_be(tmp_path: Path) -> None:
    with (
        learning_alone(agent(tmp_path / "a")),
        learning_alone(agent(tmp_path / "b")),
        learning_alone(agent(tmp_path / "a", "rtsp://192.0.2.1/yard")),
        learning_alone(agent(tmp_path / "a", learns=False)),
    ):
        pass


def test_a_state_folder_that_cannot_be_written_is_told_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("no folder")
    with (
        pytest.raises(ConfigError, match=r"the state folder cannot be written .*: name another one"),
        held(tmp_path / "state" / "learn" / "lock", "taken"),
    ):
        pass


def test_an_attempt_is_under_way_while_somebody_works_on_it_and_else_left_off(tmp_path: Path) -> None:
    folders = CameraFolders(tmp_path, "yard")
    assert training(folders) is None
    folders.attempt.mkdir(parents=True)
    assert training(folders) == "left off, goes on with the next start"
    with held(folders.agent_lock, "taken"):
        assert training(folders) == "under way"
    assert training(folders) == "left off, goes on with the next start"
