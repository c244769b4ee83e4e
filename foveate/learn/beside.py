"""Learning beside a live agent: what the service needs of it, and how accepted models get to it over the broker."""

import asyncio
import logging
from dataclasses import dataclass, replace
from functools import partial

from rich.console import Console

from edge_agent.agent import Agent, Links
from edge_agent.camera import Camera
from edge_agent.lessons.store import Overview
from foveate.learn.attempt_process import attempt
from foveate.learn.pupils import Terms
from foveate.learn.release import Releaser, signing_key
from foveate.learn.service import LearnService
from foveate.learn.subject import Look
from foveate.learn.training_process import NO_TORCH, can_train
from foveate.learn.values import GeneralModel, Outcome
from foveate.learn.world import World
from foveate.plan import Plan
from pipeline.releases.publisher import ReleasePublisher
from pipeline.releases.signing import TrustedKeys
from pipeline.timing import Clock, wall_time
from pipeline.transport.base import Transport

_log = logging.getLogger(__name__)


def trusting_itself(plan: Plan) -> Plan:
    """The plan of an agent that also takes the models that it learns itself; blocks. Raises ConfigError."""
    state_dir = plan.agent.state_dir
    if not plan.learn.enabled or state_dir is None:
        return plan
    releases = plan.agent.releases
    keys = tuple(dict.fromkeys([*releases.trusted_keys, signing_key(state_dir).public]))
    return replace(plan, agent=replace(plan.agent, releases=replace(releases, trusted_keys=keys)))


class CameraSubject:
    """A camera of a running agent as a ``Subject``."""

    def __init__(self, agent: Agent, camera: Camera, clock: Clock) -> None:
        self._agent, self._camera, self._clock = agent, camera, clock

    @property
    def name(self) -> str:
        return self._camera.name

    @property
    def objects(self) -> tuple[str, ...]:
        return tuple(sorted(self._camera.settings.objects))

    @property
    def threshold(self) -> float:
        return self._camera.settings.tracker.publish_score

    def overview(self) -> Overview:
        return Overview() if self._camera.taking is None else self._camera.taking.overview

    def look(self) -> Look:
        camera, slot, rollout, now_s = self._camera, self._camera.slot, self._camera.rollout, self._clock.now_s()
        return Look(
            current=slot.current.title,
            own=not slot.current.general,
            candidate=None if slot.candidate is None else slot.candidate.title,
            stage=rollout.stage,
            reason=rollout.reason,
            drifted=rollout.wants_lessons,
            agreement=self._agreement(),
            uplink_kbit_s=self._agent.uplink.bytes_per_s(camera.name) * 8 / 1000,
            look_ms=camera.board.segments(now_s)["edge"].p50_ms,
            analysed_fps=camera.board.analysed_rate.events_per_s(now_s),
        )

    def _agreement(self) -> float | None:
        """F1 of what looks now against the larger model, from whichever audits there have been."""
        camera, rollout = self._camera, self._camera.rollout
        if rollout.drift is not None and rollout.drift.recent_f1 is not None:
            return rollout.drift.recent_f1
        if camera.steer.agreement.f1 is not None:
            return camera.steer.agreement.f1
        compared = rollout.evidence.agreement
        return None if compared is None else compared[1]


@dataclass(frozen=True, slots=True, eq=False)
class Learning:
    """The service of an agent and the session that its releases go out on.

    ``ready`` is when there is something to see: before, each camera looks as if it had no model of its own.
    """

    service: LearnService
    publisher: ReleasePublisher
    session: Transport
    ready: asyncio.Event

    async def run(self) -> None:
        """Learn and release until cancelled; a fault ends the learning and nothing else."""
        try:
            await self.ready.wait()
            async with asyncio.TaskGroup() as tasks:
                for part in (self.session, self.publisher, self.service):
                    tasks.create_task(part.run())
        except Exception:  # noqa: BLE001 - whatever it is, the cameras have nothing to do with it
            _log.exception("learning has broken down and is over for this run; the cameras go on")


def learning(plan: Plan, agent: Agent, links: Links, clock: Clock, console: Console) -> Learning | None:
    """The learning of an agent as its plan says, told on a console; None where it is not to learn."""
    state_dir = plan.agent.state_dir
    if not plan.learn.enabled or state_dir is None or links.more is None:
        return None
    key, session, edge = signing_key(state_dir), links.more(), plan.edge_model
    publisher = ReleasePublisher(session, TrustedKeys([key.public]))
    releaser = Releaser(publisher, key, f"{agent.detector.name}@{agent.detector.version}")

    async def release(outcome: Outcome) -> str:
        return (await releaser.release(outcome, wall_time())).manifest.title

    general = GeneralModel(name=edge.name, input_size=edge.input_size, models_dir=plan.models_dir)
    subjects = [CameraSubject(agent, camera, clock) for camera in agent.cameras if camera.settings.lessons.enabled]
    world = World(attempt, release, partial(console.print, markup=False, soft_wrap=True))
    unusable = "" if can_train() else NO_TORCH
    service = LearnService(subjects, state_dir, Terms(plan.agent.agent, plan.learn, general), world, unusable)
    return Learning(service, publisher, session, agent.recalled)
