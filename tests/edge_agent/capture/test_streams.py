"""Live streams through reader processes: served, refused, silent, stalled, cut off, and back again."""

import asyncio
import random
import signal
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from edge_agent.capture.base import Captured, Ended, VideoSource
from edge_agent.capture.open import open_source
from edge_agent.capture.settings import CaptureSettings
from pipeline.results import CameraState
from pipeline.timing import MonotonicClock
from tests.support.capture import source_for, watching
from tests.support.mjpeg import MjpegCamera
from tests.support.rtsp import HOST, RtspServer, StallProxy, StubRtsp, blackhole, free_port
from tests.support.video_clips import jpeg, number_of, scene, write_clip

QUICK: dict[str, Any] = {
    "open_timeout_s": 4.0,
    "read_timeout_s": 1.0,
    "reconnect_first_s": 0.1,
    "reconnect_most_s": 0.4,
}
SECRET = "S3cr&t/Ü"


def reader_process(excluding: set[int] = frozenset()) -> psutil.Process:  # type: ignore[assignment]  # an empty set
    """The one reader process that this process runs besides those named."""
    children = [child for child in psutil.Process().children() if "edge_agent.capture.child" in child.cmdline()]
    (child,) = [child for child in children if child.pid not in excluding]
    return child


async def test_an_rtsp_camera_that_is_killed_and_returns_gives_pictures_again_and_its_neighbour_loses_nothing(
    tmp_path: Path,
) -> None:
    write_clip(tmp_path / "a.mp4", [scene(n, 160, 120) for n in range(600)], fps=20)
    server = RtspServer(tmp_path)
    neighbour = MjpegCamera(fps=10)
    await server.start()
    try:
        async with (
            neighbour.serving(),
            watching(source_for(server.url("a.mp4"), **QUICK | {"open_timeout_s": 10.0})) as camera,
            watching(source_for(neighbour.url, **QUICK | {"read_timeout_s": 10.0})) as other,
        ):
            await camera.until_state(CameraState.LIVE)
            await camera.more_pictures(5)
            await server.kill()
            stale = await camera.until_state(CameraState.STALE)
            offline = await camera.until_state(CameraState.OFFLINE, after=stale)
            assert "refused" in camera.states[offline - 1].reason
            await server.start()
            await camera.until_state(CameraState.LIVE, after=offline)
            await camera.more_pictures(5)
            assert not any(isinstance(event, Ended) for event in camera.states)
            assert other.shown() == [CameraState.CONNECTING, CameraState.LIVE]
            assert neighbour.connections == 1
    finally:
        await server.kill()


async def test_a_host_out_of_reach_is_connecting_then_offline_and_never_ends() -> None:
    async with watching(source_for(f"rtsp://{HOST}:{free_port()}/x", **QUICK)) as camera:
        await camera.until_state(CameraState.OFFLINE)
        assert camera.shown() == [CameraState.CONNECTING, CameraState.OFFLINE]
        await asyncio.sleep(0)
    assert not any(isinstance(event, Ended) for event in camera.states)


@pytest.mark.parametrize("scheme", ["rtsp", "http"])
async def test_a_camera_that_never_answers_is_offline_after_its_timeout_and_others_go_on(scheme: str) -> None:
    good = MjpegCamera(fps=20)
    loop = asyncio.get_running_loop()
    async with blackhole() as port, good.serving():
        settings = QUICK | {"open_timeout_s": 1.0, "reconnect_first_s": 20.0, "reconnect_most_s": 20.0}
        begun_s = loop.time()
        async with (
            watching(source_for(f"{scheme}://{HOST}:{port}/x", **settings)) as dead,
            watching(source_for(good.url, **QUICK | {"read_timeout_s": 5.0})) as alive,
        ):
            await dead.until_state(CameraState.OFFLINE)
            # Far below the 30 s that OpenCV takes by itself: the timeout has its effect.
            assert loop.time() - begun_s < 15
            assert dead.shown() == [CameraState.CONNECTING, CameraState.OFFLINE]
            assert "within 1 s" in dead.states[-1].reason
            await alive.more_pictures(3)
            assert alive.shown() == [CameraState.CONNECTING, CameraState.LIVE]


