"""An agent with a worker on site and one in the cloud: whom it asks, and what it does when one of them fails."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from edge_agent.questions import Question
from edge_agent.settings import UplinkSettings
from edge_agent.target_figures import TargetFigures
from pipeline.frames import FrameKey
from pipeline.policies.tier_cost import PRESETS, Tier, Weights
from pipeline.policies.tier_offers import Privacy
from pipeline.timing import run_virtual
from pipeline.transport.base import Message
from pipeline.transport.memory import MemoryHub
from pipeline.wire import topics
from pipeline.wire.codec import decode_echo
from pipeline.wire.messages import Refusal, Request, WireCrop
from tests.support.agents import HEIGHT, MODEL, WIDTH, Cloud, Deed, Pictures, Stage, camera, stage
from tests.support.detectors import grey_picture, jpeg_of

DEADLINE_S = 0.2
QUICK, SLOW = Deed(0.02), Deed(0.07)


def on_site(*deeds: Deed, **announced: Any) -> Callable[[MemoryHub], Cloud]:
    return lambda hub: Cloud(hub, deeds, name="e", tier="edge", **announced)


def played(
    *others: Callable[[MemoryHub], Cloud],
    frames: int = 45,
    happens: Callable[[Stage], Awaitable[None]] | None = None,
    **changes: Any,
) -> Stage:
    """Run an agent with a cloud worker and others, and see that its account balances; ``happens`` goes on beside it."""

    async def main() -> Stage:
        sources = [Pictures(frames) for _ in changes.get("cameras", [None])]
        async with stage(sources, others=others, **({"deeds": (SLOW,)} | changes)) as made:
            beside = asyncio.ensure_future(happens(made)) if happens else None
            made.ends = await made.agent.run(1.0)
            await asyncio.sleep(3.0)  # for what is late
            if beside is not None:
                await beside
            check_account(made)
        return made

    return run_virtual(main())


def asked(made: Stage) -> tuple[int, int]:
    """How many requests the worker on site and that in the cloud have had."""
    assert made.cloud is not None
    return len(made.others[0].requests), len(made.cloud.requests)


def check_account(made: Stage) -> None:
    """Every question has ended once, and every frame was answered once."""
    counts = made.agent.uplink.requests()
    assert (counts.in_flight, counts.asked) == (0, counts.answered + counts.settled + counts.fell_back)
    first = [result.seq for result in made.results() if result.revision == 0]
    assert sorted(first) == sorted(set(first))


def of_targets(made: Stage, figure: Callable[[TargetFigures], int]) -> dict[str, int]:
    """A figure of each target that the agent knows."""

    async def figures() -> dict[str, int]:
        return {each.target: figure(each) for each in made.agent.uplink.target_figures()}

    return run_virtual(figures())


def target_names(made: Stage) -> set[str]:
    """The targets that the agent knows."""
    return set(of_targets(made, lambda each: each.asked))


async def until(made: Stage, scene_s: float) -> None:
    """Wait until so long after the first frame."""
    while not made.sources[0].first_s:  # noqa: ASYNC110 - a script has no event for it
        await asyncio.sleep(0.01)
    await asyncio.sleep(made.sources[0].first_s + scene_s - asyncio.get_running_loop().time())


def second_looked(made: Stage) -> dict[int, bool]:
    """By frame, whether a larger model's answer was there in time."""
    return {r.seq: r.origin in ("fused", "cloud") for r in made.results() if r.revision == 0}


SLOW_AND_THIRSTY = on_site(Deed(0.05), energy_j=0.5)


@pytest.mark.parametrize(
    ("choice", "weights", "on_site_is_asked"),
    [
        ("weighted", "latency", False),
        ("weighted", "energy", False),
        ("weighted", "bandwidth", True),
        ("nearest", "balanced", True),
        ("fastest", "balanced", False),
    ],
)
def test_who_is_asked_follows_from_the_weights(choice: str, weights: str, on_site_is_asked: bool) -> None:
    uplink = UplinkSettings(choice=choice, weights=PRESETS[weights])
    made = played(SLOW_AND_THIRSTY, deeds=(QUICK,), uplink=uplink)
    near, far = asked(made)
    assert near + far >= 40
    assert (near > 10 * max(1, far)) if on_site_is_asked else (far > 10 * max(1, near))


