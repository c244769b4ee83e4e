"""Keeps what the cameras have learned in files, one for each, so that a restart does not forget it."""

import asyncio
import logging
import threading
from collections.abc import Sequence
from pathlib import Path

from edge_agent.camera import Camera
from edge_agent.memory import Memory, decode

_log = logging.getLogger(__name__)
SAVE_EVERY_S = 60.0
MOST_BYTES = 1_000_000


class StateFiles:
    """The files of an agent's cameras in ``folder``; None keeps nothing.

    No fault of the folder ever reaches a camera: it is told once, and counted in ``faults`` by what could not be done.
    """

    def __init__(self, folder: Path | None, cameras: Sequence[Camera]) -> None:
        self._folder, self._cameras = folder, cameras
        self._writing, self._told = threading.Lock(), False
        self.faults = {"state_unread": 0, "state_unwritten": 0}

    async def recall(self) -> None:
        """Give the cameras what they had learned; before they start."""
        if self._folder is None:
            return
        for camera in self._cameras:
            memory = await asyncio.to_thread(self._read, self._path(self._folder, camera.name), camera.name)
            if isinstance(memory, Memory):
                camera.recall(memory)
            elif memory:
                self.faults["state_unread"] += 1
                _log.warning("camera %s begins to learn anew: %s", camera.name, memory)

    async def run(self) -> None:
        """Save once a minute, until cancelled."""
        while True:
            await asyncio.sleep(SAVE_EVERY_S)
            await self.save()

    async def save(self) -> None:
        """Write what the cameras have learned."""
        if self._folder is None:
            return
        for camera in self._cameras:
            await asyncio.to_thread(self._write, self._path(self._folder, camera.name), camera.memory)

    @staticmethod
    def _path(folder: Path, camera: str) -> Path:
        return folder / f"{camera}.json"

    @staticmethod
    def _read(path: Path, camera: str) -> Memory | str:
        """The memory in a file, or why there is none; empty where there is no file."""
        try:
            with path.open("rb") as file:
                data = file.read(MOST_BYTES + 1)
            if len(data) > MOST_BYTES:
                return f"{path} has more than {MOST_BYTES} bytes; it is written anew."
            return decode(data, camera)
        except FileNotFoundError:
            return ""
        except OSError as error:
            return f"{path} cannot be read ({error.strerror})."
        except ValueError as error:
            return f"{path} is not usable: {error}; it is written anew."

    def _write(self, path: Path, memory: Memory) -> None:
        """Replace a file as a whole, or leave it as it is; blocks."""
        new = path.with_name(path.name + ".new")
        try:
            with self._writing:  # one that nobody waits for any more may still be at it
                path.parent.mkdir(parents=True, exist_ok=True)
                new.write_bytes(memory.encode())
                new.replace(path)
        except (OSError, ValueError) as error:  # the latter where a number that was learned is none
            self.faults["state_unwritten"] += 1
            if not self._told:
                self._told = True
                why = error.strerror if isinstance(error, OSError) else error
                _log.warning("what is learned is not kept: %s cannot be written (%s); see agent.state_dir.", path, why)
