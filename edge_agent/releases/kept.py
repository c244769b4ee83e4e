"""Keeps what each camera's slot holds on the disk, so that a restart, however it came, goes on from there."""

import asyncio
import logging
from collections.abc import Sequence
from functools import partial

from edge_agent.pools import Runner
from edge_agent.releases.files import ModelFolder, Seen, SlotState
from edge_agent.releases.loading import Load, proven
from edge_agent.releases.slot import ModelSlot, SlotEvent, SlotEventKind, Staged
from pipeline.errors import ModelError
from pipeline.releases.manifest import Manifest
from pipeline.releases.signing import ReleaseRefused, TrustedKeys

_log = logging.getLogger(__name__)
MOST_SEEN = 1000


class KeptModels:
    """The slots of an agent's cameras and their files.

    ``seen`` is the newest release of each name that was heard of. ``quiet`` is held by whoever puts files into the
    folder, so that none is removed before it is in use. Models are loaded on ``prover``, since they may hang.
    """

    def __init__(
        self,
        folder: ModelFolder,
        slots: Sequence[ModelSlot],
        keys: TrustedKeys,
        load: Load,
        runner: Runner,
        prover: Runner | None = None,
    ) -> None:
        self.folder, self.slots = folder, tuple(slots)
        self.seen: dict[str, Seen] = {}
        self.quiet = asyncio.Lock()
        self.faults = {"releases_unread": 0, "releases_unwritten": 0}
        self._keys, self._load, self._runner, self.prover = keys, load, runner, prover or runner
        self._loaded: dict[str, Staged | None] = {}
        self._changed: set[ModelSlot] = set()
        self._wake = asyncio.Event()
        self._writing: asyncio.Future[None] | None = None
        self._told = False

    async def recall(self) -> None:
        """Give the slots what they held; before the cameras start. What cannot be used is told and left out."""
        seen = await self._runner.run(self.folder.seen)
        if isinstance(seen, str):
            self._unread(f"which releases were seen is not known: {seen}")
        else:
            self.seen = seen
        for slot in self.slots:
            await self._recall(slot)
            slot.listen(partial(self._note, slot))
        self._loaded.clear()
        await self._clean()

    async def run(self) -> None:
        """Write what has changed, until cancelled."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            await self.save()

    async def save(self) -> None:
        """Write what has changed, and remove what is not used any more."""
        await self._settle()
        if not self._changed:
            return
        while self._changed:
            slot = self._changed.pop()
            try:
                await self._write(slot)
            except OSError as error:
                self._changed.add(slot)  # for the next time; what the disk still names stays there
                self._unwritten(error)
                return
        await self._clean()

    async def _write(self, slot: ModelSlot) -> None:
        """Write what a slot holds now. Raises OSError."""
        await self._settle()
        write = partial(self.folder.write_state, slot.camera, SlotState.of(slot))
        self._writing = asyncio.ensure_future(self._runner.run(write))
        self._writing.add_done_callback(self._written)
        await asyncio.shield(self._writing)

    async def _settle(self) -> None:
        """Wait for a write that nobody else waits for any more: what it writes was true before."""
        while self._writing is not None:
            await asyncio.wait([self._writing])

    def _written(self, writing: asyncio.Future[None]) -> None:
        self._writing = None
        if not writing.cancelled():
            writing.exception()  # seen, also where nobody waits for it

    async def note_seen(self, name: str, seen: Seen) -> None:
        """Note the newest release of a name. Raises OSError and ReleaseRefused, and then nothing is noted."""
        if name not in self.seen and len(self.seen) >= MOST_SEEN:
            raise ReleaseRefused(f"{MOST_SEEN} models have been released here, and that is the most.")
        newer = {**self.seen, name: seen}
        await self._runner.run(partial(self.folder.write_seen, newer))
        self.seen = newer

    async def _recall(self, slot: ModelSlot) -> None:
        state = await self._runner.run(partial(self.folder.state, slot.camera))
        if isinstance(state, str):
            self._unread(f"camera {slot.camera} begins with {slot.general.title}: {state}")
            return
        slot.restore(
            general=await self._staged(slot, state.general),
            current=await self._staged(slot, state.current),
            previous=await self._staged(slot, state.previous),
            candidate=await self._staged(slot, state.candidate),
            taken_back=state.taken_back,
        )

    async def _staged(self, slot: ModelSlot, digest: str) -> Staged | None:
        """The model of a release; None where there is none, or where it cannot be used, which is told."""
        if digest and digest not in self._loaded:
            try:
                manifest = await self._runner.run(partial(self._verified, digest))
                detector = await proven(self._load, self.folder.model_path(manifest), manifest, self.prover)
                self._loaded[digest] = Staged(detector, manifest, digest)
            except (ReleaseRefused, ModelError, OSError) as error:
                self._loaded[digest] = None
                self._unread(f"camera {slot.camera} goes on without the release {digest[:12]}: {error}")
        staged = self._loaded.get(digest)
        if staged is not None and (fault := slot.misfit(staged)):  # the configuration has changed since
            self._unread(f"camera {slot.camera}: {fault}")
            return None
        return staged

    def _verified(self, digest: str) -> Manifest:
        """Verify a release and its file as if they had just come; blocks."""
        envelope = self.folder.release(digest)
        if envelope is None:
            raise ReleaseRefused("it is not in the folder of models any more.")
        release = self._keys.open(envelope)
        if release.digest != digest:
            raise ReleaseRefused("its file holds another one.")
        if not self.folder.has_model(release.manifest):
            raise ReleaseRefused(f"the file of {release.manifest.title} is missing or damaged.")
        return release.manifest

    def _note(self, slot: ModelSlot, event: SlotEvent) -> None:
        if event.kind is not SlotEventKind.REFUSED:
            self._changed.add(slot)
            self._wake.set()

    async def _clean(self) -> None:
        if self.quiet.locked():
            return  # there will be another time
        async with self.quiet:
            used = {digest for slot in self.slots for digest in slot.releases}
            used |= {seen.digest for seen in self.seen.values()}
            await self._runner.run(partial(self.folder.clean, used))

    def _unread(self, what: str) -> None:
        self.faults["releases_unread"] += 1
        _log.warning("%s", what)

    def _unwritten(self, error: OSError) -> None:
        self.faults["releases_unwritten"] += 1
        if not self._told:
            self._told = True
            _log.warning("which models are in use is not kept: %s cannot be written (%s).", self.folder.folder, error)
