"""The group ``main``: the main job, end to end, on real input."""

import statistics
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from foveate.bench import clip as clips
from foveate.bench.accuracy import Accuracy, Record, accuracy, read_record, read_truth
from foveate.bench.children import run_child
from foveate.bench.product import ProductRun, run_product
from foveate.bench.report import ROOT, Report
from foveate.bench.work import Counts, SerialRun, counts_of
from foveate.models.scoring import Truth
from pipeline.detectors.manifest import read_manifest, verified_path
from pipeline.errors import ConfigError, FoveateError

DEFAULT_CLIP = ROOT.parent / "shared/clips/vtest.avi"
DEFAULT_TRUTH = ROOT.parent / "shared/gt/pets09-s2l1.txt"
SAMPLE_CLIP = ROOT / "sample_videos/plaza.mp4"
LABEL = "person"
DENSE_MODEL = "nanodet-g"
H264_BYTES_PER_FRAME = 9_500.0
"""The default clip by x264, preset veryfast, crf 23."""
SHORT_FRAMES = 200
PAIRS, SHORT_PAIRS = 3, 1
SAME_WORK = 0.05
"""Conveyor and serial loop must agree in what they did to within this share."""

SAME_DURATION = 0.1
"""The conveyor's time must not be longer than that of its results by more than this share: start-up does not count."""


@dataclass(frozen=True, slots=True)
class Inputs:
    """What to measure on. ``short``: the first frames of the clip and fewer repetitions. ``network`` is the modelled
    one between agent and broker (None: there is nothing between them).
    """

    clip: Path = DEFAULT_CLIP
    truth: Path = DEFAULT_TRUTH
    h264_bytes_per_frame: float = H264_BYTES_PER_FRAME
    short: bool = False
    network: str | None = None

    @property
    def over(self) -> list[str]:
        """Options of a run over that network."""
        return [] if self.network is None else ["--network", self.network]


@dataclass(frozen=True, slots=True)
class Pair:
    """A run of the conveyor and the serial loop's run with the same work, one right after the other."""

    conveyor_fps: float
    duration_s: float
    recorded_s: float
    conveyor: Counts
    serial_fps: float
    serial: Counts
    serial_f1: float

    @property
    def gain(self) -> float:
        return self.conveyor_fps / self.serial_fps


@dataclass(frozen=True, slots=True, eq=False)
class Measured:
    """All that the figures are made of. ``frames`` is the number of frames that the clip really has."""

    clip: clips.ClipBytes
    adaptive: ProductRun
    edge_only: ProductRun
    accuracy: Accuracy
    accuracy_edge_only: Accuracy
    pairs: tuple[Pair, ...]
    dense_cpu_s: float


def measure(inputs: Inputs, say: Callable[[str], None]) -> Report:
    """Measure the group ``main``, one program at a time; ``say`` hears what is being done.

    Raises ConfigError where clip or truth are absent, FoveateError where a program fails.
    """
    _check_present(inputs)
    truth = read_truth(inputs.truth, LABEL)
    with tempfile.TemporaryDirectory(prefix="foveate-bench-") as folder:
        measured = _measure(inputs, truth, Path(folder), say)
    return report(measured, inputs)


def _check_present(inputs: Inputs) -> None:
    for path, option in ((inputs.clip, "--clip"), (inputs.truth, "--gt")):
        if not path.is_file():
            raise ConfigError(f"{path} is absent: name another file with {option}.")


def _measure(inputs: Inputs, truth: dict[int, Truth], folder: Path, say: Callable[[str], None]) -> Measured:
    clip = inputs.clip.resolve()
    if inputs.short:
        clip = folder / f"short{inputs.clip.suffix}"
        clips.cut(inputs.clip, SHORT_FRAMES, clip)
    say("encoding every frame as JPEG")
    size = clips.measure(clip)
    say("running the dense loop")
    dense_cpu_s = run_dense(clip, folder, size.frames)
    say("running the main job in real time")
    adaptive = run_product([str(clip), "--realtime", *inputs.over], folder / "adaptive")
    say("running the main job in real time, edge only")
    edge_only = run_product([str(clip), "--realtime", *inputs.over, "--mode", "edge_only"], folder / "edge_only")
    pairs = []
    for number in range(SHORT_PAIRS if inputs.short else PAIRS):
        say(f"running conveyor and serial loop, pair {number + 1}")
        pairs.append(run_pair(clip, folder / f"pair{number}", truth, size.frames))
    return Measured(
        size,
        adaptive,
        edge_only,
        accuracy(adaptive.record, truth, LABEL, size.frames),
        accuracy(edge_only.record, truth, LABEL, size.frames),
        tuple(pairs),
        dense_cpu_s,
    )


