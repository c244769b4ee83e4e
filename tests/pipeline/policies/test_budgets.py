"""When a latency budget is breached, what is done about it, and that it is undone."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.metrics.windows import HistogramWindow
from pipeline.policies.budgets import (
    SEGMENT_STAGES,
    STAGE_SEGMENTS,
    Budget,
    BudgetSettings,
    BudgetState,
    Reading,
    SegmentActions,
    SegmentBudgets,
    StageBudgets,
    Verdict,
    judge,
    read,
)
from pipeline.policies.restraint import Action, Limits, Step

LIMITS = Limits(sample_fps=5.0, least_sample_fps=1.0, light_model=True)
ALL = SegmentActions(
    network=(Action.SHRINK_CROPS,),
    queue=(Action.RAISE_LAMBDA,),
    edge=(Action.LOWER_SAMPLE_RATE, Action.LIGHT_MODEL),
    cloud=(Action.RAISE_LAMBDA,),
)
ACTING = BudgetSettings(actions=ALL)
EDGE, NETWORK = Budget("edge", 40.0), Budget("network", 60.0)


@dataclass
class World:
    """Budgets held against a stream of values on a made-up clock: ``fps`` frames per second."""

    settings: BudgetSettings = ACTING
    budgets: tuple[Budget, ...] = (EDGE,)
    state: BudgetState = field(default_factory=BudgetState)
    now_s: float = 100.0
    verdicts: list[tuple[float, Verdict]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.windows = {budget: HistogramWindow(60.0) for budget in self.budgets}

    def second(self, values_ms: dict[Budget, list[float]]) -> Verdict:
        """One second of frames, and one look at its end."""
        for budget, values in values_ms.items():
            for value in values:
                self.windows[budget].add(value, self.now_s)
        self.now_s += 1.0
        since_s = self.state.reads_from_s(self.now_s, self.settings.window_s)
        readings = {b: read(w, b.budget_ms, self.now_s, since_s) for b, w in self.windows.items()}
        verdict = judge(self.settings, LIMITS, self.state, readings, self.now_s)
        self.state = verdict.state
        self.verdicts.append((self.now_s, verdict))
        return verdict

    def seconds(self, count: int, value_ms: float, fps: int = 5, budget: Budget = EDGE) -> None:
        for _ in range(count):
            self.second({budget: [value_ms] * fps})

    def taken(self) -> list[Action]:
        return [v.taken[1].action for _, v in self.verdicts if v.taken is not None]

    def changes_s(self) -> list[float]:
        return [at_s for at_s, v in self.verdicts if v.taken is not None or v.undone is not None]


def test_a_segment_that_stays_above_its_budget_is_breached_and_says_by_how_much_and_since_when() -> None:
    world = World()
    world.seconds(10, 62.0)
    [(at_s, verdict)] = [(at_s, v) for at_s, v in world.verdicts if v.breached]
    [breach] = verdict.breached
    assert breach.budget == EDGE
    assert breach.p99_ms == pytest.approx(62.0)
    assert breach.since_s == at_s


def test_one_hiccup_is_no_breach() -> None:
    world = World()
    world.seconds(20, 20.0)
    world.second({EDGE: [300.0] * 5})
    world.seconds(20, 20.0)
    assert [v for _, v in world.verdicts if v.breached or v.taken] == []


def test_a_few_frames_give_no_verdict() -> None:
    world = World()
    for _ in range(40):
        world.seconds(1, 500.0, fps=1)
        world.seconds(1, 0.0, fps=0)
    assert world.state.breaches == ()
    assert world.taken() == []


def test_the_p99_is_what_counts_and_not_the_mean() -> None:
    world = World(BudgetSettings())
    for _ in range(30):
        world.second({EDGE: [10.0] * 19 + [50.0]})
    assert [breach.p99_ms for breach in world.state.breaches] == pytest.approx([50.0])


def test_the_actions_are_taken_step_by_step_and_in_their_order() -> None:
    world = World()
    world.seconds(120, 62.0)
    assert world.taken() == [Action.LOWER_SAMPLE_RATE] * 3 + [Action.LIGHT_MODEL]


def test_each_step_is_judged_by_what_came_after_it() -> None:
    world = World()
    while not world.taken():
        world.seconds(1, 62.0)
    world.seconds(60, 36.0)  # below the budget, not well below: enough was done, too early to undo it
    assert world.taken() == [Action.LOWER_SAMPLE_RATE]
    assert len(world.state.breaches) == 1
    assert world.state.steps == (Step("edge", Action.LOWER_SAMPLE_RATE, 2.5),)


def test_a_breach_clears_well_below_the_budget_and_every_step_is_undone() -> None:
    world = World()
    world.seconds(60, 62.0)
    assert len(world.state.steps) > 1
    world.seconds(60, 20.0)
    assert world.state.breaches == ()
    assert world.state.steps == ()
    assert [b.budget for _, v in world.verdicts for b in v.cleared] == [EDGE]


def test_without_actions_a_breach_is_only_told() -> None:
    world = World(BudgetSettings())
    world.seconds(30, 62.0)
    assert len(world.state.breaches) == 1
    assert world.taken() == []


def test_what_is_no_longer_measured_is_tried_again() -> None:
    world = World()
    world.seconds(40, 62.0)
    steps = len(world.state.steps)
    world.seconds(200, 0.0, fps=0)
    assert steps > 0
    assert world.state.steps == ()
    [cleared] = [b for _, v in world.verdicts for b in v.cleared]
    assert cleared.p99_ms is None


def test_the_worst_breach_goes_first() -> None:
    world = World(budgets=(EDGE, NETWORK))
    while not world.taken():
        world.second({EDGE: [50.0] * 5, NETWORK: [240.0] * 5})
    assert world.taken() == [Action.SHRINK_CROPS]


def test_a_stage_breached_triggers_the_actions_of_its_segment() -> None:
    gate = Budget("edge", 5.0, "gate")
    world = World(budgets=(EDGE, gate))
    for _ in range(10):
        world.second({EDGE: [10.0] * 5, gate: [9.0] * 5})
    assert [breach.budget for breach in world.state.breaches] == [gate]
    assert world.taken()[0] is Action.LOWER_SAMPLE_RATE


def test_a_step_that_is_needed_again_and_again_is_taken_back_ever_more_slowly() -> None:
    world = World()
    for _ in range(400):  # slow whenever nothing is turned down
        world.seconds(1, 62.0 if not world.state.steps else 20.0)
    undone_s = [at_s for at_s, v in world.verdicts if v.undone is not None]
    gaps_s = [later - earlier for earlier, later in pairwise(undone_s)]
    assert gaps_s == sorted(gaps_s)
    assert gaps_s[-1] > 4 * gaps_s[0]


def test_a_segment_without_a_budget_has_its_share_of_the_deadline() -> None:
    budgets = {b.segment: b.budget_ms for b in BudgetSettings(segments_ms=SegmentBudgets(edge=33.0)).budgets(400.0)}
    assert budgets == pytest.approx({"network": 120.0, "queue": 40.0, "edge": 33.0, "cloud": 160.0})


def test_the_default_budgets_are_the_deadline() -> None:
    assert sum(budget.budget_ms for budget in BudgetSettings().budgets(200.0)) == pytest.approx(200.0)


def test_budgets_that_are_switched_off_are_none() -> None:
    assert BudgetSettings(enabled=False).budgets(200.0) == ()


def test_a_stage_has_a_budget_only_where_one_is_given() -> None:
    given_ = BudgetSettings(stages_ms=StageBudgets(wait=10.0, cloud_queue=15.0)).budgets(200.0)
    assert {(b.stage, b.segment, b.budget_ms) for b in given_ if b.stage} == {
        ("wait", "edge", 10.0),
        ("cloud_queue", "queue", 15.0),
    }
    assert set(STAGE_SEGMENTS.values()) == set(SEGMENT_STAGES)


def test_a_frame_spends_of_a_segment_what_its_stages_took() -> None:
    stages = {"gate": 1.0, "edge": 6.0, "encode": None, "network": None}
    assert EDGE.spent_ms(stages) == 7.0
    assert NETWORK.spent_ms(stages) is None
    assert Budget("edge", 5.0, "gate").spent_ms(stages) == 1.0


def test_what_is_over_is_told_by_how_far_apart_it_is() -> None:
    window = HistogramWindow(60.0)
    for at_s, value in ((10.2, 70.0), (12.0, 20.0), (14.9, 80.0)):
        window.add(value, at_s)
    assert read(window, 60.0, 15.0, 0.0) == Reading(3, 80.0, 4.0)
    assert read(window, 60.0, 15.0, 12.0).over_s == 0.0


LEVELS = st.sampled_from([0.0, 10.0, 35.0, 50.0, 200.0])
HISTORIES = st.lists(
    st.tuples(st.integers(1, 25), st.integers(0, 6), LEVELS, LEVELS), min_size=1, max_size=12
)  # seconds, frames per second, what edge and network take


def replayed(history: list[tuple[int, int, float, float]], chosen: BudgetSettings = ACTING) -> World:
    world = World(chosen, budgets=(EDGE, NETWORK))
    for seconds, fps, edge_ms, network_ms in history:
        for _ in range(seconds):
            world.second({EDGE: [edge_ms] * fps, NETWORK: [network_ms] * fps})
    return world


@given(HISTORIES)
def test_nothing_is_turned_down_without_a_breach_of_that_segment(history: list[tuple[int, int, float, float]]) -> None:
    for _, verdict in replayed(history).verdicts:
        if verdict.taken is not None:
            breach, step = verdict.taken
            assert breach in verdict.state.breaches
            assert step.segment == breach.budget.segment
            assert (breach.p99_ms or 0.0) > breach.budget.budget_ms


@given(HISTORIES)
def test_there_is_at_most_one_change_per_dwell(history: list[tuple[int, int, float, float]]) -> None:
    changes_s = replayed(history).changes_s()
    assert all(later - earlier >= ACTING.dwell_s for earlier, later in pairwise(changes_s))


@given(HISTORIES)
def test_a_change_is_one_step_and_the_state_is_the_sum_of_them(history: list[tuple[int, int, float, float]]) -> None:
    before = 0
    for _, verdict in replayed(history).verdicts:
        change = (verdict.taken is not None) - (verdict.undone is not None)
        assert len(verdict.state.steps) == before + change
        before += change


@given(HISTORIES)
@settings(max_examples=40)
def test_whatever_happened_all_is_undone_when_all_is_well(history: list[tuple[int, int, float, float]]) -> None:
    world = replayed(history)
    limit_s = len(world.state.steps) * (world.state.undo_after_s + ACTING.window_s) + 2 * ACTING.window_s
    for _ in range(int(limit_s)):
        world.second({EDGE: [10.0] * 5, NETWORK: [10.0] * 5})
    assert world.state.steps == ()
    assert world.state.breaches == ()


@given(HISTORIES)
def test_breaches_open_and_close_in_turn(history: list[tuple[int, int, float, float]]) -> None:
    world = replayed(history)
    for budget in (EDGE, NETWORK):
        told = list(told_of(world, budget))
        assert told == ["breached", "cleared"] * (len(told) // 2) + ["breached"] * (len(told) % 2)


def told_of(world: World, budget: Budget) -> Iterator[str]:
    for _, verdict in world.verdicts:
        yield from ("breached" for b in verdict.breached if b.budget == budget)
        yield from ("cleared" for b in verdict.cleared if b.budget == budget)


@given(HISTORIES)
def test_a_camera_that_may_do_nothing_does_nothing(history: list[tuple[int, int, float, float]]) -> None:
    world = replayed(history, replace(ACTING, actions=SegmentActions()))
    assert world.changes_s() == []
