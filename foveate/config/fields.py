"""Kinds of values that several groups of keys share."""

import ipaddress
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    SecretStr,
    ValidationInfo,
    WithJsonSchema,
    model_validator,
)

from edge_agent.capture.address import SourceKind, parse_address
from edge_agent.capture.synthetic import parse_scene
from edge_agent.settings import Polygon
from foveate.config.faults import choose, without_credentials
from pipeline.errors import ConfigError
from pipeline.transport.url import parse_broker_url
from pipeline.wire.topics import camera_fault, level_fault

LEAST_REGION_PX = 8
"""A region of interest has at least this side: the agent refuses less."""

MOST_SIDE_PX = 65_535
MOST_POINTS = 200
MOST_SECRET_BYTES = 4096
HIDDEN = "***"


class Keys(BaseModel):
    """A group of keys. Unknown ones are refused; an empty group is one with its defaults."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, hide_input_in_errors=True)

    @model_validator(mode="before")
    @classmethod
    def _fill_empty(cls, data: object) -> object:
        return {} if data is None else data


def key(default: Any, what: str, **limits: Any) -> Any:
    """A key with its default, what it means, and the limits of its value."""
    return Field(default, description=what, **limits)


def one_of(known: Mapping[str, object]) -> Any:
    """A text that must be one of the keys of a table."""

    def check(text: str) -> str:
        if text not in known:
            raise ValueError(choose(text, list(known)))
        return text

    return Annotated[str, AfterValidator(check), Field(json_schema_extra={"enum": list(known)})]


def _level(text: str) -> str:
    return _named(text, level_fault(text))


def _camera(text: str) -> str:
    return _named(text, camera_fault(text))


def _named(text: str, fault: str | None) -> str:
    if fault:
        raise ValueError(f"it becomes part of MQTT topics, but {fault}: choose another name")
    return text


def _absolute(path: Path, info: ValidationInfo) -> Path:
    """Paths in a file are relative to its folder."""
    return (info.context["folder"] / path.expanduser()) if info.context else path


def _source(text: str, info: ValidationInfo) -> str:
    try:
        address = parse_address(text)
        if address.kind is SourceKind.SYNTHETIC:
            parse_scene(address.target)
    except ConfigError as error:
        raise ValueError(str(error).replace(text, without_credentials(text))) from None
    return str(_absolute(Path(text), info)) if address.kind is SourceKind.PATH else text


def _ip_address(text: str) -> str:
    try:
        return text if text == "localhost" else str(ipaddress.ip_address(text.strip("[]")))
    except ValueError:
        raise ValueError(
            "it must be an IP address: 127.0.0.1 for this machine alone, 0.0.0.0 for all networks"
        ) from None


def _broker_url(text: str) -> str:
    try:
        parse_broker_url(text)
    except ConfigError as error:
        raise ValueError(str(error)) from None
    return text


def read_secret(path: Path) -> str:
    """The secret in a file, without the line's end. Raises ValueError where there is none."""
    try:
        with path.open("rb") as file:
            data = file.read(MOST_SECRET_BYTES + 1)
        secret = data.decode().rstrip("\r\n")
    except OSError as error:
        raise ValueError(f"it cannot be read ({error.strerror}); name a file that holds the secret alone") from None
    except UnicodeDecodeError:
        raise ValueError("it is not UTF-8 text; name a file that holds the secret alone") from None
    if not secret.strip() or "\n" in secret or len(data) > MOST_SECRET_BYTES:
        raise ValueError(f"it must hold one line of at most {MOST_SECRET_BYTES} bytes, the secret")
    return secret


def _secret_file(path: Path) -> Path:
    read_secret(path)
    return path


def _readable_file(path: Path) -> Path:
    try:
        with path.open("rb"):
            return path
    except OSError as error:
        raise ValueError(f"it cannot be read ({error.strerror}); name a PEM file") from None


def _input_size(value: object) -> object:
    try:
        sides = [int(side) for side in value]  # type: ignore[attr-defined] # anything may come; see below
    except (TypeError, ValueError):
        sides = []
    if len(sides) != 2 or min(sides) < 1 or max(sides) > MOST_SIDE_PX:
        raise ValueError("it must be [height, width] in pixels, for example [192, 256]")
    return tuple(sides)


