"""The rollouts of an agent's cameras: told to whoever listens, commanded over MQTT, kept on disk."""

import asyncio
import logging
from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Literal, Protocol

import msgspec

from edge_agent.context import Tools
from edge_agent.releases.judging import Marks
from edge_agent.releases.rollout import CameraRollout
from edge_agent.releases.rollout_files import RolloutFiles
from edge_agent.releases.slot import ModelSlot, SlotEvent, SlotEventKind
from edge_agent.releases.unproven import Unproven
from edge_agent.settings import AgentSettings, CameraSettings
from pipeline.alerts import ModelAlert
from pipeline.policies.rollout import progress
from pipeline.releases.standing import Audited, Role, Standing, decode_order, encode_standing
from pipeline.timing import rfc3339, wall_time
from pipeline.transport.base import Message, Outgoing, Transport
from pipeline.wire import topics

_log = logging.getLogger(__name__)
LOOK_EVERY_S = 1.0
SAVE_EVERY_S = 10.0
MOST_ORDER_BYTES = 1000
_GIVEN_UP: dict[SlotEventKind, Literal["withdrawn", "rolled_back", "fallen_back"]] = {
    SlotEventKind.WITHDRAWN: "withdrawn",
    SlotEventKind.ROLLED_BACK: "rolled_back",
    SlotEventKind.FELL_BACK: "fallen_back",
}


def new_rollout(slot: ModelSlot, settings: CameraSettings, tools: Tools, *, patient: bool) -> CameraRollout:
    """The rollout of a camera; where a file is read as fast as it can be, nothing must be done in time."""
    room_ms = settings.patience_ms if patient else settings.deadline_ms - tools.settle_margin_s * 1000
    marks = Marks(settings.tracker.publish_score, tools.sure_score, room_ms)
    judging = tools.judging
    return CameraRollout(slot, Unproven(tools.pools.aside, tools.clock, judging.hang_s), judging, marks)


class Outlet(Protocol):
    """Keeps a retained message up to date at the broker, and sends alerts; ``Publisher`` does."""

    def retain(self, outgoing: Outgoing) -> None: ...

    def alert(self, alert: ModelAlert) -> None: ...


class Rollouts:
    """See the module. A camera's standing goes out when something has changed, at most once a second; that a model was
    given up is an alert too.
    """

    def __init__(
        self, settings: AgentSettings, rollouts: Sequence[CameraRollout], control: Transport, out: Outlet
    ) -> None:
        self._agent, self._rollouts, self._out = settings.agent, rollouts, out
        self._groups, self._site = {camera.name: camera.group for camera in settings.cameras}, settings.releases.site
        self._files = None if settings.state_dir is None else RolloutFiles(settings.state_dir / "rollouts")
        self._told: dict[str, int] = {}
        self._saved: dict[str, tuple[int, int]] = {}
        self.counters: Counter[str] = Counter(rollout_orders=0, rollout_bad_orders=0)
        for rollout in rollouts:
            control.subscribe(
                topics.rollout_command(self._agent, rollout.camera), partial(self._ordered, rollout), qos=1
            )
            rollout.slot.listen(partial(self._happened, rollout.slot))

    def _ordered(self, rollout: CameraRollout, message: Message) -> None:
        """Handle a command; a retained one is from before, and nobody may still want it."""
        if message.retain:
            return
        try:
            order = decode_order(message.payload[:MOST_ORDER_BYTES])
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            self.counters["rollout_bad_orders"] += 1
            _log.warning("camera %s: a message on %s is no command: %s", rollout.camera, message.topic, error)
            return
        self.counters["rollout_orders"] += 1
        _log.info("%s", rollout.command(order.command))

    def _happened(self, slot: ModelSlot, event: SlotEvent) -> None:
        if (state := _GIVEN_UP.get(event.kind)) is not None:
            detail, now = f"{event.model}: {event.reason}", rfc3339(wall_time())
            alert = ModelAlert(
                camera=slot.camera, state=state, given_up=event.model, current=slot.current.title, detail=detail, at=now
            )
            self._out.alert(alert)

    async def recall(self) -> None:
        """Go on from before a restart; after the slots have got their models back, ahead of the first frame."""
        for rollout in self._rollouts:
            if self._files is not None:
                kept = await asyncio.to_thread(self._files.read, rollout.camera)
                if kept is not None:
                    rollout.recall(kept)
            rollout.begin()

    async def run(self) -> None:
        """Tell and save what has changed, until cancelled."""
        seconds = 0.0
        while True:
            for rollout in self._rollouts:
                rollout.check()
                self._tell(rollout)
            if seconds >= SAVE_EVERY_S:
                await self.save()
                seconds = 0.0
            await asyncio.sleep(LOOK_EVERY_S)
            seconds += LOOK_EVERY_S

    def _tell(self, rollout: CameraRollout) -> None:
        if self._told.get(rollout.camera, 0) == rollout.changes:
            return
        self._told[rollout.camera] = rollout.changes
        topic = topics.rollout(self._agent, rollout.camera)
        now, group = standing(self._agent, rollout), self._groups.get(rollout.camera, "")
        body = encode_standing(msgspec.structs.replace(now, group=group, site=self._site))
        self._out.retain(Outgoing(topic, body, qos=1, retain=True))

    async def save(self) -> None:
        """Write what has changed."""
        files = self._files
        if files is None:
            return
        for rollout in self._rollouts:
            # What a canary has answered counts too: after a restart it would have its tenth once more.
            now = rollout.changes, rollout.evidence.frames if rollout.judging else 0
            if self._saved.get(rollout.camera, (0, 0)) != now:
                self._saved[rollout.camera] = now
                await asyncio.to_thread(files.write, rollout.kept())


def standing(agent: str, rollout: CameraRollout) -> Standing:
    """How a camera's release stands now."""
    slot, evidence, drift = rollout.slot, rollout.evidence, rollout.drift
    return Standing(
        agent=agent,
        camera=rollout.camera,
        stage=rollout.stage,
        paused=rollout.paused,
        candidate="" if slot.candidate is None else slot.candidate.title,
        current=slot.current.title,
        reason=rollout.reason,
        since=rollout.since,
        at=rfc3339(wall_time()),
        comparisons=evidence.comparisons,
        with_objects=evidence.with_objects,
        judged=_judged(rollout),
        evidence=progress(evidence, rollout.settings.gate),
        canary_share=round(evidence.served / evidence.frames, 4) if evidence.frames else 0.0,
        audits=0 if drift is None else drift.audits,
        drift=None if drift is None else Audited(f1=_rounded(drift.recent_f1)),
        released_f1=None if drift is None else _rounded(drift.released_f1),
        learn_again=rollout.wants_lessons,
        refused=rollout.refused,
    )


def _judged(rollout: CameraRollout) -> dict[Role, Audited]:
    agreement, p95_ms = rollout.evidence.agreement or (None, None), rollout.evidence.p95_ms or (None, None)
    return {
        "candidate": Audited(f1=_rounded(agreement[0]), p95_ms=_rounded(p95_ms[0])),
        "current": Audited(f1=_rounded(agreement[1]), p95_ms=_rounded(p95_ms[1])),
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)
