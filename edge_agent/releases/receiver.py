"""Takes releases in: heard of, verified, fetched, proven, and offered to the cameras that they are for."""

import asyncio
import logging
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial

from edge_agent.pools import Runner
from edge_agent.releases.fetch import Fetcher, FetchFailed
from edge_agent.releases.files import Seen
from edge_agent.releases.kept import KeptModels
from edge_agent.releases.loading import Load, proven
from edge_agent.releases.settings import ReleaseSettings
from edge_agent.releases.slot import ModelSlot, Staged
from pipeline.errors import ModelError
from pipeline.releases.manifest import Manifest
from pipeline.releases.signing import MOST_ENVELOPE_BYTES, Release, ReleaseRefused, TrustedKeys
from pipeline.timing import Clock
from pipeline.transport.base import Message, Transport
from pipeline.wire import topics

_log = logging.getLogger(__name__)
MOST_NAMES = 1000
RETRY_FIRST_S, RETRY_MOST_S = 30.0, 900.0
MOST_REFUSED = 256


@dataclass(slots=True)
class _Wanted:
    """A release that is to be fetched, not before ``due_s``; ``pause_s`` is how long to wait after a failure."""

    release: Release
    due_s: float
    pause_s: float = RETRY_FIRST_S


class Receiver:
    """Listens to releases for an agent's cameras. ``groups`` has each camera's group, by its name.

    The newest release of a name wins, also over one that is being fetched. No fault of a release reaches a camera:
    it is refused with a sentence, which is logged, told to the slots it is about, and counted.
    """

    def __init__(  # noqa: PLR0913 - what taking in is made of
        self,
        settings: ReleaseSettings,
        groups: Mapping[str, str],
        kept: KeptModels,
        fetcher: Fetcher,
        load: Load,
        runner: Runner,
        control: Transport,
        clock: Clock,
    ) -> None:
        self._settings, self._groups, self._kept = settings, groups, kept
        self._fetcher, self._load, self._runner, self._clock = fetcher, load, runner, clock
        self._keys = TrustedKeys(settings.trusted_keys)
        self._heard: dict[str, bytes] = {}
        self._wanted: dict[str, _Wanted] = {}
        self._refused: deque[str] = deque(maxlen=MOST_REFUSED)
        self._told: deque[str] = deque(maxlen=MOST_REFUSED)
        self._wake = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._staging: tuple[Release, asyncio.Task[None]] | None = None
        self.counters = {"releases_offered": 0, "releases_refused": 0, "releases_retried": 0}
        self.remark = ""
        control.subscribe(topics.ANY_MODEL, self._hear)  # at QoS 1 brokers send 100 retained messages and no more

    def _hear(self, message: Message) -> None:
        known = message.topic in self._heard or len(self._heard) < MOST_NAMES
        if message.payload and len(message.payload) <= MOST_ENVELOPE_BYTES and known:
            self._heard[message.topic] = message.payload  # a newer one takes its place
            self._wake.set()

    async def run(self) -> None:
        """Take releases in, until cancelled."""
        try:
            while True:
                await self._wake.wait()
                self._wake.clear()
                self._ended()
                while self._heard:
                    topic = next(iter(self._heard))
                    await self._consider(topic, self._heard.pop(topic))
                self._next()
        finally:
            if self._staging is not None:
                self._staging[1].cancel()
                await asyncio.gather(self._staging[1], return_exceptions=True)

    async def _consider(self, topic: str, payload: bytes) -> None:
        """Whether a message is a release that this agent wants; an earlier one of its name is then given up."""
        name, slots = topic.rpartition("/")[2], list[ModelSlot]()
        try:
            release = self._keys.open(payload)
            if release.manifest.name != name:
                raise ReleaseRefused(f"it is the release of {release.manifest.name!r}.")  # noqa: TRY301 - one of several
            slots = self._slots(release.manifest)
            if not slots:
                return
            await self._note(release)
        except ReleaseRefused as refused:
            self._refuse(name, f"a release of {name} is refused: {refused}", self._about(name))
            return
        except OSError as error:
            self._refuse(
                name,
                f"a release of {name} is not taken yet: it cannot be noted as seen ({error.strerror}); it is tried"
                f" again in {RETRY_FIRST_S:.0f} s.",
                slots,
            )
            asyncio.get_running_loop().call_later(RETRY_FIRST_S, self._hear, Message(topic, payload))
            return
        if self._is_staging(release):
            return  # heard again with a new connection
        self._give_up(name)
        manifest = release.manifest
        if manifest.revoked:
            for slot in self._kept.slots:
                slot.take_back(manifest.entry.sha256, f"{manifest.title} was revoked: {manifest.revoked}")
        elif manifest.size_bytes > self._settings.most_bytes:
            self._refuse(
                manifest.title,
                f"{manifest.title} is refused: it has {manifest.size_bytes} bytes, and {self._settings.most_bytes} are"
                " allowed (models.release_limit_bytes).",
                slots,
            )
        elif release.digest not in self._refused and any(self._wants(slot, release.digest) for slot in slots):
            self._wanted[name] = _Wanted(release, self._clock.now_s())

    async def _note(self, release: Release) -> None:
        """Note a release as the newest of its name. Raises ReleaseRefused for a replay of an older one, and OSError
        where it cannot be noted.
        """
        seen, manifest = self._kept.seen.get(release.manifest.name), release.manifest
        if seen is not None and seen.digest == release.digest:
            return
        if seen is not None and manifest.sequence <= seen.sequence:
            raise ReleaseRefused(
                f"its sequence {manifest.sequence} is not above {seen.sequence}, which was seen before;"
                " sign an older model anew to go back to it."
            )
        await self._kept.note_seen(manifest.name, Seen(manifest.sequence, release.digest))

    def _slots(self, manifest: Manifest) -> list[ModelSlot]:
        """The cameras that a release is for."""
        site = self._settings.site
        return [
            slot
            for slot in self._kept.slots
            if manifest.audience.holds(slot.camera, self._groups.get(slot.camera, ""), site)
        ]

    @staticmethod
    def _wants(slot: ModelSlot, release: str) -> bool:
        return release not in slot.releases and release not in slot.taken_back

    def _about(self, name: str) -> list[ModelSlot]:
        """The cameras that have something of a model; what is not signed says of nobody that it is for them."""
        held = ((slot, (slot.current, slot.previous, slot.candidate, slot.general)) for slot in self._kept.slots)
        return [slot for slot, models in held if any(one is not None and one.name == name for one in models)]

    def _is_staging(self, release: Release) -> bool:
        """Whether this very release is being fetched."""
        return self._staging is not None and self._staging[0].digest == release.digest and not self._staging[1].done()

    def _give_up(self, name: str) -> None:
        """Forget an older release of a name; one that is being fetched ends at once."""
        self._wanted.pop(name, None)
        if self._staging is not None and self._staging[0].manifest.name == name:
            self._staging[1].cancel()

    def _next(self) -> None:
        """Begin with what is due, one release at a time; and be back when something else is."""
        if self._staging is not None:
            return
        now_s = self._clock.now_s()
        due = [name for name, wanted in self._wanted.items() if wanted.due_s <= now_s]
        if due:
            wanted = self._wanted[due[0]]
            task = asyncio.create_task(self._stage(wanted), name=f"stage/{due[0]}")
            self._staging = wanted.release, task
            task.add_done_callback(lambda _: self._wake.set())
        elif self._wanted:
            at_s = min(wanted.due_s for wanted in self._wanted.values())
            if self._timer is not None:
                self._timer.cancel()
            self._timer = asyncio.get_running_loop().call_later(at_s - now_s, self._wake.set)

    def _ended(self) -> None:
        """Let go of a staging that has ended. What nobody expected of a release is held against it alone."""
        if self._staging is None or not self._staging[1].done():
            return
        (release, task), self._staging = self._staging, None
        error = None if task.cancelled() else task.exception()
        if error is not None:
            if not isinstance(error, Exception):
                raise error
            _log.error("%s has failed", release.manifest.title, exc_info=error)
            self._drop(release, f"it cannot be taken in ({type(error).__name__}: {error}).")

    async def _stage(self, wanted: _Wanted) -> None:
        """Fetch, prove and offer a release."""
        release, manifest = wanted.release, wanted.release.manifest
        slots = self._slots(manifest)
        try:
            async with self._kept.quiet:
                await self._runner.run(partial(self._kept.folder.keep_release, release))
                path = await self._fetcher.fetch(manifest)
                detector = await proven(self._load, path, manifest, self._kept.prover)
        except (FetchFailed, OSError) as error:
            self._later(wanted, (error.strerror if isinstance(error, OSError) else None) or str(error))
            return
        except ModelError as error:
            self._drop(release, str(error))
            return
        del self._wanted[manifest.name]
        for slot in slots:
            self._offer(slot, Staged(detector, manifest, release.digest))

    def _drop(self, release: Release, why: str) -> None:
        """Refuse a release for good."""
        manifest = release.manifest
        if (wanted := self._wanted.get(manifest.name)) is not None and wanted.release is release:
            del self._wanted[manifest.name]
        self._refused.append(release.digest)
        self._refuse(manifest.title, f"{manifest.title} is refused: {why}", self._slots(manifest))

    def _offer(self, slot: ModelSlot, staged: Staged) -> None:
        if not self._wants(slot, staged.release):
            return
        if fault := slot.offer(staged):
            self._refuse(staged.title, f"camera {slot.camera}: {fault}", ())
        else:
            self.counters["releases_offered"] += 1
            _log.info("camera %s has %s to prove", slot.camera, staged.title)

    def _later(self, wanted: _Wanted, why: str) -> None:
        """Try again after a pause; the cameras hear of it, since nothing else tells why nothing happens."""
        manifest = wanted.release.manifest
        self.counters["releases_retried"] += 1
        reason = f"{manifest.title} cannot be had yet: {why}; it is tried again in {wanted.pause_s:.0f} s."
        self._tell(manifest.title, reason, self._slots(manifest))
        wanted.due_s = self._clock.now_s() + wanted.pause_s
        wanted.pause_s = min(2 * wanted.pause_s, RETRY_MOST_S)

    def _refuse(self, model: str, reason: str, slots: Iterable[ModelSlot]) -> None:
        self.counters["releases_refused"] += 1
        self._tell(model, reason, slots)

    def _tell(self, model: str, reason: str, slots: Iterable[ModelSlot]) -> None:
        if reason not in self._told:  # a broker says what it retains with every connection
            self._told.append(reason)
            _log.warning("%s", reason)
        self.remark = reason
        for slot in slots:
            slot.refuse(model, reason)
