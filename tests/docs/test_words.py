"""The glossary and the changelog keep their form."""

import re
import tomllib
from pathlib import Path

from pipeline.results import Origin

ROOT = Path(__file__).resolve().parents[2]
ROWS = re.findall(r"^\| ([^|]+) \| ([^|]+) \|$", (ROOT / "docs" / "glossary.md").read_text("utf-8"), re.MULTILINE)
ENTRIES = [(word, meaning) for word, meaning in ROWS if word != "word"]


def test_every_word_is_defined_once_in_one_sentence() -> None:
    words = [word.strip() for names, _ in ENTRIES for word in names.split(",")]
    assert len(words) == len(set(words)) > 40
    for _, meaning in ENTRIES:
        assert re.fullmatch(r"[A-Z][^.]*\.", meaning), meaning


def test_the_words_stand_in_order() -> None:
    names = [names.lower() for names, _ in ENTRIES]
    assert names == sorted(names)


def test_the_glossary_names_every_origin() -> None:
    meaning = dict(ENTRIES)["origin"]
    for origin in Origin:
        assert origin.value in meaning


def test_the_changelog_speaks_of_the_version_that_is_built() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    text = (ROOT / "CHANGELOG.md").read_text("utf-8")
    assert re.search(rf"^## \[{re.escape(version)}\]", text, re.MULTILINE) or f"will be {version}." in text
    assert "## [Unreleased]" in text


def test_everything_under_another_licence_is_named_in_the_notices() -> None:
    text = (ROOT / "THIRD_PARTY_NOTICES.md").read_text("utf-8")
    manifest = tomllib.loads((ROOT / "models" / "manifest.toml").read_text("utf-8"))
    for name in [*(f"models/{model['file']}" for model in manifest["model"]),
                 *{f"models/{model['labels']}" for model in manifest["model"]},
                 *(f"sample_videos/{path.name}" for path in (ROOT / "sample_videos").glob("*.mp4"))]:  # fmt: skip
        assert f"`{name}`" in text, name
