"""Scoring a record: what was published for each frame, and files that cannot be scored."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foveate.bench.accuracy import NO_RESULT, accuracy, read_record, read_truth
from foveate.models.scoring import Truth
from pipeline.errors import ConfigError
from tests.support.records import Box, result, write_record, write_truth

LEFT: Box = (0, 0, 50, 100)
RIGHT: Box = (200, 0, 250, 100)


def truth_of(*boxes: Box, ignored: bool = False) -> Truth:
    xyxy = np.array(boxes, np.float32).reshape(-1, 4)
    return Truth(xyxy, np.array(["person"] * len(boxes), np.str_), np.full(len(boxes), ignored))


def test_frame_numbers_of_the_record_start_at_0_and_those_of_the_truth_at_1() -> None:
    scored = accuracy({0: result(0, [LEFT]), 1: result(1, [RIGHT])}, {1: truth_of(LEFT), 2: truth_of(RIGHT)}, "person")
    assert (scored.score.true_positives, scored.score.f1) == (2, 1.0)


def test_a_frame_without_a_result_is_scored_as_empty() -> None:
    scored = accuracy({0: result(0, [LEFT])}, {1: truth_of(LEFT), 2: truth_of(LEFT, RIGHT)}, "person")
    assert (scored.frames, scored.answered) == (2, 1)
    assert scored.by_origin[NO_RESULT].score.false_negatives == scored.score.false_negatives == 2


def test_a_detection_on_an_ignored_row_is_neither_right_nor_wrong() -> None:
    scored = accuracy({0: result(0, [LEFT])}, {1: truth_of(LEFT, ignored=True)}, "person")
    counts = scored.score
    assert (counts.true_positives, counts.false_positives, counts.false_negatives) == (0, 0, 0)


def test_only_detections_of_the_label_count() -> None:
    scored = accuracy({0: result(0, [LEFT], label="dog")}, {1: truth_of(LEFT)}, "person")
    assert (scored.score.false_positives, scored.score.false_negatives) == (0, 1)


def test_detections_on_frames_that_the_truth_leaves_out_are_wrong() -> None:
    assert accuracy({4: result(4, [LEFT])}, {1: truth_of(LEFT)}, "person").score.false_positives == 1


def test_frames_beyond_the_limit_are_left_out() -> None:
    truth = {1: truth_of(LEFT), 2: truth_of(RIGHT)}
    scored = accuracy({0: result(0, [LEFT]), 5: result(5, [LEFT])}, truth, "person", frames=1)
    assert (scored.frames, scored.score.f1) == (1, 1.0)


@given(
    st.dictionaries(
        st.integers(0, 12),
        st.tuples(st.sampled_from(["edge", "fused", "carried"]), st.lists(st.sampled_from([LEFT, RIGHT]), unique=True)),
    ),
    st.dictionaries(st.integers(1, 13), st.lists(st.sampled_from([LEFT, RIGHT]), unique=True)),
)
def test_the_origins_together_are_the_whole(
    answers: dict[int, tuple[str, list[Box]]], true: dict[int, list[Box]]
) -> None:
    """Frames and counts of all origins add up to those of the record, and every true box is found or missed."""
    record = {seq: result(seq, boxes, origin=origin) for seq, (origin, boxes) in answers.items()}
    scored = accuracy(record, {number: truth_of(*boxes) for number, boxes in true.items()}, "person")
    assert sum(part.frames for part in scored.by_origin.values()) == scored.frames
    assert scored.answered == len(record)
    assert scored.score.true_positives + scored.score.false_negatives == sum(len(boxes) for boxes in true.values())
    found = sum(len(boxes) for _, boxes in answers.values())
    assert scored.score.true_positives + scored.score.false_positives == found


def test_a_record_is_read_by_frame_number(tmp_path: Path) -> None:
    results = [result(1, [RIGHT]), result(0, [LEFT])]
    assert read_record(write_record(tmp_path / "r.jsonl", results)) == {0: results[1], 1: results[0]}


def test_of_a_revised_frame_what_was_published_first_counts(tmp_path: Path) -> None:
    lines = [result(0, [], final=False), result(0, [LEFT], revision=1)]
    assert read_record(write_record(tmp_path / "r.jsonl", lines))[0].revision == 0
    assert read_record(write_record(tmp_path / "r.jsonl", reversed(lines)))[0].revision == 0


def test_one_of_several_cameras_can_be_chosen(tmp_path: Path) -> None:
    path = write_record(tmp_path / "r.jsonl", [result(0, camera="gate", epoch=1), result(0, camera="yard", epoch=2)])
    assert read_record(path, "yard")[0].epoch == 2
    with pytest.raises(ConfigError, match="gate, yard: choose one with --camera"):
        read_record(path)
    with pytest.raises(ConfigError, match="has only gate, yard"):
        read_record(path, "hall")


def test_two_runs_in_one_file_are_refused(tmp_path: Path) -> None:
    path = write_record(tmp_path / "r.jsonl", [result(0, epoch=1), result(0, epoch=2)])
    with pytest.raises(ConfigError, match="2 runs in one file"):
        read_record(path)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty"),
        (b'{"schema": 1}\n', "line 1 is not a result"),
        (b"\xff\xfe\x00text", "line 1 is not a result"),
        (b"[" * 100_000, "line 1 is not a result"),
    ],
    ids=["empty", "other JSON", "binary", "deeply nested"],
)
def test_a_file_that_is_no_record_is_refused_in_one_sentence(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "r.jsonl"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=words) as caught:
        read_record(path)
    assert caught.value.exit_code == 2
    assert "\n" not in str(caught.value)


def test_a_record_that_was_cut_off_names_the_line(tmp_path: Path) -> None:
    path = write_record(tmp_path / "r.jsonl", [result(0), result(1)])
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(ConfigError, match="line 2 is not a result"):
        read_record(path)


def test_a_negative_frame_number_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="line 1 has frame number -1"):
        read_record(write_record(tmp_path / "r.jsonl", [result(-1)]))


def test_an_absent_record_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"Cannot read the record .*absent\.jsonl"):
        read_record(tmp_path / "absent.jsonl")


def test_truth_rows_with_conf_0_are_the_ignored_ones(tmp_path: Path) -> None:
    truth = read_truth(write_truth(tmp_path / "gt.txt", [(1, LEFT, 1), (1, RIGHT, 0)]), "person")
    assert truth[1].ignored.tolist() == [False, True]
    assert truth[1].xyxy.tolist() == [list(LEFT), list(RIGHT)]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "as MOT ground truth"),
        ("\n\n", "as MOT ground truth"),
        ("a picture of a cat", "as MOT ground truth"),
        ("1,1,0,0", "as MOT ground truth"),
        ("0,1,0,0,10,10,1,0,0,0", "row of frame 0"),
        ("nan,1,0,0,10,10,1,0,0,0", "row of frame"),
        ("1,1,0,nan,10,10,1,0,0,0", "row of frame 1"),
    ],
)
def test_truth_that_cannot_be_used_is_refused_in_one_sentence(tmp_path: Path, content: str, words: str) -> None:
    path = tmp_path / "gt.txt"
    path.write_text(content)
    with pytest.raises(ConfigError, match=words):
        read_truth(path, "person")
