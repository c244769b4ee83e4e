"""Keeping children alive and measuring them."""

import asyncio
import itertools
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from cloud_worker.settings import ServedModel, WorkerSettings
from foveate.children import Meter, WorkerOrder, WorkerProcess, keep_alive
from pipeline.errors import BrokerError
from pipeline.timing import LoopClock, run_virtual
from pipeline.transport.settings import MqttSettings
from tests.support.brokers import HOST, free_port


class Fragile:
    """A child that dies ``lives_s`` after each start; it starts only from attempt ``works_from`` on."""

    def __init__(self, lives_s: float, works_from: int = 0) -> None:
        self._lives_s, self._works_from = lives_s, works_from
        self.starts_s: list[float] = []
        self._dies_at_s = 0.0

    @property
    def pid(self) -> int | None:
        return 1 if asyncio.get_running_loop().time() < self._dies_at_s else None

    def begin(self) -> None:
        self._dies_at_s = asyncio.get_running_loop().time() + self._lives_s

    def start(self) -> None:
        raise AssertionError("run on a thread, where virtual time does not reach")

    def stop(self) -> None:
        self._dies_at_s = 0.0


def starts(child: Fragile, for_s: float, monkeypatch: pytest.MonkeyPatch, retire_after: int = 1000) -> list[float]:
    """The moments at which a child is started again, on virtual time."""

    async def here(start: object) -> None:
        child.starts_s.append(asyncio.get_running_loop().time())
        if len(child.starts_s) <= child._works_from:
            raise [BrokerError("the port is taken"), OSError("no more processes")][len(child.starts_s) % 2]
        child.begin()

    monkeypatch.setattr("foveate.children.asyncio.to_thread", here)

    async def main() -> None:
        child.begin()
        keeper = keep_alive("child", child, LoopClock(), lambda: len(child.starts_s) >= retire_after)
        try:
            async with asyncio.timeout(for_s):
                await keeper
        except TimeoutError:
            pass

    run_virtual(main())
    return child.starts_s


def test_a_child_that_dies_once_is_back_within_a_few_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    [first, *_] = starts(Fragile(lives_s=100), 150, monkeypatch)
    assert first == pytest.approx(101, abs=0.5)


def test_a_child_that_keeps_dying_is_started_ever_more_rarely_but_never_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    moments = starts(Fragile(lives_s=0.1), 300, monkeypatch)
    gaps = [round(later - earlier) for earlier, later in itertools.pairwise(moments)]
    assert gaps[:6] == [2, 4, 8, 16, 30, 30]
    assert set(gaps[6:]) == {30}


def test_a_start_that_fails_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    moments = starts(Fragile(lives_s=1.0, works_from=3), 60, monkeypatch)
    assert len(moments) > 3


def test_starting_a_dead_worker_again_lets_go_of_what_the_first_one_held() -> None:
    worker = WorkerProcess(WorkerOrder(WorkerSettings((ServedModel("m"),)), MqttSettings(HOST, free_port()), None))
    worker.start()
    first = worker._process
    assert first is not None
    assert first.stdin is not None
    first.kill()
    first.wait()
    worker.start()
    assert first.stdin.closed
    assert worker.pid not in (None, first.pid)
    worker.stop()


class SlowStart:
    """A child whose start takes long, and fails once its process is stopped under it."""

    def __init__(self) -> None:
        self.alive, self.begun, self.stopped = False, threading.Event(), threading.Event()

    @property
    def pid(self) -> int | None:
        return None

    def start(self) -> None:
        self.begun.set()
        self.alive = True
        if self.stopped.wait(10):
            raise BrokerError("it ended while it started")

    def stop(self) -> None:
        self.alive = False
        self.stopped.set()


async def test_a_start_that_is_cancelled_half_way_leaves_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("foveate.children.FIRST_RESTART_S", 0.0)
    child = SlowStart()
    keeper = asyncio.create_task(keep_alive("child", child, LoopClock(), lambda: False))
    assert await asyncio.to_thread(child.begun.wait, 10)
    keeper.cancel()
    with pytest.raises(asyncio.CancelledError):
        await keeper
    assert child.stopped.is_set()
    assert not child.alive


def test_a_worker_is_asked_to_stop_once_and_gets_longer_than_it_allows_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("foveate.children.STOP_SLACK_S", 10.0)
    order = WorkerOrder(WorkerSettings((ServedModel("m"),), stop_limit_s=0.5), MqttSettings(HOST, free_port()), None)
    worker = WorkerProcess(order)
    slow = "import signal, sys, time; n = []; signal.signal(15, lambda *_: n.append(1)); print('ready', flush=True)"
    slow += "\nwhile not n: time.sleep(0.01)\ntime.sleep(0.6)\nsys.exit(len(n))"
    process = subprocess.Popen([sys.executable, "-c", slow], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    worker._process = process
    worker.terminate()
    worker.stop()
    process.stdout.close()
    assert process.returncode == 1


def test_a_hopeless_child_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(starts(Fragile(lives_s=0.1), 300, monkeypatch, retire_after=2)) == 2


def test_the_meter_knows_cpu_time_and_memory_of_a_process_also_when_it_is_gone() -> None:
    busy = "sum(range(3_000_000)); import sys; print('ready', flush=True); sys.stdin.read()"
    process = subprocess.Popen([sys.executable, "-c", busy], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdin is not None
    process.stdout.readline()
    meter = Meter()
    meter.sample([process.pid])
    before = meter.usage()
    process.stdin.close()
    process.wait(10)
    process.stdout.close()
    meter.sample([process.pid])
    assert meter.usage() == before
    assert before.cpu_s > 0
    assert before.rss_mb > 1


def test_the_meter_counts_this_process() -> None:
    meter = Meter()
    meter.sample_self([])
    assert meter.usage().cpu_s > 0
    assert meter.usage().rss_mb > 10


def test_a_worker_that_cannot_have_its_model_ends_with_its_exit_code_and_one_sentence(
    capfd: pytest.CaptureFixture[str],
) -> None:
    order = WorkerOrder(WorkerSettings((ServedModel("no-such-model"),)), MqttSettings(HOST, free_port()), None)
    worker = WorkerProcess(order)
    worker.start()
    pid = worker.pid
    assert pid is not None
    assert worker._process is not None
    worker._process.wait(30)
    assert worker.exit_code == 5
    assert worker.pid is None
    worker.stop()
    said = capfd.readouterr().err
    assert said.startswith("worker: Unknown model 'no-such-model'")
    assert said.count("\n") == 1


def test_the_password_in_a_workers_order_does_not_show_in_the_process_list() -> None:
    settings = MqttSettings(HOST, free_port(), username="u", password="s3cret")
    worker = WorkerProcess(WorkerOrder(WorkerSettings((ServedModel("nanodet-g"),)), settings, None))
    worker.start()
    try:
        assert worker.pid is not None
        assert b"s3cret" not in Path(f"/proc/{worker.pid}/cmdline").read_bytes()
        assert os.getpgid(worker.pid) != os.getpgid(0)  # Ctrl+C does not reach it
    finally:
        worker.stop()
    assert worker.pid is None


def test_stopping_a_worker_twice_or_before_its_start_is_nothing_special() -> None:
    settings = WorkerSettings((ServedModel("nanodet-g"),))
    worker = WorkerProcess(WorkerOrder(settings, MqttSettings(HOST, free_port()), None))
    worker.stop()
    worker.start()
    assert worker._process is not None
    worker._process.send_signal(signal.SIGKILL)
    worker.stop()
    worker.stop()
    assert worker.exit_code is None
