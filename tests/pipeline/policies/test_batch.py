"""When a batch closes, and how large it is."""

from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.policies.batch import (
    BATCH_KINDS,
    Aimd,
    BatchReason,
    BatchView,
    DeadlineBatching,
    Fire,
    FixedWindow,
    NoBatching,
    Wait,
)
from pipeline.policies.batch_plan import in_time


@dataclass(frozen=True)
class TableTimes:
    """Run times given outright: typical by batch size, P95 a factor above; sizes not in the table are unknown."""

    by_batch_s: dict[int, float] = field(default_factory=dict)
    tail: float = 1.2

    def typical_s(self, batch: int) -> float | None:
        return self.by_batch_s.get(batch)

    def p95_s(self, batch: int) -> float | None:
        return None if batch not in self.by_batch_s else self.by_batch_s[batch] * self.tail

    def gain(self, batch: int) -> float | None:
        if batch not in self.by_batch_s or 1 not in self.by_batch_s:
            return None
        return 1 - self.by_batch_s[batch] / (batch * self.by_batch_s[1])


CPU = TableTimes({n: 0.020 * n for n in range(1, 9)})
GPU = TableTimes({n: 0.018 + 0.002 * n for n in range(1, 9)})


def view(waiting: int, times: TableTimes, **changes: object) -> BatchView:
    made = BatchView(
        now_s=10.0,
        deadlines_s=tuple(10.2 + 0.001 * i for i in range(waiting)),
        oldest_arrival_s=10.0,
        next_arrival_s=None,
        others_wait=False,
        max_batch=8,
        times=times,
    )
    return replace(made, **changes)  # type: ignore[arg-type]  # the fields of BatchView, by name


def test_without_batching_one_runs_at_once() -> None:
    assert NoBatching().decide(view(5, GPU)) == Fire(1, BatchReason.IDLE)


def test_a_fixed_window_waits_for_its_end_or_a_full_batch() -> None:
    policy = FixedWindow(0.02)
    assert policy.decide(view(3, GPU)) == Wait(10.02)
    assert policy.decide(view(3, GPU, now_s=10.02)) == Fire(3, BatchReason.WINDOW)
    assert policy.decide(view(9, GPU)) == Fire(8, BatchReason.FULL)


def test_a_lone_request_runs_at_once_when_no_company_is_expected() -> None:
    assert DeadlineBatching().decide(view(1, GPU)) == Fire(1, BatchReason.IDLE)


def test_a_lone_request_runs_at_once_when_company_comes_too_late_to_pay() -> None:
    assert DeadlineBatching().decide(view(1, GPU, next_arrival_s=10.019)) == Fire(1, BatchReason.IDLE)


def test_company_that_pays_is_waited_for() -> None:
    assert DeadlineBatching().decide(view(1, GPU, next_arrival_s=10.010)) == Wait(10.010)


def test_company_that_is_overdue_is_not_waited_for() -> None:
    assert DeadlineBatching().decide(view(1, GPU, next_arrival_s=10.0)) == Fire(1, BatchReason.IDLE)


def test_nothing_is_waited_for_while_other_work_is_ready() -> None:
    assert DeadlineBatching().decide(view(1, GPU, next_arrival_s=10.010, others_wait=True)) == Fire(1, BatchReason.IDLE)


def test_the_earliest_deadline_closes_the_batch() -> None:
    closing = view(1, GPU, next_arrival_s=10.010, deadlines_s=(10.033,))
    assert DeadlineBatching().decide(closing) == Fire(1, BatchReason.DEADLINE)


def test_a_machine_on_which_batches_gain_nothing_runs_one_at_a_time_and_never_waits() -> None:
    assert DeadlineBatching().decide(view(1, CPU, next_arrival_s=10.001)) == Fire(1, BatchReason.NO_GAIN)
    assert DeadlineBatching().decide(view(8, CPU)) == Fire(1, BatchReason.NO_GAIN)


def test_a_backlog_runs_as_one_full_batch_where_that_gains() -> None:
    assert DeadlineBatching().decide(view(20, GPU)) == Fire(8, BatchReason.FULL)


