"""How releases stand at the agents of a broker, and commands to them, over MQTT."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass

import msgspec

from foveate import session
from pipeline.errors import BrokerError, ConfigError
from pipeline.releases.standing import Command, Standing, decode_standing, encode_order
from pipeline.transport.base import Message, Outgoing, PublishStatus, Transport
from pipeline.transport.settings import MqttSettings
from pipeline.wire import topics

RETAINED_WITHIN_S = 1.0
ANSWER_WITHIN_S = 5.0
MOST_STANDINGS = 10_000


@dataclass(frozen=True, slots=True)
class Which:
    """Some cameras; what is None leaves nobody out."""

    camera: str | None = None
    agent: str | None = None
    group: str | None = None
    site: str | None = None

    def holds(self, standing: Standing) -> bool:
        """Whether a camera is one of them."""
        asked = (self.camera, self.agent, self.group, self.site)
        have = (standing.camera, standing.agent, standing.group, standing.site)
        return all(one is None or one == its for one, its in zip(asked, have, strict=True))

    @property
    def many(self) -> bool:
        """Whether more than one camera is meant."""
        return self.group is not None or self.site is not None

    def __str__(self) -> str:
        named = {"camera": self.camera, "agent": self.agent, "group": self.group, "site": self.site}
        parts = [f"the {kind} {name!r}" for kind, name in named.items() if name is not None]
        return " of ".join(parts) or "any camera"


class Rollouts:
    """What a broker retains of rollouts, kept up to date while the session runs."""

    def __init__(self, session: Transport) -> None:
        self._session = session
        self._heard: dict[tuple[str, str], Standing] = {}
        self._changed = asyncio.Event()
        session.subscribe(topics.ANY_ROLLOUT, self._hear, qos=1)

    def _hear(self, message: Message) -> None:
        try:
            standing = decode_standing(message.payload)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return  # of another version, or nobody's
        key = standing.agent, standing.camera
        if key in self._heard or len(self._heard) < MOST_STANDINGS:
            self._heard[key] = standing
            self._changed.set()

    def of(self, which: Which) -> list[Standing]:
        """What is known of some cameras' releases, by agent and camera."""
        return [one for _, one in sorted(self._heard.items()) if which.holds(one)]

    async def order(self, standing: Standing, command: Command) -> Standing | None:
        """Send a command to a camera; how its release stands then, None where it does not answer in time.

        Raises BrokerError.
        """
        topic = topics.rollout_command(standing.agent, standing.camera)
        status = await self._session.publish(Outgoing(topic, encode_order(command), qos=1))
        if status is not PublishStatus.SENT:
            raise BrokerError(
                f"The broker does not take the command for {standing.camera} ({status.value}): try again."
            )
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(ANSWER_WITHIN_S):
                while _place(now := self._heard[standing.agent, standing.camera]) == _place(standing):
                    self._changed.clear()
                    await self._changed.wait()
                return now
        return None


def _place(standing: Standing) -> tuple[object, ...]:
    """What a command changes, and comparisons do not."""
    return standing.stage, standing.since, standing.paused, standing.candidate, standing.current


@contextlib.asynccontextmanager
async def connected(broker: str | None, usual: MqttSettings) -> AsyncIterator[Rollouts]:
    """The rollouts of a broker, by its URL or by the usual settings, after it has said what it retains.

    Raises ConfigError, BrokerError.
    """
    made: list[Rollouts] = []
    async with session.connected(broker, usual, lambda at: made.append(Rollouts(at))):
        await asyncio.sleep(RETAINED_WITHIN_S)
        yield made[0]


def chosen(found: list[Standing], which: Which, broker_url: str) -> list[Standing]:
    """The releases that a command is for: one, or those of a whole group or site. Raises ConfigError where there is
    none, or more than one where one is meant.
    """
    if not found:
        raise ConfigError(
            f"No agent at {broker_url} tells of a release for {which}: see 'foveate model rollout status'."
        )
    if len(found) > 1 and not which.many:
        names = ", ".join(f"{one.agent}/{one.camera}" for one in found[:5])
        raise ConfigError(
            f"{len(found)} cameras have releases ({names}): choose one with --camera and --agent, or all of them with"
            " --group or --site."
        )
    return found
