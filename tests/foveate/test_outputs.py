import io
from pathlib import Path

import pytest

from foveate.outputs import PatientStream, check_apart, check_output, write_summary
from foveate.plan import Outputs
from pipeline.errors import ConfigError


class Gone(io.StringIO):
    """A stream whose reader has left."""

    def write(self, text: str) -> int:
        raise BrokenPipeError

    def flush(self) -> None:
        raise BrokenPipeError


def test_a_stream_whose_reader_has_left_ends_nothing() -> None:
    stream = PatientStream(Gone())
    assert stream.write("text") == 4
    stream.flush()
    assert not stream.closed


def test_what_is_taken_arrives() -> None:
    taken = io.StringIO()
    PatientStream(taken).write("text")
    assert taken.getvalue() == "text"


def test_a_source_is_never_written_over(tmp_path: Path) -> None:
    clip = tmp_path / "clip.mp4"
    clip.write_bytes(b"moving")
    for outputs in (Outputs(record=clip), Outputs(summary=clip)):
        with pytest.raises(ConfigError, match="would be overwritten"):
            check_apart(outputs, [str(clip)])
    assert clip.read_bytes() == b"moving"


def test_what_minutes_of_work_are_for_can_be_written_and_is_not_their_source(tmp_path: Path) -> None:
    clip, old, new = tmp_path / "clip.mp4", tmp_path / "old.json", tmp_path / "new.json"
    clip.write_bytes(b"moving")
    old.write_text("kept")
    check_output(old, clip)
    check_output(new, clip)
    assert old.read_text() == "kept"
    assert not new.exists()
    with pytest.raises(ConfigError, match="would be overwritten"):
        check_output(tmp_path / "." / "clip.mp4", clip)
    for unwritable in (tmp_path, tmp_path / "absent" / "new.json"):
        with pytest.raises(ConfigError, match=r"cannot be written: .*; name another"):
            check_output(unwritable, clip)


def test_record_and_summary_are_two_files(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="would be overwritten"):
        check_apart(Outputs(tmp_path / "out", tmp_path / "out"), [])
    check_apart(Outputs(tmp_path / "a", tmp_path / "b"), ["rtsp://camera/stream", str(tmp_path)])


def test_a_summary_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be written"):
        write_summary(tmp_path / "absent" / "s.json", {})
