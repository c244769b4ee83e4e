"""Finding the models folder and reading its manifest."""

import difflib
import hashlib
import os
import tomllib
from pathlib import Path

import msgspec

from pipeline.detectors.contract import ModelEntry
from pipeline.errors import ModelError

MANIFEST = "manifest.toml"
ENVIRONMENT = "FOVEATE_MODELS"


class Manifest(msgspec.Struct, frozen=True):
    """The models of one folder."""

    folder: Path
    entries: tuple[ModelEntry, ...]

    def entry(self, name: str) -> ModelEntry:
        """The model of that name. Raises ModelError that names the nearest one."""
        for entry in self.entries:
            if entry.name == name:
                return entry
        names = [entry.name for entry in self.entries]
        near = difflib.get_close_matches(name, names, n=1, cutoff=0.4)
        hint = f"did you mean {near[0]!r}?" if near else "choose another one."
        raise ModelError(f"Unknown model {name!r}: {self.folder / MANIFEST} has {', '.join(names)}; {hint}")

    def path(self, entry: ModelEntry) -> Path:
        """The model's file, which may be absent."""
        return self.folder / entry.file


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    model: tuple[ModelEntry, ...]


def find_models_dir(explicit: Path | None = None) -> Path:
    """The folder given, else the one of FOVEATE_MODELS, else models/ beside the packages; always absolute."""
    if explicit is not None:
        return explicit.resolve()
    if named := os.environ.get(ENVIRONMENT):
        return Path(named).expanduser().resolve()
    return Path(__file__).resolve().parents[2] / "models"


def read_manifest(models_dir: Path | None = None) -> Manifest:
    """Read and check manifest.toml of the models folder. Raises ModelError with the place of what is wrong."""
    folder = find_models_dir(models_dir)
    path = folder / MANIFEST
    try:
        entries = msgspec.convert(tomllib.loads(path.read_text("utf-8")), type=_File).model
    except OSError as error:
        reason = error.strerror or str(error)
        raise ModelError(f"Cannot read {path} ({reason}): name the models folder with {ENVIRONMENT}.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ModelError(f"{path} is not valid TOML: {error}; correct it.") from error
    except msgspec.ValidationError as error:
        raise ModelError(f"{path} does not describe its models: {error}; correct it.") from error
    names = [entry.name for entry in entries]
    if doubled := sorted({name for name in names if names.count(name) > 1}):
        raise ModelError(f"{path} has model {doubled[0]!r} twice; rename one of them.")
    return Manifest(folder, entries)


def verified_path(manifest: Manifest, entry: ModelEntry) -> Path:
    """The model's file, present and with the hash of the manifest; raises ModelError otherwise."""
    path = manifest.path(entry)
    try:
        found = hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        reason = error.strerror or str(error)
        raise ModelError(f"Cannot read {path}, the file of model {entry.name!r} ({reason}): fetch it again.") from error
    if found != entry.sha256.lower():
        raise ModelError(
            f"{path} has sha256 {found}, but {MANIFEST} says {entry.sha256} for model {entry.name!r}: "
            "fetch the file again, or correct the manifest if you changed the model yourself."
        )
    return path
