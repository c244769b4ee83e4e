"""Real workers at a real broker: started, loaded, killed, and gone at the end."""

import asyncio
import os
import signal

import psutil
import pytest

from cloud_worker.settings import ServedModel, WorkerSettings
from foveate.load.arrivals import Mix
from foveate.load.pictures import Pictures
from foveate.load.runs import Load, run_at
from foveate.load.stand import alike, started
from pipeline.errors import ModelError

SIZE = (96, 128)
SETTINGS = WorkerSettings((ServedModel("nanodet-g-int8", SIZE),), worker="loaded", max_batch=2)


async def test_two_workers_are_loaded_and_what_one_leaves_behind_when_killed_is_accounted_for() -> None:
    load = Load(duration_s=2.0, mix=Mix((2.0,), (SIZE,), agents=2))
    async with started(alike(SETTINGS, 2), agents=2) as stand:
        pids = [worker.pid for worker in stand.workers if worker.pid is not None]
        asyncio.get_running_loop().call_later(1.0, os.kill, pids[0], signal.SIGKILL)
        measured = await run_at(stand, load, Pictures([SIZE]), rate_per_s=20.0)
    summary = measured.summary
    assert set(summary.servers) == {"loaded-0", "loaded-1"}
    assert summary.sent == summary.in_time + summary.late + sum(summary.refused.values()) + summary.unanswered
    assert (summary.answered_twice, summary.not_sent) == (0, {})
    assert summary.unanswered <= 3, "what the killed one had in its hands"
    assert measured.spent.workers_s > 0
    assert len(pids) == 2
    assert not any(psutil.pid_exists(pid) for pid in pids)


async def test_a_worker_that_cannot_start_for_its_model_is_said_at_once_and_with_the_exit_code_of_that() -> None:
    with pytest.raises(ModelError, match="a worker has ended while it started"):
        async with started([WorkerSettings((ServedModel("no-such-model"),))], agents=1):
            pass
