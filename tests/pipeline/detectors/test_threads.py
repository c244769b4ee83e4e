from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.detectors.threads import default_threads, quota_cpus, thread_count


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
