"""Holds every camera's latency budgets against what is measured, once a second: alerts go out, levers are set."""

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import astuple

from edge_agent.camera import Camera
from edge_agent.publish import Publisher
from pipeline.alerts import Alert
from pipeline.policies.budgets import Breach, Budget, BudgetState, Verdict, judge, read
from pipeline.policies.restraint import Limits, Restraint, Step, in_words, restraint
from pipeline.timing import Clock, rfc3339, wall_time

_log = logging.getLogger(__name__)
LOOK_EVERY_S = 1.0
ALERTS_KEPT = 50


class BudgetWatch:
    """The budgets of an agent's cameras. ``light``: there is a lighter small model.

    A file that is not played in real time has nobody who waits for its answers, so nothing is watched there.
    """

    def __init__(self, cameras: Sequence[Camera], publisher: Publisher, clock: Clock, *, light: bool) -> None:
        self._cameras, self._publisher, self._clock, self._light = cameras, publisher, clock, light
        self._states = {camera.name: BudgetState() for camera in cameras}
        self._since: dict[tuple[str, Budget], str] = {}
        self.alerts: deque[Alert] = deque(maxlen=ALERTS_KEPT)
        self.counters: Counter[str] = Counter()

    def state(self, camera: str) -> BudgetState:
        """Breaches and steps of a camera."""
        return self._states[camera]

    def since(self, camera: str, budget: Budget) -> str:
        """Since when a breached budget is, RFC 3339."""
        return self._since[camera, budget]

    def restraint(self, camera: Camera) -> Restraint:
        """What is turned down for a camera."""
        return restraint(self._states[camera.name].steps)

    async def run(self) -> None:
        """Look once a second until cancelled."""
        while True:
            for camera in self._cameras:
                if not camera.patient:
                    self.look(camera)
                await asyncio.sleep(0)  # so that nothing waits for more than one camera's windows
            await asyncio.sleep(LOOK_EVERY_S)

    def look(self, camera: Camera) -> None:
        """Judge one camera's budgets now, and act on what is new."""
        settings, now_s = camera.settings.budget, self._clock.now_s()
        state = self._states[camera.name]
        since_s = state.reads_from_s(now_s, settings.window_s)
        readings = {
            budget: read(window, budget.budget_ms, now_s, since_s) for budget, window in camera.board.budgets.items()
        }
        verdict = judge(settings, self._limits(camera, now_s), state, readings, now_s)
        self._states[camera.name] = verdict.state
        self._set_levers(camera)
        self._tell(camera, verdict)

    def _limits(self, camera: Camera, now_s: float) -> Limits:
        settings, analysed_fps = camera.settings, camera.board.analysed_rate.events_per_s(now_s)
        return Limits(settings.sample_fps, settings.budget.least_sample_fps, self._light, analysed_fps)

    def _set_levers(self, camera: Camera) -> None:
        """Every second: a camera that was begun again after a fault has new levers."""
        now, levers = self.restraint(camera), camera.levers
        levers.sample_fps_most, levers.crop_scale_factor, levers.lambda_least, levers.light_model = astuple(now)

    def _tell(self, camera: Camera, verdict: Verdict) -> None:
        taken = verdict.taken
        for breach in verdict.breached:
            self._since[camera.name, breach.budget] = rfc3339(wall_time())
            step = taken[1] if taken is not None and taken[0].budget == breach.budget else None
            self._alert(camera, breach, step)
        if taken is not None and taken[0] not in verdict.breached:
            self._alert(camera, taken[0], taken[1])
        for breach in verdict.cleared:
            self._alert(camera, breach, cleared=True)
            del self._since[camera.name, breach.budget]
        self.counters["budget_breaches"] += len(verdict.breached)
        self.counters["budget_steps"] += taken is not None
        self.counters["budget_steps_undone"] += verdict.undone is not None
        if verdict.undone is not None:
            _log.info("camera %s: one step of %s is taken back", camera.name, verdict.undone.action.value)

    def _alert(self, camera: Camera, breach: Breach, step: Step | None = None, *, cleared: bool = False) -> None:
        budget = breach.budget
        alert = Alert(
            camera=camera.name,
            segment=budget.segment,
            stage=budget.stage,
            state="cleared" if cleared else "breached",
            p99_ms=None if breach.p99_ms is None else round(breach.p99_ms, 2),
            budget_ms=round(budget.budget_ms, 2),
            since=self.since(camera.name, budget),
            action=None if step is None else step.action.value,
            detail=_detail(breach, step, self.restraint(camera), cleared=cleared),
            at=rfc3339(wall_time()),
        )
        self.alerts.append(alert)
        self._publisher.alert(alert)
        _log.info("camera %s: %s", camera.name, alert.detail)


def _detail(breach: Breach, step: Step | None, now: Restraint, *, cleared: bool) -> str:
    budget = breach.budget
    what = f"{budget.segment} stage {budget.stage}" if budget.stage else budget.segment
    if breach.p99_ms is None:
        return f"{what}: too few frames pass to hold them against the budget of {budget.budget_ms:g} ms"
    measured = f"{what}: P99 of {breach.p99_ms:.1f} ms"
    if cleared:
        return f"{measured} is back below the budget of {budget.budget_ms:g} ms"
    acted = f"; {in_words(step.action, now)}" if step is not None else ""
    return f"{measured} is above the budget of {budget.budget_ms:g} ms{acted}"
