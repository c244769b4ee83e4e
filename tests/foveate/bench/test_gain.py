"""The rivals choose from the same frames, and no more of them than they may."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foveate.bench.gain import Clip, Learned, Quota, Rule, oracle, play
from foveate.models.scoring import Truth
from pipeline.policies.gain import PRIOR
from tests.foveate.calibrate.test_replay import REAL, haunted


@pytest.fixture
def clip() -> Clip:
    true = Truth(np.array([REAL], np.float32), np.array(["person"]), np.zeros(1, bool))
    return Clip(tuple(haunted(160)), {n + 1: true for n in range(160)})


@given(st.lists(st.floats(0, 10), min_size=1, max_size=200), st.sampled_from([0.05, 0.2, 0.5, 1.0]))
def test_never_more_than_the_share_is_chosen_at_any_time(values: list[float], share: float) -> None:
    quota, chosen = Quota(share), 0
    for number, value in enumerate(values, 1):
        chosen += quota.take(value)
        assert chosen <= share * number


def test_the_best_of_the_latest_are_chosen_and_about_the_whole_share() -> None:
    quota = Quota(0.2)
    taken = [value for value in [n % 10 for n in range(500)] if quota.take(value)]
    assert len(taken) >= 90
    assert sum(value >= 7 for value in taken) >= 0.9 * len(taken)


def test_values_that_only_fall_are_not_passed_over_for_ever() -> None:
    quota = Quota(0.2)
    assert sum(quota.take(-float(n)) for n in range(300)) >= 30


def test_asking_mends_the_ghost_and_without_asking_it_stays(clip: Clip) -> None:
    edge, none = play(clip, 0, Rule(lambda *_: 0.0), None)
    cloud, all_of_them = play(clip, 0, Rule(lambda *_: 1.0), None)
    assert (none, all_of_them) == (0.0, 1.0)
    assert cloud == 1.0 > edge


def test_the_oracle_knows_and_the_model_learns_where_asking_mends(clip: Clip) -> None:
    edge, _ = play(clip, 0, Rule(lambda *_: 0.0), None)
    for value in (oracle(clip.truth), Learned(PRIOR)):
        f1, share = play(clip, 0, value, Quota(0.2))
        assert f1 > edge
        assert share <= 0.2
