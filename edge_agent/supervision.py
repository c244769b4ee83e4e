"""Keeps a fault in one camera's stages to that camera."""

import asyncio
import logging
import random
from collections.abc import Callable

from edge_agent.camera import Camera
from edge_agent.capture.address import Redactor, SourceKind, parse_address
from edge_agent.capture.base import Ended, VideoSource
from edge_agent.capture.reconnect import Backoff
from edge_agent.capture.settings import CaptureSettings
from pipeline.results import CameraState
from pipeline.timing import Clock

OpenSource = Callable[[CaptureSettings], VideoSource]

_log = logging.getLogger(__name__)
FIRST_RESTART_S = 1.0
MOST_RESTART_S = 30.0


async def run_to_end(camera: Camera, open_source: OpenSource, clock: Clock) -> Ended | None:
    """Run a camera until its source ends; returns how it ended.

    Where a stage raises, the camera is ``offline`` with the fault as its reason, and a source that has no end is begun
    again, after 1 s doubling to 30 s. A file is over then: a second pass would answer its frames twice.
    """
    backoff = Backoff(FIRST_RESTART_S, MOST_RESTART_S, random.Random())
    told = ""
    while True:
        started_s = clock.now_s()
        try:
            return await camera.run()
        except Exception as error:  # noqa: BLE001 - whatever a stage raises ends this camera alone
            fault = _words(camera, error)
            # The traceback once: a fault that comes back with every restart would fill the log.
            _log.error("camera %s has failed: %s", camera.name, fault, exc_info=error if fault != told else None)
            told = fault
        if not _endless(camera):
            await camera.failed(fault)
            camera.ended = Ended(CameraState.OFFLINE, fault)
            return camera.ended
        delay_s = backoff.next_delay_s(clock.now_s() - started_s)
        await camera.failed(f"{fault}; it is begun again after a pause of 1 s doubling to 30 s")
        await asyncio.sleep(delay_s)
        camera.renew(open_source(camera.settings.capture))


def _words(camera: Camera, error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    said = Redactor(camera.settings.capture).clean(str(error))
    return f"the analysis broke down with {type(error).__name__}" + (f": {said}" if said else "")


def _endless(camera: Camera) -> bool:
    source = camera.source
    is_file = parse_address(camera.settings.capture.source).kind is SourceKind.PATH
    return source.live and source.total_frames is None and not is_file
