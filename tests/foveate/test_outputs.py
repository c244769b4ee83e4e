import io
from pathlib import Path

import pytest

from foveate.outputs import PatientStream, check_apart, write_summary
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


def test_record_and_summary_are_two_files(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="would be overwritten"):
        check_apart(Outputs(tmp_path / "out", tmp_path / "out"), [])
    check_apart(Outputs(tmp_path / "a", tmp_path / "b"), ["rtsp://camera/stream", str(tmp_path)])


def test_a_summary_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be written"):
        write_summary(tmp_path / "absent" / "s.json", {})
