"""What is turned down, and how far."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.policies.restraint import Action, Limits, Restraint, Step, has_room, in_words, restraint

LIMITS = Limits(sample_fps=5.0, least_sample_fps=1.0, light_model=True)
STEPS = st.lists(st.builds(Step, st.sampled_from(["network", "queue", "edge", "cloud"]), st.sampled_from(Action)))


def after(*actions: Action, limits: Limits = LIMITS) -> Restraint:
    return restraint([Step("edge", action) for action in actions], limits)


def most_steps(action: Action, limits: Limits = LIMITS) -> int:
    steps: list[Step] = []
    while has_room(action, steps, limits):
        steps.append(Step("edge", action))
    return len(steps)


def test_without_steps_nothing_is_turned_down() -> None:
    assert after() == Restraint()


def test_the_sample_rate_is_halved_down_to_its_floor() -> None:
    rates = [after(*[Action.LOWER_SAMPLE_RATE] * n).sample_fps_most for n in range(5)]
    assert rates == [None, 2.5, 1.25, 1.0, 1.0]
    assert most_steps(Action.LOWER_SAMPLE_RATE) == 3


def test_a_camera_at_the_floor_is_not_slowed_down() -> None:
    assert most_steps(Action.LOWER_SAMPLE_RATE, Limits(1.0, 1.0, light_model=False)) == 0


def test_crops_shrink_to_half_and_no_further() -> None:
    factors = [after(*[Action.SHRINK_CROPS] * n).crop_scale_factor for n in range(6)]
    assert factors == pytest.approx([1.0, 0.8, 0.64, 0.512, 0.5, 0.5])
    assert most_steps(Action.SHRINK_CROPS) == 4


def test_lambda_rises_and_leaves_the_cloud_something_to_be_measured_by() -> None:
    assert [after(*[Action.RAISE_LAMBDA] * n).lambda_least for n in range(6)] == [0.0, 0.2, 0.4, 0.6, 0.8, 0.8]
    assert most_steps(Action.RAISE_LAMBDA) == 4


def test_the_light_model_looks_only_where_there_is_one() -> None:
    assert after(Action.LIGHT_MODEL).light_model
    assert most_steps(Action.LIGHT_MODEL) == 1
    assert most_steps(Action.LIGHT_MODEL, Limits(5.0, 1.0, light_model=False)) == 0


@given(STEPS)
def test_the_order_and_the_segments_of_steps_do_not_matter(steps: list[Step]) -> None:
    assert restraint(steps, LIMITS) == restraint([Step("edge", s.action) for s in reversed(steps)], LIMITS)


@given(STEPS, st.floats(0.1, 60), st.floats(0.1, 5))
def test_however_many_steps_the_bounds_hold(steps: list[Step], sample_fps: float, floor_fps: float) -> None:
    limits = Limits(sample_fps, min(floor_fps, sample_fps), light_model=True)
    now = restraint(steps, limits)
    assert now.sample_fps_most is None or limits.least_sample_fps <= now.sample_fps_most <= limits.sample_fps
    assert 0.5 <= now.crop_scale_factor <= 1.0
    assert 0.0 <= now.lambda_least <= 0.8


@pytest.mark.parametrize("action", Action)
def test_every_action_is_told_in_words(action: Action) -> None:
    words = {a: in_words(a, after(a)) for a in Action}
    assert len(set(words.values())) == len(Action)
    assert in_words(Action.LOWER_SAMPLE_RATE, after(Action.LOWER_SAMPLE_RATE)).startswith("at most 2.5 frames")
    assert words[action]
