"""Opening an onnxruntime session with settings that suit a shared small machine."""

import logging
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import onnxruntime as ort
from onnxruntime.capi import onnxruntime_pybind11_state as ort_state

from pipeline.detectors.execution import PROVIDERS
from pipeline.detectors.onnx_header import NotOnnxError, OnnxHeader, read_header
from pipeline.errors import ModelError

# What is seen by a camera's models is nobody else's business, nor that they run.
ort.disable_telemetry_events()

logger = logging.getLogger(__name__)

ORT_ERRORS: tuple[type[Exception], ...] = (
    *(kind for kind in vars(ort_state).values() if isinstance(kind, type) and issubclass(kind, Exception)),
    RuntimeError,
    ValueError,
)
"""Everything that onnxruntime raises; its own classes share no base."""


def open_session(path: Path, threads: int, *, one_shape: bool, providers: Sequence[str] = ("cpu",)) -> Any:
    """Open a model file on ``threads`` CPU threads; ``one_shape``: every input will have the same shape.

    Raises ModelError that says what is wrong with the file, or that it would not run on what was asked for.
    """
    header = _header(path)
    wanted = _present(path, providers)
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    # The arena keeps its memory between runs, flat over a mosaic's few heights. Memory patterns are planned and kept
    # per shape, so they pay for one shape only.
    options.enable_cpu_mem_arena = True
    options.enable_mem_pattern = one_shape
    # A worker thread that spins between frames burns a core for nothing.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.add_session_config_entry("session.inter_op.allow_spinning", "0")
    try:
        session = ort.InferenceSession(str(path), options, providers=[PROVIDERS[name] for name in wanted])
    except ORT_ERRORS as error:
        raise ModelError(f"Cannot load {path}: {_reason(str(error), header)}.") from error
    _check_actual(path, wanted, session.get_providers())
    return session


def _present(path: Path, wanted: Sequence[str]) -> list[str]:
    """Those of the providers that this onnxruntime is built with."""
    if unknown := [name for name in wanted if name not in PROVIDERS]:
        raise ModelError(f"{path} is to run on {', '.join(unknown)}: choose from {', '.join(PROVIDERS)}.")
    built = ort.get_available_providers()
    present = [name for name in wanted if PROVIDERS[name] in built]
    missing = [name for name in wanted if name not in present]
    if not present or (missing and "cpu" not in present):
        raise ModelError(
            f"{path} is to run on {', '.join(wanted) or 'nothing'}, and onnxruntime {ort.__version__} here has only "
            f"{', '.join(built)}: install the onnxruntime that has it, or add cpu to the providers."
        )
    if missing:
        logger.warning("%s: onnxruntime here has no %s; it will run on %s", path, ", ".join(missing), present[0])
    return present


def _check_actual(path: Path, wanted: Sequence[str], actual: Sequence[str]) -> None:
    """A provider that is built in and cannot be used is left out by onnxruntime without a word: say it."""
    lost = [name for name in wanted if PROVIDERS[name] not in actual]
    if not lost:
        return
    if "cpu" not in wanted:
        raise ModelError(
            f"{path} is to run on {', '.join(lost)}, and onnxruntime took {', '.join(actual)} instead: "
            "check the driver and its libraries, or add cpu to the providers."
        )
    logger.warning("%s runs on %s: %s cannot be used here", path, ", ".join(actual), ", ".join(lost))


def _header(path: Path) -> OnnxHeader:
    try:
        return read_header(path.read_bytes())
    except OSError as error:
        raise ModelError(f"Cannot read the model file {path} ({error.strerror or error}): check the path.") from error
    except NotOnnxError as error:
        raise ModelError(f"Cannot load {path}: {error}; fetch the file again.") from error


def _reason(message: str, header: OnnxHeader) -> str:
    if found := re.search(r"max supported IR version: (\d+)", message):
        return (
            f"it has IR version {header.ir_version} and onnxruntime {ort.__version__} supports up to {found[1]}; "
            "export it with an older IR version, or update onnxruntime"
        )
    if found := re.search(r"official support for domain (\S+) is till opset (\d+)", message):
        domain, limit = found[1], found[2]
        return (
            f"it has opset {header.opsets.get(domain, '?')} of {domain} and onnxruntime {ort.__version__} supports "
            f"up to {limit}; export it with an older opset, or update onnxruntime"
        )
    if re.search(r"external data (path|file)", message, re.IGNORECASE):
        return "a side file with its weights (ONNX external data) is missing; put it beside the model"
    last = message.strip().splitlines()[-1].removeprefix("[ONNXRuntimeError] : ")
    return f"onnxruntime {ort.__version__} says: {last[-300:].rstrip('.')}"
