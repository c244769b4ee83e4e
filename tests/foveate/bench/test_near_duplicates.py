"""What reuse saves is told by what was sent, and what it costs by what was published."""

import pytest

from foveate.bench.near_duplicates import Pair, figures
from foveate.bench.worker import PARTS


def test_a_clip_is_told_by_its_mean_and_by_its_worst_seed() -> None:
    told = figures("cache", [Pair(200, 130, 0.95, 0.955, 60), Pair(100, 75, 0.95, 0.944, 20)])
    assert told["cache_saved"] == pytest.approx((0.35 + 0.25) / 2)
    assert told["cache_saved_least"] == pytest.approx(0.25)
    assert told["cache_f1_loss"] == pytest.approx(0.0005)
    assert told["cache_f1_loss_most"] == pytest.approx(0.006)
    assert (told["cache_sent"], told["cache_spared"]) == (150, 40)


def test_it_tells_the_figures_that_its_group_is_to_have() -> None:
    assert set(PARTS["near_duplicates"]) <= figures("cache", [Pair(2, 1, 1.0, 1.0, 1)]).keys()
