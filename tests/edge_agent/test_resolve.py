"""Every admitted frame settles exactly once, in order, in time."""

from dataclasses import dataclass, field

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from edge_agent.resolve import FrameTimings, Pending, Phase, Resolver, Settlement
from pipeline.frames import FrameKey
from pipeline.geometry import Size
from pipeline.policies.fallback import Bound, Wait
from pipeline.results import Origin

MARGIN_S, DEADLINE_S = 0.02, 0.2


def pending(seq: int, captured_at_s: float, phase: Phase) -> Pending:
    return Pending(
        key=FrameKey("c", 1, seq),
        size=Size(64, 48),
        captured_at_s=captured_at_s,
        scene_s=captured_at_s,
        media_ms=None,
        deadline_s=captured_at_s + DEADLINE_S,
        phase=phase,
        edge_model=None if phase in (Phase.CARRIED, Phase.ANALYSING) else "small@1",
    )


def admitted(*phases: Phase, gap_s: float = 0.04) -> Resolver:
    resolver = Resolver(MARGIN_S)
    for seq, phase in enumerate(phases):
        resolver.admit(pending(seq, seq * gap_s, phase))
    return resolver


def numbers(settled: list[Settlement]) -> list[int]:
    return [s.pending.key.seq for s in settled]


def test_a_frame_that_is_not_analysed_is_answered_at_once() -> None:
    (settled,) = admitted(Phase.CARRIED).due(0.0)
    assert (settled.pending.origin, settled.late) == (Origin.CARRIED, False)


def test_a_later_frame_waits_for_the_ones_before_it() -> None:
    resolver = admitted(Phase.ANALYSING, Phase.CARRIED, Phase.CARRIED)
    assert resolver.due(0.1) == []
    resolver.update(FrameKey("c", 1, 0), phase=Phase.SETTLED, origin=Origin.EDGE, reason="nothing_uncertain")
    assert numbers(resolver.due(0.1)) == [0, 1, 2]
    assert len(resolver) == 0


@pytest.mark.parametrize(
    ("phase", "origin", "reason"),
    [(Phase.ASKED, Origin.EDGE_TIMEOUT, "cloud_late"), (Phase.ANALYSING, Origin.CARRIED, "edge_late")],
)
def test_at_its_deadline_a_frame_is_answered_with_what_is_there(phase: Phase, origin: Origin, reason: str) -> None:
    resolver = admitted(phase)
    assert resolver.due(DEADLINE_S - MARGIN_S - 1e-6) == []
    (settled,) = resolver.due(DEADLINE_S - MARGIN_S)
    assert (settled.pending.origin, settled.pending.reason, settled.late) == (origin, reason, True)
    assert settled.pending.phase is Phase.SETTLED


@pytest.mark.parametrize(("phase", "reason"), [(Phase.ASKED, "cloud_late"), (Phase.LOOKED, "not_asked_in_time")])
def test_a_frame_that_neither_model_has_answered_is_carried(phase: Phase, reason: str) -> None:
    resolver = admitted(phase)
    resolver.update(FrameKey("c", 1, 0), edge_model=None)
    (settled,) = resolver.due(DEADLINE_S)
    assert (settled.pending.origin, settled.pending.reason) == (Origin.CARRIED, reason)


def test_an_answer_that_is_overdue_is_not_waited_for_until_the_deadline() -> None:
    resolver = admitted(Phase.ASKED, Phase.CARRIED)
    resolver.update(FrameKey("c", 1, 0), wait=Wait(0.1, Bound.OVERDUE))
    assert resolver.wake_at_s() == 0.1
    assert resolver.due(0.0999) == []
    overdue, carried = resolver.due(0.1)
    assert (overdue.pending.origin, overdue.pending.reason, overdue.late) == (Origin.EDGE_TIMEOUT, Bound.OVERDUE, True)
    assert carried.pending.key.seq == 1


def test_the_wait_binds_only_while_the_question_is_out() -> None:
    resolver = admitted(Phase.ANALYSING)
    resolver.update(FrameKey("c", 1, 0), wait=Wait(0.1, Bound.OVERDUE))
    assert resolver.wake_at_s() == pytest.approx(DEADLINE_S - MARGIN_S)


