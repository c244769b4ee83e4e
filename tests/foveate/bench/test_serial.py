"""The serial loop does the work that it is given, with the product's own stages."""

import io
import sys
from collections.abc import Mapping
from pathlib import Path

import msgspec
import numpy as np
import pytest

from foveate.bench.accuracy import read_record
from foveate.bench.children import run_child
from foveate.bench.serial import SerialLoop, load_models, read_frames, run_plan, run_serial
from foveate.bench.work import SerialRun, Work, counts_of, work_of
from foveate.models.clips import sampled_frames
from pipeline.detectors.base import Detector
from pipeline.errors import SourceError
from pipeline.results import Result, decode_result
from pipeline.timing import ManualClock, MonotonicClock
from tests.support.records import write_record

EVERYTHING = Work(analysed=True, asked=True, answered=True)
ASKED_IN_VAIN = Work(analysed=True, asked=True, answered=False)
EDGE_ALONE = Work(analysed=True, asked=False, answered=False)


@pytest.fixture(scope="module")
def models(plaza: Path) -> tuple[Detector, Detector]:
    return load_models(run_plan(plaza))


def run(clip: Path, models: tuple[Detector, Detector], work: Mapping[int, Work]) -> tuple[SerialRun, list[Result]]:
    clock, out, agent = MonotonicClock(), io.BytesIO(), run_plan(clip).agent
    loop = SerialLoop(agent.cameras[0], agent.uplink, models, work, clock)
    serial = run_serial(loop, read_frames(clip, "plaza", clock), out, clock)
    return serial, [decode_result(line) for line in out.getvalue().splitlines()]


def test_every_frame_has_one_result_in_order(plaza: Path, models: tuple[Detector, Detector]) -> None:
    serial, results = run(plaza, models, {})
    assert [result.seq for result in results] == list(range(serial.counts.frames))
    assert serial.counts.frames == sum(1 for _ in sampled_frames(plaza, 1))


def test_frames_without_work_are_carried(plaza: Path, models: tuple[Detector, Detector]) -> None:
    serial, results = run(plaza, models, {})
    assert {result.origin for result in results} == {"carried"}
    assert (serial.counts.analysed, serial.counts.bytes_up) == (0, 0)


def test_due_frames_pass_all_stages_when_the_plan_says_so(plaza: Path, models: tuple[Detector, Detector]) -> None:
    serial, results = run(plaza, models, dict.fromkeys(range(1000), EVERYTHING))
    due = [result for result in results if result.origin == "fused"]
    assert len(due) == serial.counts.answered == serial.counts.asked
    alone = [result for result in results if result.reason == "little_gain"]
    assert len(due) + len(alone) == serial.counts.analysed == -(-serial.counts.frames // 2)  # 5 of 10 a second
    assert serial.counts.bytes_up == sum(result.bytes_up for result in due) > 0
    sources = {found.source for result in due for found in result.detections}
    assert "cloud" in sources


def test_without_an_answer_the_edge_stands(plaza: Path, models: tuple[Detector, Detector]) -> None:
    in_vain, results = run(plaza, models, dict.fromkeys(range(1000), ASKED_IN_VAIN))
    assert {result.origin for result in results} == {"carried", "edge_timeout"}
    assert (in_vain.counts.answered, in_vain.counts.asked) == (0, in_vain.counts.analysed)
    assert all(found.source != "cloud" for result in results for found in result.detections)


def test_without_a_question_nothing_is_sent(plaza: Path, models: tuple[Detector, Detector]) -> None:
    serial, results = run(plaza, models, dict.fromkeys(range(1000), EDGE_ALONE))
    assert {result.origin for result in results} == {"carried", "edge"}
    assert (serial.counts.asked, serial.counts.bytes_up) == (0, 0)


def test_the_plan_made_from_a_run_repeats_it(plaza: Path, models: tuple[Detector, Detector]) -> None:
    """Mixed work, read back from its own record, gives the same work and the same boxes again."""
    mixed = {seq: (EVERYTHING, ASKED_IN_VAIN, EDGE_ALONE)[seq // 2 % 3] for seq in range(1000)}
    first, results = run(plaza, models, mixed)
    record = {result.seq: result for result in results}
    second, again = run(plaza, models, work_of(record))
    assert first.counts == second.counts == counts_of(record)
    for one, other in zip(results, again, strict=True):
        assert one.detections == other.detections


def test_as_a_program_it_follows_the_record_of_another_run(
    plaza: Path, models: tuple[Detector, Detector], tmp_path: Path
) -> None:
    first, results = run(plaza, models, dict.fromkeys(range(0, 1000, 4), EVERYTHING))
    record = write_record(tmp_path / "first.jsonl", results)
    command = [sys.executable, "-m", "foveate.bench.serial", str(plaza), str(record), str(tmp_path)]
    run_child(command, tmp_path / "log")
    second = msgspec.json.decode((tmp_path / "counts.json").read_bytes(), type=SerialRun)
    assert second.counts == first.counts == counts_of(read_record(tmp_path / "record.jsonl"))
    assert second.duration_s > 0


def test_frames_are_those_of_the_clip_with_their_times(plaza: Path) -> None:
    frames = list(read_frames(plaza, "plaza", ManualClock(7.0)))
    originals = [image for _, image in sampled_frames(plaza, 1)]
    assert len(frames) == len(originals)
    for seq, (frame, original) in enumerate(zip(frames, originals, strict=True)):
        assert (frame.key.seq, frame.captured_at_s) == (seq, 7.0)
        assert frame.media_ms == pytest.approx(seq * 100.0, abs=1.0)
        np.testing.assert_array_equal(frame.image, original)


def test_a_file_that_is_no_video_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "notes.mp4"
    path.write_text("not a video")
    with pytest.raises(SourceError, match=r"No frame can be read from .*notes\.mp4"):
        list(read_frames(path, "x", ManualClock()))
