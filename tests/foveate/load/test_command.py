"""``foveate bench worker`` says what was offered and what became of it."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from foveate.bench import cli
from foveate.load import command
from foveate.load.generator import Generator, Target
from foveate.load.stand import Stand
from pipeline.errors import ConfigError
from pipeline.timing import LoopClock, run_virtual
from pipeline.transport.memory import MemoryTransport
from tests.support.detectors import ScriptedDetector
from tests.support.workers import bench

runner = CliRunner()


@pytest.fixture
def orders(monkeypatch: pytest.MonkeyPatch) -> list[command.Order]:
    """Has the command run on virtual time, against workers of 100 ms a picture; collects what it was asked for."""
    asked: list[command.Order] = []

    @contextlib.asynccontextmanager
    async def stand(order: command.Order) -> AsyncIterator[Stand]:
        asked.append(order)
        model = order.worker.models[0].name
        async with bench([ScriptedDetector(model, lambda batch: 0.1 * batch) for _ in range(order.workers)]) as made:
            hub, agents = made.hub, order.load.mix.agents
            generator = Generator(Target(model), agents, lambda: MemoryTransport(hub), LoopClock())
            async with generator.connected():
                await generator.wait_workers(order.workers, 1.0)
                yield Stand(generator)

    monkeypatch.setattr(command, "_stand", stand)
    monkeypatch.setattr(asyncio, "run", run_virtual)
    return asked


def invoke(*arguments: str) -> Result:
    return runner.invoke(cli.app, ["worker", *arguments], catch_exceptions=False)


def test_a_run_at_a_rate_is_told_as_a_table_and_as_json(orders: list[command.Order], tmp_path: Path) -> None:
    file = tmp_path / "load.json"
    options = ["--agents", "3", "--deadlines-ms", "300,2000", "--sizes", "64x64,64x96", "--seconds", "5"]
    done = invoke("--rate", "16", *options, "--json", str(file))
    assert done.exit_code == 0
    content = json.loads(file.read_text())
    run = content["run"]
    assert run["sent"] == run["in_time"] + run["late"] + sum(run["refused"].values()) + run["unanswered"]
    assert run["goodput_per_s"] == pytest.approx(run["in_time"] / 5)
    assert set(run["segments"]) == {"round_trip", "network", "queue", "batch_wait", "infer"}
    assert "command" in content["context"]
    rows = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert f"answered in time {run['in_time']} {run['in_time'] / run['offered']:.2%}" in rows
    assert any(row.startswith("refused, infeasible") for row in rows)
    assert any(row.startswith("round trip") for row in rows)
    [order] = orders
    assert order.load.mix.deadlines_s == (0.3, 2.0)
    assert order.load.mix.sizes_px == ((64, 64), (64, 96))


def test_without_a_rate_it_finds_what_the_workers_carry(orders: list[command.Order], tmp_path: Path) -> None:
    found = {}
    for workers in (1, 2):
        file = tmp_path / f"{workers}.json"
        options = ["--workers", str(workers), "--sizes", "64x64", "--deadlines-ms", "1000", "--seconds", "6"]
        done = invoke(*options, "--json", str(file))
        assert done.exit_code == 0
        assert "the highest rate with at most 1.0% misses is" in done.stdout
        search = json.loads(file.read_text())["search"]
        assert (
            search["best"]["rate_per_s"] < search["above"]["rate_per_s"] <= 1.05 * search["best"]["rate_per_s"] + 1e-6
        )
        assert search["best"]["missed"] <= 0.01 * search["best"]["offered"]
        found[workers] = search["best"]["rate_per_s"]
    assert 6 < found[1] < 10, "one run takes 100 ms"
    assert found[2] > 1.8 * found[1]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--deadlines-ms", "soon"], "--deadlines-ms is 'soon'"),
        (["--sizes", "192"], "--sizes is '192'"),
        (["--arrivals", "steady"], "--arrivals is 'steady'"),
        (["--tier", "moon"], "--tier is 'moon'"),
        (["--batch", "never"], "batch is 'never'"),
        (["--rate", "1e6", "--seconds", "10"], "more than 1000000"),
        (["--broker", "nowhere"], "broker URL"),
    ],
)
def test_what_cannot_be_offered_is_said_in_a_sentence(arguments: list[str], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        invoke(*arguments)
