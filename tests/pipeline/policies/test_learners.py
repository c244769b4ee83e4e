"""Which camera learns next."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from pipeline.policies.enough import LessonSummary, Seen
from pipeline.policies.learners import LastTry, Learner, LearnersSettings, enough_to_learn, next_learner

SETTINGS = LearnersSettings()
NOW_S = 1_000_000.0

tries = st.builds(LastTry, st.floats(0, NOW_S), st.integers(0, 500), accepted=st.booleans(), faulty=st.booleans())
learners = st.builds(
    Learner,
    st.text("abc", min_size=1, max_size=3),
    st.integers(0, 1000),
    st.sampled_from(["", "3 hours of 6"]),
    st.none() | tries,
    st.none() | st.floats(0, NOW_S),
    st.integers(0, 200),
    on_trial=st.booleans(),
    to_win=st.floats(0, 100),
)


def chosen(*some: Learner) -> str | None:
    return next_learner(some, NOW_S, SETTINGS).camera


def test_the_first_enough_lessons_are_learned_from() -> None:
    found = next_learner([Learner("gate", 300), Learner("yard", 20, "12 tracks of 20")], NOW_S, SETTINGS)
    assert (found.camera, found.reason) == ("gate", "its 300 lessons are enough for a first model")
    assert found.waiting == {"yard": "12 tracks of 20"}


def test_too_few_to_judge_by_are_not_learned_from() -> None:
    found = next_learner([Learner("gate", 119)], NOW_S, SETTINGS)
    assert found.waiting == {"gate": "119 lessons of 120, a part of which must judge"}


def test_the_camera_with_most_to_win_goes_first_and_the_other_knows_why_it_waits() -> None:
    found = next_learner([Learner("a", 300, to_win=1.0), Learner("b", 300, to_win=2.0)], NOW_S, SETTINGS)
    assert found.camera == "b"
    assert found.waiting == {"a": "b learns first"}


def test_a_camera_whose_model_stopped_being_right_goes_before_all_others() -> None:
    drifted = Learner("a", 300, last=LastTry(NOW_S - 60, 290, accepted=True), drifted_at_s=NOW_S - 30, since_drift=80)
    assert chosen(Learner("b", 300, to_win=9.0), drifted) == "a"
    assert chosen(replace(drifted, since_drift=10)) is None


def test_where_too_little_was_seen_since_a_drift_for_a_model_twice_as_much_is_waited_for() -> None:
    tried = LastTry(NOW_S - 60, 1060, accepted=False, since_drift=60)
    drifted = Learner("a", 1100, last=tried, drifted_at_s=NOW_S - 600, since_drift=100)
    assert chosen(drifted) is None
    waits = next_learner([drifted], NOW_S, SETTINGS).waiting["a"]
    assert "with 120 lessons since one stopped being right (now 100)" in waits
    assert chosen(replace(drifted, since_drift=120)) == "a"
    assert chosen(replace(drifted, drifted_at_s=NOW_S - 30)) == "a"  # another drift, which nothing was tried for
    assert chosen(replace(drifted, last=replace(tried, at_s=NOW_S - 86_401), drifted_at_s=NOW_S - 90_000)) == "a"


def test_what_was_learned_is_learned_again_with_twice_the_lessons_or_a_day_later() -> None:
    last = LastTry(NOW_S - 3600, 200, accepted=True)
    assert chosen(Learner("a", 399, last=last)) is None
    assert chosen(Learner("a", 400, last=last)) == "a"
    assert chosen(Learner("a", 201, last=replace(last, at_s=NOW_S - 90_000))) == "a"


def test_a_refused_model_waits_for_more_lessons_and_says_so() -> None:
    last = LastTry(NOW_S - 7200, 200, accepted=False)
    waits = next_learner([Learner("a", 250, last=last)], NOW_S, SETTINGS).waiting["a"]
    assert waits == "its last model was refused; it learns again with 400 lessons (now 250), or in 22 h"


def test_a_training_that_broke_down_is_tried_again_after_a_pause() -> None:
    last = LastTry(NOW_S - 60, 200, accepted=False, faulty=True)
    assert chosen(Learner("a", 200, last=last)) is None
    assert chosen(Learner("a", 200, last=replace(last, at_s=NOW_S - 1000))) == "a"


def test_what_stands_in_one_place_for_ever_does_not_keep_the_others_from_being_learned() -> None:
    people, parked = Seen(900, 80, 20, 900.0), Seen(400, 1, 1, 900.0)
    found = enough_to_learn(LessonSummary(400, watched_s=900.0, labels={"person": people, "truck": parked}))
    assert found.way == "own"
    alone = enough_to_learn(LessonSummary(400, watched_s=900.0, labels={"truck": parked}))
    assert alone.way == "wait"
    assert "1 distinct tracks of truck" in alone.reason


@given(st.lists(learners, unique_by=lambda one: one.camera))
def test_every_camera_is_chosen_or_told_why_it_waits(some: list[Learner]) -> None:
    found = next_learner(some, NOW_S, SETTINGS)
    assert {found.camera, *found.waiting} - {None} == {one.camera for one in some}
    assert all(found.waiting.values())
    if found.camera is not None:
        taken = next(one for one in some if one.camera == found.camera)
        assert found.reason
        assert not taken.on_trial
        assert not taken.missing
