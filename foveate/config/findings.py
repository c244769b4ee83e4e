"""From what pydantic finds to faults in plain sentences."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, get_args, get_origin

from pydantic import BaseModel
from pydantic_core import ErrorDetails

from foveate.config.faults import Fault, Loc, choose, nearest, path_of, without_credentials

SECRET_KEYS = frozenset({"password", "token"})
_MOST_SHOWN = 80
_LIMITS = {"gt": "above", "ge": "at least", "lt": "below", "le": "at most"}
_ADVICE_BY_KIND = {
    "int": "it must be a whole number",
    "float": "it must be a number",
    "finite_number": "it must be a number",
    "bool": "it must be true or false",
    "string_too_short": "it must not be empty",
    "string": "it must be text",
    "path": "it must be a path",
    "tuple": "it must be a list",
    "model": "it must be a group of keys",
    "too_short": "it must not be empty",
}


def keys_by_group(model: type[BaseModel], loc: Loc = ()) -> dict[Loc, tuple[str, ...]]:
    """The keys of a model and of every group in it, by place; list positions are 0."""
    groups = {loc: tuple(model.model_fields)}
    for name, field in model.model_fields.items():
        for part, place in _groups_in(field.annotation, (*loc, name)):
            groups |= keys_by_group(part, place)
    return groups


def _groups_in(annotation: object, loc: Loc) -> Iterator[tuple[type[BaseModel], Loc]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation, loc
    inner = (*loc, 0) if get_origin(annotation) is tuple else loc
    for part in get_args(annotation):
        yield from _groups_in(part, inner)


def fault_of(error: ErrorDetails, groups: Mapping[Loc, Sequence[str]]) -> Fault:
    """The fault that one finding of pydantic stands for; ``groups`` as of ``keys_by_group``."""
    loc, kind, value = error["loc"], error["type"], error["input"]
    if kind == "extra_forbidden":
        return Fault(loc, "", _home_of(loc, groups), unknown=True)
    if kind == "missing":
        return Fault(loc, "is missing", "add it")
    if value is None:
        return Fault(loc, "is empty", "give it a value, or leave the key out for its default")
    advice = _advice(kind, error.get("ctx", {}), error["msg"], value)
    whole = advice[:1].isupper()  # a sentence of the part that will use the value, which shows it
    return Fault(loc, "" if whole else f"is {_shown(loc, value)}", advice)


def _advice(kind: str, context: Mapping[str, Any], message: str, value: object) -> str:
    if kind == "value_error":
        return str(context["error"])
    for name, words in _LIMITS.items():
        if name in context:
            return f"it must be {words} {context[name]:g}"
    if kind == "literal_error":
        return choose(str(value), [word.strip("'") for word in context["expected"].replace(" or ", ", ").split(", ")])
    if kind == "string_too_long":
        return f"it must be at most {context['max_length']} characters"
    for name, advice in _ADVICE_BY_KIND.items():
        if kind.startswith(name):
            return advice
    return message[:1].lower() + message[1:]


def _home_of(loc: Loc, groups: Mapping[Loc, Sequence[str]]) -> str:
    """What to write instead of an unknown key: one like it or its right place, else what is known."""
    key, group = str(loc[-1]), tuple(0 if isinstance(part, int) else part for part in loc[:-1])
    known = groups.get(group, ())
    homes = [place for place, keys in groups.items() if key in keys]
    # A camera's keys exist twice, in the defaults too.
    homes = [place for place in homes if place[:1] == group[:1]] or [p for p in homes if p[:1] != ("defaults",)]
    near = nearest(key, known)
    meant = [repr(near)] if near else []
    meant += [path_of((*place, key)).replace("[0]", "[]") for place in homes]
    return f"did you mean {' or '.join(meant)}?" if meant else f"known here: {', '.join(known)}"


def _shown(loc: Loc, value: object) -> str:
    """A value as it may be shown: secrets hidden, long ones cut."""
    if any(part in SECRET_KEYS for part in loc):
        return "a text that is not shown"
    if isinstance(value, dict):
        return "a group of keys"
    text = without_credentials(_listed(value))
    short = text if len(text) <= _MOST_SHOWN else text[: _MOST_SHOWN - 3] + "..."
    return short if isinstance(value, list | tuple) or _is_number(short) else repr(short)


def _listed(value: object) -> str:
    if isinstance(value, list | tuple):
        return f"[{', '.join(_listed(item) for item in value)}]"
    return "{...}" if isinstance(value, dict) else str(value)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
