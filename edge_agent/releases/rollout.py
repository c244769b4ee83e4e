"""One camera's rollout: evidence is gathered, the gate is asked, the slot is told. On the event loop alone.

Decisions are pure (``pipeline/policies/rollout.py``, ``drift.py``); models look in ``edge_agent/releases/shadow.py``.
"""

import logging
from dataclasses import replace

from edge_agent.releases.audits import Audit, Audits, Sight
from edge_agent.releases.judging import JudgingSettings, Marks
from edge_agent.releases.promise import promised_ratio, released_f1
from edge_agent.releases.rollout_files import Kept, identity
from edge_agent.releases.slot import ModelSlot, SlotEvent, SlotEventKind, Staged
from edge_agent.releases.unproven import Unproven
from pipeline.policies.comparison import compare, frame_score
from pipeline.policies.drift import Drift, judge_drift
from pipeline.policies.evidence import Evidence, Looks
from pipeline.policies.rollout import RolloutGate, Stage, serves
from pipeline.releases.standing import Command, StageName
from pipeline.timing import rfc3339, wall_time

_log = logging.getLogger(__name__)
_ENDED: dict[SlotEventKind, StageName] = {
    SlotEventKind.PROMOTED: "full",
    SlotEventKind.WITHDRAWN: "withdrawn",
    SlotEventKind.ROLLED_BACK: "rolled_back",
    SlotEventKind.FELL_BACK: "fallen_back",
}


