"""Commands that the pages name exist, and take the options that they are given."""

import itertools
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main

from foveate.broker import DEFAULT_PORT, DEFAULT_PORT_V3
from foveate.cli import app
from pipeline.errors import FoveateError
from pipeline.transport.matching import filter_fault, matches
from pipeline.wire import topics

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
PUBLISHED = (topics.result("c"), topics.count("c", "person"), topics.state("c"), topics.available("a"))


def shell_lines() -> Iterator[list[str]]:
    """Every command in a block of shell, as words; the program without its folder."""
    for page in PAGES:
        for block in re.findall(r"^```sh\n(.*?)^```", page.read_text("utf-8"), re.DOTALL | re.MULTILINE):
            for line in block.splitlines():
                for part in line.split(" && "):
                    words = shlex.split(part, comments=True)
                    while words and re.match(r"[A-Z_]+=", words[0]):
                        words = words[1:]
                    if words:
                        yield [words[0].removeprefix(".venv/bin/"), *words[1:]]


def spoken_of() -> set[str]:
    """Commands in running text: the words after `foveate` in back quotes."""
    text = "\n".join(re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.DOTALL | re.M) for page in PAGES)
    return set(re.findall(r"`foveate ([a-z][a-z -]*)", text))


LINES = list(shell_lines())


def of(program: str) -> list[list[str]]:
    return [words for words in LINES if words[0] == program]


def parse(words: list[str]) -> None:
    """Parse a command line as the product does, without running it. Fails where the product would say wrong use."""
    command: Any = typer.main.get_command(app)
    while hasattr(command, "commands"):
        assert words, "a command is missing"
        assert words[0] in command.commands, f"foveate has no command {words[0]}"
        command, words = command.commands[words[0]], words[1:]
    command.make_context("foveate", list(words))


def test_the_readme_shows_how_to_start() -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    for command in ("make demo ", "make demo SOURCE=rtsp://", "make test ", "mosquitto_sub ", "foveate run "):
        assert command in text


@pytest.mark.parametrize("words", of("foveate"), ids=" ".join)
def test_the_foveate_commands_of_the_pages_are_taken(words: list[str]) -> None:
    parse(words[1:])


def test_a_command_that_does_not_exist_would_be_noticed() -> None:
    with pytest.raises(AssertionError, match="no command"):
        parse(["stream"])
    with pytest.raises(Exception, match="--nonsense"):
        parse(["run", "--nonsense"])


@pytest.mark.parametrize("words", of("foveate"), ids=" ".join)
def test_the_configurations_that_are_named_exist(words: list[str]) -> None:
    for option, value in itertools.pairwise(words):
        if option == "-c":
            assert (ROOT / value).is_file()


def test_commands_in_running_text_exist() -> None:
    root: Any = typer.main.get_command(app)
    for spoken in spoken_of():
        command = root
        for word in spoken.split():
            if not hasattr(command, "commands") or word.startswith("-"):
                break
            assert word in command.commands, f"foveate {spoken}"
            command = command.commands[word]


def test_the_targets_of_make_exist() -> None:
    targets = set(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    named = {words[1] for words in of("make")}
    assert named >= {"demo", "test", "setup"}
    assert named <= targets


def test_the_mosquitto_commands_reach_our_broker_with_the_right_version_and_hear_what_is_published() -> None:
    lines = of("mosquitto_sub")
    versions = set()
    for words in lines:
        given = dict(itertools.pairwise(words))
        assert filter_fault(given["-t"]) is None
        assert any(matches(given["-t"], topic) for topic in PUBLISHED), given["-t"]
        assert int(given["-p"]) == {"mqttv5": DEFAULT_PORT, "mqttv311": DEFAULT_PORT_V3}[given["-V"]]
        versions.add(given["-V"])
    assert versions == {"mqttv5", "mqttv311"}


def test_the_readme_explains_every_exit_code() -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    explained = set(map(int, re.findall(r"^\| (\d) \| .+ \|$", text, re.MULTILINE)))
    kinds: set[type[FoveateError]] = {FoveateError, *FoveateError.__subclasses__()}
    assert explained == {0} | {kind.exit_code for kind in kinds}
