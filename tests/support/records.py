"""Result records and true boxes for tests of what reads them."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from pipeline.results import FrameSize, Models, Result, ResultDetection, Timings, encode_result

Box = tuple[float, float, float, float]


def result(seq: int, boxes: Sequence[Box] = (), label: str = "person", **changes: Any) -> Result:
    """A final result of frame ``seq`` (from 0) with boxes ``xyxy`` of one label; ``changes`` replaces any field."""
    values: dict[str, Any] = {
        "camera": "gate",
        "epoch": 1,
        "seq": seq,
        "captured_at": "2026-01-01T00:00:00.000Z",
        "media_ms": seq * 100.0,
        "revision": 0,
        "final": True,
        "origin": "edge",
        "reason": "",
        "frame": FrameSize(640, 480),
        "detections": [ResultDetection(label, 0.9, box, None, "edge") for box in boxes],
        "timings_ms": Timings(),
        "deadline_ms": 200.0,
        "deadline_met": True,
        "models": Models("small@1", None),
        "bytes_up": 0,
    }
    return Result(**(values | changes))


def write_record(path: Path, results: Iterable[Result]) -> Path:
    """One line of JSON per result."""
    path.write_bytes(b"".join(encode_result(one) + b"\n" for one in results))
    return path


def write_truth(path: Path, rows: Iterable[tuple[int, Box, int]]) -> Path:
    """A file in MOT format from rows (frame from 1, box ``xyxy``, conf)."""
    lines = [f"{n},1,{x1},{y1},{x2 - x1},{y2 - y1},{conf},0,0,0" for n, (x1, y1, x2, y2), conf in rows]
    path.write_text("".join(f"{line}\n" for line in lines))
    return path
