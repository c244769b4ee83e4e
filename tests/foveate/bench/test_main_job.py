"""From measurements to the figures of the group main, and what makes them doubtful."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from foveate.bench.accuracy import Accuracy
from foveate.bench.clip import ClipBytes
from foveate.bench.main_job import Inputs, Measured, Pair, measure, on_time, report
from foveate.bench.product import Percentiles, ProductRun, Summary
from foveate.bench.work import Counts
from pipeline.errors import ConfigError
from pipeline.metrics.matching import Score
from tests.support.records import result

COUNTS = Counts(frames=10, analysed=5, asked=5, answered=5, bytes_up=4000)
NAMES = {
    "hit_ratio",
    "p50_ms",
    "p99_ms",
    "uplink_share_of_jpeg",
    "uplink_share_of_h264",
    "f1",
    "f1_edge_only",
    "conveyor_gain",
    "cpu_share_of_dense",
}


def product_run(**changes: Any) -> ProductRun:
    values: dict[str, Any] = {
        "captured": 10,
        "finals": {"fused": 5, "carried": 5},
        "drops": {},
        "in_flight": 0,
        "invariant_ok": True,
        "latency_analysed_ms": Percentiles(80.0, 120.0, 150.0, 190.0),
        "deadline_ms": 200.0,
        "deadline_hit_ratio": 1.0,
        "bytes_up": 9_500,
        "jpeg_all_bytes": 1,
        "lambda_edge": 0.0,
        "cpu_s": {"agent": 3.0, "worker": 2.0, "broker": 1.0},
        "rss_mb": {},
        "duration_s": 5.0,
    }
    record = {seq: result(seq, deadline_met=seq != 4) for seq in range(10)}
    return ProductRun(Summary(**(values | changes)), Path("r.jsonl"), record, 5.5)


def pair(gain: float = 2.0, serial: Counts = COUNTS, recorded_s: float = 5.0) -> Pair:
    return Pair(gain * 10.0, 5.0, recorded_s, COUNTS, 10.0, serial, 0.9)


def scored(right: int) -> Accuracy:
    return Accuracy(10, 10, Score(right, 10 - right, 10 - right), {})


def measured(**changes: Any) -> Measured:
    values: dict[str, Any] = {
        "clip": ClipBytes(10, 95_000),
        "adaptive": product_run(),
        "edge_only": product_run(bytes_up=0),
        "accuracy": scored(9),
        "accuracy_edge_only": scored(8),
        "pairs": (pair(1.0), pair(1.5), pair(9.0)),
        "dense_cpu_s": 12.0,
    }
    return Measured(**(values | changes))


def test_the_figures_have_the_names_of_the_issue_and_follow_from_the_measurements() -> None:
    figures = report(measured(), Inputs()).figures
    assert set(figures) == NAMES
    assert figures == pytest.approx(
        {
            "hit_ratio": 0.9,
            "p50_ms": 80.0,
            "p99_ms": 150.0,
            "uplink_share_of_jpeg": 0.1,
            "uplink_share_of_h264": 0.1,
            "f1": 0.9,
            "f1_edge_only": 0.8,
            "conveyor_gain": 1.5,
            "cpu_share_of_dense": 0.5,
        }
    )


def test_a_frame_that_was_dropped_has_no_answer_in_time() -> None:
    run = product_run()
    del run.record[9]
    assert on_time(run.record) == 8
    assert report(measured(adaptive=run), Inputs()).figures["hit_ratio"] == pytest.approx(0.8)


def test_the_details_can_be_written_and_show_where_the_figures_come_from() -> None:
    details = report(measured(), Inputs(short=True)).details
    assert details["short"] is True
    assert [one["gain"] for one in details["pairs"]] == [1.0, 1.5, 9.0]
    assert details["adaptive"]["cpu_s_by_operating_system"] == 5.5
    msgspec.json.encode(details)


def test_sound_measurements_leave_no_doubt() -> None:
    assert report(measured(), Inputs()).warnings == ()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"adaptive": product_run(invariant_ok=False)}, "adaptive: not every frame ended exactly once"),
        ({"edge_only": product_run(captured=9)}, "edge_only: 9 frames were captured of 10"),
        ({"adaptive": product_run(cpu_s={"agent": 4.0})}, "adaptive: the summary leaves out"),
        (
            {"pairs": (pair(), pair(serial=Counts(10, 5, 4, 5, 4000)))},
            "pair 2: asked is 5 in the conveyor and 4 in the serial loop",
        ),
        (
            {"pairs": (pair(recorded_s=4.0),)},
            "pair 1: the conveyor says that it took 5.0 s, but its results lie within 4.0 s",
        ),
    ],
)
def test_what_speaks_against_the_figures_is_told(changes: dict[str, Any], words: str) -> None:
    warnings = report(measured(**changes), Inputs()).warnings
    assert len(warnings) == 1
    assert words in warnings[0]


def test_an_absent_clip_or_truth_is_refused_before_anything_runs(tmp_path: Path) -> None:
    said: list[str] = []
    there = tmp_path / "there"
    there.touch()
    with pytest.raises(ConfigError, match=r"gone\.avi is absent: name another file with --clip"):
        measure(Inputs(clip=tmp_path / "gone.avi", truth=there), said.append)
    with pytest.raises(ConfigError, match=r"gone\.txt is absent: name another file with --gt"):
        measure(Inputs(clip=there, truth=tmp_path / "gone.txt"), said.append)
    assert said == []
