"""Making the 8-bit twin of a model: quantise, judge, and only then put it among the models."""

import hashlib
import os
import platform
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import onnxruntime as ort

from foveate.models.clips import content_hash
from foveate.models.judge import Verdict, compare
from foveate.models.quantize import calibration_inputs, quantize_file
from foveate.models.registry import write_entry
from foveate.models.scoring import read_mot
from pipeline.detectors.contract import HeightWidth, ModelEntry
from pipeline.detectors.loading import load_file
from pipeline.detectors.manifest import Manifest, read_manifest, verified_path
from pipeline.errors import ConfigError, ModelError
from pipeline.timing import Clock, rfc3339, wall_time


@dataclass(frozen=True, slots=True)
class QuantizePlan:
    """What to quantise and how to judge it.

    ``size_px`` is the (height, width) of calibration and judging; ``every`` takes every n-th frame of the judged clip;
    ``truth`` is a MOT file whose boxes are all of ``truth_label``.
    """

    name: str
    calibrate: tuple[Path, ...]
    judge: Path
    truth: Path | None
    truth_label: str
    size_px: HeightWidth
    frames_per_clip: int
    every: int


def quantize_model(plan: QuantizePlan, models_dir: Path | None, clock: Clock) -> tuple[ModelEntry, Verdict]:
    """Quantise a model of the manifest and add it as NAME-int8, if it is faster and sees no worse.

    Raises ConfigError where a clip would judge what it calibrated, ModelError with the figures where the twin loses.
    """
    refuse_shared_clip(plan.calibrate, plan.judge)
    truth = None if plan.truth is None else read_mot(plan.truth, plan.truth_label)
    manifest = read_manifest(models_dir)
    entry = manifest.entry(plan.name)
    source = verified_path(manifest, entry)
    with _scratch_folder(manifest.folder) as folder:
        target = Path(folder) / f"{entry.name}-int8.onnx"
        inputs = calibration_inputs(plan.calibrate, entry.input, plan.size_px, plan.frames_per_clip)
        quantize_file(source, target, inputs)
        label_file = None if entry.labels is None else manifest.folder / entry.labels
        original, small = (
            load_file(path, entry, label_file=label_file, input_size=plan.size_px, threads=1)
            for path in (source, target)
        )
        verdict = compare(original, small, plan.judge, plan.every, truth, clock)
        if losses := verdict.losses():
            raise ModelError(
                f"The 8-bit build of {entry.name} is refused, as {' and '.join(losses)}: {verdict.figures()}."
            )
        return _install(manifest, entry, target, plan, verdict), verdict


def refuse_shared_clip(calibrate: Sequence[Path], judge: Path) -> None:
    """Raise ConfigError where the judged clip, under whatever name, is also one of those calibrated on."""
    judged = content_hash(judge)
    for clip in calibrate:
        if content_hash(clip) == judged:
            raise ConfigError(
                f"{clip} is given to calibrate and to judge: judge on a clip that the model has not seen."
            )


def _scratch_folder(models_dir: Path) -> tempfile.TemporaryDirectory[str]:
    # Beside the models, so that the accepted file is moved into its place in one step.
    try:
        return tempfile.TemporaryDirectory(dir=models_dir, prefix=".quantize-")
    except OSError as error:
        reason = error.strerror or str(error)
        raise ModelError(
            f"Cannot write to {models_dir} ({reason}): name a writable folder with --models-dir."
        ) from error


def _install(manifest: Manifest, entry: ModelEntry, target: Path, plan: QuantizePlan, verdict: Verdict) -> ModelEntry:
    height, width = plan.size_px
    twin = msgspec.structs.replace(
        entry,
        name=f"{entry.name}-int8",
        file=target.name,
        sha256=hashlib.sha256(target.read_bytes()).hexdigest(),
        source=f"foveate model quantize {entry.name}, calibrated on {', '.join(clip.name for clip in plan.calibrate)}",
        input=msgspec.structs.replace(entry.input, size_px=plan.size_px),
        measured=_measured(verdict, f"{height}x{width}", plan),
    )
    target.replace(manifest.folder / target.name)
    write_entry(manifest.folder, twin)
    return twin


def _measured(verdict: Verdict, size: str, plan: QuantizePlan) -> dict[str, int | float | str]:
    figures: dict[str, int | float | str] = {
        "on": f"every {plan.every}th frame of {plan.judge.name} at {size}, 1 thread",
        "machine": f"{platform.machine()}, {os.cpu_count()} CPUs, onnxruntime {ort.__version__}",
        "date": rfc3339(wall_time())[:10],
        "frames": verdict.frames,
        "median_ms": round(verdict.twin_ms, 2),
        "original_median_ms": round(verdict.original_ms, 2),
        "time_ratio": round(verdict.time_ratio, 3),
    }
    scores = {"f1": verdict.twin_f1, "original_f1": verdict.original_f1, "agreement": verdict.agreement}
    return figures | {name: round(value, 4) for name, value in scores.items() if value is not None}
