"""A Triton server in a process of its own, on this machine's CPU, with models that run in its Python backend."""

import os
import shutil
import socket
import subprocess
import sys
import sysconfig
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from foveate.bench.children import stop
from foveate.worker_child import NICENESS
from pipeline.errors import FoveateError

HOST = "127.0.0.1"
START_LIMIT_S = 60.0
_POLL_S = 0.05

BACKEND = "from foveate.bench.triton_backend import TritonPythonModel  # noqa: F401\n"


def triton_folder() -> Path | None:
    """Triton's virtual environment: that which FOVEATE_TRITON names, else that of ``make servers``; None without."""
    folder = Path(os.environ.get("FOVEATE_TRITON") or Path(sys.prefix) / "triton")
    return folder if (folder / "installed.txt").is_file() else None


@dataclass(frozen=True, slots=True)
class TritonModel:
    """A model in the repository: its configuration as protobuf text, without name and backend; and its Python code."""

    name: str
    config: str
    code: str = BACKEND


@dataclass(frozen=True, slots=True)
class TritonPorts:
    """Where a running server listens, on ``HOST``."""

    http: int
    grpc: int
    metrics: int


@contextmanager
def triton_serving(folder: Path, models: Sequence[TritonModel], work: Path) -> Iterator[TritonPorts]:
    """Serve models until the block ends; ready when it begins. ``work`` gets the models and what the server says.

    It is as nice as the worker of an all-in-one run is. Raises FoveateError where it does not start.
    """
    repository, log = work / "models", work / "triton.log"
    for model in models:
        (repository / model.name / "1").mkdir(parents=True)
        (repository / model.name / "1" / "model.py").write_text(model.code)
        named = f'name: "{model.name}"\nbackend: "python"\n{model.config}\n'
        (repository / model.name / "config.pbtxt").write_text(named)
    ports = TritonPorts(*_free_ports(3))
    packages = Path(sysconfig.get_path("purelib", vars={"base": str(folder)}))
    command, environment = _command(packages, repository, ports), _environment(folder, packages)
    with log.open("wb") as out:
        process = subprocess.Popen(command, env=environment, stdout=out, stderr=subprocess.STDOUT)
        try:
            _wait_ready(process, ports.http, log)
            yield ports
        finally:
            stop(process)
            shutil.rmtree(repository)


def _command(packages: Path, repository: Path, ports: TritonPorts) -> list[str]:
    server = packages / "pytriton" / "tritonserver"
    return [
        *("nice", "-n", str(NICENESS)),
        str(server / "bin" / "tritonserver"),
        f"--model-repository={repository}",
        f"--backend-directory={server / 'backends'}",
        f"--http-address={HOST}",
        f"--http-port={ports.http}",
        f"--grpc-address={HOST}",
        f"--grpc-port={ports.grpc}",
        f"--metrics-address={HOST}",
        f"--metrics-port={ports.metrics}",
        "--exit-timeout-secs=5",
    ]


def _environment(folder: Path, packages: Path) -> dict[str, str]:
    """The backend's interpreter finds its packages through the first ``python3`` on the path."""
    libraries = f"{packages / 'nvidia_pytriton.libs'}:{sysconfig.get_config_var('LIBDIR')}"
    path = f"{folder / 'bin'}:{os.environ.get('PATH', '')}"
    return os.environ | {"LD_LIBRARY_PATH": libraries, "PATH": path, "OMP_NUM_THREADS": "1"}


def _wait_ready(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    for _ in range(round(START_LIMIT_S / _POLL_S)):
        if process.poll() is not None:
            break
        try:
            with urllib.request.urlopen(f"http://{HOST}:{port}/v2/health/ready", timeout=1.0):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(_POLL_S)
    told = [line for line in log.read_text("utf-8", "replace").splitlines() if "rror" in line]
    raise FoveateError(f"Triton did not start: {told[-1][-500:] if told else 'it said nothing'}.")


def _free_ports(count: int) -> list[int]:
    with ExitStack() as held:
        probes = [held.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind((HOST, 0))
        return [int(probe.getsockname()[1]) for probe in probes]
