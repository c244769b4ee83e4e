"""The commands: what goes in, and what comes out."""

import asyncio
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from foveate.learn.alone import held
from foveate.learn.cli import app
from foveate.learn.folders import CameraFolders, default_state_dir
from foveate.learn.lesson_files import PARTS_FILE, Parts
from foveate.learn.release import signing_key
from foveate.learn.values import encode
from foveate.training.order import Order, Progress, Say, Trained
from pipeline.errors import ConfigError, ModelError, SourceError
from pipeline.releases.signing import TrustedKeys
from pipeline.releases.standing import Standing, encode_standing
from pipeline.transport.base import Message, Outgoing
from pipeline.transport.mqtt import MqttTransport
from pipeline.transport.settings import MqttSettings
from pipeline.wire import topics
from tests.support.brokers import HOST, Embedded, free_port, running, until
from tests.support.processes import cut_clip
from tests.support.spotted import fill, models_folder, trained_model


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A configuration of one camera with lessons, and a general model that sees nothing."""
    models_folder(tmp_path / "models", seeing=False)
    fill(tmp_path / "state" / "lessons" / "yard")
    file = tmp_path / "foveate.yaml"
    file.write_text(
        "agent: {name: edge-7, state_dir: state}\n"
        "models: {dir: models, edge: {name: general, input_size: [64, 64]}}\n"
        "cameras: [{name: yard, source: 'rtsp://192.0.2.1/', objects: [person]}]\n"
    )
    return file


@pytest.fixture
def sees(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each training ends with a model that sees; one after the other."""
    plan = [True]

    async def train(order: Order, _lessons: Path, _say: Say) -> Trained:
        return trained_model(order, seeing=plan.pop(0) if len(plan) > 1 else plan[0])

    monkeypatch.setattr("foveate.learn.attempt.train", train)
    return plan


def run(*arguments: str | Path) -> str:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if result.exception is not None:
        raise result.exception
    return " ".join(result.stdout.split())


def test_lessons_are_shown_with_what_they_are_enough_for(config: Path) -> None:
    said = run("lessons", "-c", config)
    assert "yard: 160 lessons" in said
    assert "person" in said
    assert "enough" in said
    found = json.loads(run("lessons", "--state-dir", config.parent / "state", "--camera", "yard", "--json"))["yard"]
    assert found["lessons"] == 160
    assert found["labels"]["person"]["objects"] > 160
    assert found["way"] in {"own", "adapt", "wait"}


def test_a_recording_fills_a_store_and_shown_again_adds_nothing_that_is_there(tmp_path: Path) -> None:
    clip = cut_clip(tmp_path / "gate.mp4", 30)
    said = run("lessons", "--state-dir", tmp_path / "state", "--from", clip)
    assert "gate: the larger model has looked at" in said
    assert "gate:" in said
    lessons = sorted((tmp_path / "state" / "lessons" / "gate").glob("*.lesson"))
    assert len(lessons) > 0
    said = run("lessons", "--state-dir", tmp_path / "state", "--from", clip)
    assert f"0 lessons are kept, {len(lessons)} were there already" in said
    assert sorted((tmp_path / "state" / "lessons" / "gate").glob("*.lesson")) == lessons


def test_a_folder_that_takes_no_lessons_is_told_before_the_model_looks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def look(*_arguments: object, **_named: object) -> None:
        raise AssertionError("a model was loaded for nothing")

    monkeypatch.setattr("foveate.learn.filling.load_detector", look)
    (tmp_path / "state").write_text("no folder")
    with pytest.raises(ConfigError, match=r"lessons cannot be kept in .*: name another state folder"):
        run("lessons", "--state-dir", tmp_path / "state", "--from", cut_clip(tmp_path / "gate.mp4", 10))


@pytest.mark.usefixtures("sees")
def test_two_trainings_by_hand_for_one_camera_do_not_disturb_each_other(config: Path, tmp_path: Path) -> None:
    folders = CameraFolders(tmp_path / "state", "yard")
    (folders.by_hand / "own").mkdir(parents=True)
    with held(folders.by_hand_lock, "taken"), pytest.raises(ConfigError, match="a training by hand is under way"):
        run("train", "-c", config, "--way", "own")
    assert (folders.by_hand / "own").is_dir()


def test_a_state_folder_without_cameras_is_told_without_a_broker(tmp_path: Path) -> None:
    assert "does not exist: 'foveate run SOURCE --learn'" in run("status", "--state-dir", tmp_path / "absent")
    assert json.loads(run("lessons", "--state-dir", tmp_path / "absent", "--json")) == {}


