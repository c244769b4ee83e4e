"""Publishes a model of the manifest as a signed release, for all cameras or for some of them, and takes it back."""

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from foveate.session import connected
from pipeline.detectors.contract import HeightWidth
from pipeline.detectors.loading import load_detector
from pipeline.detectors.manifest import read_manifest, verified_path
from pipeline.errors import ConfigError
from pipeline.releases.manifest import EVERYBODY, Audience, Manifest, manifest_for, revocation
from pipeline.releases.publisher import ReleasePublisher
from pipeline.releases.signing import SigningKey, TrustedKeys
from pipeline.timing import wall_time
from pipeline.transport.base import Transport
from pipeline.transport.settings import MqttSettings
from pipeline.transport.url import parse_broker_url


@dataclass(frozen=True, slots=True)
class Publication:
    """What is to be published: a model of the manifest in a folder (None: the usual one), the input (height, width) it
    is to be looked through (None: its usual one), for whom, and where else its file is.
    """

    name: str
    models_dir: Path | None = None
    input_size: HeightWidth | None = None
    audience: Audience = EVERYBODY
    urls: tuple[str, ...] = ()


async def publish_model(wanted: Publication, key: SigningKey, broker: str) -> Manifest:
    """Sign and publish, after the model was loaded once.

    Raises ModelError where it does not load, ConfigError where an edge would refuse its release, BrokerError.
    """
    folder = read_manifest(wanted.models_dir)
    entry = folder.entry(wanted.name)
    input_size = wanted.input_size or entry.input.size_px
    labels = load_detector(wanted.name, input_size=input_size, threads=1, models_dir=wanted.models_dir).labels
    file = verified_path(folder, entry).read_bytes()
    async with _publisher(key, broker) as publisher:
        last_sequence = await publisher.last_sequence(entry.name)
        try:
            manifest = manifest_for(
                entry,
                file,
                kind="general",
                labels=labels,
                input_size=input_size,
                now=wall_time(),
                last_sequence=last_sequence,
                audience=wanted.audience,
                urls=wanted.urls,
            )
        except ValueError as error:
            raise ConfigError(f"{error}; see 'foveate model publish --help'.") from error
        await publisher.publish(key.sign(manifest), file)
    return manifest


async def revoke_release(name: str, reason: str, key: SigningKey, broker: str) -> Manifest:
    """Take the newest release of a name back at every agent that has it.

    Raises ConfigError where the broker has none that was signed by the key, or it is taken back already; BrokerError.
    """
    async with _publisher(key, broker) as publisher:
        newest = await publisher.newest(name)
        if newest is None or newest.revoked:
            what = "no release" if newest is None else "already taken back its release"
            raise ConfigError(
                f"{broker} has {what} of {name!r} that was signed by {key.public}: see --key and --broker."
            )
        revoked = revocation(newest, reason, wall_time())
        await publisher.publish(key.sign(revoked), b"")
    return revoked


@contextlib.asynccontextmanager
async def _publisher(key: SigningKey, broker: str) -> AsyncIterator[ReleasePublisher]:
    publishers = list[ReleasePublisher]()

    def prepare(session: Transport) -> None:
        publishers.append(ReleasePublisher(session, TrustedKeys([key.public])))

    async with connected(None, MqttSettings.of(parse_broker_url(broker), None), prepare):
        yield publishers[0]
