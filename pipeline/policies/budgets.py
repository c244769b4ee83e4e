"""Latency budgets: when one is breached, what is turned down for it, and when that is taken back. Pure.

A budget is held against the P99 of a sliding window. It is breached when the P99 is above it and the slow frames are
spread over some seconds, so that one hiccup is none; it clears well below it. Each change of what is turned down
begins a new window, so that every step is judged by what it has brought, and nothing is taken twice for one cause.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from pipeline.metrics.windows import HistogramWindow
from pipeline.policies.restraint import Action, Limits, Step, next_step

Segment = Literal["network", "queue", "edge", "cloud"]
Stage = Literal["wait", "gate", "edge", "encode", "network", "cloud_queue", "cloud_infer", "resolve"]
SEGMENT_STAGES: Mapping[Segment, tuple[Stage, ...]] = {
    "network": ("network",),
    "queue": ("cloud_queue",),
    "edge": ("gate", "edge", "encode"),
    "cloud": ("cloud_infer",),
}
"""The four segments of latency and the stages that each is the sum of."""
STAGE_SEGMENTS: Mapping[Stage, Segment] = {
    "wait": "edge",
    "resolve": "edge",
    **{stage: segment for segment, stages in SEGMENT_STAGES.items() for stage in stages},
}
"""The segment whose actions a breach of a stage's budget triggers."""
DEADLINE_SHARES: Mapping[Segment, float] = {"network": 0.3, "queue": 0.1, "edge": 0.2, "cloud": 0.4}
"""A segment without a budget of its own has this share of the deadline: 60, 20, 40 and 80 ms of 200."""
MOST_UNDO_AFTER_S = 300.0


@dataclass(frozen=True, slots=True)
class SegmentBudgets:
    """Milliseconds per segment; None is its share of the deadline."""

    network: float | None = None
    queue: float | None = None
    edge: float | None = None
    cloud: float | None = None


@dataclass(frozen=True, slots=True)
class StageBudgets:
    """Milliseconds per stage; None is no budget."""

    wait: float | None = None
    gate: float | None = None
    edge: float | None = None
    encode: float | None = None
    network: float | None = None
    cloud_queue: float | None = None
    cloud_infer: float | None = None
    resolve: float | None = None


@dataclass(frozen=True, slots=True)
class SegmentActions:
    """What is turned down, first to last, while a segment's budget is breached."""

    network: tuple[Action, ...] = ()
    queue: tuple[Action, ...] = ()
    edge: tuple[Action, ...] = ()
    cloud: tuple[Action, ...] = ()


@dataclass(frozen=True, slots=True)
class SlaSettings:
    """The promise: this share of the accepted frames is answered within ``within_ms``; None is the deadline."""

    share: float = 0.98
    within_ms: float | None = None


@dataclass(frozen=True, slots=True)
class Budget:
    """Milliseconds for a segment, or for one ``stage`` of it."""

    segment: Segment
    budget_ms: float
    stage: Stage | None = None

    def spent_ms(self, stages_ms: Mapping[str, float | None]) -> float | None:
        """What a frame has spent of it; None where it did not pass that way."""
        names: tuple[str, ...] = (self.stage,) if self.stage else SEGMENT_STAGES[self.segment]
        spent = [value for name in names if (value := stages_ms.get(name)) is not None]
        return sum(spent) if spent else None


@dataclass(frozen=True, slots=True)
class BudgetSettings:
    """The budgets of one camera and how they are judged.

    ``window_s`` is what the P99 is taken over, from ``least_samples`` on; slow frames must be ``sustained_s`` apart for
    a breach; it clears below ``clear_share`` of the budget. ``dwell_s`` is the least time between two changes.
    """

    enabled: bool = True
    segments_ms: SegmentBudgets = field(default_factory=SegmentBudgets)
    stages_ms: StageBudgets = field(default_factory=StageBudgets)
    actions: SegmentActions = field(default_factory=SegmentActions)
    sla: SlaSettings = field(default_factory=SlaSettings)
    window_s: float = 30.0
    least_samples: int = 20
    sustained_s: float = 3.0
    clear_share: float = 0.8
    dwell_s: float = 5.0
    least_sample_fps: float = 1.0

    def budgets(self, deadline_ms: float) -> tuple[Budget, ...]:
        """The budgets of a camera with this deadline; none where they are switched off."""
        if not self.enabled:
            return ()
        segments = [
            Budget(name, own if (own := getattr(self.segments_ms, name)) is not None else share * deadline_ms)
            for name, share in DEADLINE_SHARES.items()
        ]
        stages = [
            Budget(segment, own, name)
            for name, segment in STAGE_SEGMENTS.items()
            if (own := getattr(self.stages_ms, name)) is not None
        ]
        return (*segments, *stages)


@dataclass(frozen=True, slots=True)
class Reading:
    """What a window says of a budget; the values above it lie ``over_s`` apart, first to last."""

    samples: int
    p99_ms: float | None
    over_s: float


def read(window: HistogramWindow, budget_ms: float, now_s: float, since_s: float) -> Reading:
    """Hold a window against a budget, from ``since_s`` on."""
    whole = window.recent(now_s, since_s)
    over = [at_s for at_s, slot in window.slots(now_s, since_s) if (slot.greatest or 0.0) > budget_ms]
    return Reading(whole.count, whole.percentile(99), over[-1] - over[0] if over else 0.0)


@dataclass(frozen=True, slots=True)
class Breach:
    """A budget that is breached, by how much, and since when; of one that cleared the P99 may be unknown."""

    budget: Budget
    p99_ms: float | None
    since_s: float


