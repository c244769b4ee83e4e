import io
import json
from pathlib import Path

import pytest

from foveate.outputs import PatientStream, check_apart, check_output, check_writable, write_summary
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


def test_looking_whether_a_file_can_be_written_leaves_no_trace(tmp_path: Path) -> None:
    old = tmp_path / "old.json"
    old.write_text("kept")
    check_writable(old, "summary")
    check_writable(tmp_path / "new.json", "summary")
    check_writable(Path("/dev/null"), "summary")
    assert [path.name for path in tmp_path.iterdir()] == ["old.json"]
    assert old.read_text() == "kept"
    for unwritable in (tmp_path, tmp_path / "absent" / "new.json"):
        with pytest.raises(ConfigError, match=r"the summary file .* cannot be written: .*; name another one"):
            check_writable(unwritable, "summary")


@pytest.mark.parametrize("before", [None, "old"])
def test_a_summary_is_whole_or_what_was_there_before(
    before: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "s.json"
    if before is not None:
        file.write_text(before)

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", killed)
        with pytest.raises(KeyboardInterrupt):
            write_summary(file, {"captured": 1})
    assert (file.read_text() if file.exists() else None) == before
    write_summary(file, {"captured": 1})
    assert json.loads(file.read_text()) == {"captured": 1}


def test_a_summary_goes_through_a_link_and_to_what_cannot_be_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, link = tmp_path / "s.json", tmp_path / "link.json"
    link.symlink_to(file)
    write_summary(link, {"captured": 1})
    assert link.is_symlink()
    write_summary(Path("/dev/null"), {})

    def busy(*_: object) -> None:
        raise OSError(16, "Device or resource busy")

    monkeypatch.setattr(Path, "replace", busy)
    write_summary(file, {"captured": 2})
    assert json.loads(link.read_text()) == {"captured": 2}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link.json", "s.json"]
