"""The page, the schema and the examples agree with the models."""

import re
from pathlib import Path

import jsonschema
import pytest
import yaml

from foveate.config.findings import keys_by_group
from foveate.config.load import load
from foveate.config.models import Configuration
from foveate.config.reference import page_with_tables, tables
from foveate.config.settings import plan, worker_settings

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "configuration.md"
EXAMPLES = sorted((ROOT / "examples").glob("*.yaml"))


def test_the_page_lists_the_keys_as_they_are() -> None:
    page = PAGE.read_text("utf-8")
    assert page == page_with_tables(page), "write it anew: python -m foveate.config.reference docs/configuration.md"


def test_every_key_is_listed_with_its_meaning() -> None:
    text = tables()
    for keys in keys_by_group(Configuration).values():
        for name in keys:
            assert re.search(rf"^\| `(cameras\[\]\.)?{name}` \| [^|]+ \| [^|]* \| [^|]*\w", text, re.MULTILINE), name


def test_a_page_without_a_place_for_the_tables_is_refused() -> None:
    with pytest.raises(ValueError, match="begin"):
        page_with_tables("# Nothing\n")


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 4


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_works(example: Path, tmp_path: Path) -> None:
    copy = tmp_path / example.name
    text = example.read_text("utf-8")
    copy.write_text(text)
    for found in re.finditer(r"_file: (\S+)", text):
        (tmp_path / found[1]).parent.mkdir(exist_ok=True)
        (tmp_path / found[1]).write_text("secret\n")
    env = dict.fromkeys(re.findall(r"\$\{(\w+)\}", text), "secret")
    configuration = load(copy, env)
    assert plan(configuration).agent.cameras or worker_settings(configuration).group


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_fits_the_schema(example: Path) -> None:
    validator = jsonschema.Draft202012Validator(Configuration.model_json_schema())
    validator.validate(yaml.safe_load(example.read_text("utf-8")))


@pytest.mark.parametrize(
    "wrong",
    [
        {"x": 1},
        {"defaults": {"sample_fps": 0}},
        {"defaults": {"roi": [0, 0, 1]}},
        {"defaults": {"masks": [[0, 0, -1, 1]]}},
        {"worker": {"batch": "none at all"}},
        {"cameras": [{"name": "a"}]},
        {"models": {"edge": {"input_size": [192]}}},
    ],
)
def test_the_schema_refuses_what_the_command_refuses(wrong: object) -> None:
    validator = jsonschema.Draft202012Validator(Configuration.model_json_schema())
    assert not validator.is_valid(wrong)


def test_the_schema_asks_for_nothing_but_a_source() -> None:
    validator = jsonschema.Draft202012Validator(Configuration.model_json_schema())
    validator.validate({"cameras": [{"source": "a.mp4", "roi": []}]})
