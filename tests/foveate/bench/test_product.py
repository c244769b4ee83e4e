"""Running the product and reading what it leaves."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from foveate.bench import product
from foveate.bench.product import read_summary, run_product
from pipeline.errors import ConfigError, FoveateError
from pipeline.results import Timings, encode_result
from tests.support.records import result

SUMMARY: dict[str, Any] = {
    "captured": 10,
    "finals": {"fused": 4, "carried": 4},
    "drops": {"overwritten": 2},
    "in_flight": 0,
    "invariant_ok": True,
    "latency_ms": {"p50": 1, "p95": 2, "p99": 3, "max": 4},
    "latency_analysed_ms": {"p50": 80, "p95": 120, "p99": 150.5, "max": 190},
    "deadline_ms": 200,
    "deadline_hit_ratio": 1.0,
    "bytes_up": 4000,
    "jpeg_all_bytes": 100000,
    "lambda_edge": 0.0,
    "cpu_s": {"agent": 1.5, "worker": 2.0, "broker": 0.5},
    "rss_mb": {"agent": 100, "worker": 90, "broker": 10},
    "duration_s": 4.0,
    "cameras": {},
}
PRETENDED = """
import json, sys
arguments = sys.argv[1:]
if "--mode" in arguments:
    sys.exit("foveate: unknown mode")
open(arguments[arguments.index("--record") + 1], "wb").write({record!r})
open(arguments[arguments.index("--summary") + 1], "w").write(json.dumps({summary!r} | dict(captured=len(arguments))))
"""


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch) -> None:
    code = PRETENDED.format(record=encode_result(result(3)) + b"\n", summary=SUMMARY)
    monkeypatch.setattr(product, "PROGRAM", (sys.executable, "-c", code))


def write_summary(path: Path, **changes: Any) -> Path:
    path.write_text(json.dumps({name: value for name, value in (SUMMARY | changes).items() if value is not ...}))
    return path


@pytest.mark.usefixtures("program")
def test_a_run_gives_its_summary_its_record_and_its_cpu_time(tmp_path: Path) -> None:
    run = run_product(["clip.mp4", "--realtime"], tmp_path / "run")
    assert run.summary.captured == len(["run", "clip.mp4", "--realtime", "--no-web", "--summary", "s", "--record", "r"])
    assert run.record == {3: result(3)}
    assert run.record_file == tmp_path / "run" / "record.jsonl"
    assert run.outside_cpu_s > 0
    assert run.cpu_s == 4.0


@pytest.mark.usefixtures("program")
def test_a_run_that_fails_is_told_in_its_own_words(tmp_path: Path) -> None:
    with pytest.raises(FoveateError, match="ended with code 1: foveate: unknown mode"):
        run_product(["clip.mp4", "--mode", "none"], tmp_path / "run")


def test_cpu_time_is_the_larger_of_the_products_own_and_the_operating_systems(tmp_path: Path) -> None:
    summary = read_summary(write_summary(tmp_path / "s.json"))
    assert product.ProductRun(summary, tmp_path, {}, 9.0).cpu_s == 9.0
    assert product.ProductRun(summary, tmp_path, {}, 1.0).cpu_s == 4.0


def test_throughput_counts_the_frames_that_were_answered(tmp_path: Path) -> None:
    assert read_summary(write_summary(tmp_path / "s.json")).frames_per_s == 2.0


def test_the_record_tells_how_long_it_took_from_the_first_capture_to_the_last_result(tmp_path: Path) -> None:
    times = {0: ("12:00:01.500", 900.0), 1: ("12:00:01.000", 100.0), 2: ("12:00:02.000", 50.0)}
    record = {
        seq: result(seq, captured_at=f"2026-01-01T{moment}Z", timings_ms=Timings(total=total_ms))
        for seq, (moment, total_ms) in times.items()
    }
    run = product.ProductRun(read_summary(write_summary(tmp_path / "s.json")), tmp_path, record, 1.0)
    assert run.recorded_s == pytest.approx(1.4)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"duration_s": ...}, "missing required field `duration_s`"),
        ({"latency_analysed_ms": {"p50": None, "p95": None, "p99": None, "max": None}}, "latency_analysed_ms"),
        ({"finals": {}}, "answered 0 frames"),
        ({"duration_s": 0}, "in 0.0 s"),
    ],
    ids=["no duration", "nothing analysed", "nothing answered", "no time"],
)
def test_a_summary_without_what_is_needed_is_refused(tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    with pytest.raises(FoveateError, match=words):
        read_summary(write_summary(tmp_path / "s.json", **changes))


def test_a_summary_that_is_absent_or_no_json_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    with pytest.raises(FoveateError, match=r"s\.json of foveate run cannot be used"):
        read_summary(path)
    path.write_text("not JSON")
    with pytest.raises(FoveateError, match=r"s\.json of foveate run cannot be used") as caught:
        read_summary(path)
    assert not isinstance(caught.value, ConfigError)
