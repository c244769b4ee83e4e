"""The same camera watched by several agents through one worker: what it costs, and what it does to the answers' time.

Blocks with one agent and with four take turns in one run. All see the same frames, a few milliseconds apart, as agents
do that read one live camera, and ask about each as a whole, as agents do that have the larger model on the site
(``mode: cloud_only``). Broker and worker, with the real model, are processes of their own. Inferences are the worker's
own count, held against an independent one of the pictures that went over the broker.

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
from foveate.bench.hop_parts import READY_S, Requester, embedded
from foveate.bench.hops import Picture, pictures
from foveate.bench.playlist import VTEST
from foveate.bench.product import PROGRAM
from foveate.bench.reference import LARGE
from foveate.children import WorkerOrder, WorkerProcess
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
BLOCKS, FRAMES = 6, 60
SHORT_BLOCKS, SHORT_FRAMES = 1, 50
HEARTBEAT_S = 0.5
LAST_REPLY_S = 1.5
"""After it the answers are out and the worker has told of them."""
ALIKE_S, SHORT_ALIKE_S = 30.0, 10.0
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

    @property
    def pictures(self) -> int:
        """How many different pictures were answered, to whomever."""
        return len({self.asked[key] for key in self.answered})

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


@dataclass(slots=True)
class Block:
    """What blocks of one kind have shown. ``took_ms`` are the round trips of all agents."""

    took_ms: list[float] = field(default_factory=list)
    lost: int = 0
    inferences: int = 0
    pictures: int = 0
    reused: int = 0


def measure(short: bool, say: Say) -> Mapping[str, float]:
    """``coalesce_inferences`` per unique picture of four agents, and ``coalesce_p99_ratio``, theirs to one agent's.

    Details: what the agents waited, and what whole agents come to. Raises SourceError where the clip is absent.
    """
    blocks, frames = (SHORT_BLOCKS, SHORT_FRAMES) if short else (BLOCKS, FRAMES)
    one, four = asyncio.run(in_turns(pictures(2 * blocks * frames), blocks, say))
    figures = {
        "coalesce_inferences": four.inferences / four.pictures,
        "coalesce_p99_ratio": _p99(four) / _p99(one),
        "coalesce_reused": four.reused / (four.reused + four.inferences),
        "coalesce_lost": float(one.lost + four.lost),
    }
    for name, block in (("one", one), ("four", four)):
        figures[f"coalesce_p50_ms_{name}"] = float(np.median(block.took_ms))
        figures[f"coalesce_p99_ms_{name}"] = _p99(block)
    for mode in ("cloud_only",) if short else ("cloud_only", "adaptive"):
        say(f"{AGENTS} whole agents, {mode}, on one clip")
        heard = asyncio.run(agents_alike(mode, SHORT_ALIKE_S if short else ALIKE_S))
        figures |= _alike(mode, heard)
    return figures


def _p99(block: Block) -> float:
    return float(np.percentile(block.took_ms, 99))


def _alike(mode: str, heard: Heard) -> Mapping[str, float]:
    """Of what was answered: the inferences per picture, and per frame the pictures, the requests and the inferences."""
    if not heard.frames:
        return {}
    return {
        f"coalesce_{mode}_inferences_per_picture": heard.inferences / heard.pictures,
        f"coalesce_{mode}_pictures_per_frame": heard.pictures / heard.frames,
        f"coalesce_{mode}_requests_per_frame": len(heard.answered) / heard.frames,
        f"coalesce_{mode}_inferences_per_frame": heard.inferences / heard.frames,
    }


async def in_turns(shown: Sequence[Picture], blocks: int, say: Say) -> tuple[Block, Block]:
    """Blocks with one agent and with four, in turns; each frame in one block only, so that no cache joins them."""
    one, four = Block(), Block()
    size = len(shown) // (2 * blocks)
    parts = [shown[first : first + size] for first in range(0, 2 * blocks * size, size)]
    async with listened() as (mqtt, heard), contextlib.AsyncExitStack() as stack:
        agents = [Requester(f"agent{number}", mqtt, LARGE[0], MonotonicClock()) for number in range(AGENTS)]
        for agent in agents:
            await stack.enter_async_context(agent.connected())
        for number, part in enumerate(parts):
            block, count = (four, AGENTS) if number % 2 else (one, 1)
            say(f"{count} of {AGENTS} agents on one camera, block {number // 2 + 1} of {blocks}")
            before = heard.pictures, heard.inferences, heard.reused
            await watch(agents[:count], part, block, Random(number))
            block.pictures += heard.pictures - before[0]
            block.inferences += heard.inferences - before[1]
            block.reused += heard.reused - before[2]
    return one, four


async def watch(agents: Sequence[Requester], part: Sequence[Picture], block: Block, chance: Random) -> None:
    """Have agents ask about the same frames by the clock, each a little later or earlier than the others."""
    clock = MonotonicClock()
    began_s = clock.now_s() + APART_S

    async def ask(agent: Requester, picture: Picture, at_s: float) -> bytes:
        await asyncio.sleep(max(0.0, at_s - clock.now_s()))
        return await agent.ask(picture.data, picture.size)

    asked = [
        (agent, asyncio.create_task(ask(agent, picture, began_s + number / FPS + chance.uniform(0.0, APART_S))))
        for number, picture in enumerate(part)
        for agent in agents
    ]
    await asyncio.gather(*(task for _, task in asked))
    await asyncio.sleep(LAST_REPLY_S)
    for agent, task in asked:
        if (trip := agent.took(task.result())) is None:
            block.lost += 1
        else:
            block.took_ms.append(trip.round_trip_ms)


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
                agents += [_agent(Path(folder), f"agent{number}", mqtt, camera) for number in range(AGENTS)]
                async with asyncio.timeout(READY_S):
                    await heard.begun.wait()
                await asyncio.sleep(seconds)
            finally:
                for agent in agents:
                    agent.terminate()
                for agent in agents:
                    await asyncio.to_thread(agent.wait)
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
