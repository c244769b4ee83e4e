"""Loading a model: only with a full contract, and only after a trial run has shown that it keeps it."""

import logging
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from pipeline.detectors.backend import Session
from pipeline.detectors.centre import CENTRE
from pipeline.detectors.contract import HeightWidth, ModelEntry
from pipeline.detectors.execution import CPU, Execution
from pipeline.detectors.heads import Head
from pipeline.detectors.labels import checked_labels, metadata_labels, read_label_file
from pipeline.detectors.manifest import read_manifest, verified_path
from pipeline.detectors.nanodet import NANODET
from pipeline.detectors.onnx import BatchRule, OnnxDetector, tensor_shape
from pipeline.detectors.open_inference import OpenInferenceSession
from pipeline.detectors.open_inference_session import RemoteSession
from pipeline.detectors.session import ORT_ERRORS, open_session
from pipeline.detectors.split import SplitSession
from pipeline.errors import ModelError

HEADS: dict[str, Head] = {"nanodet": NANODET, "centre": CENTRE}
"""Every kind of output that can be decoded, by the name that a manifest uses."""

ORT_TYPES = {"float32": "tensor(float)", "float16": "tensor(float16)", "uint8": "tensor(uint8)"}

Where = Path | str
"""What names a model in messages: its file, or its address."""

logger = logging.getLogger(__name__)


def load_detector(
    name: str,
    *,
    input_size: HeightWidth | None,
    threads: int,
    models_dir: Path | None = None,
    on: Execution = CPU,
) -> OnnxDetector:
    """Load the manifest's model ``name`` and prove it by trial runs.

    ``input_size`` is (height, width) in pixels; None is native mode: each picture keeps its size up to the contract's
    largest. ``threads`` is the number of inference threads of this model. Raises ModelError in one sentence.
    """
    manifest = read_manifest(models_dir)
    entry = manifest.entry(name)
    path = verified_path(manifest, entry)
    label_file = None if entry.labels is None else manifest.folder / entry.labels
    return load_file(path, entry, label_file=label_file, input_size=input_size, threads=threads, on=on)


def load_file(
    path: Path,
    entry: ModelEntry,
    *,
    label_file: Path | None = None,
    labels: Sequence[str] = (),
    input_size: HeightWidth | None,
    threads: int,
    on: Execution = CPU,
) -> OnnxDetector:
    """Load a model file under a contract that need not be in a manifest, and prove it by trial runs.

    Its ``labels`` are those given, else those of the label file, else those that the model says itself.
    """
    if threads < 1:
        raise ModelError(f"{threads} inference threads asked for model {entry.name!r}: at least 1 is needed.")
    check_contract(entry, input_size)
    session = _open(path, threads, on, one_shape=input_size is not None)
    made = prove(path, entry, session, label_file=label_file, labels=labels, input_size=input_size, on=on)
    logger.info("model %s %s loaded from %s, %d inference threads", entry.name, entry.version, path, threads)
    return made


def _open(path: Path, threads: int, on: Execution, *, one_shape: bool) -> Session:
    """The session of a model that runs here; two in one where its batches are shared out and it lets them."""
    whole: Session = open_session(path, threads, one_shape=one_shape, providers=on.providers)
    fixed = any(isinstance(side, int) for item in whole.get_inputs() for side in item.shape[:1])
    if not on.split_batches or threads == 1 or on.providers != ("cpu",) or fixed:
        return whole
    return SplitSession(whole, open_session(path, 1, one_shape=one_shape), threads)


def load_remote(
    name: str, url: str, *, input_size: HeightWidth | None, models_dir: Path | None = None, on: Execution = CPU
) -> OnnxDetector:
    """Use the model at ``url`` (see ``remote_session``) under the contract of the manifest's model ``name``.

    It is proven by trial runs like one that runs here; the manifest's file need not be there. Raises ModelError.
    """
    manifest = read_manifest(models_dir)
    entry = manifest.entry(name)
    check_contract(entry, input_size)
    session = remote_session(url)
    session.connect()
    label_file = None if entry.labels is None else manifest.folder / entry.labels
    made = prove(url, entry, session, label_file=label_file, input_size=input_size, on=on)
    logger.info("model %s %s is used at %s", entry.name, entry.version, url)
    return made


def remote_session(url: str) -> RemoteSession:
    """A session on a server, by the scheme of the address: http, https, grpc or grpcs; not yet connected.

    Raises ModelError.
    """
    if not url.startswith(("grpc://", "grpcs://")):
        return OpenInferenceSession(url)
    try:
        from pipeline.detectors.open_inference_grpc import OpenInferenceGrpcSession
    except ImportError as error:
        raise ModelError(
            f"The model at {url} needs gRPC ({error}): install foveate[grpc], or give its http:// address."
        ) from error
    return OpenInferenceGrpcSession(url)


def check_contract(entry: ModelEntry, input_size: HeightWidth | None) -> None:
    """Raises ModelError where a contract cannot be kept by any model."""
    _head(entry)
    _check_size(entry, input_size)


