import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from foveate.training.augment import AugmentSettings, augment
from foveate.training.targets import Answers

NOTHING = np.empty((0, 4), np.float32)


@settings(deadline=None)
@given(st.integers(0, 10_000))
def test_a_box_stays_on_its_object(seed: int) -> None:
    picture = np.zeros((96, 128, 3), np.uint8)
    picture[40:60, 50:80] = 255
    box = np.array([[50, 40, 80, 60]], np.float32)
    plain = AugmentSettings(contrast=0.0, brightness=0.0, colour=0.0, sharpness=0.0)
    view, seen = augment(picture, Answers(box, np.array([0]), box), plain, np.random.default_rng(seed))
    rows, columns = np.nonzero((view > 200).all(axis=2))
    found = [columns.min(), rows.min(), columns.max() + 1, rows.max() + 1]
    np.testing.assert_allclose(np.clip(seen.xyxy[0], 0, [128, 96, 128, 96]), found, atol=1.0)
    np.testing.assert_array_equal(seen.ignored, seen.xyxy)


def test_light_changes_and_stays_within_the_range_of_a_picture() -> None:
    picture = np.full((32, 32, 3), 120, np.uint8)
    settings = AugmentSettings(least_scale=1.0, most_scale=1.0, shift=0.0)
    rng = np.random.default_rng(3)
    levels = [augment(picture, Answers(NOTHING, np.empty(0, np.intp), NOTHING), settings, rng)[0] for _ in range(30)]
    means = [level.mean() for level in levels]
    assert min(means) < 110 < 130 < max(means)
    assert {level.dtype for level in levels} == {np.dtype(np.uint8)}
