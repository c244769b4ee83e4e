"""Runs of the product as its user starts it, and the files that they leave."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import msgspec

from foveate.bench.accuracy import read_record
from foveate.bench.children import run_child
from pipeline.errors import FoveateError
from pipeline.results import Result

PROGRAM = (sys.executable, "-m", "foveate")


class Percentiles(msgspec.Struct, frozen=True):
    """Percentiles in milliseconds."""

    p50: float
    p95: float
    p99: float
    max: float


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """What is used of the file that ``foveate run --summary`` writes. ``duration_s``: first capture to last result."""

    captured: int
    finals: dict[str, int]
    drops: dict[str, int]
    in_flight: int
    invariant_ok: bool
    latency_analysed_ms: Percentiles
    deadline_ms: float
    deadline_hit_ratio: float
    bytes_up: int
    jpeg_all_bytes: int
    lambda_edge: float | None
    cpu_s: dict[str, float]
    rss_mb: dict[str, float]
    duration_s: float

    @property
    def frames_per_s(self) -> float:
        """Frames answered per second."""
        return sum(self.finals.values()) / self.duration_s


@dataclass(frozen=True, slots=True, eq=False)
class ProductRun:
    """One finished run. ``outside_cpu_s`` are the CPU seconds that the operating system charged for all of it."""

    summary: Summary
    record_file: Path
    record: dict[int, Result]
    outside_cpu_s: float

    @property
    def cpu_s(self) -> float:
        """The larger of what the product says it used and what the operating system says."""
        return max(sum(self.summary.cpu_s.values()), self.outside_cpu_s)

    @property
    def recorded_s(self) -> float:
        """Seconds from the first capture to the last result, from the results' own times of day."""
        captured_s = {
            seq: datetime.fromisoformat(result.captured_at).timestamp() for seq, result in self.record.items()
        }
        answered_s = (captured_s[seq] + (result.timings_ms.total or 0.0) / 1e3 for seq, result in self.record.items())
        return max(answered_s) - min(captured_s.values())


def run_product(arguments: Sequence[str], folder: Path) -> ProductRun:
    """Run ``foveate run`` with the arguments and no page; its files go into the new ``folder``.

    Raises FoveateError where it fails or its files cannot be used.
    """
    folder.mkdir()
    summary, record = folder / "summary.json", folder / "record.jsonl"
    command = [*PROGRAM, "run", *arguments, "--no-web", "--summary", str(summary), "--record", str(record)]
    cpu_s = run_child(command, folder / "log.txt")
    return ProductRun(read_summary(summary), record, read_record(record), cpu_s)


def read_summary(path: Path) -> Summary:
    """Read a summary. Raises FoveateError where a figure is missing or there was nothing to measure."""
    try:
        summary = msgspec.json.decode(path.read_bytes(), type=Summary)
    except (OSError, msgspec.MsgspecError) as error:
        raise FoveateError(f"{path.name} of foveate run cannot be used ({error}): see that the run works.") from error
    if summary.duration_s <= 0 or not summary.finals:
        raise FoveateError(
            f"foveate run answered {sum(summary.finals.values())} frames in {summary.duration_s} s, "
            "so there is nothing to measure: see that the clip works with it."
        )
    return summary
