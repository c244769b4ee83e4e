"""From settings to a source, without opening anything yet."""

import math
import random

from edge_agent.capture.address import SourceKind, parse_address
from edge_agent.capture.base import VideoSource
from edge_agent.capture.settings import CaptureSettings
from edge_agent.capture.source import ProcessSource
from edge_agent.capture.synthetic import SyntheticSource, parse_scene
from pipeline.errors import ConfigError
from pipeline.timing import Clock

RTSP_TRANSPORTS = ("tcp", "udp")


def open_source(settings: CaptureSettings, clock: Clock, jitter: random.Random | None = None) -> VideoSource:
    """The source that the settings name; it begins when its events are iterated.

    ``jitter`` spreads the retries. Raises ConfigError on settings that cannot be meant; a source that cannot be used
    is told by its events.
    """
    address = parse_address(settings.source)
    _check(settings)
    if address.kind is SourceKind.SYNTHETIC:
        return SyntheticSource(parse_scene(address.target), realtime=settings.realtime, clock=clock)
    return ProcessSource(settings, address, clock, jitter or random.Random())


def _check(settings: CaptureSettings) -> None:
    if settings.rtsp_transport not in RTSP_TRANSPORTS:
        known = " or ".join(RTSP_TRANSPORTS)
        raise ConfigError(f"The RTSP transport is {settings.rtsp_transport}; use {known}.")
    for name in ("open_timeout_s", "read_timeout_s", "reconnect_first_s", "reconnect_most_s"):
        value = getattr(settings, name)
        if not (math.isfinite(value) and value > 0):
            raise ConfigError(f"The capture setting {name} is {value}; it must be a positive number of seconds.")
    if settings.reconnect_most_s < settings.reconnect_first_s:
        raise ConfigError(
            f"The capture setting reconnect_most_s is {settings.reconnect_most_s}; "
            f"it must be at least reconnect_first_s, {settings.reconnect_first_s}."
        )
    if settings.pixel_limit < 1:
        raise ConfigError(f"The capture setting pixel_limit is {settings.pixel_limit}; it must be at least 1.")
