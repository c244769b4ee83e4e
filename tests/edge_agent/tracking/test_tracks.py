"""One step of the tracker: who is who, who is new, who is gone, what the cloud said."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from edge_agent.tracking.tracks import Observations, Step, TrackerSettings, Tracks, Verdict, predict, step
from pipeline.detections import Detections, Source

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
Row = tuple[float, float, float, float]


def seen(
    *rows: tuple[Row, float, str],
    verdict: Verdict | list[Verdict] = Verdict.UNSEEN,
    looked_at: list[Row] | None = None,
) -> Observations:
    """Observations of (box, score, label)."""
    verdicts = verdict if isinstance(verdict, list) else [verdict] * len(rows)
    return Observations(
        Detections.of([r[0] for r in rows], [r[1] for r in rows], [r[2] for r in rows], Source.EDGE),
        np.array(verdicts, np.int8),
        np.array(looked_at or [], np.float32).reshape(-1, 4),
    )


def person(x: float, score: float = 0.8, y: float = 0.0) -> tuple[Row, float, str]:
    return (x, y, x + 20, y + 40), score, "person"


def run(*frames: tuple[float, Observations], settings: TrackerSettings = SETTINGS) -> list[Step]:
    """Steps over frames of (moment, observations), numbered as the tracker does."""
    tracks, next_id, out = Tracks.none(0.0), 1, []
    for now_s, observed in frames:
        out.append(step(tracks, observed, now_s, next_id, settings))
        tracks = out[-1].tracks
        next_id = max(next_id, int(tracks.ids.max(initial=0)) + 1)
    return out


def test_a_confident_box_starts_a_track_and_the_next_one_keeps_it() -> None:
    first, second = run((0.0, seen(person(0))), (0.2, seen(person(4))))
    assert first.track_of.tolist() == second.track_of.tolist() == [1]
    assert second.tracks.hits.tolist() == [2]


def test_an_uncertain_box_keeps_a_track_but_starts_none() -> None:
    alone, _ = run((0.0, seen(person(0, 0.3))), (0.2, seen()))
    assert alone.track_of.tolist() == [-1]
    assert len(alone.tracks) == 0
    _, kept = run((0.0, seen(person(0))), (0.2, seen(person(2, 0.3))))
    assert kept.track_of.tolist() == [1]


def test_the_confident_box_is_served_before_the_uncertain_one() -> None:
    _, second = run((0.0, seen(person(0))), (0.2, seen(person(1, 0.2), person(3, 0.9))))
    assert second.track_of.tolist() == [-1, 1]


def test_two_that_cross_keep_their_identities() -> None:
    def at(moment_s: float) -> Observations:
        return seen(person(40 * moment_s), person(100 - 40 * moment_s, y=12))

    steps = run(*((n * 0.2, at(n * 0.2)) for n in range(13)))
    assert {tuple(s.track_of.tolist()) for s in steps} == {(1, 2)}


def test_boxes_of_different_labels_are_never_the_same_object() -> None:
    _, second = run((0.0, seen(person(0))), (0.2, seen(((0, 0, 20, 40), 0.9, "dog"))))
    assert second.track_of.tolist() == [2]
    assert sorted(second.tracks.label.tolist()) == ["dog", "person"]


@pytest.mark.parametrize(("gap_s", "alive"), [(1.5, True), (1.51, False)])
def test_a_track_without_observation_is_forgotten_in_time(gap_s: float, alive: bool) -> None:
    *_, last = run((0.0, seen(person(0))), (gap_s, seen()))
    assert bool(len(last.tracks)) is alive


def test_the_number_of_a_forgotten_track_is_not_given_again() -> None:
    steps = run((0.0, seen(person(0))), (2.0, seen(person(300))), (4.0, seen(person(600))))
    assert [s.track_of.tolist() for s in steps] == [[1], [2], [3]]


def test_what_the_cloud_confirms_starts_a_track_whatever_its_score() -> None:
    first, *_ = run((0.0, seen(person(0, 0.2), verdict=Verdict.CONFIRMED)))
    assert first.track_of.tolist() == [1]
    assert first.tracks.verdict.tolist() == [Verdict.CONFIRMED]
    assert first.tracks.verdict_at_s.tolist() == [0.0]


def test_a_verdict_holds_until_the_next_one_or_for_its_time() -> None:
    _, second = run((0.0, seen(person(0), verdict=Verdict.CONFIRMED)), (0.2, seen(person(2))))
    assert second.tracks.verdict.tolist() == [Verdict.CONFIRMED]
    assert second.tracks.verdict_now(2.0, 2.0).tolist() == [Verdict.CONFIRMED]
    assert second.tracks.verdict_now(2.01, 2.0).tolist() == [Verdict.UNSEEN]
    _, denied = run((0.0, seen(person(0), verdict=Verdict.CONFIRMED)), (0.2, seen(person(2), verdict=Verdict.DENIED)))
    assert denied.tracks.verdict.tolist() == [Verdict.DENIED]
    assert denied.tracks.verdict_at_s.tolist() == [0.2]


def test_a_track_that_the_cloud_looked_for_and_nobody_found_is_denied() -> None:
    _, second = run(
        (0.0, seen(person(0), person(300), verdict=Verdict.CONFIRMED)),
        (0.2, seen(person(300), verdict=Verdict.CONFIRMED, looked_at=[(0, 0, 50, 60)])),
    )
    assert second.tracks.verdict.tolist() == [Verdict.DENIED, Verdict.CONFIRMED]


def test_a_track_half_outside_of_what_the_cloud_saw_keeps_its_verdict() -> None:
    _, second = run((0.0, seen(person(0), verdict=Verdict.CONFIRMED)), (0.2, seen(looked_at=[(0, 0, 50, 30)])))
    assert second.tracks.verdict.tolist() == [Verdict.CONFIRMED]


def test_a_confident_box_is_not_taken_for_clutter_that_was_denied() -> None:
    _, second = run((0.0, seen(person(0, 0.2), verdict=Verdict.DENIED)), (0.2, seen(person(1, 0.9))))
    assert second.track_of.tolist() == [2]


def test_prediction_moves_boxes_and_touches_nothing_else() -> None:
    *_, last = run(*((n * 0.2, seen(person(10 * n * 0.2))) for n in range(10)))
    ahead = predict(last.tracks, 2.8, SETTINGS)
    assert ahead.at_s == 2.8
    assert ahead.boxes.xyxy[0, 0] == pytest.approx(28, abs=1)
    assert ahead.seen_s.tolist() == last.tracks.seen_s.tolist()


@st.composite
def frames(draw: st.DrawFn) -> list[tuple[float, Observations]]:
    """Frames with a few boxes of two labels in a small place, so that they meet and overlap."""
    out, now_s = [], 0.0
    for _ in range(draw(st.integers(1, 8))):
        now_s += draw(st.sampled_from([0.0, 0.1, 0.2, 0.7, 2.0]))
        rows = draw(
            st.lists(
                st.tuples(
                    st.tuples(st.integers(0, 60), st.integers(0, 30)).map(lambda p: (p[0], p[1], p[0] + 20, p[1] + 40)),
                    st.sampled_from([0.05, 0.2, 0.45, 0.9]),
                    st.sampled_from(["person", "bicycle"]),
                ),
                max_size=5,
            )
        )
        verdict = draw(st.lists(st.sampled_from(list(Verdict)), min_size=len(rows), max_size=len(rows)))
        looked_at: list[Row] = draw(st.sampled_from([[], [(0, 0, 100, 100)], [(0, 0, 40, 80)]]))
        out.append((now_s, seen(*rows, verdict=verdict, looked_at=looked_at)))
    return out


def lengths(tracks: Tracks) -> set[int]:
    arrays: list[NDArray[np.generic]] = [
        tracks.label,
        tracks.score,
        tracks.born_s,
        tracks.seen_s,
        tracks.hits,
        tracks.verdict,
        tracks.verdict_at_s,
        tracks.boxes.position,
    ]
    return {len(array) for array in arrays} | {len(tracks)}


@given(frames())
def test_ids_are_unique_and_each_object_is_observed_at_most_once_per_frame(
    given_frames: list[tuple[float, Observations]],
) -> None:
    for (now_s, observed), after in zip(given_frames, run(*given_frames), strict=True):
        ids, of = after.tracks.ids.tolist(), [i for i in after.track_of.tolist() if i >= 0]
        assert len(set(ids)) == len(ids)
        assert len(set(of)) == len(of)
        assert set(of) <= set(ids)
        assert len(lengths(after.tracks)) == 1
        assert after.tracks.at_s == now_s
        label = dict(zip(ids, after.tracks.label.tolist(), strict=True))
        assert [label[i] for i in of] == [
            name for name, i in zip(observed.detections.label.tolist(), after.track_of.tolist(), strict=True) if i >= 0
        ]


@given(frames())
def test_ids_only_rise(given_frames: list[tuple[float, Observations]]) -> None:
    known, highest = set[int](), 0
    for after in run(*given_frames):
        fresh = set(after.tracks.ids.tolist()) - known
        assert all(i > highest for i in fresh)
        known |= fresh
        highest = max([highest, *fresh])
