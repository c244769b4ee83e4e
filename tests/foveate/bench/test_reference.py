"""Dense answers are computed once, kept, and recomputed where what is kept is no good."""

from pathlib import Path

import numpy as np
import pytest

from foveate.bench import reference

MODEL = ("nanodet-g-int8", (64, 96))


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOVEATE_CACHE", str(tmp_path / "cache"))


def test_answers_are_kept_and_read_again_as_they_were(plaza: Path, tmp_path: Path) -> None:
    said: list[str] = []
    first = reference.detections(plaza, MODEL, said.append)
    again = reference.detections(plaza, MODEL, said.append)
    assert len(said) == 1
    assert len(first) == len(again) == sum(1 for _ in reference.frames(plaza))
    for one, other in zip(first, again, strict=True):
        assert np.array_equal(one.xyxy, other.xyxy)
        assert one.label.tolist() == other.label.tolist()
        assert (one.score >= np.float32(reference.LEAST_SCORE)).all()
    assert len(list((tmp_path / "cache/dense").iterdir())) == 1


def test_a_file_that_was_cut_off_is_written_anew(plaza: Path, tmp_path: Path) -> None:
    reference.detections(plaza, MODEL)
    (kept,) = (tmp_path / "cache/dense").iterdir()
    kept.write_bytes(kept.read_bytes()[:100])
    said: list[str] = []
    assert reference.detections(plaza, MODEL, said.append)
    assert said


def test_a_folder_that_cannot_be_written_is_done_without(plaza: Path, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file, not a folder")
    assert reference.detections(plaza, MODEL)
