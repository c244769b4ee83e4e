"""A candidate beside the current model in a running agent, on virtual time."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from edge_agent.releases.judging import JudgingSettings
from edge_agent.releases.slot import Staged
from pipeline.detections import Detections
from pipeline.frames import Image
from pipeline.policies.evidence import Gate, RolloutSettings
from pipeline.releases.standing import Command, Standing, decode_standing, encode_order
from pipeline.timing import run_virtual
from pipeline.transport.base import Outgoing
from pipeline.wire import topics
from tests.support.agents import PERSON_XYXY, Deed, Pictures, SmallModel, Stage, stage
from tests.support.detectors import VirtualRunner
from tests.support.releases import manifest_of

SURE_PERSON = ("person", 0.85, PERSON_XYXY)
OWN = manifest_of(b"own")
QUICK = JudgingSettings(
    shadow_share=1.0,
    audits_per_minute=600.0,
    audits_per_hour=36_000.0,
    hang_s=0.5,
    gate=RolloutSettings(slice_s=0.5, agreement_margin=0.3, least_with_objects=5, least_served=5),
)


class Candidate(SmallModel):
    """A scripted model with a name of its own."""

    def __init__(self, *objects: tuple[str, float, tuple[float, float, float, float]], **changes: float) -> None:
        super().__init__(*objects, run_s=changes.get("run_s", 0.01), fails_at=int(changes.get("fails_at", -1)))
        self.name = "own"


class Turns(Candidate):
    """Sees a person in the first ``good`` pictures, and nothing afterwards: its scene has changed."""

    def __init__(self, good: int) -> None:
        super().__init__(SURE_PERSON)
        self._good = good

    def detect(self, images: Sequence[Image], min_score: float) -> list[Detections]:
        found = super().detect(images, min_score)
        return found if self.runs <= self._good else [Detections.none() for _ in images]


def watched(made: Stage) -> list[Standing]:
    """What a subscriber hears of the camera's release."""
    return [decode_standing(m.payload) for m in made.heard if m.topic == topics.rollout("a1", "gate")]


async def _watch(
    candidate: Candidate | None,
    pictures: int = 60,
    deeds: Sequence[Deed] | None = (Deed(),),
    orders: Sequence[tuple[float, Command]] = (),
    then: Callable[[Stage], None] = lambda _: None,
    state_dir: Path | None = None,
    settings: JudgingSettings = QUICK,
) -> Stage:
    """Run a camera; the candidate comes after a second, orders after so many more."""
    runner = VirtualRunner(lambda: candidate.run_s if candidate is not None else 0.0)
    async with stage(
        [Pictures(pictures)],
        model=SmallModel(SURE_PERSON),
        deeds=deeds,
        rollout=settings,
        aside=runner,
        state_dir=state_dir,
    ) as made:
        running = asyncio.create_task(made.agent.run(1.0))
        await asyncio.sleep(1.0)
        if candidate is not None:
            assert made.agent.cameras[0].slot.offer(Staged(candidate, OWN, "digest")) == ""
        for after_s, command in orders:
            await asyncio.sleep(after_s)
            order = Outgoing(topics.rollout_command("a1", "gate"), encode_order(command), qos=1)
            await made.agent.links.control.publish(order)
        then(made)
        made.ends = await running
        await asyncio.sleep(0.01)
    return made


def test_a_candidate_that_is_no_worse_passes_through_every_stage_and_every_frame_is_answered() -> None:
    made = run_virtual(_watch(Candidate(SURE_PERSON), pictures=140))
    stages = list(dict.fromkeys(one.stage for one in watched(made)))
    assert stages == ["shadow", "canary", "full"]
    assert made.agent.cameras[0].slot.current.title == "own@1"
    assert len(made.results()) == made.counts().captured == 140
    assert made.counts().invariant_ok
    assert not made.drops()
    assert max(one.canary_share for one in watched(made)) <= 0.1
    assert next(one for one in watched(made) if one.stage == "full").canary_share > 0


