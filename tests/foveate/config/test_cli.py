"""``foveate config``."""

import json
from pathlib import Path

import jsonschema
import pytest
from typer.testing import CliRunner

from foveate.config.cli import app
from foveate.config.load import load
from pipeline.errors import ConfigError, ModelError


def write(folder: Path, text: str) -> str:
    path = folder / "foveate.yaml"
    path.write_text(text)
    return str(path)


def fails(folder: Path, text: str) -> BaseException:
    result = CliRunner().invoke(app, ["check", write(folder, text)])
    assert result.exception is not None
    return result.exception


def test_check_names_the_cameras_of_a_valid_file(tmp_path: Path) -> None:
    file = write(tmp_path, "cameras: [{name: gate, source: 'synthetic:', objects: [person]}, {source: x.mp4}]")
    result = CliRunner().invoke(app, ["check", file])
    assert result.exit_code == 0, result.exception
    assert result.output == f"{file} is valid; cameras: gate, x\n"


def test_check_refuses_a_faulty_file(tmp_path: Path) -> None:
    error = fails(tmp_path, "cameras: [{name: gate}]")
    assert isinstance(error, ConfigError)
    assert f"({tmp_path}/foveate.yaml line 1)" in str(error)


def test_check_refuses_a_file_that_is_not_there(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["check", str(tmp_path / "absent.yaml")])
    assert isinstance(result.exception, ConfigError)


def test_check_refuses_a_model_that_does_not_exist(tmp_path: Path) -> None:
    error = fails(tmp_path, "models: {cloud: {name: nanodet-h}}")
    assert isinstance(error, ModelError)
    assert "'nanodet-g'" in str(error)


@pytest.mark.parametrize("where", ["edge: {input_size: [100, 100]}", "cloud: {input_size: [100, 64]}"])
def test_check_refuses_an_input_size_that_a_model_cannot_take(tmp_path: Path, where: str) -> None:
    assert "takes multiples of 32 px only" in str(fails(tmp_path, f"models: {{{where}}}"))


def test_check_refuses_an_input_size_of_a_served_model(tmp_path: Path) -> None:
    error = fails(tmp_path, "worker: {models: [{name: nanodet-g, input_size: [100, 64]}]}")
    assert str(error).startswith("worker.models[0].input_size is [100, 64]")


def test_check_refuses_a_class_that_no_model_knows(tmp_path: Path) -> None:
    error = fails(tmp_path, "cameras: [{source: 'synthetic:', objects: [persn, car, unicorn]}]")
    first, second = str(error).splitlines()
    assert first == "cameras[0].objects has 'persn', which no model knows; did you mean 'person'?"
    assert "'unicorn'" in second


def test_show_prints_a_file_that_is_the_same_when_it_is_read(tmp_path: Path) -> None:
    file = write(tmp_path, "cameras: [{source: clips/x.mp4, title: 'cost: $5'}]")
    shown = CliRunner().invoke(app, ["show", file])
    assert shown.exit_code == 0
    before = load(Path(file), {})
    other = tmp_path / "elsewhere"
    other.mkdir()
    assert load(Path(write(other, shown.output)), {}) == before


def test_show_takes_variables_from_the_environment(tmp_path: Path) -> None:
    file = write(tmp_path, "agent:\n  name: ${FOVEATE_TEST_SITE}\n")
    shown = CliRunner().invoke(app, ["show", file], env={"FOVEATE_TEST_SITE": "site-a"})
    assert "name: site-a" in shown.output


def test_schema_prints_a_valid_json_schema() -> None:
    result = CliRunner().invoke(app, ["schema"])
    schema = json.loads(result.output)
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["additionalProperties"] is False