def prove(
    where: Where,
    entry: ModelEntry,
    session: Session,
    *,
    label_file: Path | None = None,
    labels: Sequence[str] = (),
    input_size: HeightWidth | None,
    on: Execution = CPU,
) -> OnnxDetector:
    """A detector on an open session that has been seen to keep its contract; ``where`` names it in messages.

    Raises ModelError.
    """
    head = _head(entry)
    _check_input(where, entry, session, input_size)
    _check_outputs(where, entry, session)
    classes = entry.output.classes
    if labels:
        names = checked_labels(tuple(labels), classes, entry.name)
    elif label_file is not None:
        names = read_label_file(label_file, classes)
    else:
        names = metadata_labels(session.get_modelmeta().custom_metadata_map, classes, str(where))
    batch = _prove(where, entry, head, session, input_size or entry.input.largest_px)
    return OnnxDetector(entry, head, session, names, input_size, batch, on.most_padding)


def _head(entry: ModelEntry) -> Head:
    head = HEADS.get(entry.output.head)
    if head is None:
        raise ModelError(
            f"Model {entry.name!r} declares the unknown output head {entry.output.head!r}: use {', '.join(HEADS)}."
        )
    outputs, wanted = entry.output.outputs, len(head.shapes(entry.output, entry.input.size_px))
    if len(outputs) != wanted:
        raise ModelError(
            f"Model {entry.name!r} declares {len(outputs)} outputs, but head {entry.output.head!r} with "
            f"{len(entry.output.strides)} strides has {wanted}: correct the manifest."
        )
    return head


def _check_size(entry: ModelEntry, input_size: HeightWidth | None) -> None:
    stride = entry.input.stride_px
    if input_size is not None and any(side < stride or side % stride for side in input_size):
        raise ModelError(
            f"Input size {_size(input_size)} (height x width) does not suit model {entry.name!r}: "
            f"both sides must be multiples of {stride} px."
        )


def _check_input(where: Where, entry: ModelEntry, session: Session, input_size: HeightWidth | None) -> None:
    contract = entry.input
    inputs = {item.name: item for item in session.get_inputs()}
    found = ", ".join(f"{item.name} {item.type} {item.shape}" for item in inputs.values())
    if list(inputs) != [contract.name]:
        raise ModelError(f"{where} takes {found}, but the contract declares the one input {contract.name!r}.")
    item = inputs[contract.name]
    if item.type != ORT_TYPES[contract.dtype]:
        raise ModelError(f"{where} takes {found}, but the contract declares dtype {contract.dtype}.")
    wanted = tensor_shape(contract, 1, input_size or (-1, -1))
    fits = len(item.shape) == 4 and all(
        not isinstance(have, int) or want == -1 or have == want
        for have, want in zip(item.shape[1:], wanted[1:], strict=True)
    )
    if not fits:
        asked = "3 channels" if input_size is None else f"3 channels at {_size(input_size)} (height x width)"
        raise ModelError(f"{where} takes {found}, but {asked} in layout {contract.layout} are asked of it.")
    if input_size is None and any(isinstance(side, int) and side != 3 for side in item.shape[1:]):
        raise ModelError(
            f"{where} takes {found}: its size is fixed, so native mode cannot be used; give the input size."
        )


def _check_outputs(where: Where, entry: ModelEntry, session: Session) -> None:
    found = {item.name: item for item in session.get_outputs()}
    if missing := [name for name in entry.output.outputs if name not in found]:
        shapes = ", ".join(f"{item.name} {item.shape}" for item in found.values())
        raise ModelError(f"{where} has the outputs {shapes}, but the contract declares {', '.join(missing)}.")


def _prove(where: Where, entry: ModelEntry, head: Head, session: Session, input_px: HeightWidth) -> BatchRule:
    """Run the model and check what comes out; the batch rule that it was seen to keep."""
    declared = session.get_inputs()[0].shape[0]
    if isinstance(declared, int):
        _trial(where, entry, head, session, declared, input_px)
        return BatchRule(declared, fixed=True)
    _trial(where, entry, head, session, 1, input_px)
    try:
        _trial(where, entry, head, session, 2, input_px)
    except ModelError as error:
        logger.warning("%s claims any batch size but fails at 2, so it runs one picture at a time (%s)", where, error)
        return BatchRule(1, fixed=False)
    return BatchRule(None, fixed=False)


def _trial(where: Where, entry: ModelEntry, head: Head, session: Session, count: int, input_px: HeightWidth) -> None:
    batch = np.zeros(tensor_shape(entry.input, count, input_px), dtype=entry.input.dtype)
    names = list(entry.output.outputs)
    try:
        outputs = session.run(names, {entry.input.name: batch})
    except ORT_ERRORS as error:
        reason = str(error).strip().splitlines()[-1][-300:]
        raise ModelError(f"{where} fails on an input of shape {batch.shape}: {reason}") from error
    for name, output, shape in zip(names, outputs, head.shapes(entry.output, input_px), strict=True):
        wanted = (count, *shape)
        if output.shape != wanted or output.dtype.kind != "f":
            raise ModelError(
                f"{where} gives output {name!r} of shape {output.shape} ({output.dtype}) for an input of shape "
                f"{batch.shape}, but head {entry.output.head!r} needs floats of shape {wanted}."
            )


def _size(size: HeightWidth) -> str:
    return f"{size[0]}x{size[1]}"
