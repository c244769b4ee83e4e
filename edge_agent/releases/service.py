"""Releases in an agent: its cameras' slots, what is kept of them, and the receiver of new ones."""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from edge_agent.pools import SpareThreads
from edge_agent.releases.aside import Aside
from edge_agent.releases.fetch import Fetcher
from edge_agent.releases.files import ModelFolder
from edge_agent.releases.kept import KeptModels
from edge_agent.releases.loading import loader
from edge_agent.releases.receiver import Receiver
from edge_agent.releases.settings import ReleaseSettings
from edge_agent.releases.slot import ModelSlot
from pipeline.releases.signing import TrustedKeys
from pipeline.timing import Clock
from pipeline.transport.base import Transport

_log = logging.getLogger(__name__)


class ReleaseService:
    """Takes releases for ``slots``; ``groups`` has each camera's group by its name.

    Without a trusted key, or without a folder to keep models in, none are taken, and the slots stay as they are.
    ``open_session`` gives a session of its own for a file's chunks.
    """

    def __init__(
        self,
        settings: ReleaseSettings,
        slots: Sequence[ModelSlot],
        groups: Mapping[str, str],
        state_dir: Path | None,
        control: Transport,
        open_session: Callable[[], Transport] | None,
        clock: Clock,
    ) -> None:
        self.slots = {slot.camera: slot for slot in slots}
        self._parts: tuple[KeptModels, Receiver] | None = None
        keys = TrustedKeys(settings.trusted_keys)
        if keys and state_dir is None:
            _log.warning("no release is taken: models.trusted_keys asks for it, and agent.state_dir names no folder.")
        if keys and state_dir is not None:
            folder, load = ModelFolder(state_dir / "models"), loader(settings.threads)
            runner = SpareThreads()
            kept = KeptModels(folder, slots, keys, load, runner, Aside())
            fetcher = Fetcher(folder, open_session, runner, clock)
            self._parts = kept, Receiver(settings, groups, kept, fetcher, load, runner, control, clock)

    @property
    def counters(self) -> dict[str, int]:
        """What came of releases since the start."""
        return {} if self._parts is None else {**self._parts[1].counters, **self._parts[0].faults}

    @property
    def remark(self) -> str:
        """Why the last release that came to nothing did so; empty where none has."""
        return "" if self._parts is None else self._parts[1].remark

    async def recall(self) -> None:
        """Give the slots what they held before a restart; before the cameras start."""
        if self._parts is not None:
            await self._parts[0].recall()

    async def run(self) -> None:
        """Take releases in and keep what becomes of them, until cancelled."""
        if self._parts is None:
            await asyncio.Event().wait()
        else:
            await asyncio.gather(*(part.run() for part in self._parts))

    async def save(self) -> None:
        """Write what has changed and is not written yet."""
        if self._parts is not None:
            await self._parts[0].save()