def test_a_frame_that_is_held_back_by_one_before_it_still_takes_an_answer_that_was_overdue() -> None:
    resolver, second = admitted(Phase.ANALYSING, Phase.ASKED), FrameKey("c", 1, 1)
    resolver.update(second, wait=Wait(0.05, Bound.OVERDUE))
    assert resolver.due(0.1) == []
    assert resolver.update(second, phase=Phase.SETTLED, origin=Origin.FUSED)
    resolver.update(FrameKey("c", 1, 0), phase=Phase.SETTLED, origin=Origin.EDGE)
    assert [settled.pending.origin for settled in resolver.due(0.12)] == [Origin.EDGE, Origin.FUSED]


def test_progress_after_the_answer_is_refused() -> None:
    resolver = admitted(Phase.ASKED)
    resolver.due(1.0)
    assert not resolver.update(FrameKey("c", 1, 0), phase=Phase.SETTLED, origin=Origin.FUSED)
    assert resolver.get(FrameKey("c", 1, 0)) is None


def test_progress_is_kept_for_the_answer() -> None:
    resolver, key = admitted(Phase.ANALYSING), FrameKey("c", 1, 0)
    assert resolver.update(key, timings=FrameTimings(edge_ms=6.0), phase=Phase.ASKED)
    assert resolver.update(key, phase=Phase.SETTLED, origin=Origin.FUSED, bytes_up=9000)
    (settled,) = resolver.due(0.0)
    assert settled.pending.timings.edge_ms == 6.0
    assert (settled.pending.bytes_up, settled.pending.origin) == (9000, Origin.FUSED)


def test_a_field_that_does_not_exist_is_a_mistake() -> None:
    with pytest.raises(TypeError):
        admitted(Phase.ASKED).update(FrameKey("c", 1, 0), colour="red")


def test_without_frames_nobody_need_wake() -> None:
    assert Resolver(MARGIN_S).wake_at_s() is None
    assert admitted(Phase.ASKED).wake_at_s() == pytest.approx(DEADLINE_S - MARGIN_S)


@dataclass
class Seen:
    """What a camera would note."""

    settled: list[int] = field(default_factory=list)
    latest_s: dict[int, float] = field(default_factory=dict)


class ResolverMachine(RuleBasedStateMachine):
    """Frames come and make progress in any order; the clock wakes the resolver when it asks for it."""

    def __init__(self) -> None:
        super().__init__()
        self.resolver, self.now_s, self.seen, self.count = Resolver(MARGIN_S), 0.0, Seen(), 0

    def poll(self) -> None:
        for settled in self.resolver.due(self.now_s):
            seq = settled.pending.key.seq
            self.seen.settled.append(seq)
            assert self.now_s <= settled.pending.deadline_s
            assert settled.pending.phase in {Phase.CARRIED, Phase.SETTLED}

    @rule(phase=st.sampled_from([Phase.CARRIED, Phase.ANALYSING]))
    def frame(self, phase: Phase) -> None:
        self.resolver.admit(pending(self.count, self.now_s, phase))
        self.count += 1
        self.poll()

    @precondition(lambda self: self.count > 0)
    @rule(
        data=st.data(),
        phase=st.sampled_from([Phase.ASKED, Phase.SETTLED]),
        origin=st.sampled_from([Origin.EDGE, Origin.FUSED]),
        wait_s=st.floats(0.0, 0.5),
    )
    def progress(self, data: st.DataObject, phase: Phase, origin: Origin, wait_s: float) -> None:
        seq = data.draw(st.integers(0, self.count - 1))
        until = Wait(self.now_s + wait_s, Bound.OVERDUE)
        known = self.resolver.update(FrameKey("c", 1, seq), phase=phase, origin=origin, wait=until)
        assert known == (seq not in self.seen.settled)
        self.poll()

    @rule(by_s=st.floats(0.0, 0.5))
    def time_passes(self, by_s: float) -> None:
        until_s = self.now_s + by_s
        while (wake_at_s := self.resolver.wake_at_s()) is not None and wake_at_s <= until_s:
            self.now_s = max(self.now_s, wake_at_s)
            before = len(self.resolver)
            self.poll()
            assert len(self.resolver) < before
        self.now_s = until_s

    @invariant()
    def in_order_and_once(self) -> None:
        assert self.seen.settled == list(range(len(self.seen.settled)))

    @invariant()
    def nothing_is_lost(self) -> None:
        assert len(self.seen.settled) + len(self.resolver) == self.count

    def teardown(self) -> None:
        self.time_passes(by_s=1.0)
        assert self.seen.settled == list(range(self.count))


TestResolver = ResolverMachine.TestCase
TestResolver.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
