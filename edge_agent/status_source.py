"""The agent as the status page sees it: a value made from counters, on demand."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from edge_agent.agent import Agent
from edge_agent.board import Board
from edge_agent.camera import Camera
from edge_agent.drawing import annotated_jpeg
from edge_agent.frame_work import drawn_scale
from edge_agent.releases.rollout import CameraRollout
from edge_agent.releases.rollouts import standing
from edge_agent.status.queues import queue_statuses
from edge_agent.status.reuse import ReuseStatus
from edge_agent.status.snapshot import (
    AgentStatus,
    AttainmentStatus,
    BreachStatus,
    CameraStatus,
    CropsStatus,
    LearningPoint,
    LearningSource,
    PathStatus,
    Percentiles,
    RolloutStatus,
    WorkerStatus,
)
from edge_agent.status.tiers import target_statuses, tiers_status
from edge_agent.status.ways import path_status, steering_status
from edge_agent.workers import KnownWorker
from pipeline.metrics.histogram import LogHistogram
from pipeline.metrics.little import QueueFlow
from pipeline.policies.restraint import in_words
from pipeline.results import CameraState
from pipeline.timing import Clock, rfc3339, wall_time

_READY_STATES = frozenset({CameraState.LIVE, CameraState.FINISHED, CameraState.DARK, CameraState.FROZEN})


class AgentStatusSource:
    """Implements StatusSource for a running agent."""

    def __init__(
        self, agent: Agent, broker: str, version: str, clock: Clock, learning: LearningSource | None = None
    ) -> None:
        self._agent, self._broker, self._version, self._clock = agent, broker, version, clock
        self._learning = learning

    def picture(self, camera: str) -> tuple[int, bytes] | None:
        board = next((c.board for c in self._agent.cameras if c.name == camera), None)
        picture = board.picture if board is not None else None  # once: this is a thread, and it changes
        return None if picture is None else (picture.result.seq, annotated_jpeg(picture))

    def learning_curve(self, camera: str) -> Sequence[LearningPoint]:
        return () if self._learning is None else self._learning.curve(camera)

    def status(self) -> AgentStatus:
        agent, now_s = self._agent, self._clock.now_s()
        link = agent.links.control.state
        ready_reason = self._unready()
        return AgentStatus(
            agent=agent.settings.agent,
            version=self._version,
            started=rfc3339(agent.started),
            now=rfc3339(wall_time()),
            broker=self._broker,
            broker_connected=link.connected,
            broker_reason=link.reason,
            cloud=self._cloud(),
            cameras=[self._camera(camera, now_s) for camera in agent.cameras],
            workers=[_worker(known, now_s) for known in agent.uplink.workers.all()],
            models=self._models(),
            ready=not ready_reason,
            ready_reason=ready_reason,
            alerts=list(reversed(agent.budget_watch.alerts)),
            segments=_together([camera.board for camera in agent.cameras if not camera.patient], now_s),
            counters=agent.counters(),
            queues=queue_statuses(self._flows(now_s), agent.uplink.workers.all()),
            paths=self._paths(now_s),
            targets=target_statuses(agent.uplink.target_figures()),
            bytes_leaving_site=sum(camera.board.departures.leaving_site_bytes for camera in agent.cameras),
        )

    def _paths(self, now_s: float) -> list[PathStatus]:
        ways = (path_status(link.target.name, link.path, now_s) for link in self._agent.uplink.links())
        return [way for way in ways if way is not None]

    def _flows(self, now_s: float) -> Iterator[tuple[str, QueueFlow | None]]:
        yield from ((camera.work.name, camera.work.flow()) for camera in self._agent.cameras)
        links = self._agent.uplink.links()
        for link in links:
            yield "uplink" if len(links) == 1 else f"uplink {link.target.name}", link.waiting.flow(now_s)

    def _models(self) -> dict[str, str]:
        usual, light = self._agent.detector, self._agent.light
        models = {"edge": f"{usual.name}@{usual.version}"}
        return models if light is None else models | {"lighter": f"{light.name}@{light.version}+light"}

    def _cloud(self) -> str:
        asks = any(camera.settings.mode != "edge_only" for camera in self._agent.cameras)
        return self._agent.uplink.main.circuit.circuit.value if asks else "off"

    def _unready(self) -> str:
        if not self._agent.links.control.state.connected:
            return f"the broker is not connected: {self._agent.links.control.state.reason}"
        states = [camera.board.state for camera in self._agent.cameras]
        if not any(state in _READY_STATES for state in states):
            return "no camera is live: " + ", ".join(f"{c.name} is {c.board.state.value}" for c in self._agent.cameras)
        return ""

    def _camera(self, camera: Camera, now_s: float) -> CameraStatus:
        board: Board = camera.board
        counts = board.ledger.snapshot()
        return CameraStatus(
            name=camera.name,
            title=camera.settings.title or camera.name,
            state=board.state.value,
            reason=board.reason,
            since=rfc3339(board.since),
            captured=counts.captured,
            capture_fps=board.captured_rate.events_per_s(now_s),
            analysed_fps=board.analysed_rate.events_per_s(now_s),
            finals=counts.finals,
            drops=counts.drops,
            in_flight=counts.in_flight,
            deadline_ms=camera.deadline_ms,
            deadline_hit_ratio=board.hit_ratio,
            latency=board.recent_latency(now_s),
            segments=board.segments(now_s),
            lambda_edge=board.lambda_edge,
            uplink_kbit_s=self._agent.uplink.bytes_per_s(camera.name) * 8 / 1000,
            counts=board.counts,
            picture_seq=board.picture.result.seq if board.picture else None,
            attainment=_attainment(camera),
            steering=steering_status(camera.steer, camera.router),
            crops=_crops(camera),
            reuse=_reuse(camera),
            rollout=_rollout(self._agent.settings.agent, camera.rollout),
            tiers=tiers_status(camera.settings, board, self._plan(camera)),
            learning=None if self._learning is None else self._learning.status(camera.name),
            **self._budgets(camera),
        )

    def _plan(self, camera: Camera) -> Sequence[str]:
        """Whom a camera asks; where only one target can be, no plan is held to."""
        uplink, settings = self._agent.uplink, camera.settings
        plan, privacy = uplink.plan(camera.name), settings.privacy
        if settings.mode == "edge_only":
            return ()
        there = [one for one in uplink.target_figures() if one.workers]
        if plan:  # it is held to also while nobody can be asked
            return plan if {one.target for one in there} >= set(plan) else ()
        may = [one.target for one in there if privacy.hindrance(one.tier, masked=privacy.masks) is None]
        return may if len(may) == 1 else ()

    def _budgets(self, camera: Camera) -> dict[str, Any]:
        """The fields of a camera's budgets; empty where they are not watched."""
        if camera.patient:
            return {}
        watch = self._agent.budget_watch
        state, now = watch.state(camera.name), watch.restraint(camera)
        steps = Counter(step.action for step in state.steps)
        return {
            "budgets_ms": {b.segment: b.budget_ms for b in camera.board.budgets if b.stage is None},
            "breaches": [
                BreachStatus(b.segment, b.stage, breach.p99_ms, b.budget_ms, watch.since(camera.name, b))
                for breach in state.breaches
                for b in [breach.budget]
            ],
            "turned_down": {action.value: in_words(action, now) for action in steps},
            "steps": {action.value: count for action, count in steps.items()},
        }


