"""The same camera watched by several agents through one worker: what it costs, and what it does to the answers' time.

Frame by frame one agent and four take turns, so that whatever else the machine does befalls both. The four have a frame
a few milliseconds apart, as agents do that read one live camera, and ask about it as a whole, as agents do that have
the larger model on the site (``mode: cloud_only``). Broker and worker, with the real model, are processes of their own.
Inferences are the worker's own count, held against an independent one of the pictures that went over the broker.

``agents_alike`` has four whole agents watch a clip: their gates, trackers and small models decide what is asked.
"""

import asyncio
import contextlib
import os
import subprocess
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from random import Random

import msgspec
import numpy as np

from cloud_worker.settings import ServedModel, WorkerSettings
from foveate.bench.children import see_ended
from foveate.bench.hop_parts import READY_S, Requester, embedded
from foveate.bench.hops import Picture, pictures
from foveate.bench.playlist import VTEST
from foveate.bench.product import PROGRAM
from foveate.bench.reference import LARGE
from foveate.children import WorkerOrder, WorkerProcess
from pipeline.errors import BrokerError
from pipeline.timing import MonotonicClock
from pipeline.transport.base import Message
from pipeline.transport.mqtt import MqttTransport
from pipeline.transport.settings import MqttSettings
from pipeline.wire import topics
from pipeline.wire.codec import BadPayload, decode_reply, decode_request, decode_worker_state
from pipeline.wire.messages import WorkerState

AGENTS = 4
FPS = 4.0
APART_S = 0.03
"""Agents that read one camera have a frame within so much of each other."""
ALONE = "alone"
FRAMES, SHORT_FRAMES = 400, 80
HEARTBEAT_S = 0.5
LAST_REPLY_S = 1.5
"""After it the answers are out and the worker has told of them."""
ALIKE_S, SHORT_ALIKE_S = 25.0, 8.0
"""How long whole agents run, from their first question on."""
ALIKE_FPS = 1.0
"""Frames that whole agents look at per second: four of them and the larger model share this machine."""

Say = Callable[[str], None]


Key = tuple[str, str, int, int]
"""A request's agent, camera, epoch and frame number."""


@dataclass(slots=True)
class Heard:
    """What went over the broker: by request its picture, as a hash; those that were answered; what the worker told."""

    asked: dict[Key, bytes] = field(default_factory=dict)
    answered: set[Key] = field(default_factory=set)
    state: WorkerState | None = None
    told: asyncio.Event = field(default_factory=asyncio.Event)
    begun: asyncio.Event = field(default_factory=asyncio.Event)

    def pictures(self, alone: bool = False) -> int:
        """How many different pictures were answered, to the agents that share or to the one that is ``alone``."""
        return len({self.asked[key] for key in self.answered if (key[0] == ALONE) is alone})

    @property
    def frames(self) -> int:
        """How many frames any agent had an answer for."""
        return len({key[3] for key in self.answered})

    @property
    def inferences(self) -> int:
        """Pictures that the model has run on, by the worker's own count."""
        batches = None if self.state is None else self.state.batches
        return 0 if batches is None else sum(int(size) * count for size, count in batches.sizes.items())

    @property
    def reused(self) -> int:
        """Answers that another run, or the cache, gave."""
        reuse = None if self.state is None else self.state.reuse
        return 0 if reuse is None else reuse.joined + reuse.hits


def measure(short: bool, say: Say) -> Mapping[str, float]:
    """``coalesce_inferences`` per unique picture of four agents, and ``coalesce_p99_ratio``, theirs to one agent's.

    Details: what the agents waited, and what whole agents come to. Raises SourceError where the clip is absent,
    BrokerError where the worker answers nobody.
    """
    took_ms, heard = asyncio.run(in_turns(pictures(SHORT_FRAMES if short else FRAMES), say))
    one, four = ([ms for ms in took_ms[kind] if ms is not None] for kind in (1, AGENTS))
    if not one or not four:
        raise BrokerError(
            f"The worker answered {len(one)} and {len(four)} questions: the machine is too busy to measure."
        )
    figures = {
        # Nobody shares with the one that is alone: each picture of its was an inference.
        "coalesce_inferences": (heard.inferences - heard.pictures(alone=True)) / heard.pictures(),
        "coalesce_p99_ratio": float(np.percentile(four, 99) / np.percentile(one, 99)),
        "coalesce_reused": heard.reused / len(four),
        "coalesce_lost": float(sum(map(len, took_ms.values())) - len(one) - len(four)),
    }
    for name, ms in (("one", one), ("four", four)):
        figures |= {f"coalesce_p{p}_ms_{name}": float(np.percentile(ms, p)) for p in (50, 99)}
    for mode in ("cloud_only",) if short else ("cloud_only", "adaptive"):
        say(f"{AGENTS} whole agents, {mode}, on one clip")
        heard = asyncio.run(agents_alike(mode, SHORT_ALIKE_S if short else ALIKE_S))
        figures |= _alike(mode, heard)
    return figures


def _alike(mode: str, heard: Heard) -> Mapping[str, float]:
    """Of what was answered: the inferences per picture, and per frame the pictures, the requests and the inferences."""
    if not heard.frames:
        return {}
    return {
        f"coalesce_{mode}_inferences_per_picture": heard.inferences / heard.pictures(),
        f"coalesce_{mode}_pictures_per_frame": heard.pictures() / heard.frames,
        f"coalesce_{mode}_requests_per_frame": len(heard.answered) / heard.frames,
        f"coalesce_{mode}_inferences_per_frame": heard.inferences / heard.frames,
    }