def test_where_only_one_target_is_known_it_is_asked_at_any_cost() -> None:
    made = played(deeds=(Deed(0.1),), uplink=UplinkSettings(weights=PRESETS["bandwidth"]))
    alone = played(on_site(QUICK, energy_j=50.0), deeds=None, uplink=UplinkSettings(weights=PRESETS["energy"]))
    assert made.cloud is not None
    assert len(made.cloud.requests) >= 40
    assert len(alone.others[0].requests) >= 40
    assert made.agent.uplink.plan("gate") == alone.agent.uplink.plan("gate") == ()


def test_a_tier_that_is_not_configured_is_not_asked() -> None:
    made = played(on_site(QUICK), uplink=UplinkSettings(tiers=frozenset({Tier.CLOUD}), choice="nearest"))
    assert asked(made)[0] == 0
    assert target_names(made) == {"cloud"}


def test_workers_of_one_tier_at_two_places_are_two_targets() -> None:
    yard = on_site(Deed(0.09), location="yard")
    made = played(yard, lambda hub: Cloud(hub, (QUICK,), name="e2", tier="edge", location="hall"), deeds=None)
    assert target_names(made) == {"edge@hall", "edge@yard"}
    assert len(made.others[1].requests) > 10 * max(1, len(made.others[0].requests))


NEAREST = UplinkSettings(choice="nearest")


def test_the_death_of_the_worker_on_site_costs_no_more_than_one_deadline_of_answers() -> None:
    killed_s, back_s = 3.0, 6.0

    async def happens(made: Stage) -> None:
        await until(made, killed_s)
        made.others[0].dead = True
        await until(made, back_s)
        made.others[0].dead = False

    made = played(on_site(QUICK), frames=100, uplink=NEAREST, happens=happens)
    looked = second_looked(made)
    lost_s = [seq / 10 for seq, good in looked.items() if not good and seq > 3]
    assert all(killed_s - DEADLINE_S <= at_s <= killed_s + DEADLINE_S for at_s in lost_s)
    start_s = made.sources[0].first_s
    assert made.cloud is not None
    assert made.cloud.asked_at_s[0] - start_s - killed_s <= DEADLINE_S
    assert max(made.others[0].asked_at_s) - start_s > 9.5, "it is asked again once it is alive"
    assert made.agent.uplink.counters["moved_overdue"] >= 1


def test_what_is_under_way_moves_when_the_worker_on_site_says_goodbye() -> None:
    async def happens(made: Stage) -> None:
        await until(made, 3.05)
        made.others[0].dead = True  # with a request under way
        await made.others[0].tell(online=False)

    made = played(on_site(Deed(0.08)), uplink=NEAREST, happens=happens)
    assert all(good for seq, good in second_looked(made).items() if seq > 3)
    assert made.agent.uplink.counters["moved_gone"] == 1


@pytest.mark.parametrize("refusal", [Refusal.QUEUE_FULL, Refusal.INFEASIBLE, Refusal.STOPPING, Refusal.FAILED])
def test_what_one_worker_refuses_is_asked_of_another(refusal: Refusal) -> None:
    refusing = Deed(0.01, refused=refusal)
    made = played(on_site(*[QUICK] * 20, *[refusing] * 200), uplink=NEAREST)
    assert all(good for seq, good in second_looked(made).items() if seq > 3)
    assert made.agent.uplink.counters[f"moved_{refusal.value}"] >= 1
    assert len(made.others[0].requests) < 40, "one that refuses again and again is left alone"


def test_a_request_that_both_could_answer_is_answered_once_and_cancelled_at_the_other() -> None:
    hesitant = [QUICK] * 30 + [Deed(0.15)] * 3  # longer than nearly all before: asked elsewhere meanwhile
    made = played(on_site(*hesitant, QUICK), uplink=NEAREST, deeds=(Deed(0.03),))
    assert made.cloud is not None
    assert len(made.cloud.requests) >= 1
    assert made.others[0].cancelled >= 1
    assert made.agent.uplink.counters["surplus"] >= 1
    assert all(good for seq, good in second_looked(made).items() if seq > 3)