async def test_a_refused_rtsp_password_is_shown_without_it_and_not_tried_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("DEBUG")
    async with StubRtsp().serving() as stub:
        url = f"rtsp://{HOST}:{stub.port}/x"
        async with watching(source_for(url, username="watcher", password=SECRET, **QUICK)) as camera:
            await camera.until_state(CameraState.AUTH_FAILED)
            tries = stub.connections
            assert len(stub.authorizations) == 1
            command_lines = " ".join(" ".join(child.cmdline()) for child in psutil.Process().children())
            # Several times the delay after which any other fault is tried again.
            await asyncio.sleep(1.5)
            assert stub.connections == tries == 1
    told = " ".join(event.reason for event in camera.states) + caplog.text + command_lines
    for form in (SECRET, "S3cr%26t", "watcher"):
        assert form not in told


async def test_an_http_camera_takes_the_right_password_and_refuses_the_wrong_one_once() -> None:
    camera = MjpegCamera(login=("watcher", SECRET))
    async with camera.serving():
        async with watching(source_for(camera.url, username="watcher", password=SECRET, **QUICK)) as right:
            await right.more_pictures(2)
        before = camera.refused
        async with watching(source_for(camera.url, username="watcher", password="wrong", **QUICK)) as wrong:
            await wrong.until_state(CameraState.AUTH_FAILED)
            # One request without and one with the password: that is how the challenge works.
            assert camera.refused - before == 2


async def test_a_path_that_the_server_does_not_know_is_offline_with_its_answer() -> None:
    async with (
        StubRtsp("404 Not Found").serving() as stub,
        watching(source_for(f"rtsp://{HOST}:{stub.port}/gone", **QUICK)) as camera,
    ):
        await camera.until_state(CameraState.OFFLINE)
        assert "404 Not Found" in camera.states[-1].reason


async def test_two_cameras_opened_at_once_each_use_their_own_transport() -> None:
    refusal = "461 Unsupported Transport"
    async with (
        StubRtsp(refusal, describes=True).serving() as first,
        StubRtsp(refusal, describes=True).serving() as second,
        watching(source_for(f"rtsp://{HOST}:{first.port}/x", rtsp_transport="tcp", **QUICK)) as by_tcp,
        watching(source_for(f"rtsp://{HOST}:{second.port}/x", rtsp_transport="udp", **QUICK)) as by_udp,
    ):
        await by_tcp.until_state(CameraState.OFFLINE)
        await by_udp.until_state(CameraState.OFFLINE)
    assert first.transports
    assert second.transports
    assert all("RTP/AVP/TCP" in transport for transport in first.transports)
    assert not any("RTP/AVP/TCP" in transport for transport in second.transports)


async def test_a_device_that_is_not_there_is_offline_and_waited_for(tmp_path: Path) -> None:
    async with watching(source_for("/dev/v4l/by-id/no-such-camera", **QUICK)) as camera:
        await camera.until_state(CameraState.OFFLINE)
        assert "no device /dev/v4l/by-id/no-such-camera" in camera.states[-1].reason
    assert not any(isinstance(event, Ended) for event in camera.states)


async def test_a_stalled_stream_is_stale_and_comes_back_each_time_without_leaving_anything_behind() -> None:
    camera = MjpegCamera(fps=20)
    process = psutil.Process()
    after: list[tuple[int, int]] = []
    async with camera.serving(), StallProxy(camera.port).serving() as line:
        source = source_for(f"http://{HOST}:{line.port}/video", **QUICK | {"open_timeout_s": 1.0})
        async with watching(source) as seen:
            passed = 0
            for _ in range(2):
                await seen.more_pictures(3)
                after.append((process.num_threads(), len(process.children(recursive=True))))
                line.stall()
                passed = await seen.until_state(CameraState.STALE, after=passed)
                line.heal()
                passed = await seen.until_state(CameraState.LIVE, after=passed)
    assert len(set(after)) == 1, after


async def test_a_camera_that_hangs_up_after_every_five_pictures_costs_nothing_that_stays() -> None:
    camera = MjpegCamera(fps=200, most=5)
    process = psutil.Process()
    settings = QUICK | {"reconnect_first_s": 0.001, "reconnect_most_s": 0.001}
    async with camera.serving(), watching(source_for(camera.url, **settings)) as seen:
        await seen.until(lambda _: camera.connections >= 3)
        before = (process.num_fds(), process.num_threads())
        await seen.until(lambda _: camera.connections >= 7)
        after = (process.num_fds(), process.num_threads())
    # A child that is just being started or ended holds three pipes and a thread more.
    assert after[0] <= before[0] + 8
    assert after[1] <= before[1] + 2


