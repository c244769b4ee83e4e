"""The promise with nothing but defaults: an answer for every frame by the deadline, with a worker and without.

A busy machine may make answers late, so the bounds are loose: they tell a promise that is kept from one that is not.
"""

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline.results import Result
from tests.support.processes import Arguments, Product, cut_clip, free_port_pair, product, read_record, until

FRAMES = 40
DEADLINE_MS = 200.0


def take_part(run: Product) -> None:
    """Leave the worker to its work."""


def freeze_worker(run: Product) -> None:
    """Leave the worker's connection as it is, and no life in it."""
    worker = run.child("foveate.worker_child")
    assert worker is not None
    os.kill(worker.pid, signal.SIGSTOP)


def kill_worker(run: Product) -> None:
    worker = run.child("foveate.worker_child")
    assert worker is not None
    worker.kill()


def late_ms(result: Result) -> float:
    """How long after its deadline an answer came; negative where it was in time."""
    assert result.timings_ms.total is not None
    return result.timings_ms.total - result.deadline_ms


@pytest.mark.parametrize("fate_of_worker", [take_part, freeze_worker, kill_worker])
async def test_every_frame_taken_in_is_answered_and_nearly_all_by_the_default_deadline(
    tmp_path: Path, fate_of_worker: Callable[[Product], None]
) -> None:
    clip = cut_clip(tmp_path / "gate.mp4", FRAMES)
    record, summary_file = tmp_path / "r.jsonl", tmp_path / "s.json"
    outputs: Arguments = ["--record", record, "--summary", summary_file]
    options = ["--realtime", "--no-web", "--port", str(free_port_pair())]
    async with product(tmp_path, "run", clip, *options, *outputs) as run:
        await until(lambda: record.exists() and len(read_record(record)) > 3, f"results; it said {run.stderr}")
        fate_of_worker(run)
        assert await run.ended() == 0, run.stderr
    summary, results = json.loads(summary_file.read_text()), read_record(record)
    assert summary["captured"] == FRAMES
    assert summary["drops"].keys() <= {"overwritten"}  # a reader that had to wait for its turn on a busy machine
    assert len(results) == FRAMES - sum(summary["drops"].values()) >= 0.9 * FRAMES
    assert {result.deadline_ms for result in results} == {DEADLINE_MS}
    lateness_ms = sorted(map(late_ms, results))
    met = sum(result.deadline_met for result in results)
    assert met == sum(one_ms <= 0 for one_ms in lateness_ms)
    assert met >= 0.9 * len(results), lateness_ms[-10:]
    assert lateness_ms[-1] < 1000
    assert summary["deadline_hit_ratio"] == pytest.approx(met / len(results), abs=1e-3)
