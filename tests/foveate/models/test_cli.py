from pathlib import Path

import pytest
from typer.testing import CliRunner

from foveate.models.cli import app, parse_size
from foveate.models.describe import describe
from pipeline.errors import ConfigError, ModelError
from tests.support.onnx_models import brightness_detector, entry, save

RUNNER = CliRunner()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    save(tmp_path, entry("spots", {"largest_px": (64, 96)}), brightness_detector())
    return tmp_path


def test_list_shows_every_model_and_the_state_of_its_file(folder: Path) -> None:
    shown = RUNNER.invoke(app, ["list", "--models-dir", str(folder)])
    assert shown.exit_code == 0
    assert "spots" in shown.stdout
    assert "64x64" in shown.stdout
    assert "ok" in shown.stdout
    (folder / "spots.onnx").unlink()
    assert "missing" in RUNNER.invoke(app, ["list", "--models-dir", str(folder)]).stdout


def test_inspect_of_a_name_shows_contract_tensors_versions_and_hash(folder: Path) -> None:
    rows = dict(describe("spots", folder))
    assert "layout NCHW" in rows["input contract"]
    assert "head nanodet" in rows["output contract"]
    assert rows["input image"] == "tensor(float) [batch, 3, height, width]"
    assert (rows["IR version"], rows["opsets"]) == ("8", "ai.onnx 17")
    assert len(rows["sha256"]) == 64


def test_inspect_of_a_file_finds_its_contract_by_its_content(folder: Path) -> None:
    assert dict(describe(str(folder / "spots.onnx"), folder))["model"] == "spots 1.0.0"


def test_inspect_of_an_unknown_file_says_that_a_contract_is_missing(folder: Path, tmp_path: Path) -> None:
    stranger = tmp_path / "stranger.onnx"
    model = brightness_detector()
    model.producer_name = "somebody else"
    stranger.write_bytes(model.SerializeToString())
    shown = RUNNER.invoke(app, ["inspect", str(stranger), "--models-dir", str(folder)])
    assert shown.exit_code == 0
    assert "not in the manifest" in " ".join(shown.stdout.split())
    assert "scores" in shown.stdout


@pytest.mark.parametrize(("what", "reason"), [("absent.onnx", "no file"), ("spotz", "did you mean 'spots'")])
def test_inspect_of_what_is_not_there_says_so(folder: Path, what: str, reason: str) -> None:
    with pytest.raises(ModelError, match=reason):
        describe(what, folder)


def test_a_size_is_height_by_width_in_pixels() -> None:
    assert parse_size("192x256") == (192, 256)
    for text in ("192", "192*256", "x", "-1x5", "big"):
        with pytest.raises(ConfigError, match="HEIGHTxWIDTH"):
            parse_size(text)
