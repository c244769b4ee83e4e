"""Makes a signed release of an accepted model: under the camera's name, with what it was learned from and judged by."""

import hashlib
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import msgspec

from foveate.learn.values import LearnedModel, Outcome
from pipeline.errors import ModelError
from pipeline.releases.manifest import Audience, manifest_for
from pipeline.releases.publisher import ReleasePublisher
from pipeline.releases.signing import Release, SigningKey
from pipeline.wire.topics import as_level

KEY_FILE = Path("keys") / "release.key"
MOST_NAME_CHARS = 48


def release_name(agent: str, camera: str) -> str:
    """The name of a camera's own model: a topic level, another one for each agent and camera at the broker.

    One that is too long ends in a part of its hash instead, since the ends of long names are what tells them apart.
    """
    whole = as_level(f"{agent}-{camera}")
    if len(whole) <= MOST_NAME_CHARS:
        return whole
    digest = hashlib.sha256(f"{agent}/{camera}".encode()).hexdigest()[:8]
    return f"{whole[: MOST_NAME_CHARS - 9]}-{digest}"


def named(model: LearnedModel, agent: str, camera: str, now: datetime) -> LearnedModel:
    """The model under the name that it is released by, with the moment as its version."""
    version = now.strftime("%Y%m%d-%H%M%S") + ("-int8" if model.entry.version.endswith("-int8") else "")
    entry = msgspec.structs.replace(
        model.entry, name=release_name(agent, camera), version=version, file=model.file.name, labels=None
    )
    return msgspec.structs.replace(model, entry=entry)


def signing_key(state_dir: Path) -> SigningKey:
    """The key of this state folder, made on its first use. Raises ConfigError."""
    return SigningKey.of_file(state_dir / KEY_FILE)


@dataclass(frozen=True, slots=True)
class Releaser:
    """Signs and publishes. ``parent`` is the general model as name@version."""

    publisher: ReleasePublisher
    key: SigningKey
    parent: str

    async def release(self, outcome: Outcome, now: datetime) -> Release:
        """Release the accepted model of an outcome. Raises ModelError where there is none, or none that an edge would
        take, and BrokerError.
        """
        if outcome.model is None:
            raise ModelError(f"{outcome.camera} has no model to release: {outcome.in_words()}.")
        model = outcome.model
        try:
            file = model.file.read_bytes()
        except OSError as error:
            raise ModelError(
                f"the model {model.file} cannot be read ({error.strerror}): let the camera learn again."
            ) from error
        last_sequence = await self.publisher.last_sequence(model.entry.name)
        try:
            manifest = manifest_for(
                model.entry,
                file,
                kind="camera",
                labels=model.labels,
                input_size=model.input_size,
                now=now,
                last_sequence=last_sequence,
                audience=Audience(cameras=(outcome.camera,)),
                parent=self.parent,
                data_span=_span(outcome),
                teacher=outcome.teacher,
                figures=dict(next((one.figures for one in outcome.tried if one.accepted), {})),
            )
        except ValueError as error:
            raise ModelError(f"{outcome.camera}: {error}; let the camera learn again.") from error
        release = self.key.sign(manifest)
        await self.publisher.publish(release, file)
        return release


def _span(outcome: Outcome) -> tuple[datetime, datetime] | None:
    if not outcome.learned_from:
        return None
    return datetime.fromisoformat(outcome.learned_from), datetime.fromisoformat(outcome.learned_to)
