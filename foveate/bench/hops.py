"""What the way over a broker adds to an answer: the round trip of a 60 kB picture on loopback, less the worker's part.

A real worker with the real model, a broker, and a requester with the agent's two sessions (requests out on one, replies
in on the other), each in a process of its own. Requests leave by the clock, whatever became of those before, at a rate
that leaves the model idle most of the time: what is measured is the way and no queue. Each picture is another frame, so
that none is answered from the cache. A probe follows each, which a worker returns at once: of what a picture takes, so
much is the way of its bytes, and so much that of any message. The brokers take turns, so that the machine's mood is
the same for both.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import islice

import numpy as np

from cloud_worker.settings import ServedModel, WorkerSettings
from edge_agent.gate import jpeg
from foveate.bench.hop_parts import Mosquitto, Requester, embedded, mosquitto
from foveate.bench.playlist import VTEST
from foveate.bench.reference import LARGE, frames
from foveate.broker import EmbeddedBroker
from foveate.children import WorkerOrder, WorkerProcess
from pipeline.geometry import Size
from pipeline.timing import MonotonicClock
from pipeline.transport.settings import MqttSettings

PICTURE_BYTES = 60_000
PER_S = 4.0
ROUNDS, SECONDS = 3, 15.0
SHORT_ROUNDS, SHORT_SECONDS = 1, 10.0
WARM_REQUESTS = 4
"""The first of each round meet new connections, and are left out."""
LAST_REPLY_S = 2.0

Broker = EmbeddedBroker | Mosquitto


@dataclass(slots=True)
class Trips:
    """What the way took, in milliseconds, of pictures and of probes, and the worker for the pictures; and how many were
    not answered.
    """

    picture_ms: list[float] = field(default_factory=list)
    probe_ms: list[float] = field(default_factory=list)
    worker_ms: list[float] = field(default_factory=list)
    lost: int = 0


@dataclass(frozen=True, slots=True)
class Picture:
    """A frame as JPEG."""

    data: bytes
    size: Size


def measure(short: bool, say: Callable[[str], None]) -> Mapping[str, float]:
    """``hop_ms_embedded`` and ``hop_ms_mosquitto``, medians; as details the P95, and what probes of a few bytes take.

    Those of mosquitto are left out where it is not installed. Raises SourceError where the clip is absent.
    """
    rounds, seconds = (SHORT_ROUNDS, SHORT_SECONDS) if short else (ROUNDS, SECONDS)
    shown = pictures(round(seconds * PER_S))
    ways: dict[str, tuple[Broker, MqttSettings]] = {"embedded": embedded()}
    if (installed := mosquitto()) is None:
        say("mosquitto is not installed: hop_ms_mosquitto is left out")
    else:
        ways["mosquitto"] = installed
    trips = {name: Trips() for name in ways}
    with ExitStack() as stack:
        for broker, mqtt in ways.values():
            stack.enter_context(served(broker, mqtt))
        for number in range(rounds):
            for name, (_, mqtt) in ways.items():
                say(f"round trips over {name}, round {number + 1} of {rounds}")
                asyncio.run(trip(mqtt, shown, trips[name]))
    figures = {"hop_picture_bytes": float(np.median([len(picture.data) for picture in shown]))}
    for name, made in trips.items():
        figures |= _figures(name, made)
    return figures


def pictures(count: int) -> list[Picture]:
    """Frames of the busy clip as JPEGs of about ``PICTURE_BYTES``, all of one quality."""
    images = list(islice(frames(VTEST.require().path), count))
    middle = images[count // 2]
    quality = min(range(50, 100), key=lambda each: abs(len(jpeg(middle, each)) - PICTURE_BYTES))
    return [Picture(jpeg(image, quality), Size(image.shape[1], image.shape[0])) for image in images]


@contextmanager
def served(broker: Broker, mqtt: MqttSettings) -> Iterator[None]:
    """A broker and a worker with the larger model at it, until the block ends."""
    worker = WorkerProcess(WorkerOrder(WorkerSettings(models=(ServedModel(LARGE[0]),)), mqtt, None))
    with broker:
        worker.start()
        try:
            yield
        finally:
            worker.stop()


async def trip(mqtt: MqttSettings, shown: Sequence[Picture], trips: Trips) -> None:
    """Send each picture and a probe after it, ``PER_S`` times a second, and note what they took."""
    clock = MonotonicClock()
    requester = Requester("hops", mqtt, LARGE[0], clock)
    async with requester.connected():
        sent: list[tuple[bytes, bytes]] = []
        began_s = clock.now_s()
        for number, picture in enumerate(shown):
            await asyncio.sleep(max(0.0, began_s + number / PER_S - clock.now_s()))
            question = await requester.ask(picture.data, picture.size)
            await asyncio.sleep(max(0.0, began_s + (number + 0.5) / PER_S - clock.now_s()))
            sent.append((question, await requester.probe()))
        await asyncio.sleep(LAST_REPLY_S)
    for question, probe in sent[WARM_REQUESTS:]:
        picture_trip, probe_trip = requester.took(question), requester.took(probe)
        if picture_trip is not None and probe_trip is not None:
            trips.picture_ms.append(picture_trip.way_ms)
            trips.worker_ms.append(picture_trip.reply.total_ms)
            trips.probe_ms.append(probe_trip.way_ms)
        else:
            trips.lost += 1


def _figures(name: str, trips: Trips) -> Mapping[str, float]:
    return {
        f"hop_ms_{name}": float(np.median(trips.picture_ms)),
        f"hop_ms_{name}_p95": float(np.percentile(trips.picture_ms, 95)),
        f"hop_probe_ms_{name}": float(np.median(trips.probe_ms)),
        f"hop_worker_ms_{name}": float(np.median(trips.worker_ms)),
        f"hop_lost_{name}": float(trips.lost),
    }
