"""What the service acts through."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from foveate.learn.values import AttemptOrder, Outcome
from foveate.training.order import Say
from pipeline.timing import wall_time

Attempt = Callable[[AttemptOrder, Say], Awaitable[Outcome]]
Release = Callable[[Outcome], Awaitable[str]]
"""Releases an accepted model; the release as name@version."""


@dataclass(frozen=True, slots=True)
class World:
    """Attempts, releases, where sentences for people go, wall time, and where blocking calls are made."""

    attempt: Attempt
    release: Release
    say: Callable[[str], None]
    now: Callable[[], datetime] = wall_time
    aside: Callable[..., Awaitable[Any]] = asyncio.to_thread