def test_where_no_bar_is_drawn_each_step_of_a_training_is_a_line(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def train(order: Order, _lessons: Path, say: Say) -> Trained:
        for share in (0.0, 0.5, 1.0):
            say(Progress(doing="learning", done=share))
        return trained_model(order, seeing=True)

    monkeypatch.setattr("foveate.learn.attempt.train", train)
    said = run("train", "-c", config, "--way", "own")
    assert said.count("learning") == 1
    assert said.index("learning") < said.index("judging the model") < said.index("accepted (own")


@pytest.mark.parametrize(
    ("arguments", "kind", "said"),
    [
        (["lessons", "--from", "absent.mp4"], SourceError, "absent.mp4 does not exist"),
        (["lessons", "--from", "absent.mp4", "--camera", "../up"], ConfigError, "choose another name"),
        (["train"], ConfigError, "has no lessons: 'foveate run SOURCE --learn'"),
        (["train", "--camera", "nobody"], ConfigError, "has no lessons: 'foveate run SOURCE --learn'"),
    ],
)
def test_wrong_use_is_told_in_a_sentence(
    tmp_path: Path, arguments: list[str], kind: type[Exception], said: str
) -> None:
    with pytest.raises(kind, match=said):
        run(*arguments, "--state-dir", tmp_path)


def test_a_configuration_that_keeps_nothing_and_two_places_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "foveate.yaml"
    file.write_text("cameras: [{name: yard, source: 'rtsp://192.0.2.1/'}]\n")
    with pytest.raises(ConfigError, match=r"add agent\.state_dir"):
        run("lessons", "-c", file)
    with pytest.raises(ConfigError, match="not both"):
        run("lessons", "-c", file, "--state-dir", tmp_path)


def test_the_users_own_state_folder_is_that_of_the_specification(tmp_path: Path) -> None:
    assert default_state_dir({"XDG_STATE_HOME": str(tmp_path)}) == tmp_path / "foveate"
    assert default_state_dir({"XDG_STATE_HOME": "relative"}) == Path.home() / ".local" / "state" / "foveate"


@pytest.mark.usefixtures("sees")
def test_a_training_says_its_verdict_and_leaves_a_model(config: Path, tmp_path: Path) -> None:
    said = run("train", "-c", config, "--way", "own", "--out", tmp_path / "out")
    assert "accepted (own" in said
    assert "judged on" in said
    outcome = CameraFolders(tmp_path / "state", "yard").outcome()
    assert outcome is not None
    assert outcome.model is not None
    assert outcome.model.entry.name == "edge-7-yard"
    assert sorted(file.suffix for file in (tmp_path / "out").iterdir()) == [".json", ".onnx"]


@pytest.mark.usefixtures("sees")
def test_a_training_takes_the_lessons_that_are_there_and_not_those_of_one_left_off(
    config: Path, tmp_path: Path
) -> None:
    left = CameraFolders(tmp_path / "state", "yard").learn / "by-hand"
    left.mkdir(parents=True)
    parts = Parts(lessons=7, learned=5, judged=2, learned_labels={"person": 9}, judged_labels={"person": 9})
    (left / PARTS_FILE).write_bytes(encode(parts))
    assert "accepted (own" in run("train", "-c", config, "--way", "own")


def test_a_refused_model_ends_with_the_exit_code_of_a_model(config: Path, tmp_path: Path, sees: list[bool]) -> None:
    sees[:] = [False]
    with pytest.raises(ModelError, match="there is no model for yard"):
        run("train", "-c", config, "--way", "own")
    outcome = CameraFolders(tmp_path / "state", "yard").outcome()
    assert outcome is not None
    assert not outcome.accepted


def test_without_a_trained_model_there_is_nothing_to_release(config: Path) -> None:
    with pytest.raises(ConfigError, match="foveate learn train --camera yard"):
        run("release", "-c", config)


@pytest.mark.usefixtures("sees")
async def test_a_release_is_signed_retained_and_shown_by_the_status(config: Path, tmp_path: Path) -> None:
    await asyncio.to_thread(run, "train", "-c", config, "--way", "own")
    broker = Embedded()
    await asyncio.to_thread(broker.start)
    heard: list[Message] = []
    try:
        url = f"mqtt://{HOST}:{broker.port}"
        said = await asyncio.to_thread(run, "release", "-c", config, "--broker", url)
        assert "edge-7-yard@" in said
        session = MqttTransport(MqttSettings(HOST, broker.port))
        session.subscribe(topics.ANY_MODEL, heard.append, qos=1)
        async with running(session):
            await until(lambda: bool(heard))
            key = signing_key(tmp_path / "state").public
            manifest = TrustedKeys([key]).open(heard[0].payload).manifest
            assert manifest.audience.cameras == ("yard",)
            assert manifest.teacher == "larger@1"
            assert manifest.parent.startswith("general@")
            assert manifest.figures["f1"] > 0.9
            assert key in said
            standing = Standing(agent="edge-7", camera="yard", stage="shadow", reason="12 of 30", since="s", at="a")
            topic = topics.rollout("edge-7", "yard")
            await session.publish(Outgoing(topic, encode_standing(standing), qos=1, retain=True))
            found = await asyncio.to_thread(run, "status", "-c", config, "--broker", url, "--json")
        state = json.loads(found)["cameras"]["yard"]
        assert state["rollout"]["stage"] == "shadow"
        assert state["released"].startswith("edge-7-yard@")
        assert state["accepted"] is True
    finally:
        await asyncio.to_thread(broker.stop)


def test_without_a_broker_the_status_tells_what_is_on_disk_and_what_is_not_known(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("foveate.session.CONNECT_WITHIN_S", 0.2)
    said = run("status", "-c", config, "--broker", f"mqtt://{HOST}:{free_port()}")
    assert "yard 160 none yet" in said
    assert "how releases are doing is not known: No connection to the broker" in said