@dataclass(frozen=True, slots=True)
class BudgetState:
    """Breaches, and the steps by which something is turned down, oldest first.

    ``changed_at_s`` is when a step was last taken or taken back, ``undone_at_s`` the latter alone. ``undo_after_s``
    doubles when a step that was taken back is needed again, so that trying costs less and less.
    """

    breaches: tuple[Breach, ...] = ()
    steps: tuple[Step, ...] = ()
    changed_at_s: float = float("-inf")
    undone_at_s: float = float("-inf")
    undo_after_s: float = 0.0

    def reads_from_s(self, now_s: float, window_s: float) -> float:
        """The beginning of the window by which this state is judged."""
        return max(now_s - window_s, self.changed_at_s)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The state after a look, and what is new in it."""

    state: BudgetState
    breached: tuple[Breach, ...] = ()
    cleared: tuple[Breach, ...] = ()
    taken: tuple[Breach, Step] | None = None
    undone: Step | None = None


def judge(
    settings: BudgetSettings, limits: Limits, state: BudgetState, readings: Mapping[Budget, Reading], now_s: float
) -> Verdict:
    """Look at the budgets anew. At most one step is taken or taken back, and that ``dwell_s`` after the last."""
    judged = _Judge(settings, state, readings, now_s)
    breaches = tuple(found for budget in readings if (found := judged.breach(budget)) is not None)
    before, after = {b.budget: b for b in state.breaches}, {b.budget: b for b in breaches}
    breached = tuple(breach for budget, breach in after.items() if budget not in before)
    cleared = tuple(
        replace(breach, p99_ms=judged.p99_ms(budget) if budget in readings else None)
        for budget, breach in before.items()
        if budget not in after
    )
    state = replace(state, breaches=breaches)
    if now_s - state.changed_at_s < settings.dwell_s:
        return Verdict(state, breached, cleared)
    if (taken := judged.next_step(breaches, limits)) is not None:
        return Verdict(judged.with_step(state, taken[1]), breached, cleared, taken=taken)
    if (undone := judged.step_to_undo(state)) is not None:
        steps = list(state.steps)
        del steps[len(steps) - 1 - steps[::-1].index(undone)]
        state = replace(state, steps=tuple(steps), changed_at_s=now_s, undone_at_s=now_s)
        return Verdict(state, breached, cleared, undone=undone)
    return Verdict(state, breached, cleared)


@dataclass(frozen=True, slots=True)
class _Judge:
    settings: BudgetSettings
    before: BudgetState
    readings: Mapping[Budget, Reading]
    now_s: float

    def breach(self, budget: Budget) -> Breach | None:
        """The breach of a budget as it stands now; None where there is none."""
        known = next((breach for breach in self.before.breaches if breach.budget == budget), None)
        if known is not None:
            over = self.now_s - known.since_s >= self.settings.dwell_s and self._calm(budget, known.since_s)
            return None if over else replace(known, p99_ms=self.p99_ms(budget) or known.p99_ms)
        if self._exceeded(budget) and self.readings[budget].over_s >= self.settings.sustained_s:
            return Breach(budget, self.p99_ms(budget), self.now_s)
        return None

    def next_step(self, breaches: tuple[Breach, ...], limits: Limits) -> tuple[Breach, Step] | None:
        """The next step for the worst breach for which there is one."""
        for breach in sorted(breaches, key=lambda b: (b.p99_ms or 0.0) / b.budget.budget_ms, reverse=True):
            segment = breach.budget.segment
            for action in getattr(self.settings.actions, segment) if self._exceeded(breach.budget) else ():
                if (step := next_step(segment, action, self.before.steps, limits)) is not None:
                    return breach, step
        return None

    def with_step(self, state: BudgetState, step: Step) -> BudgetState:
        """The state with one more step; a relapse makes taking back slower."""
        undo_after_s = state.undo_after_s if state.steps else self.settings.dwell_s
        undone_at_s = state.undone_at_s
        if self.now_s - undone_at_s < self.settings.window_s:
            undo_after_s, undone_at_s = min(2 * max(state.undo_after_s, undo_after_s), MOST_UNDO_AFTER_S), float("-inf")
        steps = (*state.steps, step)
        return replace(state, steps=steps, changed_at_s=self.now_s, undone_at_s=undone_at_s, undo_after_s=undo_after_s)

    def step_to_undo(self, state: BudgetState) -> Step | None:
        """The newest step of a segment all of whose budgets are calm; None before it is time."""
        if self.now_s - state.changed_at_s < state.undo_after_s:
            return None
        return next((step for step in reversed(state.steps) if self._all_calm(step.segment)), None)

    def _all_calm(self, segment: str) -> bool:
        breached = any(breach.budget.segment == segment for breach in self.before.breaches)
        return not breached and all(self._calm(b) for b in self.readings if b.segment == segment)

    def p99_ms(self, budget: Budget) -> float | None:
        """The P99 by which a budget is judged; None with too few samples."""
        reading = self.readings[budget]
        return reading.p99_ms if reading.samples >= self.settings.least_samples else None

    def _exceeded(self, budget: Budget) -> bool:
        return (self.p99_ms(budget) or 0.0) > budget.budget_ms

    def _calm(self, budget: Budget, since_s: float = float("-inf")) -> bool:
        """Well below the budget; or not known for a whole window, as where a step has left nothing to measure."""
        p99_ms = self.p99_ms(budget)
        if p99_ms is None:
            return self.now_s - max(since_s, self.before.changed_at_s) >= self.settings.window_s
        return p99_ms < self.settings.clear_share * budget.budget_ms
