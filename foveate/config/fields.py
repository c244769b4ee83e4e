"""Kinds of values that several groups of keys share."""

import ipaddress
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
from foveate.config.polygons import MOST_SIDE_PX, POLYGON_SCHEMA, ROI_SCHEMA, read_mask, read_roi
from pipeline.errors import ConfigError
from pipeline.network.profiles import in_folder, profile
from pipeline.releases.signing import public_bytes
from pipeline.transport.url import parse_broker_url
from pipeline.wire.topics import camera_fault, level_fault

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


def _network(text: str, info: ValidationInfo) -> str:
    if info.context:
        text = in_folder(text, info.context["folder"])
    try:
        profile(text)
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


def _public_key(text: str) -> str:
    public_bytes(text)
    return text


def _input_size(value: object) -> object:
    try:
        sides = [int(side) for side in value]  # type: ignore[attr-defined] # anything may come; see below
    except (TypeError, ValueError):
        sides = []
    if len(sides) != 2 or min(sides) < 1 or max(sides) > MOST_SIDE_PX:
        raise ValueError("it must be [height, width] in pixels, for example [192, 256]")
    return tuple(sides)


Level = Annotated[str, AfterValidator(_level)]
CameraName = Annotated[str, AfterValidator(_camera)]
Secret = Annotated[
    SecretStr, Field(min_length=1), PlainSerializer(lambda _: HIDDEN, return_type=str, when_used="json-unless-none")
]
_Shown = PlainSerializer(without_credentials, return_type=str, when_used="json-unless-none")
SourceText = Annotated[str, AfterValidator(_source), _Shown]
BrokerUrlText = Annotated[str, AfterValidator(_broker_url), _Shown]
NetworkName = Annotated[str, AfterValidator(_network)]
IpAddress = Annotated[str, AfterValidator(_ip_address)]
PublicKey = Annotated[str, AfterValidator(_public_key)]
AnyPath = Annotated[Path, AfterValidator(_absolute)]
SecretFile = Annotated[Path, AfterValidator(_absolute), AfterValidator(_secret_file)]
ReadableFile = Annotated[Path, AfterValidator(_absolute), AfterValidator(_readable_file)]
InputSize = Annotated[tuple[int, int], BeforeValidator(_input_size)]
Roi = Annotated[Polygon, BeforeValidator(read_roi), WithJsonSchema(ROI_SCHEMA)]
Mask = Annotated[Polygon, BeforeValidator(read_mask), WithJsonSchema(POLYGON_SCHEMA)]
