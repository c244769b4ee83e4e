"""Latency budgets of a running agent: a slow segment raises an alert and turns the camera down, and back up again."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import pytest

from edge_agent.levers import Levers
from pipeline.alerts import Alert
from pipeline.policies.budgets import BudgetSettings, SegmentActions, StageBudgets
from pipeline.policies.restraint import Action
from pipeline.timing import run_virtual
from tests.support.agents import UNSURE_PERSON, Deed, Pictures, SmallModel, Stage, camera, play, stage

QUICK = BudgetSettings(window_s=10.0, least_samples=6, sustained_s=1.0, dwell_s=2.0)
SLOWER = replace(QUICK, actions=SegmentActions(edge=(Action.LOWER_SAMPLE_RATE,)))
LIGHTER = replace(QUICK, actions=SegmentActions(edge=(Action.LIGHT_MODEL,)))
CALM_S, SLOW_S, AFTERWARDS_S = 5, 20, 40


def states(alerts: Sequence[Alert]) -> list[str]:
    return [alert.state for alert in alerts]


class Noted:
    """The levers of a camera, second by second."""

    def __init__(self) -> None:
        self.levers: list[Levers] = []

    async def watch(self, made: Stage) -> None:
        while True:
            await asyncio.sleep(1.0)
            now = made.agent.cameras[0].levers
            self.levers.append(Levers(now.sample_fps_most, now.crop_scale_factor, now.lambda_least, now.light_model))


@cache
def slowed(budget: BudgetSettings, light: SmallModel | None = None) -> tuple[Stage, Noted]:
    """A camera whose small model takes 60 ms instead of 10 for a while; its budget is 40."""
    return run_virtual(_slowed(budget, light))


async def _slowed(budget: BudgetSettings, light: SmallModel | None) -> tuple[Stage, Noted]:
    model, noted = SmallModel(UNSURE_PERSON), Noted()
    pictures = Pictures((CALM_S + SLOW_S + AFTERWARDS_S) * 10)
    async with stage([pictures], model=model, cameras=[camera(budget=budget)], light=light) as made:
        watching = asyncio.create_task(noted.watch(made))
        running = asyncio.create_task(made.agent.run(1.0))
        await asyncio.sleep(CALM_S)
        model.run_s = 0.06
        await asyncio.sleep(SLOW_S)
        model.run_s = 0.01
        await running
        watching.cancel()
    return made, noted


def test_a_segment_above_its_budget_raises_one_alert_and_one_when_it_has_cleared() -> None:
    made, noted = slowed(QUICK)
    breached, cleared = made.alerts()
    assert (breached.state, breached.segment, breached.stage, breached.action) == ("breached", "edge", None, None)
    assert breached.budget_ms == 40.0
    assert breached.p99_ms == pytest.approx(60.0, rel=0.05)
    assert breached.since <= breached.at
    assert "edge: P99 of 6" in breached.detail
    assert "above the budget of 40 ms" in breached.detail
    assert (cleared.state, cleared.since) == ("cleared", breached.since)
    assert cleared.p99_ms is not None
    assert cleared.p99_ms < 32.0
    assert set(map(repr, noted.levers)) == {repr(Levers())}, "nothing acts unless it is told to"


def test_alerts_are_not_retained() -> None:
    made, _ = slowed(QUICK)
    assert [m.retain for m in made.heard if m.topic == "foveate/gate/alert"] == [False, False]


def test_the_action_of_a_breach_is_taken_step_by_step_and_undone_when_it_clears() -> None:
    made, noted = slowed(SLOWER)
    rates = [levers.sample_fps_most for levers in noted.levers]
    assert rates[: CALM_S - 1] == [None] * (CALM_S - 1)
    steps = [rate for rate, before in zip(rates, [None, *rates], strict=False) if rate != before]
    assert steps == [5.0, 2.5, 1.25, 1.0, 1.25, 2.5, 5.0, None]
    assert states(made.alerts()) == ["breached"] * 4 + ["cleared"]
    assert [alert.action for alert in made.alerts()] == ["lower_sample_rate"] * 4 + [None]
    assert "at most 5 frames per second are analysed" in made.alerts()[0].detail
    counters = made.agent.counters()
    assert (counters["budget_breaches"], counters["budget_steps"], counters["budget_steps_undone"]) == (1, 4, 4)


def test_fewer_frames_are_analysed_while_the_sample_rate_is_lowered() -> None:
    made, _ = slowed(SLOWER)
    analysed = [r.seq for r in made.results() if r.origin != "carried"]
    before = sum(seq < CALM_S * 10 for seq in analysed)
    late = sum((CALM_S + SLOW_S - 5) * 10 <= seq < (CALM_S + SLOW_S) * 10 for seq in analysed)
    assert before == CALM_S * 10
    assert late <= 10, "few in the last five seconds of the slow time"


def test_the_lighter_model_looks_and_results_name_it() -> None:
    light = SmallModel(UNSURE_PERSON)
    made, noted = slowed(LIGHTER, light)
    assert {result.models.edge for result in made.results()} == {"small@1", "small@1+light"}
    assert light.runs == sum(result.models.edge == "small@1+light" for result in made.results())
    assert [levers.light_model for levers in noted.levers][-1] is False


def test_without_a_lighter_model_none_looks() -> None:
    model = SmallModel(UNSURE_PERSON, run_s=0.06)
    made = run_virtual(play(Pictures(80), model=model, cameras=[camera(budget=LIGHTER)]))
    assert [alert.action for alert in made.alerts()] == [None]
    assert not made.agent.cameras[0].levers.light_model


def test_a_breached_stage_is_named_in_its_alert() -> None:
    model, budget = SmallModel(UNSURE_PERSON, run_s=0.06), replace(QUICK, stages_ms=StageBudgets(edge=50.0))
    made = run_virtual(play(Pictures(80), model=model, cameras=[camera(budget=budget)]))
    assert {(alert.stage, alert.budget_ms) for alert in made.alerts()} == {(None, 40.0), ("edge", 50.0)}


def test_answers_that_come_too_late_count_against_the_budget_of_the_network() -> None:
    made = run_virtual(play(Pictures(120), deeds=[Deed(delay_s=0.4)], cameras=[camera(budget=QUICK)]))
    assert set(made.origins()) <= {"edge_timeout", "edge", "edge_shed"}
    assert [(a.segment, a.state) for a in made.alerts()] == [("network", "breached")]
    assert (made.alerts()[0].p99_ms or 0.0) > 300.0


def test_budgets_that_are_switched_off_are_not_watched() -> None:
    model = SmallModel(UNSURE_PERSON, run_s=0.06)
    made = run_virtual(play(Pictures(80), model=model, cameras=[camera(budget=replace(QUICK, enabled=False))]))
    assert len(made.results()) == 80
    assert made.alerts() == []


def test_a_file_that_is_not_played_in_real_time_is_not_watched() -> None:
    model = SmallModel(UNSURE_PERSON, run_s=0.5)
    made = run_virtual(play(Pictures(60, live=False), model=model, cameras=[camera(budget=QUICK)]))
    assert len(made.results()) == 60
    assert made.alerts() == []


def test_a_camera_that_is_begun_again_is_turned_down_as_before() -> None:
    async def main() -> float | None:
        model = SmallModel(UNSURE_PERSON, run_s=0.06)
        first, second = Pictures(600), Pictures(100)
        async with stage([first, second], model=model, cameras=[camera(budget=SLOWER)]) as made:
            running = asyncio.create_task(made.agent.run(1.0))
            await asyncio.sleep(5)
            one = made.agent.cameras[0]
            before = one.levers
            one.renew(second)
            assert one.levers is not before
            await asyncio.sleep(1.5)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            return one.levers.sample_fps_most

    assert run_virtual(main()) is not None


def test_alerts_wait_for_the_broker_and_come_in_order() -> None:
    async def main() -> Stage:
        model = SmallModel(UNSURE_PERSON, run_s=0.06)
        async with stage([Pictures(220)], model=model, cameras=[camera(budget=SLOWER)], broker_up=False) as made:
            running = asyncio.create_task(made.agent.run(1.0))
            await asyncio.sleep(18)
            assert made.alerts() == []
            made.hub.start()
            await running
            await asyncio.sleep(0.01)
        return made

    alerts = run_virtual(main()).alerts()
    assert [alert.at for alert in alerts] == sorted(alert.at for alert in alerts)
    assert len(alerts) > 1
