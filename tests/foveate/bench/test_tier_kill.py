"""What a death costs is counted from the frames around it, and a worker without power does nothing."""

from typing import Any

import msgspec

from edge_agent.settings import UplinkSettings
from foveate.bench.tier_agents import Played, World, play
from foveate.bench.tier_kill import death
from pipeline.results import FrameSize, Models, Result, Timings


def result(seq: int, **changes: Any) -> Result:
    one = Result(
        camera="c", epoch=1, seq=seq, captured_at="", media_ms=None, revision=0, final=True, origin="fused", reason="",
        frame=FrameSize(1, 1), detections=[], timings_ms=Timings(), deadline_ms=200.0, deadline_met=True,
        models=Models(None, None), bytes_up=0,
    )  # fmt: skip
    return msgspec.structs.replace(one, **changes)


def of(lost: set[int], asked_s: tuple[float, ...]) -> Played:
    results = tuple(result(seq, origin="edge_timeout" if seq in lost else "fused") for seq in range(100))
    return Played(results, {seq: seq / 10 for seq in range(100)}, {}, asked_s)


def test_a_death_costs_until_the_last_frame_without_an_answer() -> None:
    found = death(of({3, 49, 51}, (4.8, 4.9, 9.6)), dies_s=5.0)
    assert found is not None
    assert (round(found.degraded_s, 6), found.frames) == (0.1, 2)
    assert found.back_s is not None
    assert round(found.back_s, 6) == 0.6


def test_a_death_that_nobody_noticed_says_nothing() -> None:
    assert death(of({51}, (3.0,)), dies_s=5.0) is None


def test_a_frame_that_nobody_was_worth_asking_about_is_counted_apart() -> None:
    played = of({49, 51}, (4.9,))
    results = tuple(msgspec.structs.replace(r, reason="not_worth") if r.seq == 51 else r for r in played.results)
    found = death(Played(results, played.captured_s, {}, played.asked_s), dies_s=5.0)
    assert found is not None
    assert (found.degraded_s, found.frames, found.not_worth) == (0.0, 1, 1)


def test_a_frame_without_any_result_had_no_answer() -> None:
    played = of(set(), (4.9,))
    gone = Played(tuple(r for r in played.results if r.seq != 52), played.captured_s, {}, played.asked_s)
    found = death(gone, dies_s=5.0)
    assert found is not None
    assert found.frames == 1


def test_a_worker_without_power_takes_and_answers_nothing_until_it_is_back() -> None:
    uplink = UplinkSettings(choice="nearest")
    played = play(World("wifi", 1, uplink, 6.0, per_s=5.0, dies_s=2.0, back_s=1.0))
    assert not [at_s for at_s in played.asked_s if 2.0 < at_s < 3.0]
    assert max(played.asked_s) > 4.0
    tiers = {r.seq: r.tier for r in played.results}
    assert tiers[5] == "edge"
    assert tiers[13] == "cloud"
