"""Signed releases of small files, and slots that take them."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec

from edge_agent.pools import Inline, Runner
from edge_agent.releases.disk import Disk
from edge_agent.releases.fetch import Fetcher
from edge_agent.releases.files import ModelFolder
from edge_agent.releases.kept import KeptModels
from edge_agent.releases.receiver import Receiver
from edge_agent.releases.settings import ReleaseSettings
from edge_agent.releases.slot import ModelSlot, SlotEvent, Staged
from pipeline.detections import Detections
from pipeline.detectors.base import Detector
from pipeline.errors import ModelError
from pipeline.frames import Image
from pipeline.releases.manifest import EVERYBODY, Audience, Kind, Manifest, manifest_for
from pipeline.releases.signing import Release, SigningKey, TrustedKeys
from pipeline.timing import LoopClock
from pipeline.transport.base import Transport
from pipeline.transport.memory import MemoryHub, MemoryTransport
from tests.support.onnx_models import entry

LABELS = ("person", "car", "dog")
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
KEY = SigningKey.new()


class Named:
    """A detector that only has a name; ``labels`` and all."""

    def __init__(self, name: str = "general", version: str = "1.0.0", labels: tuple[str, ...] = LABELS) -> None:
        self.name, self.version, self.labels = name, version, labels

    def detect(self, images: Sequence[Image], min_score: float) -> list[Detections]:
        return [Detections.none() for _ in images]


def manifest_of(
    file: bytes,
    name: str = "own",
    version: str = "1",
    *,
    minutes: float = 0.0,
    kind: Kind = "camera",
    audience: Audience = EVERYBODY,
    urls: tuple[str, ...] = (),
    labels: tuple[str, ...] = LABELS,
) -> Manifest:
    """The manifest of a file that was released ``minutes`` after noon."""
    contract = msgspec.structs.replace(entry(name), version=version)
    return manifest_for(
        contract,
        file,
        kind=kind,
        labels=labels,
        input_size=(64, 64),
        now=NOON + timedelta(minutes=minutes),
        audience=audience,
        urls=urls,
    )


def released(file: bytes, version: str = "1", minutes: float = 0.0, key: SigningKey = KEY) -> Release:
    """A signed release of ``own`` for everybody."""
    return key.sign(manifest_of(file, version=version, minutes=minutes))


def load(path: Path, manifest: Manifest) -> Detector:
    """Stands for loading a model: any file will do but one that begins with ``bad``."""
    if path.read_bytes().startswith(b"bad"):
        raise ModelError(f"{manifest.title} is bad.")
    return Named(manifest.name, manifest.version, manifest.labels)


@dataclass
class Edge:
    """One agent's releases; ``told`` is what its cameras were told."""

    slots: list[ModelSlot]
    kept: KeptModels
    receiver: Receiver
    told: list[tuple[str, SlotEvent]] = field(default_factory=list)

    @property
    def refusals(self) -> list[str]:
        return [event.reason for _, event in self.told if event.kind == "refused"]


def edge(
    folder: Path,
    control: Transport,
    open_session: Callable[[], Transport] | None,
    *,
    cameras: Sequence[str] = ("yard",),
    groups: dict[str, str] | None = None,
    settings: ReleaseSettings | None = None,
    disk: Disk | None = None,
    objects: frozenset[str] = frozenset(),
    prover: Runner | None = None,
) -> Edge:
    """An edge that trusts ``KEY``."""
    settings = settings or ReleaseSettings((KEY.public,))
    slots = [ModelSlot(name, Staged(Named()), objects) for name in cameras]
    files = ModelFolder(folder, disk)
    runner = Inline()
    kept = KeptModels(files, slots, TrustedKeys(settings.trusted_keys), load, runner, prover or runner)
    fetcher = Fetcher(files, open_session, runner, LoopClock())
    made = Edge(slots, kept, Receiver(settings, groups or {}, kept, fetcher, load, runner, control, LoopClock()))
    for slot in slots:
        slot.listen(lambda event, camera=slot.camera: made.told.append((camera, event)))  # type: ignore[misc] # a default binds
    return made


@asynccontextmanager
async def working(edge: Edge, *sessions: Transport) -> AsyncIterator[None]:
    """Run an edge and some sessions."""
    await edge.kept.recall()
    coroutines = [edge.kept.run(), edge.receiver.run(), *(session.run() for session in sessions)]
    tasks = [asyncio.create_task(one) for one in coroutines]
    try:
        yield
    finally:
        ended = [task for task in tasks if task.done()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for task in ended:
            task.result()  # none ends by itself: this raises what ended it
        await edge.kept.save()


@asynccontextmanager
async def at(hub: MemoryHub, folder: Path, **changes: object) -> AsyncIterator[Edge]:
    """Run an edge on a hub in this process."""
    control = MemoryTransport(hub, name="control")
    made = edge(folder, control, lambda: MemoryTransport(hub, name="file"), **changes)  # type: ignore[arg-type] # passed on
    async with working(made, control):
        yield made
