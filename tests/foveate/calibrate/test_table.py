"""Which setting meets a budget."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_agent.arms import configured_arm
from foveate.calibrate.recording import Cost, Recording
from foveate.calibrate.table import LEAST_GAINS, Budget, Row, choose, nearest, rows
from pipeline.policies.crop_arms import ArmRecord
from pipeline.policies.gain import PRIOR
from tests.foveate.calibrate.test_replay import SETTINGS, haunted

ROWS = [Row(0.0, 1.0, 300.0, 90.0, 0.99), Row(0.1, 0.5, 100.0, 70.0, 0.95), Row(1.0, 0.0, 0.0, 20.0, 0.8)]


@pytest.mark.parametrize(
    ("budget", "least_gain"),
    [
        (Budget(), 1.0),
        (Budget(kbps=300), 0.0),
        (Budget(kbps=150), 0.1),
        (Budget(deadline_ms=75), 0.1),
        (Budget(agreement=0.9), 0.1),
        (Budget(kbps=150, agreement=0.9), 0.1),
        (Budget(kbps=1), 1.0),
        (Budget(kbps=50, agreement=0.9), None),
        (Budget(deadline_ms=10), None),
    ],
)
def test_the_best_setting_within_the_budget_is_chosen(budget: Budget, least_gain: float | None) -> None:
    chosen = choose(ROWS, budget)
    assert (None if chosen is None else chosen.least_gain) == least_gain


def test_where_none_meets_the_budget_the_nearest_is_told() -> None:
    assert nearest(ROWS, Budget(kbps=95, agreement=0.9)).least_gain == 0.1
    assert nearest(ROWS, Budget(deadline_ms=10)).least_gain == 1.0


@given(st.floats(1, 400), st.floats(5, 100), st.floats(0.5, 1.0))
def test_what_is_chosen_meets_the_budget(kbps: float, deadline_ms: float, agreement: float) -> None:
    budget = Budget(kbps, deadline_ms, agreement)
    chosen = choose(ROWS, budget)
    if chosen is None:
        assert all(row.excess(budget) > 0 for row in ROWS)
    else:
        assert chosen.kbps <= kbps
        assert chosen.ms <= deadline_ms
        assert chosen.agreement >= agreement


def test_the_more_gain_is_asked_for_the_less_is_sent_and_the_less_the_models_agree() -> None:
    arm = configured_arm(SETTINGS)
    frames = tuple(haunted(40))
    recording = Recording(frames, 8.0, Cost(9000.0, 8.0, 2.0, 30.0), {arm: ArmRecord()}, {arm: 0.1})
    table = rows(recording, SETTINGS, PRIOR, arm, None)
    assert [row.least_gain for row in table] == list(LEAST_GAINS)
    assert table[0].kbps >= table[-2].kbps >= table[-1].kbps == 0.0
    assert table[0].agreement > table[-1].agreement
    assert (table[0].ms, table[-1].ms) == (40.0, 8.0)
    slow = rows(recording, SETTINGS, PRIOR, arm, 100.0)
    assert slow[0].ms > table[0].ms
