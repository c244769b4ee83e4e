"""The product as real processes: started, watched, signalled, and what subscribers hear of it."""

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import av
import psutil
import pytest

from foveate.cli import main
from pipeline.results import Result, decode_result
from pipeline.timing import MonotonicClock
from pipeline.transport.base import Message
from pipeline.transport.mqtt import MqttTransport
from pipeline.transport.settings import MqttSettings
from pipeline.wire import topics
from pipeline.wire.codec import decode_worker_state
from pipeline.wire.messages import WorkerState
from tests.support.brokers import HOST, free_port, quick_backoff
from tests.support.scripts import REPOSITORY

CLIP = REPOSITORY / "sample_videos" / "plaza.mp4"
PATIENCE_S = 40.0
CLOCK = MonotonicClock()
Arguments = list[str | Path]


def cut_clip(path: Path, frames: int) -> Path:
    """The first ``frames`` of the sample clip, packets as they are."""
    with av.open(str(CLIP)) as source, av.open(str(path), "w") as target:
        stream = source.streams.video[0]
        copy = target.add_stream_from_template(stream)
        packets = [packet for packet in source.demux(stream) if packet.dts is not None][:frames]
        for packet in packets:
            packet.stream = copy
            target.mux(packet)
    return path


def free_port_pair() -> int:
    """A port that is free and whose successor is too; a run puts MQTT 5 and MQTT 3.1.1 there."""
    for _ in range(100):
        port = free_port()
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind((HOST, port + 1))
            return port
    raise AssertionError("no two free ports in a row")


async def until(reached: Callable[[], Any], what: str, within_s: float = PATIENCE_S) -> Any:
    """Poll until something is true and return it; fails the test after ``within_s``."""
    give_up_at_s = CLOCK.now_s() + within_s
    while not (value := reached()):
        assert CLOCK.now_s() < give_up_at_s, f"not within {within_s:g} s: {what}"
        await asyncio.sleep(0.05)
    return value


class Product:
    """A ``foveate`` command in a process and a session of its own; its output goes to files in ``folder``."""

    def __init__(self, folder: Path, *arguments: str | Path) -> None:
        self._out, self._err = folder / f"{arguments[0]}.out", folder / f"{arguments[0]}.err"
        command = [sys.executable, "-m", "foveate", *map(str, arguments)]
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self._process = subprocess.Popen(command, stdout=out, stderr=err, cwd=REPOSITORY, start_new_session=True)
        self.pid = self._process.pid

    @property
    def stdout(self) -> str:
        return self._out.read_text(errors="replace")

    @property
    def stderr(self) -> str:
        return self._err.read_text(errors="replace")

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def children(self) -> list[psutil.Process]:
        """The processes that the command has started, and theirs."""
        return psutil.Process(self.pid).children(recursive=True)

    def child(self, module: str) -> psutil.Process | None:
        """The running child that runs a module, if there is one."""
        for child in self.children():
            with contextlib.suppress(psutil.Error):
                if module in child.cmdline() and child.status() != psutil.STATUS_ZOMBIE:
                    return child
        return None

    def send_signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def send_signal_to_group(self, number: signal.Signals) -> None:
        """What Ctrl+C on a terminal does."""
        os.killpg(self.pid, number)

    async def ended(self, within_s: float = PATIENCE_S) -> int:
        """Wait for the end; returns the exit code."""
        await until(lambda: not self.running, f"the end of the process; it said {self.stderr[-2000:]}", within_s)
        return self._process.returncode

    def kill_all(self) -> None:
        """Leave nothing behind, whatever the test has come to."""
        children = self.children() if self.running else []
        self._process.kill()
        self._process.wait(10)
        for child in children:
            with contextlib.suppress(psutil.Error):
                child.kill()


@contextlib.asynccontextmanager
async def product(folder: Path, *arguments: str | Path) -> AsyncIterator[Product]:
    """A command that has ended when the block has."""
    started = Product(folder, *arguments)
    try:
        yield started
    finally:
        started.kill_all()


def gone(processes: list[psutil.Process]) -> bool:
    """Whether none of the processes runs any more; a zombie that waits for its parent does not run."""
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            if process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
                return False
    return True


class Listener:
    """A subscriber to everything below ``foveate/``, over MQTT 5, that reconnects by itself."""

    def __init__(self, port: int) -> None:
        self.session = MqttTransport(MqttSettings(HOST, port), backoff=quick_backoff())
        self.messages: list[Message] = []
        self.session.subscribe("foveate/#", self.messages.append)

    def results(self, camera: str) -> list[Result]:
        topic = topics.result(camera)
        return [decode_result(message.payload) for message in self.messages if message.topic == topic]

    def origins(self, camera: str) -> list[str]:
        return [result.origin for result in self.results(camera)]

    def states(self, camera: str) -> list[dict[str, str]]:
        topic = topics.state(camera)
        return [json.loads(message.payload) for message in self.messages if message.topic == topic]

    def state(self, camera: str) -> str:
        """The camera's latest state."""
        states = self.states(camera)
        return states[-1]["state"] if states else ""

    def workers(self) -> list[WorkerState]:
        """What workers have announced of themselves."""
        heard = [decode_worker_state(m.payload) for m in self.messages if m.topic.startswith("foveate/v1/worker/")]
        return [state for state in heard if isinstance(state, WorkerState)]

    def availability(self) -> list[str]:
        return [m.payload.decode() for m in self.messages if m.topic.startswith("foveate/agent/")]


@contextlib.asynccontextmanager
async def listening(port: int) -> AsyncIterator[Listener]:
    """A subscriber for the length of the block; the broker may come later, and go."""
    listener = Listener(port)
    running = asyncio.create_task(listener.session.run())
    try:
        yield listener
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def read_record(path: Path) -> list[Result]:
    """The results in a record file; a line that is still being written is left out."""
    return [decode_result(line) for line in path.read_bytes().splitlines(keepends=True) if line.endswith(b"\n")]


def command(monkeypatch: pytest.MonkeyPatch, *arguments: str | Path) -> int:
    """Run a command inside this process; returns its exit code."""
    monkeypatch.setattr(sys, "argv", ["foveate", *map(str, arguments)])
    with pytest.raises(SystemExit) as ended:
        main()
    code = ended.value.code
    return code if isinstance(code, int) else 0


def assert_ends_with_its_parent(script: str) -> None:
    """Run a script that starts a child, prints its process id and waits; kill the script, and see the child end."""
    with subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        child = psutil.Process(int(parent.stdout.readline()))
        parent.kill()
        parent.wait(5)
        psutil.wait_procs([child], timeout=10)
        assert not child.is_running() or child.status() == psutil.STATUS_ZOMBIE
