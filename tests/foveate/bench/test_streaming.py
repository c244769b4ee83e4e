"""What counts is what had been published when it was needed."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foveate.bench import streaming
from foveate.bench.playlist import Clip, Part, Playlist
from foveate.bench.streaming import State, frames_shown, gap_recovery, newest_in_time, pooled, streaming_scores
from pipeline.detections import Detections
from tests.support.bench_work import person, walking

CAPTURED_S = {seq: seq / 10 for seq in range(50)}


def state(seq: int, at_s: float, of: int | None = None) -> State:
    return State(seq, at_s, {"person": person(seq if of is None else of, 8.0)})


def test_an_answer_that_comes_late_leaves_the_older_one_standing() -> None:
    published = [state(0, 0.05), state(1, 0.35)]
    in_time = newest_in_time(published, CAPTURED_S, 3, 0.15)
    assert [None if s is None else s.seq for s in in_time] == [0, 0, 1]
    strictly = newest_in_time(published, CAPTURED_S, 3, 0.0)
    assert [None if s is None else s.seq for s in strictly] == [None, 0, 0]


def test_a_later_frames_state_never_counts_for_an_earlier_one() -> None:
    early = [state(1, 0.11), state(0, 0.14)]
    assert [None if s is None else s.seq for s in newest_in_time(early, CAPTURED_S, 2, 0.15)] == [0, 1]


@given(st.lists(st.tuples(st.integers(0, 19), st.floats(0, 0.5)), max_size=40), st.floats(0, 0.3))
def test_no_state_is_used_before_it_was_published_and_none_that_is_newer_is_passed_over(
    answers: list[tuple[int, float]], within_s: float
) -> None:
    published = sorted((state(seq, seq / 10 + late_s) for seq, late_s in answers), key=lambda s: s.published_s)
    for seq, chosen in enumerate(newest_in_time(published, CAPTURED_S, 20, within_s)):
        known = [s.seq for s in published if s.published_s <= seq / 10 + within_s + 1e-9 and s.seq <= seq]
        assert (None if chosen is None else chosen.seq) == max(known, default=None)


def test_a_box_that_has_moved_on_is_wrong_and_missed() -> None:
    shown = walking(5, speed_px=30.0).shown
    held = [State(0, 0.0, {"person": person(0, 30.0)})]
    scores = streaming_scores(held, shown, CAPTURED_S, 0.15)
    assert [score.true_positives for score in scores] == [1, 0, 0, 0, 0]
    assert pooled(scores) == pytest.approx(1 / 5)


def test_the_larger_model_is_no_judge_where_it_is_unsure_and_strictly_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    box = np.array([[10, 10, 50, 90]], np.float32)
    found = [Detections.of(box, [score], ["person"]) for score in (0.9, 0.4, 0.2)]
    monkeypatch.setattr(streaming, "detections", lambda path, model, say: found)
    playlist = Playlist("p", (Part(Clip("c", Path("c.mp4"), "person", 10.0)),))
    shown = frames_shown(playlist, lambda _: None)
    published = [State(seq, seq / 10, {"person": box}) for seq in range(3)]
    wrong = [s.false_positives for s in streaming_scores(published, shown, CAPTURED_S, 0.0)]
    strictly = [s.false_positives for s in streaming_scores(published, shown, CAPTURED_S, 0.0, strict=True)]
    assert (wrong, strictly) == ([0, 0, 1], [0, 1, 1])
    assert [len(frame.cloud) for frame in shown] == [1, 0, 0]


def test_a_playlist_shows_the_frames_of_its_parts_and_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [Detections.of([[i, 0, i + 9, 9]], [0.9], ["person"]) for i in range(10)]
    monkeypatch.setattr(streaming, "detections", lambda path, model, say: found)
    clip = Clip("c", Path("c.mp4"), "person", 10.0)
    shown = frames_shown(Playlist("p", (Part(clip, 2, 3), Part(clip, 1))), lambda _: None)
    assert [int(frame.cloud[0, 0]) for frame in shown] == [3, 4, 0]


def test_recovery_is_the_share_of_the_gap_and_no_number_where_there_is_none() -> None:
    assert gap_recovery(0.88, 0.85, 0.91) == pytest.approx(0.5)
    assert np.isnan(gap_recovery(0.88, 0.87, 0.88))
