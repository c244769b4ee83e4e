"""Releases with a fault on the way, and a power cut in mid-switch, at the product's own receiver and files."""

import asyncio
import tempfile
from pathlib import Path

import msgspec
import numpy as np

from edge_agent.pools import Inline
from edge_agent.releases.disk import Disk
from edge_agent.releases.files import ModelFolder
from edge_agent.releases.kept import KeptModels
from edge_agent.releases.loading import loader
from edge_agent.releases.service import ReleaseService
from edge_agent.releases.settings import ReleaseSettings
from edge_agent.releases.slot import ModelSlot, Staged
from foveate.bench.reference import SMALL
from pipeline.detectors.base import Detector
from pipeline.detectors.manifest import read_manifest, verified_path
from pipeline.releases.manifest import Manifest, manifest_for
from pipeline.releases.publisher import ReleasePublisher
from pipeline.releases.signing import Release, SigningKey, TrustedKeys
from pipeline.timing import MonotonicClock, wall_time
from pipeline.transport.memory import MemoryHub, MemoryTransport

CAMERA = "camera"
MOST_S = 60.0


class PowerCutError(Exception):
    """What a disk raises from the moment on at which the power is gone."""


class MortalDisk(Disk):
    """A disk whose power goes after ``left`` more steps."""

    left = 1_000_000

    def _step(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise PowerCutError

    def write(self, path: Path, data: bytes) -> None:
        self._step()
        super().write(path, data)

    def replace(self, source: Path, target: Path) -> None:
        self._step()
        super().replace(source, target)

    def sync_folder(self, folder: Path) -> None:
        self._step()
        super().sync_folder(folder)


def general_release(small: Detector, version: str) -> tuple[Manifest, bytes]:
    """The general model's own file as a camera's release."""
    manifest = read_manifest()
    entry = manifest.entry(SMALL[0])
    file = verified_path(manifest, entry).read_bytes()
    entry = msgspec.structs.replace(entry, name="own", version=version)
    made = manifest_for(entry, file, kind="camera", labels=small.labels, input_size=SMALL[1], now=wall_time())
    return made, file


def refused(small: Detector) -> dict[str, bool]:
    """Which faulty releases came to nothing, and whether a good one right after them was taken."""
    return asyncio.run(_refused(small))


async def _refused(small: Detector) -> dict[str, bool]:
    trusted, stranger = SigningKey.new(), SigningKey.new()
    (first, file), (second, _) = general_release(small, "1"), general_release(small, "2")
    damaged = bytearray(file)
    damaged[len(file) // 2] ^= 0xFF
    with tempfile.TemporaryDirectory(prefix="foveate-canary-") as folder:
        world = _World(Path(folder), ModelSlot(CAMERA, Staged(small)), trusted)
        tasks = await world.begin()
        try:
            corrupted = await world.takes(trusted.sign(first), bytes(damaged))
            unsigned = await world.takes(stranger.sign(first), file)
            good = await world.takes(trusted.sign(second), file)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
    return {"corrupted_file": not corrupted, "wrong_signature": not unsigned, "good_taken": good}


class _World:
    """One camera's slot, the releases it hears of, a publisher, and the broker between them."""

    def __init__(self, folder: Path, slot: ModelSlot, key: SigningKey) -> None:
        self._hub, self._slot = MemoryHub(), slot
        self._control = MemoryTransport(self._hub, name="control")
        self._upstream = MemoryTransport(self._hub, name="publisher")
        settings, more = ReleaseSettings((key.public,)), lambda: MemoryTransport(self._hub, name="file")
        self._service = ReleaseService(settings, [slot], {}, folder, self._control, more, MonotonicClock())
        self._publisher = ReleasePublisher(self._upstream, TrustedKeys((key.public,)))

    async def begin(self) -> list[asyncio.Task[None]]:
        """Start what there is."""
        await self._service.recall()
        return [asyncio.create_task(part.run()) for part in (self._control, self._upstream, self._service)]

    async def takes(self, release: Release, file: bytes) -> bool:
        """Publish a release and wait for what becomes of it: whether it is the slot's candidate."""
        before = self._service.counters
        await self._publisher.publish(release, file)
        async with asyncio.timeout(MOST_S):
            while self._service.counters == before:  # noqa: ASYNC110 - counters have no event
                await asyncio.sleep(0.02)
        return self._slot.candidate is not None and self._slot.candidate.release == release.digest


def switches_cut(small: Detector) -> int:
    """Cut the power at each step of a switch: how often the camera came back with a whole model of the two.

    Raises RuntimeError where it once did not.
    """
    return asyncio.run(_switches_cut(small))


async def _switches_cut(small: Detector) -> int:
    key = SigningKey.new()
    manifest, file = general_release(small, "1")
    release, steps = key.sign(manifest), 0
    while True:
        with tempfile.TemporaryDirectory(prefix="foveate-canary-") as folder:
            cut = await _switch(Path(folder), small, key, release, file, steps)
            slot = ModelSlot(CAMERA, Staged(small))
            await _kept(ModelFolder(Path(folder)), slot, key).recall()
        if slot.current.title not in (Staged(small).title, manifest.title):
            raise RuntimeError(f"after a power cut at step {steps} the camera has {slot.current.title}")
        slot.current.detector.detect([np.full((192, 256, 3), 114, np.uint8)], 0.5)
        if not cut:
            return steps
        steps += 1


async def _switch(folder: Path, small: Detector, key: SigningKey, release: Release, file: bytes, steps: int) -> bool:
    """Put a candidate in the current model's place, on a disk whose power goes after so many steps; whether it went."""
    disk, slot = MortalDisk(), ModelSlot(CAMERA, Staged(small))
    files = ModelFolder(folder, disk)
    kept = _kept(files, slot, key)
    await kept.recall()  # which removes what nobody uses
    files.keep_model(release.manifest, file)
    files.keep_release(release)
    slot.offer(
        Staged(loader(1)(files.model_path(release.manifest), release.manifest), release.manifest, release.digest)
    )
    await kept.save()
    disk.left = steps
    slot.promote()
    try:
        await kept.save()
    except PowerCutError:
        return True
    return False


def _kept(files: ModelFolder, slot: ModelSlot, key: SigningKey) -> KeptModels:
    return KeptModels(files, [slot], TrustedKeys((key.public,)), loader(1), Inline())
