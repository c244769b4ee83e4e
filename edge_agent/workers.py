"""The workers that have announced themselves, as the agent sees them."""

from dataclasses import dataclass

from pipeline.wire.messages import WorkerState

MISSED_BEATS = 3.0
"""A worker whose heartbeat stands still for this many of its own periods counts as gone."""


@dataclass(frozen=True, slots=True)
class KnownWorker:
    """A worker's last word and when (monotonic) it last proved to be alive."""

    state: WorkerState
    beat_at_s: float

    def fault(self, now_s: float) -> str:
        """Why the worker does not count as online; empty when it does."""
        if not self.state.online:
            return "offline"
        if now_s - self.beat_at_s > MISSED_BEATS * self.state.heartbeat_s:
            return "no heartbeat"
        return ""


class WorkerDirectory:
    """Bounded memory of announcements; a retained ``online`` ages like any other, without comparing clocks."""

    def __init__(self, most: int = 256) -> None:
        self._known: dict[str, KnownWorker] = {}
        self._most = most

    def heard(self, state: WorkerState, now_s: float) -> None:
        """Take in an announcement. Beyond the bound the ones longest silent are forgotten."""
        before = self._known.pop(state.worker, None)
        stands_still = before is not None and state.online and before.state.beat == state.beat
        self._known[state.worker] = KnownWorker(state, before.beat_at_s if before and stands_still else now_s)
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
