"""How many inference threads this process may use: the smaller of its CPU affinity and its container's CPU quota."""

import math
import os
from pathlib import Path

V1_FOLDERS = ("cpu", "cpu,cpuacct", "cpuacct,cpu")


def thread_count(cpus: int, quota_cpus: float | None) -> int:
    """Whole threads that fit into the CPUs and the quota, at least 1."""
    allowed = cpus if quota_cpus is None else min(cpus, math.floor(quota_cpus))
    return max(1, allowed)


def default_threads(root: Path = Path("/")) -> int:
    """Threads for all sessions of this process together; reads the affinity and the cgroup files below ``root``."""
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return thread_count(cpus, quota_cpus(root))


def quota_cpus(root: Path = Path("/")) -> float | None:
    """The CPU quota in CPUs, the tightest of this process's cgroup and those above it; None where there is none."""
    mount = root / "sys/fs/cgroup"
    quotas: list[float] = []
    for controllers, group in _groups(root):
        mounts = [mount] if not controllers else [mount / name for name in V1_FOLDERS if "cpu" in controllers]
        for base in mounts:
            # Inside a container the path may name a group of the host that is not visible: its mount point still is.
            for folder in (base / group, *(base / group).parents):
                quotas += _quota(folder)
                if folder == base:
                    break
    return min(quotas, default=None)


def _groups(root: Path) -> list[tuple[list[str], str]]:
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        lines = []
    groups: list[tuple[list[str], str]] = [([], ""), (["cpu"], "")]
    for line in lines:
        parts = line.split(":", 2)
        if len(parts) == 3 and ".." not in parts[2]:
            groups.append(([name for name in parts[1].split(",") if name], parts[2].lstrip("/")))
    return groups


def _quota(folder: Path) -> list[float]:
    try:
        if (folder / "cpu.max").exists():
            limit, period = (folder / "cpu.max").read_text().split()
        else:
            limit = (folder / "cpu.cfs_quota_us").read_text().strip()
            period = (folder / "cpu.cfs_period_us").read_text().strip()
        return [int(limit) / int(period)] if limit != "max" and int(limit) > 0 and int(period) > 0 else []
    except (OSError, ValueError):
        return []