def test_what_a_camera_forbids_is_asked_of_nobody_else_even_when_the_worker_on_site_dies() -> None:
    async def happens(made: Stage) -> None:
        await asyncio.sleep(2.0)
        made.others[0].dead = True

    private = camera(privacy=Privacy(frozenset({Tier.DEVICE, Tier.EDGE})))
    made = played(on_site(QUICK), cameras=[private], happens=happens)
    near, far = asked(made)
    assert near >= 15
    assert far == 0
    assert {result.reason for result in made.results()} >= {"cloud_overdue", "circuit_open"}


def test_where_the_only_worker_is_in_a_forbidden_tier_nobody_is_asked() -> None:
    made = played(cameras=[camera(privacy=Privacy(frozenset({Tier.DEVICE, Tier.EDGE})))])
    assert made.cloud is not None
    assert made.cloud.requests == []
    assert {(result.origin, result.reason) for result in made.results()} == {("edge", "forbidden")}


SOON_AND_WELL = Weights(latency=5.0, bytes=0.01, energy=0.0, shortfall=4.0)


def test_a_quick_answer_settles_a_frame_and_a_better_one_after_it_corrects_it() -> None:
    uplink = UplinkSettings(weights=SOON_AND_WELL, edge_model="lesser", edge_shortfall=0.05)
    unseen = on_site(replace(QUICK, sees=False), model="lesser")
    made = played(unseen, frames=80, deeds=(Deed(0.12),), uplink=uplink, cameras=[camera(revisions=True)])
    near, far = asked(made)
    assert near == 80
    assert far >= 45, "of the first frames only the worker on site is known"
    first = [r for r in made.results() if r.revision == 0 and 35 <= r.seq < 79]
    revised = [r for r in made.results() if r.revision > 0]
    assert {r.tier for r in first} == {"edge"}
    assert max(r.timings_ms.total or 0.0 for r in first) < 60
    assert not any(r.final for r in first)
    assert {(r.tier, r.deadline_met, len(r.detections)) for r in revised} == {("cloud", True, 1)}
    assert {r.seq for r in revised} >= {r.seq for r in first}
    assert made.agent.uplink.plan("gate") == ("edge", "cloud")


def test_two_stages_can_be_switched_off() -> None:
    uplink = UplinkSettings(weights=SOON_AND_WELL, edge_model="lesser", edge_shortfall=0.05, two_stage=False)
    made = played(on_site(QUICK, model="lesser"), deeds=(Deed(0.12),), uplink=uplink)
    assert sum(asked(made)) <= 46


def test_each_change_of_plan_is_told_with_its_reason(caplog: pytest.LogCaptureFixture) -> None:
    async def happens(made: Stage) -> None:
        await asyncio.sleep(3.0)
        made.others[0].dead = True

    with caplog.at_level("INFO", "edge_agent.tier_choice"):
        played(on_site(QUICK), frames=50, uplink=NEAREST, happens=happens)
    said = [record.getMessage() for record in caplog.records if record.name == "edge_agent.tier_choice"]
    assert said[:2] == [
        "camera gate: questions about a mosaic go to edge instead of nobody (only)",
        "camera gate: questions about a mosaic go to cloud instead of edge (only; edge: closed)",
    ]


DEEDS = st.lists(
    st.builds(
        Deed,
        st.sampled_from([0.01, 0.05, 0.12, 0.25, 1.0, None]),
        refused=st.sampled_from([None, None, None, Refusal.QUEUE_FULL, Refusal.STOPPING, Refusal.EXPIRED]),
    ),
    min_size=1,
    max_size=12,
)


