"""Edge and cloud become one list: one object, one box."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_agent.fusion import fuse, merge_crops
from edge_agent.tracking.tracks import Verdict
from pipeline.detections import Detections, Source
from pipeline.geometry import BoxArray

Row = tuple[tuple[float, float, float, float], float, str]


def found(*rows: Row, source: Source = Source.CLOUD) -> Detections:
    return Detections.of([r[0] for r in rows], [r[1] for r in rows], [r[2] for r in rows], source)


def regions(*rows: tuple[float, float, float, float]) -> BoxArray:
    return np.array(rows, np.float32).reshape(-1, 4)


# Crops.

LEFT, RIGHT = (0.0, 0.0, 200.0, 200.0), (140.0, 0.0, 340.0, 200.0)


def merged(left: list[Row], right: list[Row]) -> list[tuple[list[float], str]]:
    out = merge_crops([found(*left), found(*right)], regions(LEFT, RIGHT))
    return [(box, str(name)) for box, name in zip(out.xyxy.tolist(), out.label.tolist(), strict=True)]


def test_an_object_seen_whole_in_one_crop_and_cut_in_the_other_is_one() -> None:
    whole, piece = ((130, 50, 190, 150), 0.6, "person"), ((140, 50, 190, 150), 0.9, "person")
    assert merged([whole], [piece]) == [([130, 50, 190, 150], "person")]


def test_a_small_piece_with_the_better_score_goes_all_the_same() -> None:
    whole, piece = ((100, 50, 190, 150), 0.6, "person"), ((140, 50, 190, 150), 0.95, "person")
    assert merged([whole], [piece]) == [([100, 50, 190, 150], "person")]


def test_two_real_objects_that_overlap_by_0_4_are_two() -> None:
    a, b = ((150, 50, 190, 150), 0.9, "person"), ((167, 50, 207, 150), 0.8, "person")
    assert len(merged([a], [b])) == 2
    assert len(merged([a, b], [])) == 2


def test_a_small_object_before_a_large_one_of_its_class_stays() -> None:
    large, small = ((20, 20, 190, 190), 0.9, "person"), ((150, 60, 170, 110), 0.8, "person")
    assert len(merged([large, small], [])) == 2
    assert len(merged([large], [small])) == 2


def test_one_object_seen_whole_in_both_crops_is_one_with_the_better_score() -> None:
    a, b = ((150, 50, 190, 150), 0.7, "person"), ((151, 51, 190, 150), 0.8, "person")
    assert merged([a], [b]) == [([151, 51, 190, 150], "person")]


def test_different_classes_never_suppress_each_other() -> None:
    a, b = ((150, 50, 190, 150), 0.7, "person"), ((150, 50, 190, 150), 0.8, "dog")
    assert sorted(name for _, name in merged([a], [b])) == ["dog", "person"]


def test_the_distance_between_boxes_of_one_class_does_not_depend_on_how_many_classes_there_are() -> None:
    rows: list[Row] = [((x, 10, x + 6.5, 20), 0.9, "z") for x in (10.25, 30.5)]
    others: list[Row] = [((300, 300, 310, 310), 0.5, f"class {n:02}") for n in range(80)]
    out = merge_crops([found(*others, *rows), found(((10.5, 10, 17, 20), 0.8, "z"))], regions(LEFT, RIGHT))
    assert out.label.tolist().count("z") == 2


@pytest.mark.parametrize("parts", [[], [found()], [found(), found(((1, 2, 3, 4), 0.5, "x"))]])
def test_few_detections_pass_unchanged(parts: list[Detections]) -> None:
    assert len(merge_crops(parts, regions(*[LEFT] * len(parts)))) == sum(len(part) for part in parts)


# Edge and cloud.

SEEN = (0.0, 0.0, 200.0, 200.0)


def fused(edge: list[Row], cloud: list[Row], *looked_at: tuple[float, float, float, float]) -> list[tuple[str, int]]:
    out = fuse(found(*edge, source=Source.EDGE), found(*cloud), regions(*looked_at))
    return list(zip(out.detections.source.tolist(), out.verdict.tolist(), strict=True))


def test_where_the_cloud_looked_its_box_replaces_the_edges() -> None:
    edge, cloud = ((10, 10, 50, 90), 0.4, "person"), ((12, 12, 50, 90), 0.9, "person")
    assert fused([edge], [cloud], SEEN) == [("cloud", Verdict.CONFIRMED)]


def test_what_the_cloud_did_not_find_again_is_kept_as_denied() -> None:
    assert fused([((10, 10, 50, 90), 0.9, "person")], [], SEEN) == [("edge", Verdict.DENIED)]


def test_where_the_cloud_did_not_look_the_edge_stands() -> None:
    outside, half = ((300, 10, 340, 90), 0.9, "person"), ((180, 10, 220, 90), 0.9, "person")
    assert fused([outside, half], [], SEEN) == [("edge", Verdict.UNSEEN)] * 2
    assert fused([outside], []) == [("edge", Verdict.UNSEEN)]


def test_a_box_that_reaches_out_of_the_crop_is_replaced_by_the_clouds_and_not_doubled() -> None:
    edge, cloud = ((150, 10, 220, 90), 0.9, "person"), ((150, 10, 200, 90), 0.9, "person")
    assert fused([edge], [cloud], SEEN) == [("cloud", Verdict.CONFIRMED)]


def test_another_name_for_the_same_place_denies_the_edges_name() -> None:
    edge, cloud = ((10, 10, 50, 90), 0.55, "dog"), ((10, 10, 50, 90), 0.8, "cat")
    assert fused([edge], [cloud], SEEN) == [("cloud", Verdict.CONFIRMED), ("edge", Verdict.DENIED)]


def test_what_the_cloud_sees_faintly_backs_what_the_edge_sees_clearly_and_no_more() -> None:
    clear, doubtful = ((10, 10, 50, 90), 0.75, "person"), ((10, 10, 50, 90), 0.45, "person")
    faint, elsewhere = ((12, 10, 50, 92), 0.4, "person"), ((120, 10, 160, 90), 0.4, "person")
    assert fused([clear], [faint], SEEN) == [("edge", Verdict.CONFIRMED)]
    assert fused([doubtful], [faint], SEEN) == [("edge", Verdict.DENIED)]
    assert fused([clear], [elsewhere], SEEN) == [("edge", Verdict.DENIED)]
    assert fused([((10, 10, 50, 90), 0.75, "dog")], [faint], SEEN) == [("edge", Verdict.DENIED)]
    assert fused([], [faint], SEEN) == []


box = st.tuples(st.integers(0, 150), st.integers(0, 150), st.integers(1, 60), st.integers(1, 60)).map(
    lambda b: (b[0], b[1], b[0] + b[2], b[1] + b[3])
)
rows = st.lists(st.tuples(box, st.floats(0.2, 1.0), st.sampled_from(["person", "dog"])), max_size=6)


@given(rows, rows, st.lists(box, max_size=3))
def test_everything_sure_of_the_cloud_is_kept_and_nothing_of_the_edge_is_invented(
    edge: list[Row], cloud: list[Row], looked_at: list[tuple[float, float, float, float]]
) -> None:
    out = fuse(found(*edge, source=Source.EDGE), found(*cloud), regions(*looked_at))
    assert len(out.detections) == len(out.verdict)
    faint = [row for row in cloud if np.float32(row[1]) < 0.5]
    cloud = [row for row in cloud if np.float32(row[1]) >= 0.5]
    assert out.detections.xyxy[: len(cloud)].tolist() == [list(r[0]) for r in cloud]
    assert (out.verdict[: len(cloud)] == Verdict.CONFIRMED).all()
    assert faint or (out.verdict[len(cloud) :] != Verdict.CONFIRMED).all()
    left = [
        (tuple(b), n)
        for b, n in zip(
            out.detections.xyxy[len(cloud) :].tolist(), out.detections.label[len(cloud) :].tolist(), strict=True
        )
    ]
    assert all(any(tuple(map(float, r[0])) == b and r[2] == n for r in edge) for b, n in left)


@given(rows, st.lists(box, max_size=3).map(lambda b: [(0, 0, 210, 210), *b]))
def test_merged_crops_are_some_of_the_given_boxes_with_no_two_the_same(
    first: list[Row], crops: list[tuple[float, float, float, float]]
) -> None:
    parts = [found(*first) for _ in crops]
    out = merge_crops(parts, regions(*crops))
    given_rows = {(tuple(map(float, r[0])), r[2]) for r in first}
    kept = [(tuple(b), str(n)) for b, n in zip(out.xyxy.tolist(), out.label.tolist(), strict=True)]
    assert set(kept) <= given_rows
    assert len(set(kept)) == len(kept)
    assert bool(kept) is bool(first)
