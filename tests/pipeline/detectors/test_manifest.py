import hashlib
import tomllib
from pathlib import Path

import msgspec
import pytest

from foveate.models.registry import render_entry
from pipeline.detectors.contract import ModelEntry
from pipeline.detectors.manifest import find_models_dir, read_manifest, verified_path
from pipeline.errors import ModelError
from tests.support.onnx_models import entry, save

REPOSITORY = Path(__file__).resolve().parents[3]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    save(tmp_path, entry("walker"), b"content")
    return tmp_path


def test_the_folder_is_the_one_given_else_that_of_the_environment_else_the_repositorys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FOVEATE_MODELS", str(tmp_path / "named"))
    assert find_models_dir(tmp_path / "given") == tmp_path / "given"
    assert find_models_dir() == tmp_path / "named"
    monkeypatch.delenv("FOVEATE_MODELS")
    monkeypatch.chdir(tmp_path)
    assert find_models_dir() == REPOSITORY / "models"


def test_what_is_written_is_what_is_read(folder: Path) -> None:
    written = save(folder, entry("walker"), b"content")
    assert read_manifest(folder).entries == (written,)


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ('layout = "NCHW"', 'layout = "HWC"', r"\$\.model\[0\]\.input\.layout"),
        ('layout = "NCHW"', "", "layout"),
        ("pad_value = 114", 'pad_value = "grey"', "pad_value"),
        ("pad_value = 114", "pad_value = 300", "300"),
        ("pad_value = 114", "padding = 114", "padding"),
        ("size_px = [64, 64]", "size_px = [64, 60]", "60 px is not a positive multiple"),
        ("std = [1.0, 1.0, 1.0]", "std = [1.0, 0.0, 1.0]", "std"),
        ("classes = 3", "classes = 0", "classes 0"),
        ('dtype = "float32"', 'dtype = "uint8"\nscale = 2', "not valid TOML"),
        ("[[model]]", "[[model", "not valid TOML"),
    ],
)
def test_a_manifest_that_is_wrong_says_where(folder: Path, old: str, new: str, reason: str) -> None:
    path = folder / "manifest.toml"
    text = path.read_text("utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), "utf-8")
    with pytest.raises(ModelError, match=reason) as caught:
        read_manifest(folder)
    assert str(path) in str(caught.value)


def test_a_missing_manifest_names_the_variable_to_set(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="FOVEATE_MODELS"):
        read_manifest(tmp_path / "nowhere")


def test_two_models_of_one_name_are_refused(folder: Path) -> None:
    path = folder / "manifest.toml"
    path.write_text(path.read_text("utf-8") * 2, "utf-8")
    with pytest.raises(ModelError, match="'walker' twice"):
        read_manifest(folder)


def test_an_unknown_name_is_answered_with_the_nearest(folder: Path) -> None:
    with pytest.raises(ModelError, match="did you mean 'walker'"):
        read_manifest(folder).entry("walkr")


def test_a_file_whose_hash_differs_or_that_is_missing_is_refused(folder: Path) -> None:
    manifest = read_manifest(folder)
    known = manifest.entry("walker")
    assert verified_path(manifest, known).read_bytes() == b"content"
    (folder / known.file).write_bytes(b"other content")
    found = hashlib.sha256(b"other content").hexdigest()
    with pytest.raises(ModelError, match=f"{found}.*{known.sha256}"):
        verified_path(manifest, known)
    (folder / known.file).unlink()
    with pytest.raises(ModelError, match="No such file"):
        verified_path(manifest, known)


def test_an_entry_survives_being_written_as_toml() -> None:
    described = msgspec.structs.replace(
        entry('odd "name" \\ é'), labels="names.txt", measured={"f1": 0.5, "frames": 80, "on": "a clip"}
    )
    (table,) = tomllib.loads(render_entry(described))["model"]
    assert msgspec.convert(table, ModelEntry) == described
