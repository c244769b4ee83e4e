"""The records that a report is made from: a file per run, a line about the run and then a line per frame."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from pipeline.errors import ConfigError

Counts = tuple[int, int, int]
"""Right, wrong and missed."""


class Scores(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A frame's scores by what is there at its capture (``d0``) or by its deadline (``slo``), at IoU 0.5 or 0.3,
    against the truth or the larger model's sure detections.
    """

    d0: Counts = (0, 0, 0)
    slo: Counts = (0, 0, 0)
    slo_iou30: Counts = (0, 0, 0)
    d0_agreement: Counts = (0, 0, 0)
    slo_agreement: Counts = (0, 0, 0)


class RunHead(msgspec.Struct, frozen=True, kw_only=True):
    """A run: which system with which setting, on what, and what it took. ``group`` is the part of the report.

    ``uplink_bytes`` at the socket; ``jpeg_bytes`` and ``h264_bytes`` of all frames of the playlist. ``edge_s`` and
    ``cloud_s`` are what the models took. ``rate`` orders the settings of one system. ``outages`` in seconds.
    """

    group: str
    system: str
    setting: str
    playlist: str
    network: str
    seed: int
    slo_s: float
    duration_s: float
    uplink_bytes: int
    jpeg_bytes: int
    h264_bytes: float
    edge_s: float
    cloud_s: float
    rate: float = 0.0
    outages: list[tuple[float, float]] = []


class FrameRecord(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A frame: ``at_s`` its capture from the beginning on, and its first answer, None where there was none.

    ``latency_s`` and ``corrected_s`` run from its capture to its first and its last answer; ``cloud``: the larger model
    had a part in the first. ``stale_s``: when it was due, how old the newest answer was that the larger model had a
    part in; None before there is one. ``found`` and ``true`` count objects.
    """

    seq: int
    at_s: float
    clip: str
    origin: str | None
    latency_s: float | None
    corrected_s: float | None
    cloud: bool
    stale_s: float | None
    sent_bytes: int
    sent_at_s: float | None
    found: int
    true: int
    scores: Scores


class SceneRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What a frame shows: objects, their mean area as a share of the frame, their mean overlap with the frame before
    as 1/IoU (None: nothing followed), how many came, and whether nothing in the picture moved.
    """

    seq: int
    at_s: float
    clip: str
    count: int
    area: float
    speed: float | None
    arrivals: int
    idle: bool


class Run(msgspec.Struct, frozen=True):
    """A run with its frames in order."""

    head: RunHead
    frames: list[FrameRecord]


class ScheduleRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A run of the worker's queue alone under load."""

    system: str
    load: float
    seed: int
    hit: float
    goodput: float
    fairness: float
    hopeless_runs: int
    late_runs: int


class Evidence(msgspec.Struct, frozen=True):
    """All that a report is made from. ``scenes`` by playlist."""

    context: dict[str, Any]
    runs: list[Run]
    scenes: dict[str, list[SceneRecord]]
    schedules: list[ScheduleRecord]


def write_lines(path: Path, lines: Iterable[object]) -> None:
    """Write one JSON value per line. Raises ConfigError where that cannot be."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
    except OSError as error:
        raise ConfigError(
            f"Cannot write {path} ({error.strerror or error}): name another folder with --out."
        ) from error


def write_run(folder: Path, run: Run) -> Path:
    """Write a run to a file of its own under ``folder``."""
    head = run.head
    parts = (head.group, head.system, head.setting, head.playlist, head.network, str(head.seed))
    file = folder / ("_".join(re.sub(r"[^A-Za-z0-9.=]+", "-", part).strip("-") for part in parts) + ".run.jsonl")
    write_lines(file, [head, *run.frames])
    return file


def read_evidence(folder: Path) -> Evidence:
    """Read what ``write_run`` and ``write_lines`` wrote. Raises ConfigError where it is not there or damaged.

    The records of a measurement that was broken off will do.
    """
    runs = []
    for file in sorted(folder.glob("*.run.jsonl")):
        head, *frames = _lines(file)
        runs.append(Run(_as(head, RunHead, file), [_as(line, FrameRecord, file) for line in frames]))
    scenes = {
        file.name.removesuffix(".scene.jsonl"): [_as(line, SceneRecord, file) for line in _lines(file)]
        for file in sorted(folder.glob("*.scene.jsonl"))
    }
    schedules, context = folder / "schedules.jsonl", folder / "context.jsonl"
    loads = _lines(schedules) if schedules.exists() else []
    scheduled = [_as(line, ScheduleRecord, schedules) for line in loads]
    return Evidence(_as(_lines(context)[0], dict[str, Any], context), runs, scenes, scheduled)


def _lines(file: Path) -> list[bytes]:
    try:
        lines = file.read_bytes().splitlines()
    except OSError as error:
        raise ConfigError(
            f"Cannot read {file} ({error.strerror or error}): measure first, or name a folder with records by --out."
        ) from error
    if not lines:
        raise ConfigError(f"{file} is empty: measure again.")
    return lines


def _as(line: bytes, kind: type[Any], file: Path) -> Any:
    try:
        return msgspec.json.decode(line, type=kind)
    except msgspec.DecodeError as error:
        raise ConfigError(f"{file} is damaged ({error}): measure again.") from error