def _crops(camera: Camera) -> CropsStatus:
    arm, scale = camera.arms.learned.current, drawn_scale(camera.arms.drawing.mosaic, camera.levers.crop_scale_factor)
    return CropsStatus(padding=arm.padding, scale=scale, quality=arm.quality, trials=camera.arms.trials)


def _reuse(camera: Camera) -> ReuseStatus | None:
    if not camera.settings.reuse.enabled:
        return None
    counts = camera.board.reuse
    return ReuseStatus(
        spared=counts.spared,
        answered=counts.answered,
        hit_ratio=counts.hit_ratio,
        mean_ms=counts.mean_ms,
        most_bits=counts.most_bits,
        disagreement=counts.disagreement,
    )


def _rollout(agent: str, rollout: CameraRollout) -> RolloutStatus | None:
    if rollout.stage == "none" and not rollout.refused:
        return None
    now = standing(agent, rollout)
    return RolloutStatus(
        stage=now.stage,
        reason=now.reason,
        since=now.since,
        paused=now.paused,
        current=now.current,
        candidate=now.candidate,
        comparisons=now.comparisons,
        candidate_f1=now.judged["candidate"].f1,
        current_f1=now.judged["current"].f1,
        canary_share=now.canary_share,
        audits=now.audits,
        refused=now.refused,
    )


def _attainment(camera: Camera) -> AttainmentStatus:
    found, sla = camera.board.attainment, camera.settings.budget.sla
    return AttainmentStatus(
        within_ms=sla.within_ms or camera.deadline_ms,
        target=sla.share,
        accepted=found.accepted,
        hit_edge=found.hit_edge,
        hit_cloud=found.hit_cloud,
        share=found.share,
        met=found.met(sla.share),
    )


def _together(boards: Iterable[Board], now_s: float) -> dict[str, Percentiles]:
    """The segments over all these cameras: their windows, merged."""
    merged: dict[str, LogHistogram] = {}
    for board in boards:
        for budget, window in board.budgets.items():
            if budget.stage is None:
                merged.setdefault(budget.segment, LogHistogram()).merge(window.recent(now_s))
    return {name: Percentiles(one.percentile(50), one.percentile(99), one.count) for name, one in merged.items()}


def _worker(known: KnownWorker, now_s: float) -> WorkerStatus:
    state, fault = known.state, known.fault(now_s)
    return WorkerStatus(
        worker=state.worker,
        online=not fault,
        reason=known.remark(now_s),
        tier=state.tier,
        models=[f"{m.name}@{m.version}" for m in state.models],
        queue_length=state.queue_length,
        infer_ms_p95=state.infer_ms_p95,
        location=state.location,
        wait_ms=state.wait_ms,
        batches=state.batches,
        reuse=state.reuse,
    )
