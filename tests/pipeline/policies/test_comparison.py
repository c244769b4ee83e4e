from pipeline.detections import Detections
from pipeline.policies.comparison import compare, frame_score

BOX, ELSEWHERE = (10.0, 10.0, 30.0, 50.0), (200.0, 10.0, 230.0, 60.0)


def one(score: float = 0.9, box: tuple[float, float, float, float] = BOX, label: str = "person") -> Detections:
    return Detections.of([box], [score], [label])


def test_a_box_at_the_same_place_with_the_same_name_is_right() -> None:
    found = frame_score(one(0.8), one(), 0.4, 0.5)
    assert found.f1 == 1.0
    assert found.brier is not None
    assert abs(found.brier - 0.04) < 1e-6


def test_another_name_is_wrong_and_missed() -> None:
    assert frame_score(one(label="car"), one(), 0.4, 0.5).f1 == 0.0


def test_what_is_not_published_does_not_count_but_its_score_does() -> None:
    found = frame_score(one(0.3), one(), 0.4, 0.5)
    assert found.f1 == 0.0
    assert found.missed_all
    assert found.brier is not None
    assert abs(found.brier - 0.49) < 1e-6


def test_what_the_larger_model_is_unsure_of_is_neither_right_nor_wrong_nor_missed() -> None:
    unsure = one(0.3)
    for look in (one(), Detections.none()):
        found = frame_score(look, unsure, 0.4, 0.5)
        assert found.f1 == 1.0
        assert found.brier is None
        assert not found.missed_all


def test_nothing_on_an_empty_frame_is_right_and_something_is_wrong() -> None:
    nothing = Detections.none()
    assert frame_score(nothing, nothing, 0.4, 0.5).f1 == 1.0
    assert not frame_score(nothing, nothing, 0.4, 0.5).missed_all
    assert frame_score(one(), nothing, 0.4, 0.5).f1 == 0.0


def test_a_comparison_counts_the_objects_that_are_sure() -> None:
    teacher = Detections.concat([one(), one(0.3, ELSEWHERE)])
    found = compare(one(), Detections.none(), teacher, 0.4, 0.5)
    assert (found.candidate.f1, found.current.f1, found.objects) == (1.0, 0.0, 1)
    assert found.current.missed_all