@given(
    near=DEEDS,
    far=DEEDS,
    turns=st.lists(st.tuples(st.floats(0.05, 1.0), st.sampled_from(["near", "far", "broker", "goodbye"])), max_size=6),
    lesser=st.booleans(),
    choice=st.sampled_from(["weighted", "nearest", "fastest"]),
)
@hypothesis_settings(max_examples=10, deadline=None)
def test_whatever_fails_each_question_ends_once(
    near: list[Deed], far: list[Deed], turns: list[tuple[float, str]], lesser: bool, choice: str
) -> None:
    async def happens(made: Stage) -> None:
        assert made.cloud is not None
        for wait_s, what in turns:
            await asyncio.sleep(wait_s)
            if what == "broker":
                made.hub.stop()
                await asyncio.sleep(0.1)
                made.hub.start()
            elif what == "goodbye":
                await made.others[0].tell(online=False)
            else:
                worker = made.others[0] if what == "near" else made.cloud
                worker.dead = not worker.dead

    model = "lesser" if lesser else None
    uplink = UplinkSettings(choice=choice, weights=SOON_AND_WELL, edge_model=model, edge_shortfall=0.05)
    made = played(
        on_site(*near, model=model or MODEL), frames=20, deeds=far, uplink=uplink, happens=happens,
        cameras=[camera(revisions=True)],
    )  # fmt: skip
    assert len(second_looked(made)) + sum(made.drops().values()) == 20


def test_a_target_that_nobody_asks_is_measured_by_probes() -> None:
    alone, both = played(uplink=NEAREST), played(on_site(QUICK), uplink=NEAREST)
    assert alone.agent.uplink.counters["echoes"] == 0
    assert both.agent.uplink.counters["echoes"] >= 4
    assert asked(both)[1] == 0


def test_where_no_target_is_worth_it_by_the_weights_crops_are_not_even_drawn() -> None:
    thirsty = lambda hub: Cloud(hub, (QUICK,), name="c", energy_j=20.0)  # noqa: E731 - one of two alike
    made = played(on_site(QUICK, energy_j=20.0), thirsty, deeds=None, uplink=UplinkSettings(weights=PRESETS["energy"]))
    ends = [(r.origin, r.reason, r.timings_ms.encode) for r in made.results() if r.seq > 5]
    assert set(ends) == {("edge", "not_worth", None)}


def test_bytes_to_the_worker_on_site_are_not_billed_and_those_to_the_cloud_are() -> None:
    uplink = UplinkSettings(choice="fastest", uplink_kbps=8.0, burst_s=2.0)
    made = played(on_site(Deed(0.05)), deeds=(QUICK,), uplink=uplink)
    near, far = asked(made)
    assert near > far, "the cloud is faster, and there are no bytes for it"
    assert far >= 1
    free = played(on_site(Deed(0.05)), deeds=(QUICK,), uplink=replace(uplink, uplink_kbps=None))
    assert asked(free)[1] > 3 * max(1, asked(free)[0])


def test_a_patient_camera_moves_what_is_refused_and_waits_for_it() -> None:
    async def main() -> Stage:
        files = [Pictures(30, live=False)]
        near = on_site(*[QUICK] * 10, Deed(0.01, refused=Refusal.STOPPING))
        async with stage(files, others=[near], deeds=(SLOW,), uplink=NEAREST) as made:
            made.ends = await made.agent.run(1.0)
            check_account(made)
        return made

    made = run_virtual(main())
    assert all(second_looked(made).values())
    assert asked(made)[0] >= 11
    assert asked(made)[1] >= 10


@pytest.mark.parametrize("private", [False, True])
def test_one_lost_answer_is_no_reason_to_ask_nobody_where_nobody_else_could_answer(private: bool) -> None:
    tiers = frozenset({Tier.DEVICE, Tier.EDGE}) if private else frozenset(Tier)
    lossy = on_site(*[QUICK] * 20, Deed(None), QUICK)

    async def happens(made: Stage) -> None:
        await asyncio.sleep(1.0)
        assert made.cloud is not None
        await made.cloud.tell(online=False)

    made = played(lossy, uplink=NEAREST, cameras=[camera(privacy=Privacy(tiers))], happens=happens)
    lost = [seq for seq, good in second_looked(made).items() if not good and seq > 5]
    assert len(lost) == 1


