"""From a file, the environment and the command line to a checked configuration."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from foveate.config.checks import cross_faults
from foveate.config.document import Document, read_document
from foveate.config.faults import Fault, Loc, Places
from foveate.config.findings import fault_of, keys_by_group
from foveate.config.models import Configuration
from foveate.config.names import camera_name
from pipeline.errors import ConfigError

Overrides = Mapping[str, object]
"""Values of the command line by dotted key, for example ``uplink.uplink_kbps``; ``cameras.sample_fps`` is set for every
camera. None means that the option was not given.
"""

_GROUPS = keys_by_group(Configuration)
_SECRET_PAIRS = {"password": "password_file", "password_file": "password"}


def load(path: Path | None, env: Mapping[str, str], overrides: Overrides | None = None) -> Configuration:
    """The configuration of a file, all defaults where there is none.

    ``env`` gives the values of ``${NAME}``. Paths in the file are relative to its folder. Raises ConfigError that names
    every fault found, one per line, with file and line.
    """
    if path is None:
        return configure(Document("configuration"), None, overrides or {})
    return configure(read_document(path, env), path.absolute().parent, overrides or {})


def configure(document: Document, folder: Path | None, overrides: Overrides) -> Configuration:
    """Check a document. Raises ConfigError as ``load`` does."""
    values: dict[str, Any] = dict(document.values)
    _merge_cameras(values)
    overridden = _override(values, overrides)
    _name_cameras(values)
    places = Places(document.name, document.lines, document.references, frozenset(overridden))
    faults = list(document.faults)
    configuration = None
    try:
        configuration = Configuration.model_validate(values, context={"folder": folder} if folder else None)
    except ValidationError as error:
        found = [fault_of(one, _GROUPS) for one in error.errors(include_url=False)]
        faults += _first_causes(found, [fault.loc for fault in faults], places)
    if configuration is not None:
        faults += cross_faults(configuration)
    if faults or configuration is None:
        raise ConfigError("\n".join(_sentences(faults, places)))
    return configuration


def _first_causes(found: list[Fault], unread: list[Loc], places: Places) -> list[Fault]:
    """The faults that do not merely follow from another one, in the same value or in a part of it."""

    def follows(fault: Fault) -> bool:
        home = places.home(fault.loc)
        if any(loc[: len(home)] == home for loc in unread):
            return True
        return any(loc != fault.loc and loc[: len(fault.loc)] == fault.loc for loc in locs)

    locs = [fault.loc for fault in found]
    return [fault for fault in found if not follows(fault)]


def _sentences(faults: list[Fault], places: Places) -> list[str]:
    at_home = [replace(fault, loc=places.home(fault.loc)) for fault in faults]
    at_home.sort(key=lambda fault: places.line(fault.loc))
    # What stands in the defaults is found again in every camera.
    return list(dict.fromkeys(places.sentence(fault) for fault in at_home))


def _merge_cameras(values: dict[str, Any]) -> None:
    """Put the defaults under each camera's own keys."""
    cameras, defaults = values.get("cameras"), values.get("defaults")
    if isinstance(cameras, list):
        values["cameras"] = [
            _merge(defaults if isinstance(defaults, dict) else {}, camera) if isinstance(camera, dict) else camera
            for camera in cameras
        ]
    elif cameras is None:
        values.pop("cameras", None)


def _merge(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """``over`` on top of ``base``, group by group; lists are replaced as a whole."""
    merged = {name: value for name, value in base.items() if _SECRET_PAIRS.get(name) not in over}
    for name, value in over.items():
        below = merged.get(name)
        if isinstance(below, dict) and (value is None or isinstance(value, dict)):
            merged[name] = _merge(below, value or {})
        else:
            merged[name] = value
    return merged


def _override(values: dict[str, Any], overrides: Overrides) -> set[Loc]:
    """Set the command line's values; returns their places."""
    overridden: set[Loc] = set()
    for dotted, value in overrides.items():
        if value is None:
            continue
        first, *rest = dotted.split(".")
        if isinstance(value, Path):
            value = value.absolute()  # what is typed is relative to where it is typed
        if first == "cameras":
            for number, camera in enumerate(values.get("cameras") or ()):
                if isinstance(camera, dict):
                    overridden.add(_set(camera, ("cameras", number), rest, value))
        else:
            overridden.add(_set(values, (), [first, *rest], value))
    return overridden


def _set(group: dict[str, Any], loc: Loc, path: list[str], value: object) -> Loc:
    for name in path[:-1]:
        inner = group.get(name)
        group[name] = dict(inner) if isinstance(inner, dict) else {}
        group = group[name]
    group[path[-1]] = value
    group.pop(_SECRET_PAIRS.get(path[-1], ""), None)
    return (*loc, *path)


def _name_cameras(values: dict[str, Any]) -> None:
    """Give a name to every camera that has none."""
    cameras = [camera for camera in values.get("cameras") or () if isinstance(camera, dict)]
    taken = {str(camera["name"]) for camera in cameras if camera.get("name") is not None}
    for camera in cameras:
        if camera.get("name") is None:
            camera["name"] = camera_name(str(camera.get("source") or ""), taken)
            taken.add(camera["name"])
