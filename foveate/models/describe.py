"""What is known about a model file, in rows of (what, value)."""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
import onnxruntime as ort

from pipeline.detectors.contract import ModelEntry
from pipeline.detectors.manifest import Manifest, read_manifest, verified_path
from pipeline.detectors.onnx_header import read_header
from pipeline.detectors.session import open_session
from pipeline.errors import ModelError

Rows = list[tuple[str, str]]
NO_CONTRACT = (
    "none: this file is not in the manifest, so nothing says how pictures go in and what comes out; "
    "describe it in manifest.toml before using it"
)


def describe(file_or_name: str, models_dir: Path | None) -> Rows:
    """Rows about a model of the manifest, or about any ONNX file. Raises ModelError where it does not load."""
    path = Path(file_or_name)
    if not path.is_file():
        if path.suffix == ".onnx" or len(path.parts) > 1:
            raise ModelError(f"There is no file {path}: name an ONNX file, or a model of the manifest.")
        manifest = read_manifest(models_dir)
        entry = manifest.entry(file_or_name)
        return [*_entry_rows(entry), *_file_rows(verified_path(manifest, entry))]
    rows = _file_rows(path)
    known = _entry_of(path, models_dir)
    return [*_entry_rows(known), *rows] if known else [*rows, ("contract", NO_CONTRACT)]


def file_state(manifest: Manifest, entry: ModelEntry) -> str:
    """``ok``, or why the model's file cannot be used."""
    try:
        verified_path(manifest, entry)
    except ModelError as error:
        return "missing" if not manifest.path(entry).exists() else f"unusable: {error}"
    return "ok"


def _entry_of(path: Path, models_dir: Path | None) -> ModelEntry | None:
    try:
        entries = read_manifest(models_dir).entries
    except ModelError:
        return None
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    return next((entry for entry in entries if entry.sha256.lower() == found), None)


def _entry_rows(entry: ModelEntry) -> Rows:
    rows = [("model", f"{entry.name} {entry.version}"), ("licence", entry.licence), ("source", entry.source)]
    for part, contract in (("input contract", entry.input), ("output contract", entry.output)):
        rows.append((part, _pairs(msgspec.to_builtins(contract))))
    rows.append(("labels", entry.labels or "from the file's metadata"))
    if entry.measured:
        rows.append(("measured", _pairs(entry.measured)))
    return rows


def _file_rows(path: Path) -> Rows:
    session = open_session(path, 1, one_shape=True)
    data = path.read_bytes()
    header = read_header(data)
    opsets = ", ".join(f"{domain} {version}" for domain, version in header.opsets.items())
    rows = [
        ("file", str(path)),
        ("size", f"{len(data):,} bytes"),
        ("sha256", hashlib.sha256(data).hexdigest()),
        ("IR version", str(header.ir_version)),
        ("opsets", opsets),
        ("loads with", f"onnxruntime {ort.__version__}"),
    ]
    rows += [(f"input {item.name}", _tensor(item.type, item.shape)) for item in session.get_inputs()]
    rows += [(f"output {item.name}", _tensor(item.type, item.shape)) for item in session.get_outputs()]
    return rows


def _tensor(kind: str, shape: Sequence[int | str | None]) -> str:
    return f"{kind} [{', '.join('?' if side is None else str(side) for side in shape)}]"


def _pairs(values: Mapping[str, object]) -> str:
    return ", ".join(f"{key} {value}" for key, value in values.items())
