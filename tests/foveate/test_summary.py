"""The summary of a run."""

import io
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from edge_agent.board import Board
from edge_agent.departures import Place
from foveate.children import Usage
from foveate.plan import NetworkSettings
from foveate.summary import show, summary
from pipeline.frames import FrameKey
from pipeline.policies.budgets import BudgetSettings, SlaSettings
from pipeline.policies.tier_cost import Tier
from pipeline.results import CameraState, DropReason, Origin, Timings
from tests.support.records import result

USAGE = {"agent": Usage(12.346, 100.04), "worker": Usage(2.0, 50.0), "broker": Usage(0.1, 10.0)}


def camera(
    name: str,
    origins: list[str],
    stopped: int = 0,
    total_ms: float = 50.0,
    sla: SlaSettings | None = None,
    reason: str = "",
) -> Any:
    """A camera that has ended: one frame per origin, and some that were under way."""
    budget = BudgetSettings(sla=sla or SlaSettings())
    board = Board(datetime(2026, 1, 1, tzinfo=UTC), within_ms=budget.sla.within_ms)
    for seq, origin in enumerate(origins):
        key = FrameKey(name, 1, seq)
        board.ledger.capture(key)
        board.captured(seq * 0.1)
        board.ledger.final(key, Origin(origin))
        met = total_ms <= 200
        if reason == "edge_late" or origin != "carried":
            board.looks.ended(Origin(origin))
        board.published(
            result(seq, reason=reason, origin=origin, timings_ms=Timings(total=total_ms), deadline_met=met), seq * 0.1
        )
    for seq in range(len(origins), len(origins) + stopped):
        board.ledger.capture(FrameKey(name, 1, seq))
    board.ledger.drop_open(DropReason.STOPPED)
    board.bytes_up = 1000 * len(origins)
    board.jpeg_sample(70_000)
    board.went(CameraState.FINISHED, "the file ended", datetime(2026, 1, 1, tzinfo=UTC))
    remark = board.looks.remark(200.0, 20.0)
    return SimpleNamespace(
        name=name, board=board, deadline_ms=200.0, remark=remark, settings=SimpleNamespace(budget=budget)
    )


def test_it_adds_up_the_cameras_and_keeps_each() -> None:
    found = summary(
        [camera("a", ["fused", "edge", "carried"]), camera("b", ["cloud", "carried"], stopped=1)], USAGE, {}
    )
    assert found["captured"] == 6
    assert found["finals"] == {"fused": 1, "edge": 1, "carried": 2, "cloud": 1}
    assert found["drops"] == {"stopped": 1}
    assert found["in_flight"] == 0
    assert found["invariant_ok"] is True
    assert found["bytes_up"] == 5000
    assert found["jpeg_all_bytes"] == 6 * 70_000
    assert found["lambda_edge"] == pytest.approx(1 / 3, abs=1e-4)
    assert found["deadline_hit_ratio"] == 1.0
    assert found["cpu_s"] == {"agent": 12.35, "worker": 2.0, "broker": 0.1}
    assert found["rss_mb"] == {"agent": 100.0, "worker": 50.0, "broker": 10.0}
    assert found["cameras"]["a"]["captured"] == 3
    assert found["cameras"]["b"]["drops"] == {"stopped": 1}
    assert found["cameras"]["a"]["state"] == "finished"


def test_what_went_to_which_tier_and_who_answered_is_told_together_and_for_each_camera() -> None:
    home, away = camera("home", ["edge", "fused"]), camera("away", ["fused"])
    home.board.departures.add(Place(Tier.EDGE, "hall"), 300)
    away.board.departures.add(Place(Tier.CLOUD), 5_000)
    away.board.departures.add(Place(Tier.EDGE), 20)
    home.board.answers_by_tier["edge"] += 1
    found = summary([home, away], USAGE, {})
    assert found["bytes_by_tier"] == {"edge": 320, "cloud": 5_000}
    assert found["bytes_leaving_site"] == 5_000
    assert found["answers_by_tier"] == {"device": 3, "edge": 1, "cloud": 0}
    assert found["cameras"]["home"]["bytes_by_tier"] == {"edge": 300, "cloud": 0}
    assert found["cameras"]["home"]["bytes_leaving_site"] == 0
    assert "5.0 kB of pictures, to the tier cloud; 0.3 kB to workers on site" in shown(found)
    assert "no pictures" in shown(summary([camera("a", ["edge"])], USAGE, {}))


def test_late_answers_lower_the_hit_ratio() -> None:
    found = summary([camera("a", ["edge"] * 3), camera("b", ["edge"], total_ms=250.0)], USAGE, {})
    assert found["deadline_hit_ratio"] == 0.75
    assert found["latency_ms"]["max"] == 250.0


def test_carried_frames_do_not_count_in_the_latency_of_the_analysed() -> None:
    found = summary([camera("a", ["carried"] * 5)], USAGE, {})
    assert found["latency_ms"]["p50"] is not None
    assert found["latency_analysed_ms"] == {"p50": None, "p95": None, "p99": None, "max": None}
    assert found["lambda_edge"] is None


def test_a_run_without_any_frame_has_nulls_instead_of_a_division_by_zero() -> None:
    found = summary([camera("a", [])], USAGE, {})
    assert found["captured"] == 0
    assert found["deadline_hit_ratio"] is None
    assert found["duration_s"] == 0.0
    assert found["latency_ms"]["p99"] is None
    assert shown(found).count("none") == 2