def test_cameras_that_all_come_to_a_worker_at_once_are_no_overload_of_it() -> None:
    async def happens(made: Stage) -> None:
        await until(made, 0.5)
        await made.others[0].tell(online=False)
        await until(made, 2.5)
        await made.others[0].tell(online=True)

    six = [camera(f"c{number}") for number in range(6)]
    made = played(on_site(Deed(0.08)), frames=60, cameras=six, uplink=NEAREST, happens=happens)
    assert made.cloud is not None
    start_s = made.sources[0].first_s
    far_s = [at_s - start_s for at_s in made.cloud.asked_at_s]
    early, late = [at_s for at_s in far_s if at_s < 0.5], [at_s for at_s in far_s if at_s > 4.7]
    assert (len(early), len(late)) == (0, 0), "of 30 and 78 questions"
    assert len(far_s) > 200


def test_what_waits_for_its_turn_moves_too_when_the_worker_on_site_says_goodbye() -> None:
    async def happens(made: Stage) -> None:
        await until(made, 3.115)  # with a request under way for 5 ms more, and one behind it
        made.others[0].dead = True
        await made.others[0].tell(online=False)

    uplink = replace(NEAREST, in_flight=1)
    made = played(on_site(Deed(0.11)), uplink=uplink, happens=happens, deeds=(Deed(0.01),))
    assert made.agent.uplink.counters["moved_gone"] == 2
    assert second_looked(made)[31]


class Leaving(Cloud):
    """Says goodbye, and what it has in hand right after that."""

    async def _reply(self, message: Message, request: Request, deed: Deed) -> None:
        if len(self.requests) == 20:
            await self.tell(online=False)
        await super()._reply(message, request, deed)


def test_what_a_worker_answers_on_leaving_is_asked_of_nobody_else() -> None:
    made = played(lambda hub: Leaving(hub, (QUICK,), name="e", tier="edge"), uplink=NEAREST, frames=20)
    assert asked(made) == (20, 0)
    assert made.agent.uplink.counters["moved_gone"] == 1


def test_a_cancelled_request_is_no_refusal_of_the_target() -> None:
    slow = Deed(0.15, refused=Refusal.CANCELLED)
    made = played(on_site(*[QUICK] * 30, *[slow] * 3, QUICK), uplink=NEAREST, deeds=(Deed(0.03),))
    assert made.agent.uplink.counters["refused_cancelled"] >= 1
    assert set(of_targets(made, lambda each: each.refused).values()) == {0}


def test_a_dead_worker_is_not_probed_more_often_because_others_announce_themselves() -> None:
    async def happens(made: Stage) -> None:
        assert made.cloud is not None
        await until(made, 2.0)
        made.others[0].dead = True
        for _ in range(200):
            await asyncio.sleep(0.02)
            await made.cloud.tell(online=True)

    private = camera(privacy=Privacy(frozenset({Tier.DEVICE, Tier.EDGE})))
    made = played(on_site(QUICK), frames=60, cameras=[private], happens=happens)
    sent = [m for m in made.heard if m.topic == topics.request("edge", MODEL) and decode_echo(m.payload) is not None]
    assert "circuit_open" in {result.reason for result in made.results()}
    assert len(sent) < 15


def test_a_question_on_trial_that_goes_to_the_larger_model_does_not_change_whom_a_camera_asks(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def happens(made: Stage) -> None:
        crop, jpeg = WireCrop((0, 0, 64, 64), (10, 10, 64, 64)), jpeg_of(grey_picture(80))
        for number in range(5):
            await until(made, 2.05 + number)
            settle_at_s = asyncio.get_running_loop().time() + DEADLINE_S
            key = FrameKey("gate", 0, number)
            await made.agent.uplink.ask(
                Question(key, "mosaic", WIDTH, HEIGHT, (crop,), jpeg, settle_at_s, 1.0, trial=True)
            )

    uplink, lesser = replace(NEAREST, edge_model="lesser"), on_site(QUICK, model="lesser")
    third = lambda hub: Cloud(hub, (SLOW,), name="w2", location="there")  # noqa: E731 - there is a choice for trials too
    with caplog.at_level("INFO", "edge_agent.tier_choice"):
        made = played(lesser, third, frames=80, uplink=uplink, happens=happens)
    assert made.cloud is not None
    assert len(made.cloud.requests) + len(made.others[1].requests) == 5
    changes = [text for text in caplog.messages if "about a mosaic go" in text]
    assert changes == ["camera gate: questions about a mosaic go to edge instead of nobody (only)"]
