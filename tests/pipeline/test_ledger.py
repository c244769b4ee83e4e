"""captured = finals + drops + in flight, whatever happens."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.frames import FrameKey
from pipeline.ledger import Ledger, LedgerSnapshot
from pipeline.results import DropReason, Origin

KEYS = [FrameKey("c", 1, seq) for seq in range(6)]

moves = st.lists(
    st.one_of(
        st.tuples(st.just("capture"), st.sampled_from(KEYS)),
        st.tuples(st.just("final"), st.sampled_from(KEYS), st.sampled_from(Origin)),
        st.tuples(st.just("drop"), st.sampled_from(KEYS), st.sampled_from(DropReason)),
        st.tuples(st.just("never_seen"), st.integers(0, 5), st.sampled_from(DropReason)),
        st.tuples(st.just("drop_open"), st.sampled_from(DropReason)),
    ),
    max_size=60,
)


def total(snapshot: LedgerSnapshot) -> int:
    return sum(snapshot.finals.values()) + sum(snapshot.drops.values()) + snapshot.in_flight


@given(moves)
def test_the_counts_balance_after_any_sequence(steps: list[tuple[str, *tuple[object, ...]]]) -> None:
    ledger = Ledger()
    for name, *arguments in steps:
        getattr(ledger, name)(*arguments)
        assert ledger.snapshot().captured == total(ledger.snapshot())


@given(st.lists(st.sampled_from(["final", "drop", "leave"]), max_size=20))
def test_a_proper_run_is_without_fault_and_ends_empty(ends: list[str]) -> None:
    ledger = Ledger()
    for seq, end in enumerate(ends):
        key = FrameKey("c", 1, seq)
        ledger.capture(key)
        if end == "final":
            assert ledger.final(key, Origin.EDGE)
        elif end == "drop":
            assert ledger.drop(key, DropReason.UNUSABLE)
        assert ledger.snapshot().invariant_ok
    assert ledger.drop_open(DropReason.STOPPED) == ends.count("leave")
    snapshot = ledger.snapshot()
    assert snapshot.invariant_ok
    assert snapshot.in_flight == 0
    assert snapshot.captured == len(ends)


def test_frames_that_never_reached_the_agent_are_captured_and_dropped() -> None:
    ledger = Ledger()
    ledger.never_seen(3, DropReason.OVERWRITTEN)
    assert ledger.snapshot() == LedgerSnapshot(3, {}, {"overwritten": 3}, 0, invariant_ok=True)


@pytest.mark.parametrize("second", ["final", "drop"])
def test_a_frame_that_ends_twice_is_counted_once_and_betrays_the_fault(second: str) -> None:
    ledger = Ledger()
    ledger.capture(KEYS[0])
    assert ledger.final(KEYS[0], Origin.FUSED)
    again = ledger.final(KEYS[0], Origin.EDGE) if second == "final" else ledger.drop(KEYS[0], DropReason.STOPPED)
    assert not again
    assert ledger.snapshot() == LedgerSnapshot(1, {"fused": 1}, {}, 0, invariant_ok=False)


def test_a_frame_that_ends_without_having_been_captured_is_a_fault() -> None:
    ledger = Ledger()
    assert not ledger.final(KEYS[0], Origin.EDGE)
    assert ledger.snapshot() == LedgerSnapshot(0, {}, {}, 0, invariant_ok=False)


def test_a_frame_that_is_captured_twice_is_counted_once_and_betrays_the_fault() -> None:
    ledger = Ledger()
    ledger.capture(KEYS[0])
    ledger.capture(KEYS[0])
    assert ledger.snapshot() == LedgerSnapshot(1, {}, {}, 1, invariant_ok=False)


def test_a_snapshot_does_not_change_afterwards() -> None:
    ledger = Ledger()
    ledger.capture(KEYS[0])
    ledger.final(KEYS[0], Origin.EDGE)
    before = ledger.snapshot()
    ledger.capture(KEYS[1])
    ledger.final(KEYS[1], Origin.EDGE)
    assert before.finals == {"edge": 1}
