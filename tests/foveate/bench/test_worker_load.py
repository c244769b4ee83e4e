"""The figures of workers under load are right where the truth is known: scripted models on virtual time."""

import contextlib
import math
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import replace

import pytest

from cloud_worker.settings import WorkerSettings
from cloud_worker.warm_up import Prepared, RunTime
from foveate.bench import worker_batching, worker_growth, worker_load
from foveate.bench.worker_batching import (
    Case,
    Extent,
    Rival,
    batching,
    batching_past_capacity,
    carried_per_s,
)
from foveate.bench.worker_growth import growth
from foveate.load.generator import Generator, Target
from foveate.load.pictures import Pictures
from foveate.load.stand import Stand
from pipeline.geometry import Size
from pipeline.timing import LoopClock, run_virtual
from pipeline.transport.memory import MemoryTransport
from tests.support.detectors import ScriptedDetector
from tests.support.workers import bench

CASE = Case("m", (64, 64), 0.6, 20.0)
EXTENT = Extent(4.0, 1, (0.6, 0.75, 0.9, 1.05))
RunTimes = Callable[[int], float]


def gaining(batch: int) -> float:
    return 0.05 + 0.01 * batch


def alone(batch: int) -> float:
    return 0.06 * batch


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> Callable[[RunTimes], None]:
    """Gives every stand workers whose model takes so long."""

    def use(run_s: RunTimes) -> None:
        monkeypatch.setattr(worker_batching, "rivals", lambda case, workers: _rivals(case, workers, run_s))
        monkeypatch.setattr(worker_growth, "rivals", lambda case, workers: _rivals(case, workers, run_s))

    return use


@contextlib.asynccontextmanager
async def _rivals(
    case: Case, workers: Mapping[str, Sequence[WorkerSettings]], run_s: RunTimes
) -> AsyncIterator[list[Rival]]:
    height, width = case.size_px
    times = [RunTime(case.model, Size(width, height), batch, run_s(batch)) for batch in range(1, 9)]
    async with contextlib.AsyncExitStack() as stack:
        sides = []
        for name, settings in workers.items():
            made = await stack.enter_async_context(bench([]))
            for one in settings:
                detector = ScriptedDetector(case.model, run_s)
                made.add_worker(detector, prepared=Prepared(run_times=times), worker=one.worker, batch=one.batch)
            hub = made.hub
            generator = Generator(Target(case.model), 4, lambda hub=hub: MemoryTransport(hub), LoopClock())  # type: ignore[misc] # bound now
            await stack.enter_async_context(generator.connected())
            await generator.wait_workers(len(settings), 1.0)
            sides.append(Rival(name, Stand(generator), Pictures([case.size_px])))
        yield sides


def test_a_model_that_gains_by_batches_shows_it_and_keeps_its_goodput_past_its_capacity(
    scripted: Callable[[RunTimes], None],
) -> None:
    scripted(gaining)
    said: list[str] = []
    figures = run_virtual(batching(CASE, EXTENT, said.append))
    # Alone 1 / 60 ms, by eights 8 / 130 ms: 3.7 times as many, less what the deadlines leave unused.
    assert 10 < figures["batch_none_per_s"] < 17
    assert figures["batch_goodput_gain"] > 2.0
    assert figures["batch_overload_gain"] > 2.0
    assert figures["batch_overload_goodput"] > 0.9
    assert any("m, 64x64, deadline:" in line for line in said)


def test_no_gain_is_told_where_no_batching_answered_every_rate_that_was_tried(
    scripted: Callable[[RunTimes], None],
) -> None:
    scripted(gaining)
    said: list[str] = []
    figures = run_virtual(batching(CASE, replace(EXTENT, shares=(0.2, 0.4)), said.append))
    assert math.isnan(figures["batch_goodput_gain"])
    assert any(line.startswith("doubtful: m, 64x64, none: every rate") for line in said)


def test_what_is_carried_lies_where_the_misses_cross_one_in_a_hundred() -> None:
    quiet, burst = [0.0, 0.0, 0.3], [0.02, 0.02, 0.0]
    assert carried_per_s({50.0: quiet, 60.0: burst}) == pytest.approx(0.99 * 55.0)
    assert carried_per_s({50.0: quiet, 60.0: quiet}) == pytest.approx(60.0)
    assert carried_per_s({50.0: burst, 60.0: quiet}) == 0.0, "one rate that passed by chance does not count"


def test_a_model_that_gains_nothing_shows_that() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(worker_batching, "rivals", lambda case, workers: _rivals(case, workers, alone))
        figures = run_virtual(batching_past_capacity(CASE, EXTENT, lambda _: None))
    assert figures["batch_overload_gain"] == pytest.approx(1.0, abs=0.05)


def test_two_workers_that_share_nothing_carry_twice_as_much(
    scripted: Callable[[RunTimes], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    scripted(alone)
    monkeypatch.setattr(worker_growth, "ROOMY", replace(CASE, first_per_s=16.0))
    figures = run_virtual(growth(EXTENT, lambda _: None))
    assert figures["two_workers_real_gain"] == pytest.approx(2.0, abs=0.2)


def test_what_could_not_be_measured_is_left_out_and_noise_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    async def nothing(*_: object) -> dict[str, float]:
        return {"batch_goodput_gain": math.nan, "batch_others_cores": 0.8}

    for name in ("failover", "growth", "batching", "batching_past_capacity"):
        monkeypatch.setattr(worker_load, name, nothing)
    said: list[str] = []
    figures = worker_load.measure(short=True, say=said.append)
    assert figures == {"batch_others_cores": 0.8}
    assert any(line.startswith("doubtful: other programs took 0.80 cores") for line in said)
