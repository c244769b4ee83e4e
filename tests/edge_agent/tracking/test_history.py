"""A tracker that is corrected afterwards ends where it would have been, and answers by verdict and score."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge_agent.tracking.history import Entry, Tracker, analysed_answer, carried_answer
from edge_agent.tracking.tracks import Observations, TrackerSettings, Tracks, Verdict
from pipeline.detections import Detections, Source
from pipeline.geometry import Size

SETTINGS = TrackerSettings(
    high_score=0.4,
    low_score=0.15,
    publish_score=0.4,
    match_iou=0.2,
    low_match_iou=0.3,
    coast_s=0.25,
    confirmed_coast_s=0.3,
    forget_s=1.5,
    verdict_s=2.0,
)
SIZE = Size(640, 480)
Row = tuple[tuple[float, float, float, float], float, str]


def detections(*rows: Row) -> Detections:
    return Detections.of([r[0] for r in rows], [r[1] for r in rows], [r[2] for r in rows], Source.EDGE)


def person(x: float, score: float = 0.8) -> Row:
    return (x, 100, x + 20, 140), score, "person"


def judged(verdict: Verdict, *rows: Row, looked_at: tuple[float, float, float, float] | None = None) -> Observations:
    found = detections(*rows)
    return Observations(
        found,
        np.full(len(found), verdict, np.int8),
        np.array([looked_at] if looked_at else [], np.float32).reshape(-1, 4),
    )


def walked(frames: int, step_s: float = 0.2) -> Tracker:
    """A tracker that has seen one person walk to the right at 20 px/s."""
    tracker = Tracker(SETTINGS)
    for n in range(frames):
        tracker.observe(n, n * step_s, detections(person(20 * n * step_s)))
    return tracker


# Correction.


def test_a_late_confirmation_reaches_the_present_tracks() -> None:
    tracker = walked(5)
    assert tracker.correct(2, judged(Verdict.CONFIRMED, person(8)))
    assert tracker.tracks.ids.tolist() == [1]
    assert tracker.tracks.verdict.tolist() == [Verdict.CONFIRMED]
    assert tracker.tracks.verdict_at_s.tolist() == [pytest.approx(0.4)]
    entry = tracker.entry(4)
    assert entry is not None
    assert entry.after.track_of.tolist() == [1]


def test_an_object_that_only_the_cloud_saw_appears_in_the_present_where_it_was_seen() -> None:
    tracker = walked(5)
    tracker.correct(3, judged(Verdict.CONFIRMED, person(12), person(300)))
    assert tracker.tracks.ids.tolist() == [1, 2]
    assert tracker.tracks.boxes.xyxy[1, 0] == pytest.approx(300)


def test_a_birth_that_is_replayed_keeps_its_number() -> None:
    tracker = Tracker(SETTINGS)
    tracker.observe(0, 0.0, detections(person(0)))
    tracker.observe(1, 0.2, detections(person(4), person(300)))
    tracker.observe(2, 0.4, detections(person(8), person(304)))
    tracker.correct(0, judged(Verdict.CONFIRMED, person(0)))
    assert tracker.tracks.ids.tolist() == [1, 2]


def test_a_track_that_came_and_went_before_the_end_keeps_its_number() -> None:
    tracker = Tracker(SETTINGS)
    tracker.observe(0, 0.0, detections(person(0)))
    tracker.observe(1, 0.2, detections(person(4), person(300)))
    for n in range(2, 12):
        tracker.observe(n, n * 0.2, detections(person(4 * n)))
    assert tracker.tracks.ids.tolist() == [1]
    tracker.correct(0, judged(Verdict.CONFIRMED, person(0)))
    entry = tracker.entry(1)
    assert entry is not None
    assert entry.after.track_of.tolist() == [1, 2]


def test_a_number_is_not_given_to_two_objects_when_one_of_them_is_forgotten_by_the_end() -> None:
    tracker = Tracker(SETTINGS)
    tracker.observe(0, 0.0, detections(person(0)))
    tracker.correct(0, judged(Verdict.DENIED, person(0, 0.2)))
    tracker.observe(1, 0.2, detections(person(0, 0.3)))  # keeps the denied clutter alive
    for n in range(2, 12):
        tracker.observe(n, n * 0.2, detections(person(0, 0.9)))
    tracker.correct(1, judged(Verdict.CONFIRMED, person(0)))
    check_numbers(tracker)


def test_an_answer_that_comes_too_late_changes_nothing() -> None:
    tracker = walked(30)
    before = tracker.tracks
    assert not tracker.correct(2, judged(Verdict.CONFIRMED, person(8)))
    assert not tracker.correct(99, judged(Verdict.CONFIRMED, person(8)))
    assert tracker.tracks is before
    assert tracker.entry(2) is None


def test_the_memory_is_bounded_by_time_and_by_number() -> None:
    by_number = Tracker(SETTINGS, history_s=1e9, history_most=8)
    for n in range(50):
        by_number.observe(n, n * 0.2, detections())
    assert [n for n in range(50) if by_number.entry(n)] == list(range(42, 50))
    by_time = walked(50)
    assert [n for n in range(50) if by_time.entry(n)] == list(range(34, 50))


def test_a_time_that_falls_starts_anew_with_new_numbers() -> None:
    tracker = walked(5)
    entry = tracker.observe(5, 0.0, detections(person(0)))
    assert entry.after.tracks.ids.tolist() == [2]
    assert tracker.entry(4) is None


def test_times_that_stand_still_are_no_error() -> None:
    tracker = Tracker(SETTINGS)
    for n in range(5):
        tracker.observe(n, 0.0, detections(person(0)))
    assert tracker.tracks.ids.tolist() == [1]


def test_a_moment_between_frames_is_predicted_from_the_last_frame_before_it() -> None:
    tracker = walked(10)
    tracks, from_s = tracker.at(1.5)
    assert tracks.at_s == 1.5
    assert from_s == pytest.approx(1.4)
    assert tracks.boxes.xyxy[0, 0] == pytest.approx(30, abs=1)


def test_before_anything_was_seen_there_is_nothing() -> None:
    tracks, from_s = Tracker(SETTINGS).at(5.0)
    assert len(carried_answer(tracks, from_s, SIZE, SETTINGS)) == 0


row = st.tuples(
    st.tuples(st.integers(0, 60), st.integers(0, 20)).map(lambda p: (p[0], p[1], p[0] + 20, p[1] + 40)),
    st.sampled_from([0.2, 0.45, 0.9]),
    st.sampled_from(["person", "bicycle"]),
)
rows = st.lists(row, max_size=4)


@st.composite
def observations(draw: st.DrawFn) -> Observations:
    found = detections(*draw(rows))
    verdicts = draw(st.lists(st.sampled_from(list(Verdict)), min_size=len(found), max_size=len(found)))
    looked_at = draw(st.sampled_from([[], [[0, 0, 100, 100]]]))
    return Observations(found, np.array(verdicts, np.int8), np.array(looked_at, np.float32).reshape(-1, 4))


@st.composite
def runs(draw: st.DrawFn) -> list[tuple[float, Detections]]:
    gaps_s = draw(st.lists(st.sampled_from([0.1, 0.2, 0.9]), min_size=2, max_size=7))
    return [(at_s, detections(*draw(rows))) for at_s in np.cumsum(gaps_s).tolist()]


def observed(run: list[tuple[float, Detections]]) -> Tracker:
    tracker = Tracker(SETTINGS, history_s=100)
    for seq, (at_s, found) in enumerate(run):
        tracker.observe(seq, at_s, found)
    return tracker


def entries(tracker: Tracker) -> list[Entry]:
    return [entry for seq in range(100) if (entry := tracker.entry(seq)) is not None]


def same(a: Tracks, b: Tracks, *, ids: bool) -> bool:
    names = ("label", "score", "born_s", "seen_s", "hits", "verdict", "verdict_at_s", *(("ids",) if ids else ()))
    return np.array_equal(a.boxes.state, b.boxes.state) and all(
        np.array_equal(getattr(a, name), getattr(b, name)) for name in names
    )


def check_numbers(tracker: Tracker) -> None:
    """No two tracks of a moment share a number, none is a temporary one, and every entry follows from the last."""
    for entry in entries(tracker):
        ids = entry.after.tracks.ids.tolist()
        assert len(set(ids)) == len(ids)
        assert all(0 < i < 1 << 40 for i in ids)
        assert {i for i in entry.after.track_of.tolist() if i >= 0} <= set(ids)
    for before, after in zip(entries(tracker), entries(tracker)[1:], strict=False):
        assert same(before.after.tracks, after.before, ids=True)


@given(runs(), st.data())
@settings(deadline=None)
def test_correcting_with_the_same_observations_changes_nothing(
    run: list[tuple[float, Detections]], data: st.DataObject
) -> None:
    tracker = observed(run)
    before = entries(tracker)
    seq = data.draw(st.integers(0, len(run) - 1))
    tracker.correct(seq, before[seq].seen)
    after = entries(tracker)
    assert [a.after.track_of.tolist() for a in after] == [b.after.track_of.tolist() for b in before]
    assert all(same(a.after.tracks, b.after.tracks, ids=True) for a, b in zip(after, before, strict=True))


@given(runs(), observations(), st.data())
@settings(deadline=None)
def test_a_replay_equals_the_run_that_would_have_happened(
    run: list[tuple[float, Detections]], seen: Observations, data: st.DataObject
) -> None:
    seq = data.draw(st.integers(0, len(run) - 1))
    late, at_once = observed(run), observed(run[: seq + 1])
    late.correct(seq, seen)
    at_once.correct(seq, seen)
    for later, (at_s, found) in list(enumerate(run))[seq + 1 :]:
        at_once.observe(later, at_s, found)
    assert same(late.tracks, at_once.tracks, ids=False)
    check_numbers(late)


@given(runs(), st.lists(st.tuples(st.integers(0, 6), observations()), max_size=4), rows)
@settings(deadline=None)
def test_after_any_corrections_a_new_object_gets_a_number_that_nobody_had(
    run: list[tuple[float, Detections]], corrections: list[tuple[int, Observations]], last: list[Row]
) -> None:
    tracker = observed(run)
    given_out = {i for entry in entries(tracker) for i in entry.after.tracks.ids.tolist()}
    for seq, seen in corrections:
        tracker.correct(seq, seen)
        check_numbers(tracker)
        given_out |= {i for entry in entries(tracker) for i in entry.after.tracks.ids.tolist()}
    before = set(tracker.tracks.ids.tolist())
    entry = tracker.observe(len(run), run[-1][0] + 0.2, detections(*last))
    born = set(entry.after.tracks.ids.tolist()) - before
    assert all(i > max(given_out, default=0) for i in born)


# Answers.


def labels(found: Detections) -> list[tuple[str, float, str]]:
    return [
        (str(name), round(float(score), 2), str(source))
        for name, score, source in zip(found.label, found.score, found.source, strict=True)
    ]


def answer(*seen_rows: Row, verdict: Verdict = Verdict.UNSEEN) -> Detections:
    tracker = Tracker(SETTINGS)
    tracker.observe(0, 0.0, detections(*seen_rows))
    tracker.correct(0, judged(verdict, *seen_rows))
    entry = tracker.entry(0)
    assert entry is not None
    return analysed_answer(entry, SIZE, SETTINGS)


@pytest.mark.parametrize(
    ("verdict", "score", "shown"),
    [
        (Verdict.UNSEEN, 0.4, True),
        (Verdict.UNSEEN, 0.39, False),
        (Verdict.CONFIRMED, 0.1, True),
        (Verdict.DENIED, 0.9, False),
    ],
)
def test_a_box_is_published_by_the_clouds_verdict_or_else_by_its_score(
    verdict: Verdict, score: float, shown: bool
) -> None:
    assert bool(len(answer(person(0, score), verdict=verdict))) is shown


def test_an_earlier_verdict_holds_for_what_the_small_model_sees_now() -> None:
    def now(verdict: Verdict, score: float) -> Detections:
        tracker = Tracker(SETTINGS)
        tracker.observe(0, 0.0, detections(person(0)))
        tracker.correct(0, judged(verdict, person(0)))
        return analysed_answer(tracker.observe(1, 0.2, detections(person(2, score))), SIZE, SETTINGS)

    assert labels(now(Verdict.CONFIRMED, 0.2)) == [("person", 0.2, "edge")]
    assert labels(now(Verdict.DENIED, 0.9)) == []


def test_an_unsure_box_that_jumps_is_published_near_where_its_track_was_going_and_a_found_one_as_it_is() -> None:
    tracker = walked(6)  # due at x = 24 next
    entry = tracker.observe(6, 1.2, detections(person(32, 0.45)))
    [x] = analysed_answer(entry, SIZE, SETTINGS).xyxy[:, 0].tolist()
    assert 24 < x < 31
    tracker.correct(6, judged(Verdict.CONFIRMED, person(32, 0.45)))
    corrected = tracker.entry(6)
    assert corrected is not None
    assert analysed_answer(corrected, SIZE, SETTINGS).xyxy[:, 0].tolist() == [32]


def test_a_confirmed_track_that_the_small_model_misses_is_shown_for_a_while_as_a_track() -> None:
    tracker = Tracker(SETTINGS)
    tracker.observe(0, 0.0, detections(person(0)))
    tracker.correct(0, judged(Verdict.CONFIRMED, person(0)))
    missed = analysed_answer(tracker.observe(1, 0.3, detections()), SIZE, SETTINGS)
    assert [(str(s), int(i)) for s, i in zip(missed.source, missed.track_id, strict=True)] == [("track", 1)]
    assert len(analysed_answer(tracker.observe(2, 0.31, detections()), SIZE, SETTINGS)) == 0


def test_a_frame_that_nobody_has_looked_at_yet_does_not_make_its_tracks_vanish() -> None:
    tracker = Tracker(SETTINGS)
    for seq in range(4):
        tracker.observe(seq, seq * 0.2, detections(person(0)))
    for seq in (4, 5):
        tracker.observe(seq, seq * 0.2, detections(), looked=False)
    found = carried_answer(*tracker.at(1.0), SIZE, SETTINGS)
    assert found.track_id.tolist() == [1]
    assert found.score.tolist() == pytest.approx([0.8 * 0.5**0.4])  # last seen 0.4 s ago
    tracker.correct(5, judged(Verdict.UNSEEN, looked_at=(0, 0, 1, 1)))  # looked, and saw nothing
    assert len(carried_answer(*tracker.at(1.0), SIZE, SETTINGS)) == 0


def test_a_carried_frame_is_answered_from_the_tracks_moved_there() -> None:
    tracker = walked(10)
    found = carried_answer(*tracker.at(1.9), SIZE, SETTINGS)
    assert labels(found) == [("person", 0.75, "track")]  # seen 0.1 s ago
    assert found.xyxy[0, 0] == pytest.approx(38, abs=1)
    assert found.track_id.tolist() == [1]


@given(st.floats(0.0, 0.6), st.lists(st.booleans(), max_size=6))
def test_what_only_a_late_answer_saw_is_shown_once_less_sure_by_its_age_and_not_for_long(
    now_s: float, looks: list[bool]
) -> None:
    tracker = Tracker(SETTINGS)
    for seq, too_faint in enumerate([True, *looks]):
        tracker.observe(seq, seq * 0.1, detections(*[person(0, 0.16)] * too_faint))
    assert tracker.correct(0, judged(Verdict.CONFIRMED, person(0, 0.9)))
    assert tracker.correct(0, judged(Verdict.CONFIRMED, person(0, 0.9)))  # again, as a duplicate would
    now_s += 0.1 * len(looks)
    seen_at_s = max([0.0, *(0.1 * (n + 1) for n, seen in enumerate(looks) if seen)])
    tracks, analysed_at_s = tracker.at(now_s)
    found = carried_answer(tracks, analysed_at_s, SIZE, SETTINGS)
    assert len(found) == (analysed_at_s - seen_at_s <= SETTINGS.confirmed_coast_s)
    was = 0.9 if seen_at_s == 0 else 0.16
    assert found.score.tolist() == pytest.approx([was * 0.5 ** (now_s - seen_at_s)] * len(found))


def test_a_carried_answer_shows_what_the_analysed_one_did() -> None:
    tracker = Tracker(SETTINGS)
    tracker.observe(0, 0.0, detections(person(0), person(100, 0.9), person(200, 0.45)))
    verdicts = np.array([Verdict.CONFIRMED, Verdict.DENIED, Verdict.UNSEEN], np.int8)
    seen = replace(judged(Verdict.UNSEEN, person(0), person(100, 0.9), person(200, 0.45)), verdict=verdicts)
    tracker.correct(0, seen)
    entry = tracker.entry(0)
    assert entry is not None
    assert analysed_answer(entry, SIZE, SETTINGS).track_id.tolist() == [1, 3]
    assert carried_answer(*tracker.at(0.1), SIZE, SETTINGS).track_id.tolist() == [1, 3]


def test_boxes_are_cut_to_the_frame_and_those_outside_are_left_out() -> None:
    tracker = Tracker(SETTINGS)
    entry = tracker.observe(0, 0.0, detections(((-10, -5, 10, 20), 0.9, "person"), ((700, 10, 720, 50), 0.9, "person")))
    assert analysed_answer(entry, SIZE, SETTINGS).xyxy.tolist() == [[0, 0, 10, 20]]


@given(runs(), st.lists(st.tuples(st.integers(0, 6), observations()), max_size=3), st.floats(0, 2))
@settings(deadline=None)
def test_every_answer_lies_in_the_frame_and_shows_each_track_once(
    run: list[tuple[float, Detections]], corrections: list[tuple[int, Observations]], ahead_s: float
) -> None:
    tracker, size = observed(run), Size(50, 40)
    for seq, seen in corrections:
        tracker.correct(seq, seen)
    answers = [analysed_answer(entry, size, SETTINGS) for entry in entries(tracker)]
    answers.append(carried_answer(*tracker.at(run[-1][0] + ahead_s), size, SETTINGS))
    for found in answers:
        assert (found.xyxy >= 0).all()
        assert (found.xyxy <= [50, 40, 50, 40]).all()
        assert (found.xyxy[:, :2] < found.xyxy[:, 2:]).all()
        numbers = [i for i in found.track_id.tolist() if i >= 0]
        assert len(set(numbers)) == len(numbers)
