"""Opening an onnxruntime session with settings that suit a shared small machine."""

import re
from pathlib import Path
from typing import Any

import onnxruntime as ort
from onnxruntime.capi import onnxruntime_pybind11_state as ort_state

from pipeline.detectors.onnx_header import NotOnnxError, OnnxHeader, read_header
from pipeline.errors import ModelError

# What is seen by a camera's models is nobody else's business, nor that they run.
ort.disable_telemetry_events()

PROVIDERS = ("CPUExecutionProvider",)

ORT_ERRORS: tuple[type[Exception], ...] = (
    *(kind for kind in vars(ort_state).values() if isinstance(kind, type) and issubclass(kind, Exception)),
    RuntimeError,
    ValueError,
)
"""Everything that onnxruntime raises; its own classes share no base."""


def open_session(path: Path, threads: int, *, one_shape: bool) -> Any:
    """Open a model file on ``threads`` CPU threads; ``one_shape``: every input will have the same shape.

    Raises ModelError that says what is wrong with the file.
    """
    header = _header(path)
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
        return ort.InferenceSession(str(path), options, providers=list(PROVIDERS))
    except ORT_ERRORS as error:
        raise ModelError(f"Cannot load {path}: {_reason(str(error), header)}.") from error


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
