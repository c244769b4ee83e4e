import asyncio
import threading

from edge_agent.status.cache import SnapshotCache
from edge_agent.status.snapshot import AgentStatus
from pipeline.timing import ManualClock
from tests.support.status_samples import FakeStatusSource, agent, camera


class CountingRenderer:
    """Writes metrics, and notes how often and in which threads."""

    def __init__(self) -> None:
        self.threads: list[int] = []

    def __call__(self, status: AgentStatus) -> bytes:
        self.threads.append(threading.get_ident())
        return status.agent.encode()


async def test_many_who_ask_at_once_share_one_rendering_off_the_event_loop() -> None:
    renderer = CountingRenderer()
    cache = SnapshotCache(FakeStatusSource(), ManualClock(), renderer)
    answers = await asyncio.gather(*(cache.metrics() for _ in range(20)))
    assert set(answers) == {b"edge-7"}
    assert len(renderer.threads) == 1
    assert renderer.threads[0] != threading.get_ident()


async def test_the_pictures_of_a_camera_that_is_gone_are_forgotten() -> None:
    source, clock = FakeStatusSource(agent(cameras=[camera("a"), camera("b")])), ManualClock()
    cache = SnapshotCache(source, clock, CountingRenderer())
    cache.status()
    for name in ("a", "b"):
        source.show(name, 1)
        assert await cache.picture(name) is not None
    source.current = agent(cameras=[camera("b")])
    clock.advance(0.25)
    cache.status()
    source.pictures.clear()
    assert await cache.picture("a") is None
    clock.advance(0.2)
    assert await cache.picture("b") is None


async def test_each_camera_has_its_own_newest_picture() -> None:
    source, clock = FakeStatusSource(agent(cameras=[camera("a"), camera("b")])), ManualClock()
    source.show("a", 1)
    source.show("b", 2)
    cache = SnapshotCache(source, clock, CountingRenderer())
    found = [await cache.picture(name) for name in ("a", "b", "a")]
    assert [picture and picture.seq for picture in found] == [1, 2, 1]
    source.show("a", 3)
    held = await cache.picture("a")
    clock.advance(0.2)
    newest = await cache.picture("a")
    assert held is not None
    assert newest is not None
    assert (held.seq, newest.seq) == (1, 3)
