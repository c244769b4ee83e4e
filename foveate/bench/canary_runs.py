"""Rollouts in the real agent with the real models, on virtual time: what a fault costs until its model is withdrawn."""

import asyncio
from dataclasses import dataclass, field
from random import Random
from typing import Any

from edge_agent.agent import Agent
from edge_agent.releases.judging import JudgingSettings
from edge_agent.releases.slot import Staged
from foveate.bench.canary_models import GoesBlind, Model, as_release
from foveate.bench.playlist import Playlist
from foveate.bench.virtual import Beside, Models, Scenario, VirtualRun, default_camera, play
from pipeline.detectors.base import Detector
from pipeline.policies.evidence import Evidence, Gate, RolloutSettings
from pipeline.transport.memory import MemoryHub

OFFERED_AT_S = 3.0
UNDECIDED = ("shadow", "canary")
LOOK_EVERY_S = 0.1


@dataclass(frozen=True, slots=True)
class Rollout:
    """What became of a candidate, or of a camera's own model.

    ``requests`` are the frames that its end was decided on (since it went bad): comparisons by the larger model's
    answers, or looks of both models where the gate needs no more. ``exposed`` is the share of the frames answered by a
    model meanwhile that it answered, ``unanswered`` the frames of the run without an answer.
    """

    stage: str
    reason: str
    requests: int
    exposed: float
    unanswered: int
    took_s: float


@dataclass(slots=True, eq=False)
class Trial:
    """One candidate in one run. ``offline`` cuts the agent off from its broker as the candidate comes.

    ``goes_blind`` has the candidate promoted to a canary by command, and blind from its first answers on.
    """

    playlist: Playlist
    models: Models
    candidate: Model
    slower: float = 1.0
    offline: bool = False
    goes_blind: GoesBlind | None = None
    judging: JudgingSettings = field(default_factory=JudgingSettings)
    found: list[Any] = field(default_factory=list)

    def run(self) -> Rollout:
        """Play until it is decided, or to the end."""
        rng = Random(1)
        beside = Beside(self._act, lambda: self.slower * self.models.times.edge.draw_s(rng), self.judging)
        played = play(Scenario(self.playlist, default_camera(self.playlist)), self.models, beside)
        if not self.found:
            raise RuntimeError(f"the run was over before {self.candidate.name} was offered")
        offered_s, rollout, before = self.found
        return Rollout(
            stage=rollout.stage,
            reason=rollout.reason,
            requests=requests(rollout.evidence, rollout.settings.gate, before),
            exposed=exposed(played, self.candidate, offered_s),
            unanswered=unanswered(played),
            took_s=rollout_s(played, offered_s),
        )

    async def _act(self, agent: Agent, hub: MemoryHub) -> None:
        await asyncio.sleep(OFFERED_AT_S)
        camera, loop = agent.cameras[0], asyncio.get_running_loop()
        self.found = [loop.time(), camera.rollout, Evidence()]
        if self.offline:
            hub.stop()
        camera.slot.offer(as_release(self.candidate))
        while camera.rollout.stage in UNDECIDED:
            await asyncio.sleep(LOOK_EVERY_S)
            if self.goes_blind is not None:
                self._spoil(camera.rollout)
        await asyncio.sleep(1.0)
        agent.stop()

    def _spoil(self, rollout: Any) -> None:
        if rollout.stage == "shadow" and rollout.evidence.comparisons >= 10:
            rollout.command("promote")
        elif self.goes_blind is not None and not self.goes_blind.blind and rollout.evidence.served:
            self.goes_blind.blind = True
            self.found[2] = rollout.evidence


def drift(playlist: Playlist, models: Models, own: Model, judging: JudgingSettings, moved_s: float) -> Rollout:
    """A camera whose own model, long promoted, meets another scene at ``moved_s``: the audits until it falls back."""
    found: list[Any] = []

    async def act(agent: Agent, _hub: MemoryHub) -> None:
        loop, rollout = asyncio.get_running_loop(), agent.cameras[0].rollout
        began_s = loop.time()
        await asyncio.sleep(moved_s)
        found[:] = [began_s + moved_s, rollout, 0 if rollout.drift is None else rollout.drift.audits, 0]
        while rollout.drift is not None:
            found[3] = rollout.drift.audits
            await asyncio.sleep(LOOK_EVERY_S)
        await asyncio.sleep(1.0)
        agent.stop()

    with_own = Models(models.small, models.large, models.times, as_release(own))
    beside = Beside(act, lambda: models.times.edge.median_s, judging)
    played = play(Scenario(playlist, default_camera(playlist)), with_own, beside)
    moved_at_s, rollout, before, after = found
    audits = after + 1 - before
    return Rollout(rollout.stage, rollout.reason, audits, 0.0, unanswered(played), rollout_s(played, moved_at_s))


def requests(evidence: Evidence, settings: RolloutSettings, before: Evidence) -> int:
    """The frames that the gate which gave the candidate up has seen since ``before``; the comparisons where none did,
    and one where it was given up at once.
    """
    fired = [gate for gate in Gate if evidence.against[gate].refutes(settings.alpha(gate))]
    if fired:
        return min(evidence.against[gate].samples - before.against[gate].samples for gate in fired)
    return max(1, evidence.comparisons - before.comparisons)


def exposed(played: VirtualRun, candidate: Detector, since_s: float) -> float:
    """The share of the frames that a model answered since then which the candidate answered."""
    title = Staged(candidate).title
    asked = [r for seq, r in played.record.items() if played.captured_s[seq] >= since_s and r.models.edge is not None]
    return sum(result.models.edge == title for result in asked) / len(asked) if asked else 0.0


def unanswered(played: VirtualRun) -> int:
    """Frames without an answer, but for those under way as the run was stopped."""
    over_s = max(played.captured_s.values()) - 1.0
    return sum(seq not in played.record for seq, at_s in played.captured_s.items() if at_s < over_s)


def rollout_s(played: VirtualRun, since_s: float) -> float:
    """How long the run went on since then."""
    return max(played.captured_s.values()) - since_s
