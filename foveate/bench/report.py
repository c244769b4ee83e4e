"""What a group of benchmarks hands back, and where it was measured."""

import os
import platform
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import msgspec
import psutil

from pipeline.errors import ConfigError
from pipeline.timing import rfc3339, wall_time

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("foveate", "numpy", "onnxruntime", "opencv-python-headless", "iotcore", "aiomqtt")


@dataclass(frozen=True, slots=True)
class Report:
    """Figures by the names that the issues give them; how each came about; what makes them doubtful, in sentences."""

    figures: Mapping[str, float]
    details: Mapping[str, Any]
    warnings: tuple[str, ...] = ()


def context(command: str) -> dict[str, Any]:
    """The machine, the moment, the command and the versions."""
    return {
        "date": rfc3339(wall_time()),
        "command": command,
        "machine": {
            "processor": _processor(),
            "cpus": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
            "memory_mb": round(psutil.virtual_memory().total / 2**20),
            "system": f"{platform.system()} {platform.machine()}",
            "load_1min": round(os.getloadavg()[0], 2),
        },
        "versions": {"python": platform.python_version(), **{name: _version(name) for name in PACKAGES}},
        "commit": _commit(),
    }


def write_report(path: Path, report: Report, about: Mapping[str, Any]) -> None:
    """Write figures and context as JSON. Raises ConfigError where the file cannot be written."""
    content = {
        "figures": dict(report.figures),
        "context": {**about, "details": report.details, "warnings": list(report.warnings)},
    }
    try:
        path.write_bytes(msgspec.json.format(msgspec.json.encode(content), indent=2) + b"\n")
    except OSError as error:
        raise _unwritable(path, error) from error


def check_writable(path: Path) -> None:
    """Raise ConfigError now rather than after minutes of measuring."""
    try:
        path.open("ab").close()
    except OSError as error:
        raise _unwritable(path, error) from error


def _unwritable(path: Path, error: OSError) -> ConfigError:
    return ConfigError(f"Cannot write {path} ({error.strerror or error}): name another file with --json.")


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "absent"


def _commit() -> str | None:
    """The commit of the checkout, with a mark where files differ from it; None outside of one."""
    try:
        found = subprocess.run(
            ["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--abbrev=12"],
            capture_output=True,
            text=True,
            timeout=10,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return found.stdout.strip() or None if found.returncode == 0 else None


def command_line() -> str:
    """How this program was called, without the folder that it lies in."""
    return " ".join([Path(sys.argv[0]).name, *sys.argv[1:]])