def _roi(value: object) -> Polygon:
    return () if value is None or value == [] or value == () else read_polygon(value, LEAST_REGION_PX)


def _mask(value: object) -> Polygon:
    return read_polygon(value, 1)


def read_polygon(value: object, least_px: float) -> Polygon:
    """A box [x1, y1, x2, y2] or a list of points [x, y] as points. Raises ValueError on what no frame could have.

    Numbers are pixels, or shares of the frame where all lie between 0 and 1.
    """
    items = list(value) if isinstance(value, list | tuple) else []
    box = len(items) == 4 and not any(isinstance(item, list | tuple) for item in items)
    try:
        numbers = [float(item) for item in items] if box else []
        points = _corners(*numbers) if box else tuple((float(x), float(y)) for x, y in (_pair(item) for item in items))
    except (TypeError, ValueError, OverflowError):
        points = ()
    if len(points) < 3:
        raise ValueError("it must be a box [x1, y1, x2, y2] or at least 3 points [[x, y], ...]")
    _check_polygon(points, least_px)
    return points


def _corners(x1: float, y1: float, x2: float, y2: float) -> Polygon:
    if x2 <= x1 or y2 <= y1:
        return ((x1, y1),) * 4  # has no area, which is refused in one place
    return (x1, y1), (x2, y1), (x2, y2), (x1, y2)


def _pair(item: object) -> tuple[Any, Any]:
    if not isinstance(item, list | tuple) or len(item) != 2:
        raise ValueError("not a point")
    return item[0], item[1]


def _check_polygon(points: Polygon, least_px: float) -> None:
    flat = [number for point in points for number in point]
    if not all(math.isfinite(number) for number in flat):
        raise ValueError("its numbers must be finite")
    if min(flat) < 0:
        raise ValueError("no number may be negative: (0, 0) is the top left corner of the frame")
    if max(flat) > MOST_SIDE_PX or len(points) > MOST_POINTS:
        raise ValueError(f"at most {MOST_POINTS} points of at most {MOST_SIDE_PX} pixels are allowed")
    pairs = zip(points, points[1:] + points[:1], strict=True)
    if abs(sum(x1 * y2 - x2 * y1 for (x1, y1), (x2, y2) in pairs)) < 1e-9:
        raise ValueError(
            "its area is 0: a box needs x1 < x2 and y1 < y2, and sides must not lie on or cross each other"
        )
    sides = [max(axis) - min(axis) for axis in zip(*points, strict=True)]
    if max(flat) > 1 and min(sides) < least_px:
        raise ValueError(
            f"it is less than {least_px:g} px wide or high: numbers are pixels, or shares of the frame only where all"
            " lie between 0 and 1"
        )


def _polygon_schema() -> dict[str, Any]:
    number = {"type": "number", "minimum": 0}
    point = {"type": "array", "items": number, "minItems": 2, "maxItems": 2}
    return {
        "anyOf": [
            {"type": "array", "items": number, "minItems": 4, "maxItems": 4},
            {"type": "array", "items": point, "minItems": 3, "maxItems": MOST_POINTS},
        ]
    }


Level = Annotated[str, AfterValidator(_level)]
CameraName = Annotated[str, AfterValidator(_camera)]
Secret = Annotated[
    SecretStr, Field(min_length=1), PlainSerializer(lambda _: HIDDEN, return_type=str, when_used="json-unless-none")
]
_Shown = PlainSerializer(without_credentials, return_type=str, when_used="json-unless-none")
SourceText = Annotated[str, AfterValidator(_source), _Shown]
BrokerUrlText = Annotated[str, AfterValidator(_broker_url), _Shown]
IpAddress = Annotated[str, AfterValidator(_ip_address)]
AnyPath = Annotated[Path, AfterValidator(_absolute)]
SecretFile = Annotated[Path, AfterValidator(_absolute), AfterValidator(_secret_file)]
ReadableFile = Annotated[Path, AfterValidator(_absolute), AfterValidator(_readable_file)]
InputSize = Annotated[tuple[int, int], BeforeValidator(_input_size)]
Roi = Annotated[Polygon, BeforeValidator(_roi), WithJsonSchema({"anyOf": [*_polygon_schema()["anyOf"], {"const": []}]})]
Mask = Annotated[Polygon, BeforeValidator(_mask), WithJsonSchema(_polygon_schema())]