def run_dense(clip: Path, folder: Path, frames: int) -> float:
    """CPU seconds of the hand-written loop over a clip of ``frames`` frames."""
    manifest = read_manifest()
    model = verified_path(manifest, manifest.entry(DENSE_MODEL))
    counts = folder / "dense.json"
    command = [sys.executable, "-m", "foveate.bench.dense", str(clip), str(model), str(counts)]
    cpu_s = run_child(command, folder / "dense.txt")
    seen = msgspec.json.decode(counts.read_bytes(), type=dict[str, int])["frames"]
    if seen != frames:
        raise FoveateError(f"The dense loop read {seen} of {frames} frames of {clip.name}: try another clip.")
    return cpu_s


def run_pair(clip: Path, folder: Path, truth: dict[int, Truth], frames: int) -> Pair:
    """Run the conveyor, then the serial loop with the work that the conveyor did."""
    conveyor = run_product([str(clip)], folder)
    command = [sys.executable, "-m", "foveate.bench.serial", str(clip), str(conveyor.record_file)]
    into = folder / "serial"
    into.mkdir()
    run_child([*command, str(into)], folder / "serial.txt")
    serial = msgspec.json.decode((into / "counts.json").read_bytes(), type=SerialRun)
    f1 = accuracy(read_record(into / "record.jsonl"), truth, LABEL, frames).score.f1
    return Pair(
        conveyor.summary.frames_per_s,
        conveyor.summary.duration_s,
        conveyor.recorded_s,
        counts_of(conveyor.record),
        serial.frames_per_s,
        serial.counts,
        f1,
    )


def report(measured: Measured, inputs: Inputs) -> Report:
    """The figures of what was measured."""
    summary, frames = measured.adaptive.summary, measured.clip.frames
    figures = {
        "hit_ratio": on_time(measured.adaptive.record) / frames,
        "p50_ms": summary.latency_analysed_ms.p50,
        "p99_ms": summary.latency_analysed_ms.p99,
        "uplink_share_of_jpeg": summary.bytes_up / measured.clip.jpeg_bytes,
        "uplink_share_of_h264": summary.bytes_up / (inputs.h264_bytes_per_frame * frames),
        "f1": measured.accuracy.score.f1,
        "f1_edge_only": measured.accuracy_edge_only.score.f1,
        "conveyor_gain": statistics.median(pair.gain for pair in measured.pairs),
        "cpu_share_of_dense": measured.adaptive.cpu_s / measured.dense_cpu_s,
    }
    return Report(figures, _details(measured, inputs), tuple(_doubts(measured)))


def on_time(record: Record) -> int:
    """The number of frames with an answer by their deadline; a dropped frame has none."""
    return sum(result.deadline_met for result in record.values())


def _details(measured: Measured, inputs: Inputs) -> dict[str, Any]:
    return {
        "clip": inputs.clip.name,
        "short": inputs.short,
        "network": inputs.network,
        "frames": measured.clip.frames,
        "jpeg_q80_bytes_per_frame": measured.clip.jpeg_bytes / measured.clip.frames,
        "h264_bytes_per_frame": {
            "reference": inputs.h264_bytes_per_frame,
            "of_sample_clip": clips.video_bytes_per_frame(SAMPLE_CLIP) if SAMPLE_CLIP.is_file() else None,
        },
        "adaptive": _run_details(measured.adaptive, measured.accuracy),
        "edge_only": _run_details(measured.edge_only, measured.accuracy_edge_only),
        "dense_cpu_s": measured.dense_cpu_s,
        "pairs": [{**msgspec.to_builtins(pair), "gain": pair.gain} for pair in measured.pairs],
    }


def _run_details(run: ProductRun, scored: Accuracy) -> dict[str, Any]:
    return {
        "summary": msgspec.to_builtins(run.summary),
        "cpu_s_by_operating_system": run.outside_cpu_s,
        "precision": scored.score.precision,
        "recall": scored.score.recall,
        "f1_by_origin": {name: part.score.f1 for name, part in scored.by_origin.items()},
    }


def _doubts(measured: Measured) -> list[str]:
    """What speaks against the figures."""
    doubts = []
    for name, run in (("adaptive", measured.adaptive), ("edge_only", measured.edge_only)):
        if not run.summary.invariant_ok:
            doubts.append(f"{name}: not every frame ended exactly once")
        if run.summary.captured != measured.clip.frames:
            doubts.append(f"{name}: {run.summary.captured} frames were captured of {measured.clip.frames}")
        if run.outside_cpu_s > 1.1 * sum(run.summary.cpu_s.values()):
            doubts.append(f"{name}: the summary leaves out over a tenth of the CPU time that was charged")
    for number, pair in enumerate(measured.pairs, 1):
        if pair.duration_s > (1 + SAME_DURATION) * pair.recorded_s:
            doubts.append(
                f"pair {number}: the conveyor says that it took {pair.duration_s:.1f} s, "
                f"but its results lie within {pair.recorded_s:.1f} s"
            )
        for field in Counts.__struct_fields__:
            conveyor, serial = getattr(pair.conveyor, field), getattr(pair.serial, field)
            if abs(conveyor - serial) > SAME_WORK * max(conveyor, serial):
                doubts.append(f"pair {number}: {field} is {conveyor} in the conveyor and {serial} in the serial loop")
    return doubts