async def in_turns(shown: Sequence[Picture], say: Say) -> tuple[Mapping[int, list[float | None]], Heard]:
    """Ask about each frame once, every other one by all four agents: the round trips in milliseconds by how many asked
    (None where no answer came), and what was heard.
    """
    clock, chance = MonotonicClock(), Random(1)
    async with listened() as (mqtt, heard), contextlib.AsyncExitStack() as stack:
        names = [ALONE, *(f"agent{number}" for number in range(AGENTS))]
        alone, *shared = [Requester(name, mqtt, LARGE[0], clock) for name in names]
        for agent in (alone, *shared):
            await stack.enter_async_context(agent.connected())
        say(f"one agent and {AGENTS} agents on one camera, in turns, {len(shown)} frames")
        began_s = clock.now_s() + 0.5

        async def ask(agent: Requester, number: int, later_s: float) -> bytes:
            await asyncio.sleep(began_s + number / FPS + later_s - clock.now_s())
            return await agent.ask(shown[number].data, shown[number].size)

        asked = [
            (kind, agent, asyncio.create_task(ask(agent, number, chance.uniform(0.0, APART_S))))
            for number in range(len(shown))
            for kind, agents in (((AGENTS, shared) if number % 2 else (1, [alone])),)
            for agent in agents
        ]
        await asyncio.gather(*(task for _, _, task in asked))
        await asyncio.sleep(LAST_REPLY_S)
    took_ms: dict[int, list[float | None]] = {1: [], AGENTS: []}
    for kind, agent, task in asked:
        trip = agent.took(task.result())
        took_ms[kind].append(None if trip is None else trip.round_trip_ms)
    return took_ms, heard


@contextlib.asynccontextmanager
async def listened() -> AsyncIterator[tuple[MqttSettings, Heard]]:
    """A broker and a worker with the larger model, and an account of what is asked and told, until the block ends."""
    broker, mqtt = embedded()
    settings = WorkerSettings(models=(ServedModel(LARGE[0]),), heartbeat_s=HEARTBEAT_S)
    worker = WorkerProcess(WorkerOrder(settings, mqtt, None))
    heard, session = Heard(), MqttTransport(mqtt)

    def on_request(message: Message) -> None:
        decoded = decode_request(message.payload)
        if not isinstance(decoded, BadPayload):
            request, jpeg = decoded
            heard.asked[request.key] = blake2b(jpeg, digest_size=16).digest()
            heard.begun.set()

    def on_reply(message: Message) -> None:
        reply = decode_reply(message.payload)
        if not isinstance(reply, BadPayload) and reply.refused is None and reply.key in heard.asked:
            heard.answered.add(reply.key)

    def on_state(message: Message) -> None:
        state = decode_worker_state(message.payload)
        if isinstance(state, WorkerState) and state.online:
            heard.state = state
            heard.told.set()

    session.subscribe(topics.request("cloud", LARGE[0]), on_request)
    session.subscribe(f"{topics.WIRE}/rep/+", on_reply)
    session.subscribe(topics.ANY_WORKER, on_state, qos=1)
    with broker:
        worker.start()
        listening = asyncio.create_task(session.run())
        try:
            async with asyncio.timeout(READY_S):
                await heard.told.wait()
            yield mqtt, heard
        finally:
            listening.cancel()
            await asyncio.gather(listening, return_exceptions=True)
            await asyncio.to_thread(worker.stop)


async def agents_alike(mode: str, seconds: float) -> Heard:
    """Run whole agents on the busy clip, played as a camera, for so long. They know of each other only by the broker.

    Raises SourceError where the clip is absent.
    """
    clip = str(VTEST.require().path)
    camera = {"name": "clip", "source": clip, "realtime": True, "mode": mode, "sample_fps": ALIKE_FPS}
    agents: list[subprocess.Popen[bytes]] = []
    async with listened() as (mqtt, heard):
        with tempfile.TemporaryDirectory() as folder:
            try:
                # Not a list that is added at the end: each is noted as soon as it runs, so that all are ended.
                agents.extend(_agent(Path(folder), f"agent{number}", mqtt, camera) for number in range(AGENTS))
                async with asyncio.timeout(READY_S):
                    await heard.begun.wait()
                await asyncio.sleep(seconds)
            finally:
                for agent in agents:
                    agent.terminate()
                for agent in agents:
                    await asyncio.to_thread(see_ended, agent)
        await asyncio.sleep(LAST_REPLY_S)
    return heard


def _agent(folder: Path, name: str, mqtt: MqttSettings, camera: Mapping[str, object]) -> subprocess.Popen[bytes]:
    configuration = {
        "agent": {"name": name},
        "broker": {"url": f"mqtt://{mqtt.host}:{mqtt.port}"},
        "cameras": [camera],
        "web": {"enabled": False},
    }
    file = folder / f"{name}.json"
    file.write_bytes(msgspec.json.encode(configuration))
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    quiet = subprocess.DEVNULL
    return subprocess.Popen([*PROGRAM, "run", "--config", str(file)], stdout=quiet, stderr=quiet, env=environment)
