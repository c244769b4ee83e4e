"""Files and folders through a reader process, good and bad."""

import asyncio
import os
from pathlib import Path

import cv2
import numpy as np
import pytest

from edge_agent.capture.base import Captured
from pipeline.errors import ConfigError
from pipeline.results import CameraState
from tests.support.capture import collect, ending, pictures, source_for
from tests.support.video_clips import jpeg, scene, write_audio, write_clip, write_mjpeg_avi

SAMPLE = Path(__file__).parents[3] / "sample_videos" / "plaza.mp4"


def bad_inputs(folder: Path) -> dict[Path, tuple[CameraState, str]]:
    """Bad sources by path, with the state and the words that each must end in."""
    clip = write_clip(folder / "clip.mp4", [scene(n) for n in range(30)])
    data = clip.read_bytes()
    index_at = data.index(b"moov") - 4
    made = {
        "missing.mp4": (None, CameraState.INVALID_INPUT, "does not exist"),
        "empty.mp4": (b"", CameraState.INVALID_INPUT, "empty"),
        "text.mp4": (b"not a film, but a letter\n" * 40, CameraState.INVALID_INPUT, "text"),
        "noise.mp4": (np.random.default_rng(1).bytes(20_000), CameraState.INVALID_INPUT, "not a video"),
        "half.mp4": (data[: len(data) // 2], CameraState.INVALID_INPUT, "cut short"),
        "index.mp4": (data[: index_at + 200], CameraState.INVALID_INPUT, "cut short"),
        "codec.mp4": (data.replace(b"avc1", b"zzzz"), CameraState.UNSUPPORTED_CODEC, "unsupported_codec: zzzz"),
    }
    expected = {}
    for name, (content, state, words) in made.items():
        if content is not None:
            (folder / name).write_bytes(content)
        expected[folder / name] = (state, words)
    expected[write_audio(folder / "sound.m4a")] = (CameraState.INVALID_INPUT, "sound but no pictures")
    (folder / "empty").mkdir()
    expected[folder / "empty"] = (CameraState.INVALID_INPUT, "no pictures")
    os.mkfifo(folder / "pipe.mp4")
    expected[folder / "pipe.mp4"] = (CameraState.INVALID_INPUT, "neither a file nor a folder")
    return expected


async def test_each_bad_file_ends_with_its_own_state_and_reason(tmp_path: Path) -> None:
    expected = bad_inputs(tmp_path)
    reasons = set()
    for path, (state, words) in expected.items():
        events = await collect(source_for(path))
        end = ending(events)
        assert end.state is state, (path.name, end)
        assert words in end.reason, (path.name, end)
        assert path.name in end.reason
        assert pictures(events) == []
        reasons.add(end.reason.replace(str(path), ""))
    assert len(reasons) == len(expected) - 1  # both that are cut short say the same


async def test_a_bad_file_harms_no_other_source(tmp_path: Path) -> None:
    good = write_clip(tmp_path / "good.mp4", [scene(n) for n in range(20)])
    (tmp_path / "bad.mp4").write_bytes(b"\0" * 5000)
    good_events, bad_events = await asyncio.gather(collect(source_for(good)), collect(source_for(tmp_path / "bad.mp4")))
    assert len(pictures(good_events)) == 20
    assert ending(good_events).state is CameraState.FINISHED
    assert ending(bad_events).state is CameraState.INVALID_INPUT


@pytest.mark.parametrize(
    "changes",
    [
        {"rtsp_transport": "smoke"},
        {"open_timeout_s": 0},
        {"read_timeout_s": float("nan")},
        {"reconnect_first_s": 5, "reconnect_most_s": 1},
        {"pixel_limit": 0},
    ],
)
def test_settings_that_cannot_be_meant_are_refused(changes: dict[str, float]) -> None:
    with pytest.raises(ConfigError):
        source_for("clip.mp4", **changes)


async def test_a_file_of_pictures_over_the_limit_ends_as_invalid_and_says_why(tmp_path: Path) -> None:
    clip = write_clip(tmp_path / "clip.mp4", [scene(n) for n in range(3)])
    end = ending(await collect(source_for(clip, pixel_limit=1000)))
    assert end.state is CameraState.INVALID_INPUT
    assert "320x240" in end.reason
    assert "1000" in end.reason


async def test_damaged_pictures_are_counted_where_they_were(tmp_path: Path) -> None:
    for number in range(6):
        cv2.imwrite(str(tmp_path / f"{number}.png"), scene(number))
    for number in (2, 3):
        (tmp_path / f"{number}.png").write_bytes(b"damaged")
    taken = pictures(await collect(source_for(tmp_path)))
    assert [picture.seq for picture in taken] == [0, 1, 4, 5]
    assert [picture.unusable_before for picture in taken] == [0, 0, 2, 0]


async def test_a_decoders_noise_is_counted_and_not_printed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    data = jpeg(scene(1))
    path = write_mjpeg_avi(tmp_path / "noisy.avi", [data, *[data[: len(data) // 3]] * 200])
    source = source_for(path)
    events = await collect(source)
    assert ending(events).state is CameraState.FINISHED
    assert getattr(source, "noise_lines", 0) >= 100
    noise = [record for record in caplog.records if "decoder says" in record.getMessage()]
    assert 1 <= len(noise) <= 2
    assert capfd.readouterr().err == ""


async def test_a_black_film_is_shown_as_dark_and_goes_on(tmp_path: Path) -> None:
    generator = np.random.default_rng(1)
    night = [np.abs(generator.normal(3, 2, (120, 160, 3))).astype(np.uint8) for _ in range(30)]
    events = await collect(source_for(write_clip(tmp_path / "night.mp4", night)))
    states = [event.state for event in events if not isinstance(event, Captured)]
    assert states == [CameraState.CONNECTING, CameraState.LIVE, CameraState.DARK, CameraState.FINISHED]
    assert len(pictures(events)) == 30


async def test_pictures_may_grow_and_shrink_in_mid_stream(tmp_path: Path) -> None:
    sizes = [(64, 48), (640, 480), (31, 17), (1280, 720)]
    for number, (width, height) in enumerate(sizes):
        cv2.imwrite(str(tmp_path / f"{number}.png"), np.full((height, width, 3), 40 * number, np.uint8))
    taken = pictures(await collect(source_for(tmp_path)))
    assert [picture.image.shape for picture in taken] == [(height, width, 3) for width, height in sizes]
    assert [int(picture.image.max()) for picture in taken] == [0, 40, 80, 120]


async def test_the_sample_clip_is_whole() -> None:
    source = source_for(SAMPLE)
    count = sum([isinstance(event, Captured) async for event in source.events()])
    assert (count, source.total_frames) == (795, 795)