class CameraRollout:
    """See the module. ``wants_lessons``: the camera's own model has stopped being right, and a new one is wanted.

    ``changes`` counts what is worth telling and keeping.
    """

    def __init__(self, slot: ModelSlot, unproven: Unproven, settings: JudgingSettings, marks: Marks) -> None:
        self.slot, self.unproven, self.settings, self.marks = slot, unproven, settings, marks
        self.audits = Audits()
        self.evidence = Evidence()
        self.drift: Drift | None = None
        self.stage: StageName = "none"
        self.reason, self.refused, self.paused, self.wants_lessons = "", "", False, False
        self.since = rfc3339(wall_time())
        self.changes = 0
        self._watched, self._ordered = slot.current, False
        slot.listen(self._happened)

    @property
    def camera(self) -> str:
        return self.slot.camera

    @property
    def judging(self) -> bool:
        """Whether there is a candidate."""
        return self.slot.candidate is not None

    @property
    def watching(self) -> bool:
        """Whether a model of the camera's own answers, which may stop being right."""
        return not self.slot.current.general

    @property
    def wanted(self) -> tuple[Staged, ...]:
        """The models that are to look at an audited frame."""
        slot, found = self.slot, []
        if slot.candidate is not None:
            found += [slot.candidate, slot.replaced]
        if self.watching:
            found += [slot.current, slot.general]
        return tuple(dict.fromkeys(found))

    @property
    def undecided(self) -> bool:
        """Whether the candidate was judged for so long that it is only looked at now and then."""
        return RolloutGate(self.settings.gate).too_long(self.evidence)

    def serves(self, now_s: float) -> bool:
        """Whether the candidate is to answer the frame at hand."""
        if self.stage != "canary" or self.paused or self.unproven.busy:
            return False
        return serves(self.camera, now_s, self.evidence, self.settings.gate)

    def answered(self, staged: Staged) -> None:
        """Count a frame that this model has answered."""
        if self.judging:
            self.evidence = self.evidence.answered(by_candidate=staged is self.slot.candidate)
        self.check()

    def check(self) -> None:
        """Withdraw a candidate that has raised, hangs, or gives what is no detection: at once. Promote one for which
        that was ordered during a look.
        """
        if self.judging and (fault := self.unproven.fault()):
            self.slot.withdraw(fault)
        elif self._ordered:
            self._promote("it was promoted by command")

    def seen(self, audit: Audit, sight: Sight) -> None:
        """Take in one more look at a frame."""
        audit.sights[sight.staged] = sight
        pair = self._pair(audit)
        if pair is not None and not audit.paired:
            audit.paired = True
            candidate, current = pair
            publish = self.marks.publish_score
            looks = Looks(
                candidate.took_ms,
                current.took_ms,
                self.marks.room_ms,
                not (candidate.found.score >= publish).any(),
                not (current.found.score >= publish).any(),
            )
            self.evidence = self.evidence.looked(looks, self._promised_ratio(), self.settings.gate)
            self.judge()
        self._close(audit)

    def heard(self, audit: Audit) -> None:
        """The larger model's answer to an audit is there."""
        self._close(audit)

    def _close(self, audit: Audit) -> None:
        """Compare what is compared, once all have looked at the frame."""
        if audit.missing(self.wanted) is not None or (audit.asked and audit.teacher is None):
            return
        self.audits.drop(audit.key)
        if audit.teacher is None:
            return
        if (pair := self._pair(audit)) is not None:
            found = compare(
                pair[0].found, pair[1].found, audit.teacher, self.marks.publish_score, self.marks.sure_score
            )
            self.evidence = self.evidence.compared(found, self.settings.gate)
            self.changes += 1
            self.judge()
        if self.watching and self.slot.current in audit.sights:
            self._watch(audit)

    def _pair(self, audit: Audit) -> tuple[Sight, Sight] | None:
        """The looks of the candidate and of what it is to replace."""
        candidate = self.slot.candidate
        if candidate is None or candidate not in audit.sights or self.slot.replaced not in audit.sights:
            return None
        return audit.sights[candidate], audit.sights[self.slot.replaced]

    def _promised_ratio(self) -> float:
        candidate = self.slot.candidate
        return 1.0 if candidate is None else promised_ratio(candidate.manifest, self.slot.replaced.manifest)

    def judge(self) -> None:
        """Ask the gate about the candidate, and do what it says."""
        self.check()
        if not self.judging:
            return
        gate = self.settings.gate
        if self.slot.replaced is not self.slot.current:
            gate = replace(gate, least_served=0)  # it would answer no frame here
        stage, ratio = Stage(self.stage), self._promised_ratio()
        decision = RolloutGate(gate).decide(stage, self.evidence, ratio, paused=self.paused)
        if decision.stage is Stage.WITHDRAWN:
            self.slot.withdraw(decision.reason)
        elif decision.too_long and self.slot.waiting:
            self.slot.give_way()
        elif decision.stage is Stage.FULL:
            self._promote(decision.reason)
        elif decision.stage.value != self.stage:
            self._went("canary" if decision.stage is Stage.CANARY else "shadow", decision.reason)
        else:
            self.reason = decision.reason

    def _promote(self, reason: str) -> None:
        """Put the candidate in its place, but not while it looks on its own thread: the next comparison comes soon."""
        if self.unproven.busy:
            return
        self.reason = reason
        self.slot.promote()

    def _watch(self, audit: Audit) -> None:
        """Hold the camera's own model against the larger one, and against the general model."""
        drift = self.drift or Drift(released_f1(self.slot.current.manifest))
        scores = {
            staged: frame_score(sight.found, audit.teacher, self.marks.publish_score, self.marks.sure_score).f1
            for staged, sight in audit.sights.items()
            if audit.teacher is not None
        }
        self.drift = drift.add(scores[self.slot.current], scores.get(self.slot.general), self.settings.drift)
        self.changes += 1
        decision = judge_drift(self.drift, self.settings.drift)
        if decision.kind == "fall_back":
            self.slot.fall_back(decision.reason)
            self.wants_lessons = True
        elif decision.kind == "learn_again":
            self.drift = Drift(self.drift.recent_f1 or self.drift.released_f1)
            self.wants_lessons = True
            _log.warning("camera %s: a new model is wanted: %s", self.camera, decision.reason)

    def command(self, command: Command) -> str:
        """Do what somebody has ordered; what came of it, in a sentence."""
        candidate = self.slot.candidate
        if command == "rollback":
            if candidate is not None:
                self.slot.withdraw("it was taken back by command")
            elif self.slot.current.manifest is not None:
                self.slot.rollback("it was taken back by command")
            else:
                return f"camera {self.camera} has no release to take back"
        elif candidate is None:
            return f"camera {self.camera} has no candidate to {command}"
        elif command == "pause":
            self.paused, self.reason, self._ordered = True, "it is paused by command", False
            self.changes += 1
        else:
            self._promote_by_command()
        if self._ordered:
            return f"camera {self.camera}: its release is promoted as soon as the look that is under way has ended"
        return f"camera {self.camera}: {command} is done, its release is {self.stage}"

    def _promote_by_command(self) -> None:
        self.paused = False
        if self.stage == "shadow":
            self._went("canary", "it was promoted by command")
        else:
            self._ordered = True
            self.check()

    def _happened(self, event: SlotEvent) -> None:
        """Begin or end a rollout as the slot tells, whoever moved it."""
        if event.kind is SlotEventKind.REFUSED:
            self.refused = f"{event.model}: {event.reason}"
            self.changes += 1
            return
        self.audits.clear()
        self._ordered = False
        if event.kind is SlotEventKind.OFFERED:
            self.evidence, self.paused, self.refused = Evidence(), False, ""
            self.unproven.begin()
            self._went("shadow", f"{event.model} looks at the frames that {self.slot.replaced.title} answers")
            return
        self._watch_anew(event.kind)
        if self.judging:  # the current model has gone: the candidate is to be compared with another one
            self.evidence = Evidence()
            self._went("shadow", f"{event.model}: {event.reason}")
            return
        self._went(_ENDED[event.kind], f"{event.model}: {event.reason or self.reason}")

    def _watch_anew(self, kind: SlotEventKind) -> None:
        """Begin to audit a model that is new in its place, and forget what another has shown."""
        before, self._watched = self._watched, self.slot.current
        if self.slot.current is before:
            if kind is not SlotEventKind.WITHDRAWN and self.drift is not None:
                self.drift = self.drift.beside_another()  # the general model behind it has changed
        elif kind is SlotEventKind.PROMOTED:
            agreement = self.evidence.agreement
            released = released_f1(self.slot.current.manifest) if agreement is None else agreement[0]
            self.drift, self.wants_lessons = Drift(released), False
        else:
            self.drift = None

    def _went(self, stage: StageName, reason: str) -> None:
        self.stage, self.reason, self.since = stage, reason, rfc3339(wall_time())
        self.changes += 1
        level = logging.WARNING if stage in ("withdrawn", "rolled_back", "fallen_back") else logging.INFO
        _log.log(level, "camera %s: the release is %s: %s", self.camera, stage, reason)

    def kept(self) -> Kept:
        """What is to outlive a restart."""
        candidate = self.slot.candidate
        return Kept(
            camera=self.camera,
            stage=self.stage,
            since=self.since,
            reason=self.reason,
            paused=self.paused,
            candidate="" if candidate is None else identity(candidate),
            evidence=None if candidate is None else self.evidence,
            watched=identity(self.slot.current) if self.watching else "",
            drift=self.drift,
            learn_again=self.wants_lessons,
            refused=self.refused,
        )

    def recall(self, kept: Kept) -> None:
        """Go on from before a restart, with the models that the slot has got back; ahead of the first frame."""
        candidate, current = self.slot.candidate, self.slot.current
        self.refused, self.wants_lessons = kept.refused, kept.learn_again
        if self.watching and kept.watched == identity(current):
            self.drift = kept.drift
        if candidate is not None and kept.candidate == identity(candidate) and kept.evidence is not None:
            self.evidence, self.paused = kept.evidence, kept.paused
            self.stage, self.reason, self.since = kept.stage, kept.reason, kept.since
        elif candidate is None and not kept.candidate:
            self.stage, self.reason, self.since = kept.stage, kept.reason, kept.since

    def begin(self) -> None:
        """Ahead of the first frame: what the slot has kept and nothing is known of, since the power went, is told."""
        self._watched = self.slot.current
        if not self.judging and self.stage == "none" and self._watched.manifest is not None:
            self._went("full", f"{self._watched.title} was in use before")
        if self.judging and self.stage not in ("shadow", "canary"):
            self._went("shadow", f"{self.slot.candidate.title if self.slot.candidate else ''} begins anew")