def test_no_frame_counts_twice_however_it_came_to_be_looked_at() -> None:
    made = run_virtual(_watch(Candidate(SURE_PERSON), pictures=100))
    evidence = made.agent.cameras[0].rollout.evidence
    assert 20 < evidence.comparisons <= evidence.against[Gate.SLOW].samples <= evidence.frames


def test_a_candidate_that_sees_nothing_is_withdrawn_from_the_shadow_and_answers_no_frame() -> None:
    made = run_virtual(_watch(Candidate()))
    last = watched(made)[-1]
    assert last.stage == "withdrawn"
    assert "own@1" in last.reason
    assert last.comparisons < 40
    (alert,) = made.model_alerts()
    assert (alert.state, alert.given_up, alert.current) == ("withdrawn", "own@1", "small@1")
    assert alert.detail == last.reason
    assert all(result.models.edge == "small@1" for result in made.results())


def test_without_the_larger_model_nothing_is_promoted_and_a_blind_candidate_is_withdrawn_all_the_same() -> None:
    honest = run_virtual(_watch(Candidate(SURE_PERSON), deeds=None, pictures=70))
    assert watched(honest)[-1].stage == "shadow"
    assert watched(honest)[-1].comparisons == 0
    blind = run_virtual(_watch(Candidate(), deeds=None, pictures=70))
    assert watched(blind)[-1].stage == "withdrawn"


def test_a_candidate_that_raises_is_withdrawn_at_once_and_costs_no_frame() -> None:
    made = run_virtual(_watch(Candidate(SURE_PERSON, fails_at=0)))
    assert watched(made)[-1].stage == "withdrawn"
    assert "raised RuntimeError" in watched(made)[-1].reason
    assert len(made.results()) == 60


@pytest.mark.parametrize("command", [None, "promote"])
def test_a_candidate_that_hangs_is_withdrawn_and_costs_no_frame(command: Command | None) -> None:
    orders = () if command is None else ((0.0, command),)
    made = run_virtual(_watch(Candidate(SURE_PERSON, run_s=1e6), orders=orders))
    assert watched(made)[-1].stage == "withdrawn"
    assert "hangs" in watched(made)[-1].reason
    assert len(made.results()) == 60
    assert max(made.lateness_s()) <= 0.0
    assert set(made.origins()) <= {"fused", "edge", "cloud", "edge_shed"}


def test_a_candidate_twice_as_slow_as_it_may_be_is_withdrawn() -> None:
    made = run_virtual(_watch(Candidate(SURE_PERSON, run_s=0.02)))
    assert watched(made)[-1].stage == "withdrawn"
    assert "slower than promised" in watched(made)[-1].reason


def test_a_paused_candidate_goes_no_further_and_a_promoted_one_does() -> None:
    made = run_virtual(_watch(Candidate(SURE_PERSON), orders=[(0.5, "pause")]))
    assert watched(made)[-1].stage == "shadow"
    assert watched(made)[-1].paused
    made = run_virtual(_watch(Candidate(SURE_PERSON), orders=[(0.5, "promote"), (0.5, "promote")]))
    assert watched(made)[-1].stage == "full"


def test_a_candidate_is_rolled_back_by_command_and_so_is_the_model_it_became() -> None:
    made = run_virtual(_watch(Candidate(SURE_PERSON), orders=[(0.5, "rollback")]))
    assert watched(made)[-1].stage == "withdrawn"
    orders: list[tuple[float, Command]] = [(0.5, "promote"), (0.5, "promote"), (1.0, "rollback")]
    made = run_virtual(_watch(Candidate(SURE_PERSON), orders=orders))
    assert watched(made)[-1].stage == "rolled_back"
    assert made.results()[-1].models.edge == "small@1"


