"""The larger model's labels are cleaned by what its tracks tell before and after."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_agent.lessons.labels import Annotation, CleaningSettings, clean
from edge_agent.tracking.history import Entry, Tracker
from edge_agent.tracking.tracks import Observations, TrackerSettings, Verdict
from pipeline.detections import Detections, Source
from pipeline.geometry import BoxArray, Size, iou

SIZE = Size(400, 300)
WHOLE = np.array([[0, 0, 400, 300]], np.float32)
CLEANING = CleaningSettings()
Seen = tuple[float, float, str]
"""Left edge, score and label of a box of 30 by 60 pixels."""


def box(x: float) -> tuple[float, float, float, float]:
    return x, 100.0, x + 30.0, 160.0


def detections(seen: Sequence[Seen]) -> Detections:
    return Detections.of([box(x) for x, _, _ in seen], [s for _, s, _ in seen], [n for _, _, n in seen], Source.CLOUD)


def looks(frames: Sequence[Sequence[Seen]], apart_s: float = 0.2) -> list[Entry]:
    """The tracker's steps where the larger model looks at every frame."""
    tracker = Tracker(TrackerSettings(), history_s=float("inf"))
    entries = []
    for seq, seen in enumerate(frames):
        answer = detections(seen)
        sure = answer.select(answer.score >= 0.5)
        tracker.observe(seq, seq * apart_s, Detections.none(), looked=False)
        tracker.correct(seq, Observations(sure, np.full(len(sure), Verdict.CONFIRMED, np.int8), WHOLE))
        entry = tracker.entry(seq)
        assert entry is not None
        entries.append(entry)
    return entries


def annotation_of(frames: Sequence[Sequence[Seen]], seq: int, apart_s: float = 0.2) -> Annotation:
    entries = looks(frames, apart_s)
    return clean(entries[seq], entries, detections(frames[seq]), SIZE, CLEANING)


def lefts(boxes: BoxArray) -> list[float]:
    return sorted(round(float(x), 1) for x in boxes[:, 0])


def walking(count: int, score: float = 0.9) -> list[list[Seen]]:
    return [[(100.0 + 4 * number, score, "person")] for number in range(count)]


def test_what_is_sure_and_goes_on_is_known_with_its_track() -> None:
    made = annotation_of(walking(7), 3)
    assert lefts(made.known.xyxy) == [112.0]
    assert made.known.track_id.tolist() == [1]
    assert len(made.ignored) == 0


def test_what_is_seen_once_among_many_looks_is_ignored() -> None:
    frames = walking(7)
    frames[3] = [*frames[3], (300.0, 0.7, "person")]
    made = annotation_of(frames, 3)
    assert lefts(made.known.xyxy) == [112.0]
    assert lefts(made.ignored) == [300.0]


def test_what_is_seen_once_is_known_where_nobody_looked_another_time() -> None:
    assert lefts(annotation_of([[(300.0, 0.7, "person")]], 0).known.xyxy) == [300.0]
    far = [[], [(300.0, 0.7, "person")], []]
    assert lefts(annotation_of(far, 1, apart_s=2.0).known.xyxy) == [300.0]


def test_what_moves_too_far_between_rare_looks_for_its_track_is_known_all_the_same() -> None:
    frames = [[(100.0 + 25 * number, 0.9, "person")] for number in range(5)]
    ids = {int(entry.after.track_of[0]) for entry in looks(frames, 0.5)}
    assert len(ids) > 1
    assert lefts(annotation_of(frames, 2, apart_s=0.5).known.xyxy) == [150.0]


def test_an_object_that_is_missed_once_is_known_between_its_neighbours() -> None:
    frames = walking(7)
    frames[3] = []
    made = annotation_of(frames, 3)
    assert made.known.xyxy[0] == pytest.approx(box(112.0), abs=0.1)
    assert made.known.source.tolist() == [Source.TRACK.value]


def test_an_object_that_is_missed_for_long_is_ignored_at_its_place() -> None:
    frames = walking(7)
    frames[2] = frames[3] = frames[4] = []
    made = annotation_of(frames, 3)
    assert len(made.known) == 0
    assert lefts(made.ignored) == [112.0]


def test_where_an_object_comes_or_goes_nothing_is_made_up() -> None:
    frames = [*walking(4), [], [], []]
    made = annotation_of(frames, 4)
    assert len(made.known) == len(made.ignored) == 0


def test_a_faint_detection_is_ignored_unless_a_confirmed_track_passes_there() -> None:
    faint: list[Seen] = [(112.0, 0.3, "person"), (300.0, 0.4, "person")]
    frames = walking(7)
    frames[3] = faint
    made = annotation_of(frames, 3)
    assert made.known.score.tolist() == pytest.approx([0.3])
    assert lefts(made.known.xyxy) == [112.0]
    assert lefts(made.ignored) == [300.0]


def test_one_other_look_does_not_make_a_faint_detection_known() -> None:
    frames: list[list[Seen]] = [[], [(100.0, 0.9, "person")], [(104.0, 0.3, "person")], []]
    made = annotation_of(frames, 2)
    assert len(made.known) == 0
    assert lefts(made.ignored) == [104.0]


def test_where_two_classes_are_seen_at_one_place_nobody_knows() -> None:
    frames = walking(7)
    frames[3] = [(112.0, 0.8, "dog")]
    made = annotation_of(frames, 3)
    assert len(made.known) == 0
    assert lefts(made.ignored) == [112.0, 112.0]


scenes = st.lists(
    st.lists(
        st.tuples(
            st.floats(-20, 390).map(lambda x: round(x, 1)), st.floats(0.25, 1.0), st.sampled_from(["person", "dog"])
        ),
        max_size=5,
    ),
    min_size=1,
    max_size=8,
)


@given(scenes, st.data())
def test_every_sure_detection_is_known_or_ignored_and_all_lies_in_the_frame(
    frames: list[list[Seen]], data: st.DataObject
) -> None:
    seq = data.draw(st.integers(0, len(frames) - 1))
    answer = detections(frames[seq])
    made = annotation_of(frames, seq)
    told = np.concatenate([made.known.xyxy, made.ignored])
    for x, score, _ in frames[seq]:
        inside = np.clip(np.array([box(x)], np.float32), 0, [400, 300, 400, 300]).astype(np.float32)
        if score >= CLEANING.sure_score and inside[0, 2] - inside[0, 0] > 1:
            assert iou(inside, told).max() > 0.99
    assert (told[:, :2] >= 0).all()
    assert (told[:, 2:] <= [400, 300]).all()
    assert (told[:, 2:] > told[:, :2]).all()
    found = made.known.source == Source.CLOUD.value
    assert found.sum() <= len(answer)
    ids = made.known.track_id[made.known.track_id >= 0].tolist()
    assert len(ids) == len(set(ids))


@given(scenes)
def test_an_annotation_says_the_same_of_the_same_looks(frames: list[list[Seen]]) -> None:
    a, b = annotation_of(frames, 0), annotation_of(frames, 0)
    assert a.known.xyxy.tolist() == b.known.xyxy.tolist()
    assert a.ignored.tolist() == b.ignored.tolist()
