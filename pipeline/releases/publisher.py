"""Publishes releases: the file in retained chunks first, then the signed manifest, then what is superseded goes."""

import asyncio
import logging

from pipeline.errors import BrokerError
from pipeline.releases.manifest import Manifest
from pipeline.releases.signing import Release, ReleaseRefused, TrustedKeys
from pipeline.transport.base import Message, Outgoing, PublishStatus, Transport
from pipeline.wire import topics

_log = logging.getLogger(__name__)
MOST_RELEASES = 1000
PATIENCE_S = 60.0
AGAIN_S = 0.1
RETAINED_WITHIN_S = 2.0
"""So long after a connection a broker may take to say what it retains."""


class ReleasePublisher:
    """Publishes on a session that is given to it before it runs; ``keys`` are those whose releases it knows again.

    A broker that keeps nothing on disk forgets what is retained: ``run`` publishes it anew where that has happened.
    """

    def __init__(self, transport: Transport, keys: TrustedKeys) -> None:
        self._transport, self._keys = transport, keys
        self._held: dict[str, Manifest] = {}
        self._mine: dict[str, tuple[Release, bytes]] = {}
        self._just_said: set[str] = set()
        self._births, self._told = asyncio.Event(), asyncio.Event()
        transport.subscribe(topics.ANY_MODEL, self._hear)  # at QoS 1 brokers send 100 retained messages and no more
        transport.on_connect(self._birth)

    async def last_sequence(self, name: str) -> int:
        """The sequence of the newest release of a name at the broker, 0 for none; waits until that can be known."""
        held = await self.newest(name)
        return 0 if held is None else held.sequence

    async def newest(self, name: str) -> Manifest | None:
        """The newest release of a name at the broker, signed by one of the keys; waits until that can be known."""
        await self._told.wait()
        return self._held.get(name)

    async def publish(self, release: Release, file: bytes, most_s: float = PATIENCE_S) -> None:
        """Publish a release with its file; of a revoked one the manifest alone, and its chunks go.

        Raises BrokerError where the broker does not take it within ``most_s``.
        """
        manifest = release.manifest
        if manifest.name not in self._mine and len(self._mine) >= MOST_RELEASES:
            raise BrokerError(f"{manifest.title} cannot be released: {MOST_RELEASES} models are released from here.")
        try:
            async with asyncio.timeout(most_s):
                await self._told.wait()
                before = self._held.get(manifest.name)
                await self._send(release, file)
                if before is not None and (manifest.revoked or before.entry.sha256 != manifest.entry.sha256):
                    await self._clear(before)
        except TimeoutError:
            reason = self._transport.state.reason or "it does not take the messages"
            raise BrokerError(
                f"{manifest.title} could not be released within {most_s:.0f} s: the broker is at fault ({reason});"
                " try again when it answers."
            ) from None
        self._mine[manifest.name], self._held[manifest.name] = (release, file), manifest

    async def run(self) -> None:
        """See that the broker has what was published here, until cancelled; the session is run by somebody else."""
        while True:
            await self._births.wait()
            self._births.clear()
            await self._told.wait()
            for name, (release, file) in list(self._mine.items()):
                if name not in self._held:
                    _log.info("the broker has forgotten %s: it is published anew", release.manifest.title)
                    try:
                        await self.publish(release, file)
                    except BrokerError as error:
                        _log.warning("%s", error)

    async def _birth(self) -> None:
        # What the broker retains may come before this: it follows the subscription, and this its acknowledgement.
        self._held = {name: held for name, held in self._held.items() if name in self._just_said}
        self._told.clear()
        self._births.set()
        asyncio.get_running_loop().call_later(RETAINED_WITHIN_S, self._all_said)

    def _all_said(self) -> None:
        self._just_said.clear()
        self._told.set()

    def _hear(self, message: Message) -> None:
        try:
            manifest = self._keys.open(message.payload).manifest
        except ReleaseRefused:
            return  # somebody else's, or nobody's
        if message.retain:
            self._just_said.add(manifest.name)
        held = self._held.get(manifest.name)
        if topics.model(manifest.name) == message.topic and (held is None or manifest.sequence > held.sequence):
            self._held[manifest.name] = manifest

    async def _send(self, release: Release, file: bytes) -> None:
        manifest = release.manifest
        if not manifest.revoked:
            for number in range(manifest.chunks):
                start = number * manifest.chunk_bytes
                topic = topics.model_chunk(manifest.name, manifest.entry.sha256, number)
                await self._retain(topic, file[start : start + manifest.chunk_bytes])
        await self._retain(topics.model(manifest.name), release.envelope)

    async def _clear(self, manifest: Manifest) -> None:
        for number in range(manifest.chunks):
            await self._retain(topics.model_chunk(manifest.name, manifest.entry.sha256, number), b"")

    async def _retain(self, topic: str, payload: bytes) -> None:
        while True:
            status = await self._transport.publish(Outgoing(topic, payload, qos=1, retain=True))
            if status is PublishStatus.SENT:
                return
            if status is PublishStatus.REFUSED:
                raise BrokerError(
                    f"The broker refuses {len(payload)} bytes at {topic}: allow the agent to write there."
                )
            await asyncio.sleep(AGAIN_S)  # not connected, or the link is full
