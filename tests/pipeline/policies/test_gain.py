"""The gain model learns where a second look changes something, and where it does not."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as st_np

from pipeline.policies.calibration import Calibration, decode
from pipeline.policies.crop_arms import CropArm
from pipeline.policies.gain import PRIOR, Array, GainModel
from pipeline.policies.places import FEATURES, PRIOR_WEIGHTS

D = len(FEATURES)
features = st.integers(1, 12).flatmap(lambda n: st_np.arrays(np.float64, (n, D), elements=st.floats(-3, 3)))


def place(**values: float) -> Array:
    """Features (1, d) of a place, 0 where not named; those of the score follow from it."""
    score = values.get("score", 0.0)
    values |= {f"score_over_{knot}": 3 * max(score - knot / 100, 0.0) for knot in (30, 40, 50, 60)}
    values |= {f"{kind}_score": score * values.get(kind, 0.0) for kind in ("confirmed", "denied")}
    return np.array([[1.0 if name == "bias" else values.get(name, 0.0) for name in FEATURES]])


def taught(model: GainModel, where: Array, *, changed: bool, times: int) -> GainModel:
    for _ in range(times):
        model = model.learn(where, np.array([changed]), np.ones(1))
    return model


def test_there_is_a_weight_for_every_feature() -> None:
    assert len(PRIOR_WEIGHTS) == D
    assert len(set(FEATURES)) == D


@pytest.mark.parametrize(
    ("more", "less"),
    [
        (place(unseen=1, published=1, score=0.45), place(confirmed=1, published=1, score=0.8)),
        (place(missed=1, published=1, score=0.5), place(motion=1)),
        (place(unseen=1, published=1, score=0.5, misfit=0.6), place(unseen=1, published=1, score=0.5)),
    ],
)
def test_from_the_first_frame_on_it_has_a_sensible_belief(more: Array, less: Array) -> None:
    assert PRIOR.gain(more)[0] > PRIOR.gain(less)[0]


def test_what_is_always_changed_becomes_likely_and_what_never_is_unlikely() -> None:
    here, there = place(unseen=1, score=0.5), place(confirmed=1, score=0.9)
    model = taught(taught(PRIOR, here, changed=True, times=40), there, changed=False, times=40)
    assert model.gain(here)[0] > 0.8
    assert model.gain(there)[0] < 0.05 < PRIOR.gain(here)[0]
    assert model.lessons == 80


def test_a_probability_is_learned_as_it_is() -> None:
    rng, where = np.random.default_rng(3), place(unseen=1, score=0.5)
    model = PRIOR
    for changed in rng.random(600) < 0.3:
        model = model.learn(where, np.array([changed]), np.ones(1))
    assert model.gain(where)[0] == pytest.approx(0.3, abs=0.06)


def test_a_place_that_stands_for_ten_teaches_as_much_as_ten() -> None:
    where = place(unseen=1, score=0.5)
    once = PRIOR.learn(where, np.array([True]), np.array([10.0]))
    ten = PRIOR.learn(np.repeat(where, 10, axis=0), np.ones(10, bool), np.ones(10))
    assert once.gain(where)[0] == pytest.approx(ten.gain(where)[0], abs=1e-3)


def test_old_lessons_fade_so_that_a_scene_that_changes_is_learned_anew() -> None:
    where = place(unseen=1, score=0.5)
    model = taught(GainModel(half_life=50.0), where, changed=True, times=200)
    assert taught(model, where, changed=False, times=100).gain(where)[0] < 0.2


def test_changes_at_no_known_place_make_whole_frames_worth_more() -> None:
    eventful, calm = PRIOR, PRIOR
    for _ in range(20):
        eventful, calm = eventful.learn_unseen(2), calm.learn_unseen(0)
    assert eventful.unseen_gain > 1.5
    assert calm.unseen_gain < 0.01


@given(st.lists(st.tuples(features, st.booleans(), st.floats(0.1, 10)), max_size=12))
def test_whatever_it_is_taught_gains_are_probabilities_and_it_can_be_kept(
    lessons: list[tuple[Array, bool, float]],
) -> None:
    model = PRIOR
    for where, changed, weight in lessons:
        model = model.learn(where, np.full(len(where), changed), np.full(len(where), weight))
        gain = model.gain(where)
        assert ((gain > 0) & (gain < 1)).all()
    kept = decode(Calibration(model, CropArm(0.1, 0.75, 40), 0.04).encode())
    assert np.allclose(kept.gain.weights, model.weights)
    assert np.allclose(kept.gain.precision, model.precision)
    assert (kept.arm, kept.least_gain) == (CropArm(0.1, 0.75, 40), 0.04)


def test_nothing_learned_is_nothing_changed() -> None:
    assert PRIOR.learn(np.empty((0, D)), np.empty(0, bool), np.empty(0)) is PRIOR


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"schema": 99}, "schema 99"),
        ({"gain": None}, "no gain model"),
        ({"gain": {**PRIOR.as_dict(), "features": ["bias"]}}, "another version"),
        ({"gain": {**PRIOR.as_dict(), "weights": [1.0]}}, "another size"),
        ({"gain": {**PRIOR.as_dict(), "weights": [float("nan")] * D}}, "cannot be"),
        ({"gain": {**PRIOR.as_dict(), "precision": (-np.eye(D)).tolist()}}, "positive definite"),
        ({"gain": {**PRIOR.as_dict(), "unseen_looks": 0}}, "cannot be"),
        ({"crop": {"padding": 0.1}}, "no padding, scale and quality"),
        ({"crop": {"padding": 0.1, "scale": 0.0, "quality": 60}}, "out of range"),
        ({"crop": []}, "no group"),
        ({"least_gain": 2}, "least_gain is 2"),
    ],
)
def test_a_calibration_that_cannot_be_is_told(change: dict[str, object], fault: str) -> None:
    values = {**json.loads(Calibration().encode()), **change}
    with pytest.raises(ValueError, match=fault):
        decode(json.dumps(values))


@pytest.mark.parametrize("text", ["", "[]", "{", '{"schema": 1}', "[" * 100_000])
def test_a_file_that_is_no_calibration_is_told(text: str) -> None:
    with pytest.raises(ValueError, match=r"no JSON|no calibration"):
        decode(text)
