"""What whole frames measure of the small model, and what follows from it for who is asked."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from edge_agent.lessons.settings import LessonSettings
from edge_agent.releases.judging import JudgingSettings
from edge_agent.releases.slot import Staged
from edge_agent.settings import CameraSettings, UplinkSettings
from pipeline.policies.tier_cost import PRESETS, Tier, Weights
from pipeline.policies.tier_offers import Privacy
from pipeline.timing import run_virtual
from pipeline.transport.memory import MemoryHub
from tests.support.agents import MODEL, PERSON_XYXY, Cloud, Deed, Pictures, SmallModel, Stage, camera, stage
from tests.support.releases import manifest_of

QUICK = Deed(0.02)
SURE_PERSON = ("person", 0.6, PERSON_XYXY)
ELSEWHERE = ("person", 0.6, (140.0, 40.0, 180.0, 140.0))


def on_site(deed: Deed, **announced: Any) -> Callable[[MemoryHub], Cloud]:
    return lambda hub: Cloud(hub, (deed,), name="e", tier="edge", **announced)


def searching(**changes: Any) -> CameraSettings:
    """A camera that shows a whole frame twice a second."""
    plain = camera(**changes)
    return replace(plain, offload=replace(plain.offload, full_frame_s=0.5, trial_share=0.0))


async def until(made: Stage, scene_s: float) -> None:
    while not made.sources[0].first_s:  # noqa: ASYNC110 - a script has no event for it
        await asyncio.sleep(0.01)
    await asyncio.sleep(made.sources[0].first_s + scene_s - asyncio.get_running_loop().time())


def test_a_camera_that_found_crops_not_worth_it_asks_again_once_whole_frames_show_that_it_misses_something() -> None:
    model = SmallModel(SURE_PERSON)

    async def main() -> Stage:
        near, far = (on_site(QUICK, energy_j=0.5), lambda hub: Cloud(hub, (QUICK,), name="c", energy_j=0.5))
        async with stage(
            [Pictures(200)],
            model=model,
            others=[near, far],
            deeds=None,
            uplink=UplinkSettings(weights=PRESETS["energy"]),
            cameras=[searching()],
        ) as made:
            running = asyncio.create_task(made.agent.run(1.0))
            await until(made, 10.0)
            model.objects = (ELSEWHERE,)
            made.ends = await running
        return made

    made = run_virtual(main())
    reasons = {seq: result.reason for seq, result in enumerate(made.results())}
    assert {reasons[seq] for seq in range(80, 100)} == {"not_worth", "search_for_missed"}
    assert "not_worth" not in {reasons[seq] for seq in range(180, 200)}


SOON_AND_WELL = Weights(latency=5.0, bytes=0.01, energy=0.0, shortfall=4.0)
TWO_MODELS = UplinkSettings(weights=SOON_AND_WELL, edge_model="lesser", edge_shortfall=0.05)


async def _two_models(
    private: CameraSettings, state_dir: Path | None = None, candidate: SmallModel | None = None
) -> Stage:
    """A lesser model on site, which sees what the small model sees, and the larger one, which sees nothing; perhaps a
    ``candidate`` that is to be judged.
    """
    near = on_site(QUICK, model="lesser")
    blind = Deed(0.1, sees=False)
    async with stage(
        [Pictures(60)],
        model=SmallModel(SURE_PERSON),
        others=[near],
        deeds=(blind,),
        uplink=TWO_MODELS,
        cameras=[private],
        state_dir=state_dir,
        rollout=JudgingSettings(shadow_share=1.0, audits_per_minute=600.0),
    ) as made:
        running = asyncio.create_task(made.agent.run(1.0))
        await asyncio.sleep(1.0)
        if candidate is not None:
            assert made.agent.cameras[0].slot.offer(Staged(candidate, manifest_of(b"own"), "digest")) == ""
        made.ends = await running
        await asyncio.sleep(1.0)
    return made


@pytest.mark.parametrize("tiers", [frozenset(Tier), frozenset({Tier.DEVICE, Tier.EDGE})])
def test_a_lesser_models_answers_to_whole_frames_are_no_measure_of_the_small_model(tiers: frozenset[Tier]) -> None:
    made = run_virtual(_two_models(searching(privacy=Privacy(tiers))))
    frames = [request for request in made.others[0].requests if request.kind == "frame"]
    assert len(frames) >= 8
    assert {request.model for request in frames} == {"lesser"}
    assert made.agent.cameras[0].steer.agreement.audits == 0


def test_lessons_are_taught_by_the_larger_model_alone(tmp_path: Path) -> None:
    lessons = LessonSettings(enabled=True, most_per_minute=0.0, least_apart_s=0.0)
    both = run_virtual(_two_models(searching(lessons=lessons), tmp_path / "both"))
    at_home = Privacy(frozenset({Tier.DEVICE, Tier.EDGE}))
    near = run_virtual(_two_models(searching(lessons=lessons, privacy=at_home), tmp_path / "near"))
    teachers = []
    for made in (both, near):
        taking = made.agent.cameras[0].taking
        assert taking is not None
        teachers.append(taking.teacher)
    assert teachers == [f"{MODEL}@1", ""]


@pytest.mark.parametrize("larger", [False, True])
def test_a_release_is_judged_by_the_larger_model_alone(larger: bool) -> None:
    tiers = frozenset(Tier) if larger else frozenset({Tier.DEVICE, Tier.EDGE})
    made = run_virtual(_two_models(searching(privacy=Privacy(tiers)), candidate=SmallModel(ELSEWHERE)))
    assert "frame" in {request.kind for request in made.others[0].requests}
    assert (made.agent.cameras[0].rollout.evidence.comparisons > 0) is larger
