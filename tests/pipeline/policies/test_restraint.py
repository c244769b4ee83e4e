"""What is turned down, and how far."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.policies.restraint import Action, Limits, Restraint, Step, in_words, next_step, restraint

LIMITS = Limits(sample_fps=5.0, least_sample_fps=1.0, light_model=True)


def taken(*actions: Action, limits: Limits = LIMITS) -> list[Step]:
    """As many of these steps as can be taken one after the other."""
    steps: list[Step] = []
    for action in actions:
        if (step := next_step("edge", action, steps, limits)) is not None:
            steps.append(step)
    return steps


def after(*actions: Action, limits: Limits = LIMITS) -> Restraint:
    return restraint(taken(*actions, limits=limits))


def most_steps(action: Action, limits: Limits = LIMITS) -> int:
    return len(taken(*[action] * 50, limits=limits))


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


def test_a_step_that_would_leave_the_rate_as_it_is_goes_further_at_once() -> None:
    quiet = Limits(5.0, 0.5, light_model=True, analysed_fps=1.6)
    assert next_step("edge", Action.LOWER_SAMPLE_RATE, [], quiet) == Step("edge", Action.LOWER_SAMPLE_RATE, 1.25)


def test_where_fewer_frames_than_the_floor_are_analysed_there_is_nothing_to_lower() -> None:
    idle = Limits(5.0, 1.0, light_model=True, analysed_fps=0.9)
    assert next_step("edge", Action.LOWER_SAMPLE_RATE, [], idle) is None


ACTIONS = st.lists(st.sampled_from(Action), max_size=30)


@given(ACTIONS)
def test_the_order_and_the_segments_of_steps_do_not_matter(actions: list[Action]) -> None:
    steps = taken(*actions)
    assert restraint(steps) == restraint([replace(step, segment="cloud") for step in reversed(steps)])


@given(ACTIONS, st.floats(0.1, 60), st.floats(0.1, 5), st.floats(0.0, 60))
def test_however_many_steps_the_bounds_hold(
    actions: list[Action], sample_fps: float, floor_fps: float, analysed_fps: float
) -> None:
    now = after(*actions, limits=Limits(sample_fps, floor_fps, light_model=True, analysed_fps=analysed_fps))
    assert now.sample_fps_most is None or floor_fps <= now.sample_fps_most <= sample_fps
    assert 0.5 <= now.crop_scale_factor <= 1.0
    assert 0.0 <= now.lambda_least <= 0.8


@given(ACTIONS, st.sampled_from(Action), st.floats(0.1, 60))
def test_every_step_changes_something_and_turns_nothing_up(
    actions: list[Action], action: Action, analysed_fps: float
) -> None:
    limits = replace(LIMITS, analysed_fps=analysed_fps)
    steps = taken(*actions, limits=limits)
    step = next_step("edge", action, steps, limits)
    before = restraint(steps)
    now = before if step is None else restraint([*steps, step])
    assert (now != before) is (step is not None)
    assert (now.sample_fps_most or 1e9) <= (before.sample_fps_most or 1e9)
    assert now.crop_scale_factor <= before.crop_scale_factor
    assert now.lambda_least >= before.lambda_least


@pytest.mark.parametrize("action", Action)
def test_every_action_is_told_in_words(action: Action) -> None:
    words = {a: in_words(a, after(a)) for a in Action}
    assert len(set(words.values())) == len(Action)
    assert in_words(Action.LOWER_SAMPLE_RATE, after(Action.LOWER_SAMPLE_RATE)).startswith("at most 2.5 frames")
    assert words[action]
    assert in_words(Action.LOWER_SAMPLE_RATE, Restraint(1.0)) == "at most 1 frame per second is analysed"
