"""What the cameras have learned outlives the agent."""

import json
import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edge_agent.arms import configured_arm
from edge_agent.memory import Memory, decode
from edge_agent.state_files import MOST_BYTES
from pipeline.policies.crop_arms import CropArm
from pipeline.policies.gain import PRIOR, GainModel
from pipeline.policies.keep import Change, KeepMemory, KeepRule, KeepSettings, News
from pipeline.policies.learned_arms import LearnedArms
from pipeline.timing import run_virtual
from tests.support.agents import Pictures, Stage, camera, stage

FIRST = configured_arm(camera())


def learned_gate() -> KeepMemory:
    rule = KeepRule(KeepSettings(camera().change.least_area, 1.0, 0.1, 0.005))
    for _ in range(50):
        rule.learn(Change(0.002, 0.001), News(elsewhere=False, tracked=True))
    return rule.memory


def memory(name: str = "gate") -> Memory:
    gain = PRIOR.learn(np.ones((3, len(PRIOR.weights))), np.array([True, False, True]), np.ones(3))
    arms = replace(LearnedArms.beginning(FIRST), current=CropArm(quality=40))
    return Memory(name, gain, arms, learned_gate())


def run(folder: Path | None, pictures: int = 3, *names: str) -> Stage:
    async def main() -> Stage:
        cameras = [camera(name, change_detection="adaptive") for name in names or ("gate",)]
        async with stage([Pictures(pictures) for _ in cameras], cameras=cameras, state_dir=folder) as made:
            await made.agent.run(0.5)
        return made

    return run_virtual(main())


def test_a_memory_survives_json() -> None:
    kept = memory()
    again = decode(kept.encode(), "gate")
    assert again.gain.as_dict() == kept.gain.as_dict()
    assert (again.arms, again.gate) == (kept.arms, kept.gate)
    assert decode(replace(kept, gate=None).encode(), "gate").gate is None


def test_a_camera_goes_on_from_what_it_had_learned_and_keeps_what_it_learns(tmp_path: Path) -> None:
    folder = tmp_path / "made" / "anew"
    first = run(folder, 40, "gate", "yard")
    assert {path.name for path in folder.iterdir()} == {"gate.json", "yard.json"}
    lessons = first.agent.cameras[0].memory.gain.lessons
    assert lessons > 0
    assert decode((folder / "gate.json").read_bytes(), "gate").gain.lessons == lessons
    (folder / "gate.json").write_bytes(memory().encode())
    second = run(folder, 40)
    now = second.agent.cameras[0].memory
    assert now.arms.current == CropArm(quality=40)
    assert now.gain.lessons > 3
    assert now.gate is not None
    assert max(now.gate.elsewhere.looks) > 20
    assert second.agent.counters()["state_unread"] == second.agent.counters()["state_unwritten"] == 0


@pytest.mark.parametrize(
    "spoil",
    [
        lambda data: b"",
        lambda data: data[:100],
        lambda data: b"[1, 2]",
        lambda data: b'{"mine": "else"}',
        lambda data: data.replace(b'"version": 1', b'"version": 2'),
        lambda data: data.replace(b'"gate"', b'"yard"', 1),
        lambda data: json.dumps(json.loads(data) | {"arms": None}).encode(),
        lambda data: json.dumps(json.loads(data) | {"gate": {"least_area": 1}}).encode(),
        lambda data: json.dumps(json.loads(data) | {"gain": GainModel().as_dict() | {"lessons": -1}}).encode(),
        lambda data: b"\xff\xfe" + data,
        lambda data: data + b" " * MOST_BYTES,
    ],
)
def test_a_file_that_is_no_memory_is_one_warning_and_a_fresh_start(
    spoil: Callable[[bytes], bytes], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "gate.json"
    path.write_bytes(spoil(memory().encode()))
    made = run(tmp_path)
    told = [r.getMessage() for r in caplog.records if r.name == "edge_agent.state_files"]
    assert len(told) == 1
    assert str(path) in told[0]
    assert made.agent.counters()["state_unread"] == 1
    assert made.agent.cameras[0].arms.learned == LearnedArms.beginning(FIRST)
    assert len(made.results()) == 3
    decode(path.read_bytes(), "gate")  # written anew


def test_a_folder_that_cannot_be_written_is_one_warning_and_stops_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("no folder")
    made = run(tmp_path / "file", 700)  # over a minute of pictures: saved twice
    warnings = [r for r in caplog.records if r.name == "edge_agent.state_files" and r.levelno == logging.WARNING]
    assert len([r for r in warnings if "not kept" in r.getMessage()]) == 1
    # Virtual time goes on while a thread writes: on a slow machine a minute passes once more.
    assert made.agent.counters()["state_unwritten"] >= 2
    assert len(made.results()) == 700


def test_no_file_is_half_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(tmp_path)
    before = (tmp_path / "gate.json").read_bytes()

    def full_disk(path: Path, data: bytes) -> int:
        with path.open("wb") as file:
            file.write(data[:10])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full_disk)
    made = run(tmp_path, 30)
    assert (tmp_path / "gate.json").read_bytes() == before
    assert made.agent.counters()["state_unwritten"] >= 1


def test_without_a_folder_nothing_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run(None)
    assert list(tmp_path.iterdir()) == []


def test_what_was_learned_outlives_a_fault_too() -> None:
    made = run(None)
    one = made.agent.cameras[0]
    one.recall(memory())
    one.renew(Pictures(1))
    assert one.memory.arms.current == CropArm(quality=40)
    assert one.memory.gain.lessons == 3
