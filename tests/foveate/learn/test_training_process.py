"""The process that trains: what it says, how it ends, and that it never outlives us."""

import asyncio
import sys
from pathlib import Path

import msgspec
import psutil
import pytest

from foveate.learn.attempt_process import attempt
from foveate.learn.child import run_child
from foveate.learn.training_process import train
from foveate.learn.values import AttemptOrder, GeneralModel, Outcome, decode, encode
from foveate.training.order import Order, Progress, Trained
from pipeline.errors import ConfigError, ModelError
from tests.support import onnx_models
from tests.support.processes import until

TRAINER = """
import json, os, sys
from pathlib import Path
from foveate.learn.child import hold_to_parent
hold_to_parent()
order = json.loads(Path(sys.argv[1]).read_text())
lives = Path(order["folder"]) / "lives"
lived = int(lives.read_text()) if lives.exists() else 0
lives.write_text(str(lived + 1))
print("a library says hello", flush=True)
print(json.dumps({"doing": "learning", "done": 0.5, "left_s": 3.0}), flush=True)
plan = json.loads(os.environ["PLAN"])
if lived < len(plan) and plan[lived] != 0:
    print("the reason", file=sys.stderr)
    os._exit(plan[lived])
print(Path(os.environ["RESULT"]).read_text(), flush=True)
"""


@pytest.fixture
def order(tmp_path: Path) -> Order:
    return Order(way="own", camera="yard", labels=("person",), folder=tmp_path / "own", time_limit_s=30.0, threads=1)


@pytest.fixture
def trained(tmp_path: Path) -> Trained:
    return Trained(
        file=tmp_path / "own" / "yard.onnx",
        entry=onnx_models.entry("yard"),
        labels=("person",),
        input_size=(64, 64),
        figures={"f1": 0.9},
        train_s=12.5,
    )


@pytest.fixture
def trainer(tmp_path: Path, trained: Trained, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module that speaks the protocol; PLAN is with which exit code each of its lives ends."""
    folder = tmp_path / "modules"
    folder.mkdir()
    (folder / "fake_trainer.py").write_text(TRAINER)
    (tmp_path / "result.json").write_bytes(encode(trained))
    monkeypatch.setenv("PYTHONPATH", f"{folder}:{Path(__file__).resolve().parents[3]}")
    monkeypatch.setenv("RESULT", str(tmp_path / "result.json"))
    monkeypatch.setenv("PLAN", "[]")
    return "fake_trainer"


async def test_what_it_says_arrives_and_its_last_word_is_the_model(
    order: Order, trained: Trained, trainer: str, tmp_path: Path
) -> None:
    said: list[Progress] = []
    assert await train(order, tmp_path, said.append, trainer) == trained
    assert said == [Progress(doing="learning", done=0.5, left_s=3.0)]
    assert decode((order.folder / "order.json").read_bytes(), Order) == order


async def test_one_that_dies_is_started_again(
    order: Order, trained: Trained, trainer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLAN", "[1, 137]")
    assert await train(order, tmp_path, lambda _: None, trainer) == trained
    assert (order.folder / "lives").read_text() == "3"


async def test_one_that_keeps_dying_is_given_up_with_its_last_words(
    order: Order, trainer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLAN", "[1, 1, 1, 1]")
    with pytest.raises(ModelError, match="exit code 1: the reason"):
        await train(order, tmp_path, lambda _: None, trainer)
    assert (order.folder / "lives").read_text() == "3"


async def test_a_refusal_is_final(order: Order, trainer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLAN", f"[{ModelError.exit_code}]")
    with pytest.raises(ModelError, match="the reason"):
        await train(order, tmp_path, lambda _: None, trainer)
    assert (order.folder / "lives").read_text() == "1"


async def test_without_torch_one_sentence_says_what_to_install(
    order: Order, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(ConfigError, match=r"pip install 'foveate\[train\]'"):
        await train(order, tmp_path, lambda _: None)


async def test_a_child_that_takes_too_long_is_ended() -> None:
    ended = await run_child(["-c", "import time; print('here', flush=True); time.sleep(60)"], lambda _: None, 1.0)
    assert ended.out_of_time
    assert ended.code != 0


async def test_a_child_ends_when_whoever_waits_for_it_does() -> None:
    pids: list[int] = []
    code = "import os, time; print(os.getpid(), flush=True); time.sleep(60)"
    waiting = asyncio.create_task(run_child(["-c", code], lambda line: pids.append(int(line)), 60.0))
    await until(lambda: pids, "the child's number")
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert not psutil.pid_exists(pids[0])


async def test_a_grandchild_ends_when_its_parent_is_killed(tmp_path: Path) -> None:
    child = tmp_path / "child.py"
    child.write_text(
        "import os, time\nfrom foveate.learn.child import hold_to_parent\n"
        "hold_to_parent()\nprint(os.getpid(), os.nice(0), flush=True)\ntime.sleep(60)\n"
    )
    parent = (
        "import asyncio\nfrom foveate.learn.child import run_child\n"
        f"asyncio.run(run_child([{str(child)!r}], lambda line: print(line.decode(), flush=True), 60.0))\n"
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", parent, stdout=asyncio.subprocess.PIPE, env={"PYTHONPATH": str(Path(__file__).parents[3])}
    )
    assert process.stdout is not None
    pid, niceness = map(int, (await process.stdout.readline()).split())
    assert niceness >= 10
    process.kill()
    await process.wait()
    await until(lambda: not psutil.pid_exists(pid) or psutil.Process(pid).status() == "zombie", "its end")


async def test_the_outcome_of_an_attempt_is_its_last_line_and_its_faults_keep_their_kind(tmp_path: Path) -> None:
    general = GeneralModel(name="nanodet-g-int8", input_size=(192, 256))
    order = AttemptOrder(camera="yard", lessons=tmp_path, folder=tmp_path, general=general, ways=("own",))
    outcome = Outcome(camera="yard", at="2026-03-01T12:00:00.000Z", lessons=7, judged=2, tried=(), fault="too few")
    (tmp_path / "outcome.json").write_bytes(encode(outcome))
    reads = f"import sys; sys.stdin.readline(); print(open({str(tmp_path / 'outcome.json')!r}).read())"
    assert await attempt(order, lambda _: None, ["-c", reads]) == outcome
    for kind in (ConfigError, ModelError):
        fails = f"import sys; print('too bad', file=sys.stderr); sys.exit({kind.exit_code})"
        with pytest.raises(kind, match="too bad"):
            await attempt(order, lambda _: None, ["-c", fails])
    assert msgspec.json.decode(encode(order))["folder"] == str(tmp_path)
