"""The workers that have announced themselves, as the agent sees them."""

import logging
from collections import Counter
from dataclasses import dataclass

import msgspec

from pipeline.wire import topics
from pipeline.wire.messages import WorkerState

_log = logging.getLogger(__name__)
MISSED_BEATS = 3.0
"""A worker whose heartbeat stands still for this many of its own periods counts as gone."""


@dataclass(frozen=True, slots=True)
class KnownWorker:
    """A worker's last word and when (monotonic) it last proved to be alive."""

    state: WorkerState
    beat_at_s: float
    other_labels: bool = False
    """Whether its model names things otherwise than the agent's own: one object may then appear under two names."""
    target: str = ""
    """Where its requests are sent."""

    def fault(self, now_s: float) -> str:
        """Why the worker does not count as online; empty when it does."""
        if not self.state.online:
            return "offline"
        if now_s - self.beat_at_s > MISSED_BEATS * self.state.heartbeat_s:
            return "no heartbeat"
        return ""

    def remark(self, now_s: float) -> str:
        """Why it does not count as online, or what is odd about it all the same; empty when all is well."""
        return self.fault(now_s) or ("another label set" if self.other_labels else "")


class WorkerDirectory:
    """Bounded memory of announcements; a retained ``online`` ages like any other, without comparing clocks."""

    def __init__(self, most: int = 256) -> None:
        self._known: dict[str, KnownWorker] = {}
        self._most = most
        self._expected: tuple[str, str] | None = None
        self._counters: Counter[str] = Counter()

    def expect(self, model: str, label_set: str, counters: Counter[str]) -> None:
        """Say which labels a model should have; each worker where it has others is logged and counted once."""
        self._expected, self._counters = (model, label_set), counters

    def _has_other_labels(self, state: WorkerState) -> bool:
        return self._expected is not None and any(
            m.name == self._expected[0] and m.label_set != self._expected[1] for m in state.models
        )

    def heard(self, state: WorkerState, now_s: float) -> None:
        """Take in an announcement. Beyond the bound the ones longest silent are forgotten."""
        before = self._known.pop(state.worker, None)
        stands_still = before is not None and state.online and before.state.beat == state.beat
        # A will names neither models nor place: what is known of them stays.
        if before is not None and not state.online:
            state = msgspec.structs.replace(state, tier=before.state.tier, location=before.state.location)
        other_labels = self._has_other_labels(state) if state.models else bool(before and before.other_labels)
        if other_labels and not (before and before.other_labels):
            self._counters["other_label_set"] += 1
            _log.warning("worker %s has another label set than this agent: names may differ", state.worker)
        beat_at_s = before.beat_at_s if before and stands_still else now_s
        target = topics.target(state.tier, state.location)
        self._known[state.worker] = KnownWorker(state, beat_at_s, other_labels, target)
        while len(self._known) > self._most:
            del self._known[next(iter(self._known))]

    def all(self) -> list[KnownWorker]:
        return list(self._known.values())

    def serving(self, tier: str, model: str, now_s: float) -> list[KnownWorker]:
        """The workers of a tier that are online and serve a model."""
        return [
            known
            for known in self._known.values()
            if not known.fault(now_s) and known.state.tier == tier and any(m.name == model for m in known.state.models)
        ]

    def at(self, target: str, tier: str, model: str, now_s: float) -> list[KnownWorker]:
        """Of those the workers of one target."""
        return [known for known in self.serving(tier, model, now_s) if known.target == target]
