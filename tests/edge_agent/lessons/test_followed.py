"""A frame that the larger model has not looked at teaches what its tracks are sure of, or nothing."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_agent.lessons.followed import follow
from edge_agent.lessons.labels import Annotation, CleaningSettings
from edge_agent.tracking.history import Entry, Tracker
from edge_agent.tracking.tracks import Observations, TrackerSettings, Verdict
from pipeline.detections import Detections, Source
from pipeline.geometry import BoxArray, Size

SIZE = Size(400, 300)
WHOLE = np.array([[0, 0, 400, 300]], np.float32)
NO_MOTION: BoxArray = np.empty((0, 4), np.float32)
Seen = tuple[float, float]
"""Left edge and score of a person of 30 by 60 pixels."""
EDGE, CLOUD = "edge", "cloud"
PERSON: Seen = (100.0, 0.6)


def boxes(seen: Sequence[Seen], source: Source) -> Detections:
    return Detections.of(
        [(x, 100.0, x + 30.0, 160.0) for x, _ in seen], [s for _, s in seen], ["person"] * len(seen), source
    )


def step(tracker: Tracker, seq: int, who: str, seen: Sequence[Seen]) -> None:
    """A frame that the small model has seen, or the larger one, which then denies what it does not see."""
    at_s = seq * 0.2
    if who == EDGE:
        tracker.observe(seq, at_s, boxes(seen, Source.EDGE))
        return
    tracker.observe(seq, at_s, Detections.none(), looked=False)
    verdict = np.full(len(seen), Verdict.CONFIRMED, np.int8)
    tracker.correct(seq, Observations(boxes(seen, Source.CLOUD), verdict, WHOLE))


def annotation_of(
    frames: Sequence[tuple[str, Sequence[Seen]]], seq: int, motion: BoxArray = NO_MOTION
) -> Annotation | None:
    tracker = Tracker(TrackerSettings())
    for number, (who, seen) in enumerate(frames):
        step(tracker, number, who, seen)
    entries: tuple[Entry, ...] = tracker.entries
    return follow(entries[seq], entries, motion, SIZE, TrackerSettings(), CleaningSettings())


def lefts(of: BoxArray) -> list[float]:
    return sorted(round(float(x)) for x in of[:, 0])


@pytest.mark.parametrize(
    "frames",
    [
        [(CLOUD, [(100.0, 0.9)]), (EDGE, [PERSON]), (EDGE, [PERSON])],
        [(EDGE, [PERSON]), (EDGE, [PERSON]), (CLOUD, [(100.0, 0.9)])],
    ],
    ids=["found before", "found after"],
)
def test_what_the_larger_model_has_found_shortly_before_or_after_is_known(
    frames: list[tuple[str, list[Seen]]],
) -> None:
    made = annotation_of(frames, 1)
    assert made is not None
    assert lefts(made.known.xyxy) == [100]
    assert made.known.score.tolist() == pytest.approx([0.9])
    assert made.known.track_id.tolist() == [1]
    assert len(made.ignored) == 0


def test_where_the_small_model_alone_sees_something_the_frame_teaches_nothing() -> None:
    frames = [(CLOUD, [(100.0, 0.9)]), (EDGE, [PERSON, (300.0, 0.6)])]
    assert annotation_of(frames, 1) is None


def test_what_the_small_model_would_not_publish_is_ignored() -> None:
    made = annotation_of([(CLOUD, [(100.0, 0.9)]), (EDGE, [PERSON, (300.0, 0.3)])], 1)
    assert made is not None
    assert (lefts(made.known.xyxy), lefts(made.ignored)) == ([100], [300])


def test_what_the_larger_model_has_denied_is_ignored() -> None:
    frames = [
        (EDGE, [PERSON, (300.0, 0.6)]),
        (CLOUD, [(100.0, 0.9)]),
        (EDGE, [PERSON, (300.0, 0.6)]),
    ]
    made = annotation_of(frames, 2)
    assert made is not None
    assert (lefts(made.known.xyxy), lefts(made.ignored)) == ([100], [300])


def test_an_empty_frame_teaches_only_by_its_own_answer() -> None:
    assert annotation_of([(CLOUD, []), (EDGE, [])], 1) is None


def test_what_moves_and_has_no_box_is_ignored() -> None:
    motion = np.array([[105, 110, 120, 140], [200, 50, 240, 90]], np.float32)
    made = annotation_of([(CLOUD, [(100.0, 0.9)]), (EDGE, [PERSON])], 1, motion)
    assert made is not None
    assert lefts(made.ignored) == [200]


def test_where_box_and_track_are_apart_nobody_knows() -> None:
    frames = [(CLOUD, [(100.0, 0.9)]), (EDGE, [PERSON, (300.0, 0.6)]), (CLOUD, [(100.0, 0.9), (316.0, 0.9)])]
    made = annotation_of(frames, 1)
    assert made is not None
    assert (lefts(made.known.xyxy), lefts(made.ignored)) == ([100], [300])


def test_what_is_found_before_and_after_and_not_seen_now_is_ignored_there() -> None:
    frames = [(CLOUD, [(100.0, 0.9), (300.0, 0.9)]), (EDGE, [PERSON]), (CLOUD, [(100.0, 0.9), (300.0, 0.9)])]
    made = annotation_of(frames, 1)
    assert made is not None
    assert (lefts(made.known.xyxy), lefts(made.ignored)) == ([100], [300])


def test_what_was_found_too_long_ago_is_not_known() -> None:
    frames = [(CLOUD, [(100.0, 0.9)]), *[(EDGE, [PERSON])] * 9]
    assert annotation_of(frames, 5) is not None
    assert annotation_of(frames, 6) is None


looks = st.lists(
    st.tuples(
        st.sampled_from([EDGE, CLOUD]),
        st.lists(st.tuples(st.floats(-20, 390).map(round).map(float), st.floats(0.2, 1.0)), max_size=4),
    ),
    min_size=1,
    max_size=8,
)


@given(looks, st.data())
def test_nothing_is_known_that_the_larger_model_has_not_found_within_reach(
    frames: list[tuple[str, list[Seen]]], data: st.DataObject
) -> None:
    seq = data.draw(st.integers(0, len(frames) - 1))
    made = annotation_of(frames, seq)
    found_by_cloud = any(
        who == CLOUD and seen and abs(number - seq) * 0.2 <= 1.0 + 1e-9 for number, (who, seen) in enumerate(frames)
    )
    if made is not None:
        assert found_by_cloud
        assert len(made.known) == len(set(made.known.track_id.tolist()))
        told = np.concatenate([made.known.xyxy, made.ignored])
        assert (told[:, :2] >= 0).all()
        assert (told[:, 2:] <= [400, 300]).all()
