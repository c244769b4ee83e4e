"""What every source owes its consumer, whatever is behind it."""

import asyncio
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
import pytest

from edge_agent.capture.base import Captured, CaptureEvent, StateChange, VideoSource
from pipeline.results import CameraState
from tests.support.capture import collect, ending, pictures, source_for
from tests.support.video_clips import number_of, scene, write_clip

COUNT = 12
Make = Callable[[], VideoSource]


@dataclass(frozen=True)
class Run:
    """A source that was read to its end, and what it gave."""

    source: VideoSource
    events: list[CaptureEvent]


RUNS: dict[str, Run] = {}


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_clip(tmp_path_factory.mktemp("clip") / "clip.mp4", [scene(n) for n in range(COUNT)], fps=20)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("folder")
    for number in range(COUNT):
        cv2.imwrite(str(path / f"{number}.png"), scene(number))
    return path


@pytest.fixture(params=["file", "file realtime", "folder", "folder realtime", "synthetic", "synthetic realtime"])
def make(request: pytest.FixtureRequest, clip: Path, folder: Path) -> Make:
    name, _, realtime = request.param.partition(" ")
    synthetic = f"synthetic:plaza?width=160&height=120&fps=20&seconds={COUNT / 20}"
    source = {"file": str(clip), "folder": str(folder), "synthetic": synthetic}[name]
    return lambda: source_for(source, realtime=bool(realtime))


@pytest.fixture
async def run(request: pytest.FixtureRequest, make: Make) -> Run:
    """One whole run of each source, shared by the tests that only look."""
    name = request.node.callspec.params["make"]
    if name not in RUNS:
        source = make()
        RUNS[name] = Run(source, await collect(source))
    return RUNS[name]


def test_pictures_are_bgr_and_belong_to_the_receiver_and_are_read_only(run: Run) -> None:
    images = [picture.image for picture in pictures(run.events)]
    assert images
    for image in images:
        assert image.ndim == 3
        assert image.shape[2] == 3
        assert image.dtype == np.uint8
        assert image.flags.c_contiguous
        assert not image.flags.writeable
    assert not np.shares_memory(images[0], images[-1])


def test_every_picture_is_counted_once_as_handed_over_lost_or_unusable(run: Run) -> None:
    source, taken = run.source, pictures(run.events)
    following = 0
    for picture in taken:
        assert picture.seq == following + picture.lost_before + picture.unusable_before
        following = picture.seq + 1
    assert following == COUNT
    assert source.total_frames == COUNT
    assert source.live or len(taken) == COUNT


def test_times_go_forward(run: Run) -> None:
    taken = pictures(run.events)
    captured = [picture.captured_at_s for picture in taken]
    assert captured == sorted(captured)
    media = [picture.media_ms for picture in taken if picture.media_ms is not None]
    assert all(after > before >= 0 for before, after in itertools.pairwise(media))


def test_it_says_live_before_the_first_picture_and_ends_once_as_finished(run: Run) -> None:
    events = run.events
    first = next(index for index, event in enumerate(events) if isinstance(event, Captured))
    before = events[first - 1]
    assert isinstance(before, StateChange)
    assert before.state is CameraState.LIVE
    assert ending(events).state is CameraState.FINISHED


async def test_what_came_after_the_last_picture_is_told_at_the_end(folder: Path, tmp_path: Path) -> None:
    for number in range(8):
        whole = (folder / f"{number}.png").read_bytes()
        (tmp_path / f"{number}.png").write_bytes(whole if number < 6 else b"damaged")
    events = await collect(source_for(tmp_path))
    end = ending(events)
    assert (len(pictures(events)), end.lost_before, end.unusable_before) == (6, 0, 2)


async def test_a_source_that_has_nothing_to_show_tells_how_much_was_unusable(tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / f"{number}.png").write_bytes(b"damaged")
    end = ending(await collect(source_for(tmp_path)))
    assert (end.state, end.unusable_before) == (CameraState.INVALID_INPUT, 3)


async def test_only_a_folder_that_is_not_played_in_real_time_is_stills(clip: Path, folder: Path) -> None:
    scene_url = "synthetic:plaza?width=64&height=48&seconds=1"
    cases: list[tuple[Path | str, bool]] = [(folder, False), (folder, True), (clip, False), (scene_url, False)]
    sources = [source_for(source, realtime=realtime) for source, realtime in cases]
    assert [source.stills for source in sources] == [True, False, False, False]
    assert [picture.media_ms for picture in pictures(await collect(sources[0]))] == [40.0 * n for n in range(COUNT)]


async def test_a_source_closed_before_it_began_gives_nothing(make: Make) -> None:
    source = make()
    await source.close()
    assert pictures(await collect(source)) == []


async def test_closing_from_outside_ends_the_events(make: Make) -> None:
    source = make()
    taken: list[Captured] = []

    async def consume() -> None:
        async for event in source.events():
            if isinstance(event, Captured):
                taken.append(event)
                await asyncio.sleep(0)
                if len(taken) == 2:
                    closing.set()
                    await asyncio.sleep(0.01)

    closing = asyncio.Event()
    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        group.create_task(consume())
        await closing.wait()
        await source.close()
        await source.close()
    assert 2 <= len(taken) < COUNT


async def test_a_consumer_may_leave_in_the_middle(make: Make) -> None:
    source = make()
    events = source.events()
    async for event in events:
        if isinstance(event, Captured):
            break
    await events.aclose()  # type: ignore[attr-defined]  # every implementation is a generator
    await source.close()


async def test_a_slow_consumer_misses_old_pictures_of_a_live_source_and_none_of_another(make: Make) -> None:
    source = make()
    taken: list[Captured] = []
    async with asyncio.timeout(20):
        async for event in source.events():
            if isinstance(event, Captured):
                taken.append(event)
                if len(taken) == 2:
                    await asyncio.sleep(0.5)
    if source.live:
        assert taken[2].lost_before >= 1
    else:
        assert [picture.seq for picture in taken] == list(range(COUNT))


async def test_pictures_come_with_their_own_number(clip: Path, folder: Path) -> None:
    sources = [source_for(path, realtime=realtime) for path in (clip, folder) for realtime in (False, True)]
    for events in await asyncio.gather(*(collect(source) for source in sources)):
        for picture in pictures(events):
            assert number_of(picture.image) == picture.seq