def test_what_is_no_command_is_counted_and_changes_nothing() -> None:
    def then(made: Stage) -> None:
        made.hub._route(Outgoing(topics.rollout_command("a1", "gate"), b'{"command": "explode"}'))

    made = run_virtual(_watch(Candidate(SURE_PERSON), then=then))
    assert made.agent.counters()["rollout_bad_orders"] == 1
    assert watched(made)[-1].stage in {"shadow", "canary"}


def test_a_model_of_the_cameras_own_that_stops_being_right_falls_back_and_asks_for_lessons() -> None:
    def then(made: Stage) -> None:
        made.agent.cameras[0].slot.promote()

    made = run_virtual(_watch(Turns(good=20), then=then, pictures=120))
    last = watched(made)[-1]
    assert last.stage == "fallen_back"
    assert last.learn_again
    assert [alert.state for alert in made.model_alerts()] == ["fallen_back"]
    assert made.agent.cameras[0].rollout.wants_lessons
    assert made.results()[-1].models.edge == "small@1"
    assert len(made.results()) == 120


def test_a_current_release_that_raises_is_taken_back_and_costs_no_frame() -> None:
    def then(made: Stage) -> None:
        made.agent.cameras[0].slot.promote()

    made = run_virtual(_watch(Candidate(SURE_PERSON, fails_at=20), then=then))
    assert watched(made)[-1].stage == "rolled_back"
    assert len(made.results()) == 60
    assert not made.drops()


def test_a_camera_without_a_release_asks_nothing_more_than_before() -> None:
    made = run_virtual(_watch(None))
    assert made.cloud is not None
    assert {request.epoch for request in made.cloud.requests} == {made.results()[0].epoch}
    assert watched(made) == []


def test_a_rollout_goes_on_after_a_restart_where_it_was(tmp_path: Path) -> None:
    slow = replace(QUICK, gate=replace(QUICK.gate, least_with_objects=10_000))
    first = run_virtual(_watch(Candidate(SURE_PERSON), state_dir=tmp_path, settings=slow))
    kept = first.agent.cameras[0].rollout.kept()
    assert kept.evidence is not None
    assert kept.evidence.comparisons > 0

    async def again() -> Stage:
        async with stage([Pictures(1)], model=SmallModel(SURE_PERSON), rollout=slow, state_dir=tmp_path) as made:
            camera = made.agent.cameras[0]
            camera.slot.restore(None, None, None, Staged(Candidate(SURE_PERSON), OWN, "digest"))
            await made.agent.rollouts.recall()
        return made

    rollout = run_virtual(again()).agent.cameras[0].rollout
    assert rollout.evidence == kept.evidence
    assert rollout.stage == "shadow"


def test_a_released_general_model_that_raises_beside_a_cameras_own_is_taken_back_and_costs_no_frame() -> None:
    def then(made: Stage) -> None:
        slot = made.agent.cameras[0].slot
        slot.promote()
        broken = Candidate(SURE_PERSON, fails_at=0)
        slot.offer(Staged(broken, manifest_of(b"general", "own", "2", kind="general"), "general"))
        slot.promote()

    made = run_virtual(_watch(Candidate(SURE_PERSON), then=then))
    slot = made.agent.cameras[0].slot
    assert len(made.results()) == 60
    assert not made.drops()
    assert slot.current.release == "digest"
    assert slot.general.manifest is None
    assert slot.taken_back == ("general",)


def test_where_the_model_before_raises_too_the_one_before_that_answers() -> None:
    def then(made: Stage) -> None:
        slot = made.agent.cameras[0].slot
        slot.promote()
        newer = Candidate(SURE_PERSON, fails_at=0)
        slot.offer(Staged(newer, manifest_of(b"newer", version="2"), "newer"))
        slot.promote()

    made = run_virtual(_watch(Candidate(SURE_PERSON, fails_at=0), then=then, deeds=None))
    assert len(made.results()) == 60
    assert not made.drops()
    assert made.agent.cameras[0].slot.current.manifest is None
