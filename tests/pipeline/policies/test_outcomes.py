"""What an answer changed, by place."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.detections import Detections
from pipeline.geometry import BoxArray
from pipeline.policies.outcomes import changed_places, drawn

Row = tuple[float, str]


def found(*rows: Row) -> Detections:
    """Boxes 20 px wide, by their left side and label."""
    return Detections.of([(x, 0, x + 20, 40) for x, _ in rows], [0.8] * len(rows), [label for _, label in rows])


def boxes(*lefts: float) -> BoxArray:
    return np.array([(x, 0, x + 20, 40) for x in lefts], np.float32).reshape(-1, 4)


A = found((0, "person"))


@pytest.mark.parametrize(
    ("before", "after", "changed"),
    [
        (A, A, [False, False]),
        (A, found((4, "person")), [False, False]),
        (A, found((12, "person")), [True, False]),
        (A, found(), [True, False]),
        (found(), A, [True, False]),
        (A, found((0, "dog")), [True, False]),
        (A, found((0, "person"), (100, "person")), [False, True]),
        (found((0, "person"), (3, "person")), A, [True, False]),
    ],
    ids=["same", "moved a little", "moved", "removed", "added", "relabelled", "added elsewhere", "double removed"],
)
def test_a_place_is_changed_where_a_box_was_added_removed_relabelled_or_moved(
    before: Detections, after: Detections, changed: list[bool]
) -> None:
    places, unseen = changed_places(boxes(0, 100), before, after)
    assert places.tolist() == changed
    assert unseen == 0


def test_a_box_that_appears_at_no_place_counts_as_unseen() -> None:
    assert changed_places(boxes(0), A, found((0, "person"), (300, "person")))[1] == 1
    assert changed_places(boxes(), found(), A)[1] == 1


@given(st.lists(st.tuples(st.floats(0, 500), st.sampled_from(["person", "dog"])), max_size=8))
def test_an_answer_that_says_the_same_changes_nothing(rows: list[Row]) -> None:
    same = found(*rows)
    places, unseen = changed_places(same.xyxy, same, same)
    assert not places.any()
    assert unseen == 0


def test_about_the_wanted_share_is_drawn_and_always_the_same() -> None:
    names = [f"gate/1/{seq}" for seq in range(4000)]
    hits = [drawn(name, 0.03) for name in names]
    assert 80 < sum(hits) < 160
    assert hits == [drawn(name, 0.03) for name in names]
    assert not any(drawn(name, 0.0) for name in names)
    assert all(drawn(name, 1.0) for name in names)
