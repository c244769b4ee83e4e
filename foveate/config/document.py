"""A YAML text as plain values that remember their lines.

Every scalar stays the text that was written: the key that takes it decides whether it is a number. So a password of
0123 or a camera named ``no`` needs no quotes, and nothing in the file can name a Python type.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from foveate.config.faults import Fault, Loc
from pipeline.errors import ConfigError

Value = str | None | list["Value"] | dict[str, "Value"]

MOST_BYTES = 1024 * 1024
MOST_VALUES = 50_000
MOST_DEPTH = 20
_CORE_TAG = "tag:yaml.org,2002:"
_NULL_TAG = _CORE_TAG + "null"
_REFERENCE = re.compile(r"\$\$\{|\$\{([^}]*)\}?")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(slots=True)
class Document:
    """The values of one file, the line of each key and list item, what was wrong so far, and which text came from
    the environment (by value, the reference that stood for it).
    """

    name: str
    values: dict[str, Value] = field(default_factory=dict)
    lines: dict[Loc, int] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    references: dict[str, str] = field(default_factory=dict)


def read_document(path: Path, env: Mapping[str, str]) -> Document:
    """Read a configuration file. Raises ConfigError where it cannot be read or is no YAML."""
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
        text = data.decode("utf-8-sig")
    except OSError as error:
        raise ConfigError(
            f"the configuration {path} cannot be read ({error.strerror}): name another with -c"
        ) from error
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"the configuration is not UTF-8 ({path} line {line}): save it as UTF-8") from None
    if len(data) > MOST_BYTES:
        raise ConfigError(f"the configuration {path} is larger than {MOST_BYTES} bytes: name a foveate.yaml with -c")
    return parse_document(text, str(path), env)


def parse_document(text: str, name: str, env: Mapping[str, str]) -> Document:
    """Parse YAML; ``${NAME}`` in a value is taken from ``env``. Raises ConfigError on text that is no YAML."""
    document = Document(name)
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        if root is None or root.tag == _NULL_TAG:
            return document
        values = _Reader(document, env).read(root, ())
    except yaml.MarkedYAMLError as error:
        raise ConfigError(_syntax(error, name, text)) from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise ConfigError(f"a character that YAML does not allow ({name} line {line}): remove it") from None
    except RecursionError:
        raise ConfigError(f"the configuration {name} is nested too deeply: write it flatter") from None
    if not isinstance(values, dict):
        raise ConfigError(f"the configuration {name} is no group of keys: write 'key: value' lines")
    document.values = values
    return document


def escape(text: str) -> str:
    """Text as it must be written so that no variable is read out of it."""
    return text.replace("${", "$${")


def _syntax(error: yaml.MarkedYAMLError, name: str, text: str) -> str:
    mark = error.problem_mark or error.context_mark
    where = f"{name} line {mark.line + 1}" if mark else name
    problem, advice = error.problem or "it cannot be read", "check indentation, colons and quotes around here"
    if "alias" in problem:  # the library would quote the value, which may be a secret
        problem, advice = "a value begins with '*'", "put it in quotes"
    elif mark and "${" in "".join(text.splitlines()[mark.line : mark.line + 1]):
        advice = "put ${NAME} in quotes where it stands between braces or brackets"
    return f"this is not YAML ({where}): {problem}; {advice}"


class _Reader:
    """Turns the nodes of one document into values."""

    def __init__(self, document: Document, env: Mapping[str, str]) -> None:
        self._document = document
        self._env = env
        self._count = 0

    def read(self, node: yaml.Node, loc: Loc) -> Value:
        self._document.lines.setdefault(loc, node.start_mark.line + 1)
        self._count += 1
        # Aliases can make a small file huge, or endless.
        if self._count > MOST_VALUES or len(loc) > MOST_DEPTH:
            raise ConfigError(f"the configuration {self._document.name} is too large or nested too deeply: shorten it")
        if not node.tag.startswith(_CORE_TAG):
            self._fault(loc, "has a value that begins with '!'", "put it in quotes")
            return None
        if isinstance(node, yaml.MappingNode):
            return self._read_mapping(node, loc)
        if isinstance(node, yaml.SequenceNode):
            return [self.read(item, (*loc, number)) for number, item in enumerate(node.value)]
        if node.tag == _NULL_TAG:
            return None
        return self._expand(str(node.value), loc)

    def _read_mapping(self, node: yaml.MappingNode, loc: Loc) -> dict[str, Value]:
        values: dict[str, Value] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                self._document.lines.setdefault((*loc, "?"), key_node.start_mark.line + 1)
                self._fault((*loc, "?"), "is a key that is no text", "write 'key: value'")
                continue
            key = str(key_node.value)
            here = (*loc, key)
            line = key_node.start_mark.line + 1
            if key in values:
                self._fault(here, f"is given a second time in line {line}", "keep one of the two")
                continue
            self._document.lines[here] = line
            values[key] = self.read(value_node, here)
        return values

    def _expand(self, text: str, loc: Loc) -> str:
        wrong: list[tuple[str, str]] = []

        def replace(found: re.Match[str]) -> str:
            if found[0] == "$${":
                return "${"
            name = found[1]
            if not found[0].endswith("}") or not _VARIABLE.fullmatch(name):
                wrong.append(("uses '${' without the name of a variable", "write ${NAME}, or $${ for the characters"))
                return ""
            if name not in self._env:
                wrong.append((f"uses ${{{name}}}, which is not set", f"set the environment variable {name}"))
                return ""
            value = self._env[name]
            self._document.references[value] = found[0]
            return value

        expanded = _REFERENCE.sub(replace, text)
        for problem, advice in wrong:
            self._fault(loc, problem, advice)
        return expanded

    def _fault(self, loc: Loc, problem: str, advice: str) -> None:
        self._document.faults.append(Fault(loc, problem, advice))
