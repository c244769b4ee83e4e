"""Recorded workloads: files, pace and times."""

from pathlib import Path

import pytest

from foveate.simulation.workload import load, paced, save, with_times
from pipeline.errors import ConfigError
from tests.support.workloads import workload


def test_a_workload_comes_back_from_its_file_as_it_was(tmp_path: Path) -> None:
    save(workload(), tmp_path / "w.json")
    assert load(tmp_path / "w.json") == workload()


@pytest.mark.parametrize(
    ("content", "words"),
    [("{}", "is no workload"), ("[", "is no workload"), (None, "cannot be read")],
)
def test_what_is_no_workload_is_told_in_a_sentence(tmp_path: Path, content: str | None, words: str) -> None:
    path = tmp_path / "w.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(ConfigError, match=words):
        load(path)


def test_a_workload_without_frames_is_refused(tmp_path: Path) -> None:
    save(workload(frames=0), tmp_path / "w.json")
    with pytest.raises(ConfigError, match="no frame"):
        load(tmp_path / "w.json")


def test_a_workload_that_cannot_be_written_is_told_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be written"):
        save(workload(), tmp_path / "absent" / "w.json")


def test_another_pace_changes_when_frames_come_and_nothing_else() -> None:
    slow = paced(workload(frames=10, fps=5.0), 1.0)
    assert [frame.at_s for frame in slow.frames] == [float(i) for i in range(10)]
    assert (slow.duration_s, slow.sample_fps, slow.kept_fps) == (10.0, 1.0, 1.0)
    assert {frame.edge_ms for frame in slow.frames} == {10.0}


def test_times_of_other_machines_are_reached_on_average_and_keep_their_ratio() -> None:
    other = with_times(workload(edge_ms=10.0), edge_ms=5.0, cloud_ms=30.0)
    assert {frame.edge_ms for frame in other.frames} == {5.0}
    assert {frame.mosaic.infer_ms for frame in other.frames if frame.mosaic} == {30.0}
    assert {frame.whole.infer_ms for frame in other.frames} == {100.0}


def test_times_that_are_not_named_stay() -> None:
    assert with_times(workload(), None, None) == workload()
