"""The table of all keys for the documentation, made from the models so that it cannot go stale.

``python -m foveate.config.reference docs/configuration.md`` writes it into the page.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from foveate.config.models import Configuration

BEGIN = "<!-- generated from the models: begin -->"
END = "<!-- generated from the models: end -->"
_UNITS = {
    "_ms": "ms", "_s": "s", "_px": "px", "_bytes": "bytes", "_kbps": "kbit/s", "_fps": "per s", "pixel_limit": "px",
}  # fmt: skip
_LIMITS = {"exclusiveMinimum": ">", "minimum": "≥", "exclusiveMaximum": "<", "maximum": "≤"}
_KINDS = {"string": "text", "integer": "whole number", "number": "number", "boolean": "true or false", "array": "list"}


def page_with_tables(page: str) -> str:
    """The page with its generated part made anew. Raises ValueError where the page has no place for it."""
    before, _, rest = page.partition(BEGIN)
    _, found, after = rest.partition(END)
    if not found:
        raise ValueError(f"the page has no {BEGIN} followed by {END}")
    return f"{before}{BEGIN}\n\n{tables()}\n{END}{after}"


def tables() -> str:
    """One Markdown table per group of keys."""
    schema = Configuration.model_json_schema()
    lines: list[str] = []
    for title, group in _groups(schema, schema["$defs"], "Top level"):
        lines += [f"### {title}", "", group["description"].strip(), "", "| key | value | default | meaning |"]
        lines += ["|---|---|---|---|", *_rows(group, schema["$defs"]), ""]
    return "\n".join(lines)


def _groups(schema: dict[str, Any], known: dict[str, Any], title: str) -> Iterator[tuple[str, dict[str, Any]]]:
    yield title, schema
    prefix = "" if title == "Top level" else f"{title.strip('`')}."
    for name, entry in schema["properties"].items():
        group = _group_of(entry, known)
        # The keys of all cameras are listed once, those of `defaults`.
        if group is not None and name != "cameras":
            yield from _groups(group, known, f"`{prefix}{name}`")


def _group_of(entry: dict[str, Any], known: dict[str, Any]) -> dict[str, Any] | None:
    parts = [entry, *entry.get("anyOf", ())]
    for part in parts:
        reference = part.get("$ref") or part.get("items", {}).get("$ref")
        if reference:
            found: dict[str, Any] = known[reference.rpartition("/")[2]]
            return found
    return None


def _rows(group: dict[str, Any], known: dict[str, Any]) -> Iterator[str]:
    entries = dict(group["properties"])
    if entries.keys() >= {"cameras", "defaults"}:
        of_one_camera = known["CameraEntry"]["properties"]
        entries |= {f"cameras[].{name}": of_one_camera[name] for name in ("name", "source")}
    for name, entry in entries.items():
        is_group = _group_of(entry, known) is not None
        default = "" if is_group or "default" not in entry else f"`{_plain(entry['default'])}`"
        meaning = entry.get("description", "").replace("|", "\\|")
        yield f"| `{name}` | {_kind(name, entry, known)} | {default} | {meaning} |"


def _kind(name: str, entry: dict[str, Any], known: dict[str, Any]) -> str:
    parts = [part for part in entry.get("anyOf", [entry]) if part.get("type") != "null"]
    if _group_of(entry, known) is not None:
        listed = any(part.get("type") == "array" for part in parts)
        return "list of groups" if listed else "group"
    part = parts[0]
    limits = [f"{sign} {part[limit]:g}" for limit, sign in _LIMITS.items() if limit in part]
    unit = next((unit for ending, unit in _UNITS.items() if name.endswith(ending)), "")
    kind = " or ".join(f"`{value}`" for value in part["enum"]) if "enum" in part else _KINDS[part.get("type", "array")]
    optional = "or null" if len(parts) < len(entry.get("anyOf", parts)) else ""
    return ", ".join(filter(None, [kind, unit, *limits, optional]))


def _plain(value: object) -> str:
    return value if isinstance(value, str) and value else json.dumps(value)


def main() -> None:
    """Write the tables into the page named on the command line."""
    page = Path(sys.argv[1])
    page.write_text(page_with_tables(page.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    main()