def test_a_batch_is_no_larger_than_its_most_urgent_member_can_bear() -> None:
    tight = view(8, GPU, deadlines_s=(10.0315, *(10.2,) * 7))
    assert DeadlineBatching().decide(tight) == Fire(4, BatchReason.DEADLINE)


def test_the_nearly_late_are_left_out_where_that_brings_no_fewer_in_time_and_otherwise_not() -> None:
    late = (10.0315, 10.0390)  # a full batch takes 34 ms, 40.8 by its P95
    crowded = view(10, GPU, deadlines_s=(*late, *(10.0450,) * 8))
    decision = DeadlineBatching().decide(crowded)
    assert isinstance(decision, Fire)
    assert (decision.size, decision.reason) == (8, BatchReason.FULL)
    assert decision.due_from_s == pytest.approx(10.0408)
    hurried = view(7, GPU, deadlines_s=(10.0315, *(10.0385,) * 6))  # one in 24 ms, and no time for the others after it
    decision = DeadlineBatching().decide(hurried)
    assert isinstance(decision, Fire)
    assert (decision.size, decision.reason) == (6, BatchReason.DEADLINE)
    sparse = view(8, GPU, deadlines_s=(*late, *(10.2,) * 6))
    assert DeadlineBatching().decide(sparse) == Fire(4, BatchReason.DEADLINE)
    no_gain = view(10, CPU, deadlines_s=(*late, *(10.9,) * 8))
    assert DeadlineBatching().decide(no_gain) == Fire(1, BatchReason.DEADLINE)
    too_few = view(9, GPU, deadlines_s=(*late, *(10.2,) * 7))
    assert DeadlineBatching().decide(too_few) == Fire(4, BatchReason.DEADLINE)


def test_batch_sizes_never_run_are_tried_by_doubling() -> None:
    assert DeadlineBatching().decide(view(8, TableTimes({1: 0.02}))) == Fire(2, BatchReason.IDLE)
    assert DeadlineBatching().decide(view(8, TableTimes({1: 0.02, 2: 0.022}))) == Fire(4, BatchReason.IDLE)


def test_a_size_that_gained_nothing_is_not_tried_doubled() -> None:
    assert DeadlineBatching().decide(view(8, TableTimes({1: 0.02, 2: 0.04}))) == Fire(1, BatchReason.NO_GAIN)


times = st.one_of(
    st.just(CPU),
    st.just(GPU),
    st.dictionaries(st.integers(1, 16), st.floats(0.0001, 0.5)).map(TableTimes),
)


@given(
    kind=st.sampled_from(sorted(BATCH_KINDS)),
    lefts_s=st.lists(st.floats(0.0001, 1), min_size=1, max_size=20).map(sorted),
    next_s=st.none() | st.floats(-1, 1),
    waited_s=st.floats(0, 1),
    others_wait=st.booleans(),
    max_batch=st.integers(1, 16),
    known=times,
)
def test_every_decision_is_sound(
    kind: str,
    lefts_s: list[float],
    next_s: float | None,
    waited_s: float,
    others_wait: bool,
    max_batch: int,
    known: TableTimes,
) -> None:
    now_s = 100.0
    seen = BatchView(
        now_s=now_s,
        deadlines_s=tuple(now_s + left_s for left_s in lefts_s),
        oldest_arrival_s=now_s - waited_s,
        next_arrival_s=None if next_s is None else now_s + next_s,
        others_wait=others_wait,
        max_batch=max_batch,
        times=known,
    )
    decision = BATCH_KINDS[kind](0.01).decide(seen)
    if isinstance(decision, Fire):
        assert 1 <= decision.size <= min(len(lefts_s), max_batch)
        taken = [due_s for due_s in seen.deadlines_s if due_s >= decision.due_from_s][: decision.size]
        assert len(taken) == decision.size
        if kind == "deadline" and decision.size > 1:
            run_s = known.p95_s(decision.size)
            assert run_s is None or now_s + run_s <= taken[0]
        if taken[0] != seen.deadlines_s[0]:
            assert (kind, decision.size > 1) == ("deadline", True), "left out for a larger batch only"
            met = [
                in_time(seen.deadlines_s, n, now_s, max_batch, lambda n: known.p95_s(n) or 0.0)
                for n in (1, decision.size)
            ]
            assert met[1] >= met[0], "and not at a loss"
        return
    assert decision.until_s > now_s
    assert kind != "none"
    if kind == "deadline":
        larger_s = known.p95_s(min(len(lefts_s), max_batch) + 1)
        assert not others_wait
        assert larger_s is not None
        assert decision.until_s + larger_s <= seen.deadlines_s[0]


