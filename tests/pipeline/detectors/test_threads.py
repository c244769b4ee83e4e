import logging
import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.detectors.loading import load_detector
from pipeline.detectors.onnx import OnnxDetector
from pipeline.detectors.threads import default_threads, quota_cpus, thread_count
from pipeline.timing import cpu_s
from tests.support.onnx_models import SIDE, brightness_detector, entry, save

HOST_CPUS = 64
ALLOWED_CPUS = getattr(os, "sched_getaffinity", None)
ONE_CPU: dict[str, dict[str, str]] = {
    "cgroup v2": {"sys/fs/cgroup/cpu.max": "100000 100000\n"},
    "cgroup v1": {
        "proc/self/cgroup": "4:cpu,cpuacct:/docker/x\n",
        "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "100000\n",
        "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000\n",
    },
    "affinity": {},
}
"""Each way to limit a process to one CPU of a large host."""


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@settings(deadline=None)
@given(st.integers(1, 256), st.one_of(st.none(), st.floats(0.01, 300)))
def test_threads_fit_into_cpus_and_quota_and_are_at_least_one(cpus: int, quota: float | None) -> None:
    threads = thread_count(cpus, quota)
    assert 1 <= threads <= cpus
    assert quota is None or threads <= max(1, quota)


@pytest.mark.parametrize(
    ("files", "cpus"),
    [
        ({"sys/fs/cgroup/cpu.max": "100000 100000\n"}, 1.0),
        ({"sys/fs/cgroup/cpu.max": "max 100000\n"}, None),
        ({"sys/fs/cgroup/cpu.max": "250000 100000\n", "proc/self/cgroup": "0::/\n"}, 2.5),
        (
            {
                "proc/self/cgroup": "0::/a/b\n",
                "sys/fs/cgroup/a/cpu.max": "300000 100000\n",
                "sys/fs/cgroup/a/b/cpu.max": "max 100000\n",
            },
            3.0,
        ),
        (
            {
                "proc/self/cgroup": "4:cpu,cpuacct:/docker/x\n",
                "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "150000\n",
                "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
            },
            1.5,
        ),
        (
            {
                "proc/self/cgroup": "4:cpu:/x\n",
                "sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_quota_us": "200000\n",
                "sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_period_us": "100000\n",
            },
            2.0,
        ),
        ({"sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n", "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n"}, None),
        ({"sys/fs/cgroup/cpu.max": "nonsense\n", "proc/self/cgroup": "broken line\n"}, None),
        ({"sys/fs/cgroup/cpu.max": "100000 0\n"}, None),
        ({}, None),
    ],
)
def test_the_quota_is_read_from_cgroup_files_of_both_versions(
    tmp_path: Path, files: dict[str, str], cpus: float | None
) -> None:
    assert quota_cpus(write(tmp_path, files)) == cpus


def test_a_container_of_one_cpu_on_a_large_host_gets_one_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _pid: set(range(64)), raising=False)
    assert default_threads(tmp_path) == 64
    assert default_threads(write(tmp_path, {"sys/fs/cgroup/cpu.max": "100000 100000"})) == 1
    monkeypatch.setattr("os.sched_getaffinity", lambda _pid: {5}, raising=False)
    assert default_threads(tmp_path / "elsewhere") == 1


@pytest.fixture(params=ONE_CPU)
def one_cpu(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The root of the files that say what this process may use: one CPU of a large host."""
    cpus = {5} if request.param == "affinity" else set(range(HOST_CPUS))
    monkeypatch.setattr("os.sched_getaffinity", lambda _pid: cpus, raising=False)
    monkeypatch.setattr("os.cpu_count", lambda: HOST_CPUS)
    return write(tmp_path / "root", ONE_CPU[request.param])


def load_two(folder: Path, threads: int) -> list[OnnxDetector]:
    save(folder, entry(inputs={"scale": 1.0, "largest_px": (512, 512)}), brightness_detector())
    return [load_detector("fake", input_size=None, threads=threads, models_dir=folder) for _ in range(2)]


def test_two_sessions_in_a_container_of_one_cpu_start_no_threads_of_their_own(
    tmp_path: Path, one_cpu: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Case C11: whoever runs a session lends it the one thread; the sessions of a worker take turns with it."""
    load_two(tmp_path, 1)  # what onnxruntime starts once for the whole process is not counted
    before = psutil.Process().num_threads()
    with caplog.at_level(logging.INFO):
        detectors = load_two(tmp_path, default_threads(one_cpu))
    for detector in detectors:
        detector.detect([np.zeros((SIDE, SIDE, 3), np.uint8)], 0.5)
    assert psutil.Process().num_threads() <= before
    assert caplog.text.count("1 inference threads") == 2


def test_a_number_of_threads_that_is_given_wins_over_the_quota(
    tmp_path: Path, one_cpu: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Case C11."""
    assert default_threads(one_cpu) == 1
    before = psutil.Process().num_threads()
    with caplog.at_level(logging.INFO):
        detectors = load_two(tmp_path, 3)
    assert len(detectors) == 2
    assert psutil.Process().num_threads() == before + 2 * (3 - 1)
    assert caplog.text.count("3 inference threads") == 2


@pytest.fixture
def _pinned() -> Iterator[None]:
    """This thread and those that it starts run on one CPU: on two that share a core each takes more time."""
    if ALLOWED_CPUS is None:
        yield
        return
    cpus = ALLOWED_CPUS(0)
    os.sched_setaffinity(0, {min(cpus)})
    yield
    os.sched_setaffinity(0, cpus)


@pytest.mark.usefixtures("_pinned")
def test_two_sessions_at_once_on_one_cpu_cost_no_more_than_one_after_the_other(tmp_path: Path, one_cpu: Path) -> None:
    """Case C11, in CPU time, which others on this machine do not change: threads that fight for a CPU waste it."""
    detectors, picture = load_two(tmp_path, default_threads(one_cpu)), np.zeros((512, 512, 3), np.uint8)

    def runs(detector: OnnxDetector, start: threading.Barrier) -> None:
        start.wait(10)
        for _ in range(10):
            detector.detect([picture], 0.5)

    def cost_s(pool: ThreadPoolExecutor, together: list[OnnxDetector]) -> float:
        start, began_s = threading.Barrier(len(together)), cpu_s()
        for done in [pool.submit(runs, detector, start) for detector in together]:
            done.result(30)
        return cpu_s() - began_s

    with ThreadPoolExecutor(2) as pool:
        cost_s(pool, detectors)
        pairs: list[Any] = [(cost_s(pool, detectors[:1]), cost_s(pool, detectors)) for _ in range(5)]
    assert min(both for _, both in pairs) <= 2.5 * min(one for one, _ in pairs)
