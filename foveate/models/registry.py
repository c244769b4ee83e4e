"""Writing one model's entry into manifest.toml and leaving the rest of the file alone."""

import json
from pathlib import Path
from typing import Any

import msgspec

from pipeline.detectors.contract import ModelEntry
from pipeline.detectors.manifest import MANIFEST, read_manifest
from pipeline.errors import ModelError

HEADER = "[[model]]"


def write_entry(folder: Path, entry: ModelEntry) -> None:
    """Put the entry in the place of the one of the same name, else at the end. Raises ModelError on failure."""
    names = [known.name for known in read_manifest(folder).entries]
    path = folder / MANIFEST
    head, *blocks = _split(path.read_text("utf-8"))
    if len(blocks) != len(names):
        raise ModelError(f"{path} writes its models in an unusual way: start each with a line {HEADER}.")
    block = render_entry(entry)
    if entry.name in names:
        blocks[names.index(entry.name)] = block
    else:
        blocks.append(block)
    text = "\n".join([head.rstrip() + "\n", *(block.rstrip() + "\n" for block in blocks)])
    temporary = path.with_suffix(".toml.new")
    temporary.write_text(text.lstrip("\n"), "utf-8")
    temporary.replace(path)


def render_entry(entry: ModelEntry) -> str:
    """One entry as TOML."""
    fields = {key: value for key, value in msgspec.to_builtins(entry).items() if value is not None}
    tables = {key: value for key, value in fields.items() if isinstance(value, dict)}
    lines = [HEADER, *(_line(key, value) for key, value in fields.items() if key not in tables)]
    for name, table in tables.items():
        if table:
            lines += ["", f"[model.{name}]", *(_line(key, value) for key, value in table.items())]
    return "\n".join(lines) + "\n"


def _line(key: str, value: Any) -> str:
    # Texts, numbers and lists of them look the same in JSON and TOML.
    return f"{key} = {json.dumps(value, ensure_ascii=False)}"


def _split(text: str) -> list[str]:
    parts: list[list[str]] = [[]]
    for line in text.splitlines():
        if line.strip() == HEADER:
            parts.append([])
        parts[-1].append(line)
    return ["\n".join(part) for part in parts]