async def test_the_age_of_pictures_stays_small_with_a_slow_consumer_and_what_is_missed_is_counted() -> None:
    camera = MjpegCamera(fps=30)
    ages: list[int] = []
    following = 0
    async with camera.serving():
        source = source_for(camera.url, **QUICK | {"read_timeout_s": 10.0})
        async with asyncio.timeout(40):
            async for event in source.events():
                if isinstance(event, Captured):
                    assert event.seq == following + event.lost_before
                    following = event.seq + 1
                    ages.append(camera.number - number_of(event.image))
                    if len(ages) == 12:
                        break
                    await asyncio.sleep(0.3)
        await source.close()
    assert following > len(ages)
    # A buffer would let the age grow by about nine pictures each time.
    assert min(ages[-4:]) <= 15, ages


async def test_a_jpeg_cut_off_on_the_way_is_dropped_and_counted() -> None:
    whole = jpeg(scene(1))
    cut = MjpegCamera(fps=50, picture=lambda number: whole[: len(whole) // 2] if number % 3 == 0 else whole)
    async with cut.serving(), watching(source_for(cut.url, **QUICK | {"read_timeout_s": 10.0})) as seen:
        await seen.until(lambda now: bool(now.pictures) and now.pictures[-1].seq > 30)
        taken = seen.pictures
    assert sum(picture.unusable_before for picture in taken) >= 8
    assert {number_of(picture.image) for picture in taken} == {1}


async def test_a_stream_of_nothing_but_damaged_pictures_says_so() -> None:
    camera = MjpegCamera(fps=50, picture=lambda _: b"\xff\xd8 damaged")
    async with camera.serving(), watching(source_for(camera.url, **QUICK)) as seen:
        await seen.until_state(CameraState.INVALID_INPUT)
        assert "end marker" in seen.states[-1].reason
        assert not isinstance(seen.states[-1], Ended)


@pytest.mark.parametrize(("fault", "state"), [(signal.SIGSTOP, "hangs"), (signal.SIGKILL, "signal 9")])
async def test_a_reader_that_hangs_or_crashes_is_replaced(fault: signal.Signals, state: str) -> None:
    camera = MjpegCamera(fps=20)
    async with camera.serving(), watching(source_for(camera.url, **QUICK)) as seen:
        await seen.more_pictures(2)
        first = reader_process()
        first.send_signal(fault)
        stale = await seen.until_state(CameraState.STALE)
        assert state in seen.states[stale - 1].reason
        await seen.until_state(CameraState.LIVE, after=stale)
        await seen.more_pictures(2)
        assert not first.is_running() or reader_process(excluding={first.pid})


async def test_a_reader_ends_when_its_agent_is_killed(tmp_path: Path) -> None:
    script = (
        "import asyncio, sys\n"
        "from edge_agent.capture.open import open_source\n"
        "from edge_agent.capture.settings import CaptureSettings\n"
        "from pipeline.timing import MonotonicClock\n"
        "async def main():\n"
        "    async for event in open_source(CaptureSettings(sys.argv[1]), MonotonicClock()).events():\n"
        "        print(event.__class__.__name__, flush=True)\n"
        "asyncio.run(main())\n"
    )
    camera = MjpegCamera(fps=20)
    async with camera.serving():
        agent = await asyncio.create_subprocess_exec(
            sys.executable, "-c", script, camera.url, stdout=asyncio.subprocess.PIPE
        )
        assert agent.stdout is not None
        while b"Captured" not in await agent.stdout.readline():
            pass
        (child,) = psutil.Process(agent.pid).children()
        agent.kill()
        await agent.wait()
        await agent.stdout.read()
        await asyncio.to_thread(child.wait, 5)


async def test_sources_can_be_closed_at_any_moment_also_while_their_stream_is_stalled() -> None:
    camera = MjpegCamera(fps=50)
    moments = random.Random(4)
    loop = asyncio.get_running_loop()
    slowest_s = 0.0

    async def open_and_close(url: str, after_s: float) -> float:
        source: VideoSource = open_source(CaptureSettings(url, **QUICK), MonotonicClock())
        async with watching(source):
            await asyncio.sleep(after_s)
            begun_s = loop.time()
            await source.close()
            return loop.time() - begun_s

    async with (
        camera.serving(),
        StallProxy(camera.port).serving() as stalled,
        StallProxy(camera.port).serving() as line,
    ):
        stalled.stall()
        for _ in range(3):
            ports = (stalled.port, line.port, line.port)
            urls = [f"http://{HOST}:{port}/video" for port in ports]
            took = await asyncio.gather(*(open_and_close(url, moments.uniform(0, 1.0)) for url in urls))
            slowest_s = max(slowest_s, *took)
    assert [c for c in psutil.Process().children() if "edge_agent.capture.child" in c.cmdline()] == []
    # Ten times the promise: a guard against waiting for a timeout, not a measurement.
    assert slowest_s < 10