def test_attainment_is_in_time_of_accepted_with_edge_and_cloud_apart() -> None:
    found = summary([camera("a", ["fused", "edge", "edge_timeout", "edge_shed", "carried"])], USAGE, {})
    assert found["attainment"] == {
        "within_ms": 200.0,
        "target": 0.98,
        "accepted": 4,
        "share": 1.0,
        "met": True,
        "hit_edge": 0.75,
        "hit_cloud": 0.25,
    }
    assert found["cameras"]["a"]["attainment"] == found["attainment"]
    assert "98 % within 200 ms: met, 100 % of 4 accepted frames in time (edge 75.0%, cloud 25.0%)" in shown(found)


def test_a_promise_that_is_tighter_than_the_deadline_is_held_against_its_own_limit() -> None:
    found = summary([camera("a", ["edge"] * 9, total_ms=110.0, sla=SlaSettings(0.9, 100.0))], USAGE, {})
    assert (found["deadline_hit_ratio"], found["attainment"]["share"], found["attainment"]["met"]) == (1.0, 0.0, False)
    assert "90 % within 100 ms: missed, 0 % of 9 accepted frames in time" in shown(found)


def test_cameras_with_different_promises_meet_them_each_or_not_at_all() -> None:
    strict, easy = SlaSettings(0.99, 100.0), SlaSettings(0.5, 150.0)
    found = summary([camera("a", ["edge"], total_ms=120.0, sla=strict), camera("b", ["edge"] * 9, sla=easy)], USAGE, {})
    assert (found["attainment"]["within_ms"], found["attainment"]["target"]) == (None, None)
    assert (found["attainment"]["share"], found["attainment"]["met"]) == (0.9, False)
    assert "each camera's target: missed by a, 90 % of 10 accepted frames in time" in shown(found)


def test_a_frame_that_ended_twice_is_no_sound_run() -> None:
    broken = camera("a", ["edge"])
    broken.board.ledger.final(FrameKey("a", 1, 0), Origin.EDGE)
    assert summary([broken], USAGE, {})["invariant_ok"] is False


def shown(found: dict[str, Any]) -> str:
    out = io.StringIO()
    show(found, Console(file=out, width=160))
    return out.getvalue()


def test_results_that_the_record_lacks_are_told_with_their_reason() -> None:
    found = summary([camera("a", ["edge"])], USAGE, {"record_lost": 7, "uplink_missed": 2}, "No space left on device")
    assert (found["record_lost"], found["record_fault"]) == (7, "No space left on device")
    assert found["counters"] == {"record_lost": 7, "uplink_missed": 2}
    assert "7 results were not written: No space left on device" in shown(found)
    assert "not written" not in shown(summary([camera("a", ["edge"])], USAGE, {"record_lost": 0}))


def test_a_camera_without_one_look_in_time_is_told_with_what_to_do() -> None:
    found = summary([camera("a", ["carried"] * 3, reason="edge_late"), camera("b", ["edge"])], USAGE, {})
    assert found["cameras"]["b"]["remark"] == ""
    assert "none of the last 3 frames could be analysed in time; its deadline of 200 ms leaves" in shown(found)
    assert "allow a longer deadline" in shown(found)


def test_why_frames_were_not_analysed_is_told_unless_that_was_on_purpose() -> None:
    late = camera("a", ["carried"] * 3, reason="edge_late")
    still, storm = camera("b", ["carried"] * 9, reason="unchanged"), camera("c", ["carried"], reason="storm")
    found = summary([late, still, storm], USAGE, {})
    assert found["carried"] == {"edge_late": 3, "unchanged": 9, "storm": 1}
    assert found["cameras"]["b"]["carried"] == {"unchanged": 9}
    assert "4 frames; most often: edge_late (the deadline came before the small model was done), 3 times" in shown(
        found
    )
    assert "most often" not in shown(summary([still], USAGE, {}))


def test_alerts_are_counted_where_budgets_are_watched() -> None:
    one = [camera("a", ["edge"])]
    assert "2 breaches of latency budgets" in shown(summary(one, USAGE, {"budget_breaches": 2}))
    assert "1 breach of latency budgets" in shown(summary(one, USAGE, {"budget_breaches": 1}))
    assert "no breaches of latency budgets" in shown(summary(one, USAGE, {"budget_breaches": 0}))
    assert "breach" not in shown(summary(one, USAGE, {}))


def test_a_modelled_network_is_told_and_no_other() -> None:
    found = summary([camera("a", ["edge"])], USAGE, {}, network=NetworkSettings("lte", 7))
    assert found["network"] == {"profile": "lte", "seed": 7}
    assert "modelled: lte, seed 7" in shown(found)
    plain = summary([camera("a", ["edge"])], USAGE, {})
    assert plain["network"] is None
    assert "modelled" not in shown(plain)


def test_people_read_the_same_figures() -> None:
    text = shown(summary([camera("gate", ["fused", "fused", "edge", "carried"], stopped=2)], USAGE, {}))
    assert "6 captured in 0.3 s" in text
    assert "1 carried, 1 edge, 2 fused" in text
    assert "2 stopped" in text
    assert "P50 50 ms, P99 50 ms, analysed frames" in text
    assert "100.00% of all answers within 200 ms" in text
    assert "33.3% of the analysed frames" in text
    assert "agent 12.3 s, worker 2.0 s, broker 0.1 s" in text
    assert "finished: the file ended" in text
