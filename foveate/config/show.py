"""The effective configuration as YAML, without its secrets."""

from typing import Any

import yaml

from foveate.config.document import escape
from foveate.config.models import Configuration


def show(configuration: Configuration) -> str:
    """YAML with every key and its value; secrets are masked. A camera lists what differs from ``defaults``."""
    values = configuration.model_dump(mode="json")
    values["cameras"] = [_difference(camera, values["defaults"]) for camera in values["cameras"]]
    return yaml.dump(_escaped(values), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)


class _Dumper(yaml.SafeDumper):
    """Writes lists of plain values on one line; a list of points is easier to read so."""


def _represent_list(dumper: yaml.SafeDumper, items: list[Any]) -> yaml.Node:
    plain = not any(isinstance(item, dict) for item in items)
    return dumper.represent_sequence("tag:yaml.org,2002:seq", items, flow_style=plain)


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.Node:
    # Unquoted or in single quotes, some of Unicode's line ends would come back as others.
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=None if text.isprintable() else '"')


_Dumper.add_representer(list, _represent_list)
_Dumper.add_representer(str, _represent_text)


def _difference(camera: dict[str, Any], defaults: dict[str, Any]) -> dict[str, Any]:
    first = {name: camera[name] for name in ("name", "source") if name in camera}
    different: dict[str, Any] = {}
    for name, value in camera.items():
        default = defaults.get(name)
        if isinstance(value, dict) and isinstance(default, dict):
            inner = _difference(value, default)
            if inner:
                different[name] = inner
        elif name not in first and value != default:
            different[name] = value
    return first | different


def _escaped(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _escaped(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_escaped(inner) for inner in value]
    return escape(value) if isinstance(value, str) else value