@pytest.mark.parametrize("waiting", range(1, 8))
def test_waiting_is_only_chosen_where_it_ends_the_work_sooner(waiting: int) -> None:
    for gap_ms in range(1, 60):
        decision = DeadlineBatching().decide(view(waiting, GPU, next_arrival_s=10.0 + gap_ms / 1e3))
        now_run_s, single_s = GPU.by_batch_s[waiting], GPU.by_batch_s[1]
        without_s = max(now_run_s, gap_ms / 1e3) + single_s
        with_company_s = gap_ms / 1e3 + GPU.by_batch_s[waiting + 1]
        assert isinstance(decision, Wait) == (with_company_s < without_s - 1e-9)


def test_aimd_grows_by_one_after_each_full_batch_in_time_and_shrinks_by_a_tenth_after_a_late_one() -> None:
    policy, waiting = Aimd(), view(20, GPU, max_batch=32, kind="a")
    sizes = []
    for _ in range(12):
        decision = policy.decide(waiting)
        assert isinstance(decision, Fire)
        sizes.append(decision.size)
        policy.ran("a", decision.size, run_s=0.1, budget_s=0.2)
    assert sizes == list(range(1, 13))
    policy.ran("a", 13, run_s=0.3, budget_s=0.2)
    assert policy.decide(waiting) == Fire(11, BatchReason.FULL)
    assert policy.decide(replace(waiting, kind="b")) == Fire(1, BatchReason.FULL), "each kind has its own limit"


def test_aimd_never_waits_and_does_not_grow_from_batches_that_were_not_full() -> None:
    policy = Aimd()
    for _ in range(5):
        policy.ran("a", 4, run_s=0.1, budget_s=0.2)
    policy.ran("a", 2, run_s=0.1, budget_s=0.2)
    assert policy.decide(view(3, GPU, kind="a", next_arrival_s=10.001)) == Fire(3, BatchReason.IDLE)
    assert policy.decide(view(8, GPU, kind="a")) == Fire(5, BatchReason.FULL)


@given(
    runs=st.lists(st.tuples(st.integers(0, 20), st.integers(1, 16), st.floats(0, 1), st.floats(0, 1)), max_size=200),
    waiting=st.integers(1, 20),
)
def test_aimd_stays_within_what_waits_and_what_may_run_whatever_has_run(
    runs: list[tuple[int, int, float, float]], waiting: int
) -> None:
    policy = Aimd(kinds=8)
    for kind, size, run_s, budget_s in runs:
        policy.ran(kind, size, run_s, budget_s)
    assert len(policy._limits) <= 8
    for kind in range(21):
        decision = policy.decide(view(waiting, GPU, kind=kind))
        assert isinstance(decision, Fire)
        assert 1 <= decision.size <= min(waiting, 8)


def test_nobody_waits_for_company_longer_than_the_window() -> None:
    policy = DeadlineBatching(window_s=0.012)
    assert policy.decide(view(1, GPU, next_arrival_s=10.010)) == Wait(10.010)
    assert policy.decide(view(1, GPU, next_arrival_s=10.013)) == Fire(1, BatchReason.WINDOW)
    came_one_by_one = view(3, GPU, now_s=10.010, next_arrival_s=10.015)
    assert policy.decide(came_one_by_one) == Fire(3, BatchReason.WINDOW)
