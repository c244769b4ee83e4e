import itertools
import math
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge_agent.capture.opening import open_reader
from edge_agent.capture.readers import CvReader, MediaClock, Shot
from pipeline.results import CameraState
from tests.support.capture import order_for, read_all
from tests.support.video_clips import MARK_XYXY, jpeg, number_of, rotate_tag, scene, write_clip, write_mjpeg_avi

GOOD = np.full((6, 8, 3), 9, np.uint8)


class ScriptedCapture:
    """A capture that gives what its script says, then nothing."""

    def __init__(self, script: list[tuple[bool, Any]], frames: float = 0.0, fps: float = 10.0) -> None:
        self._script = iter(script)
        self._values = {cv2.CAP_PROP_FRAME_COUNT: frames, cv2.CAP_PROP_FPS: fps, cv2.CAP_PROP_POS_MSEC: 0.0}
        self.reads = 0

    def get(self, what: int) -> float:
        return self._values[what]

    def read(self) -> tuple[bool, Any]:
        self.reads += 1
        return next(self._script, (False, None))

    def release(self) -> None:
        pass


@pytest.fixture
def naps(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    taken: list[float] = []
    monkeypatch.setattr("edge_agent.capture.readers.time.sleep", taken.append)
    return taken


def test_only_a_whole_picture_counts_and_a_failed_read_is_no_busy_loop(naps: list[float]) -> None:
    failures = [(False, None)] * 40
    script = [*failures, (True, None), (True, np.zeros((0, 0, 3), np.uint8)), (True, GOOD[:, :, 0]), (True, GOOD)]
    shots, unusable, over = read_all(CvReader(ScriptedCapture(script), order_for("camera"), live=True))
    assert [shot.image.shape for shot in shots] == [(6, 8, 3), (6, 8, 3)]
    assert unusable == []
    assert (over.state, over.final) == (CameraState.STALE, False)
    assert min(naps) > 0
    assert sum(naps[: len(failures)]) >= 0.5


def test_a_stream_that_gives_nothing_is_given_up(naps: list[float]) -> None:
    capture = ScriptedCapture([])
    _, _, over = read_all(CvReader(capture, order_for("camera"), live=True))
    assert over.state is CameraState.STALE
    assert len(naps) == capture.reads
    assert sum(naps) == pytest.approx(1.0)


def test_a_file_survives_a_read_that_fails_once(naps: list[float]) -> None:
    script = [(True, GOOD), (False, None), (True, GOOD)]
    shots, _, over = read_all(CvReader(ScriptedCapture(script, frames=2), order_for("file"), live=False))
    assert len(shots) == 2
    assert (over.state, over.final) == (CameraState.FINISHED, True)
    assert "promised" not in over.reason


def test_a_file_that_ends_early_says_so(naps: list[float]) -> None:
    _, _, over = read_all(CvReader(ScriptedCapture([(True, GOOD)], frames=30), order_for("file"), live=False))
    assert "after 1 picture" in over.reason
    assert "30" in over.reason


@pytest.mark.parametrize(("frames", "total"), [(-1.9e14, None), (0, None), (math.nan, None), (1e12, None), (795, 795)])
def test_a_senseless_frame_count_is_unknown(frames: float, total: int | None) -> None:
    assert CvReader(ScriptedCapture([], frames=frames), order_for("file"), live=False).total_frames == total


@settings(deadline=None)
@given(
    positions=st.lists(st.floats(allow_nan=True, allow_infinity=True), max_size=30), fps=st.none() | st.floats(1, 60)
)
def test_media_times_start_at_or_after_zero_and_increase(positions: list[float], fps: float | None) -> None:
    sane = [position for position in positions if not abs(position) > 1e12]
    clock = MediaClock(fps)
    times = [time for time in map(clock.at, sane) if time is not None]
    assert all(math.isfinite(time) and time >= 0 for time in times)
    assert all(after > before for before, after in itertools.pairwise(times))
    assert fps is None or len(times) == len(sane)


def read_clip(path: Path, **changes: Any) -> list[Shot]:
    shots, _, over = read_all(open_reader(order_for(path, **changes)))
    assert over.state is CameraState.FINISHED
    return shots


VARIABLE_MS = [0, 40, 1000, 1040, 5000, 5040]


def test_times_of_a_variable_rate_are_those_of_the_file(tmp_path: Path) -> None:
    path = write_clip(tmp_path / "vfr.mkv", [scene(n) for n in range(6)], times_ms=VARIABLE_MS)
    assert [shot.media_ms for shot in read_clip(path)] == pytest.approx(VARIABLE_MS, abs=1)


def test_times_before_zero_are_lifted_and_still_increase(tmp_path: Path) -> None:
    path = write_clip(
        tmp_path / "early.mkv",
        [scene(n) for n in range(6)],
        times_ms=[time - 500 for time in VARIABLE_MS],
        options={"avoid_negative_ts": "disabled"},
    )
    times = [shot.media_ms or 0.0 for shot in read_clip(path)]
    assert times[0] == 0
    assert all(after > before for before, after in itertools.pairwise(times))
    # OpenCV calls every time before zero 0; from there on the file's own count.
    assert times[2:] == pytest.approx([time - 500 for time in VARIABLE_MS[2:]], abs=1)


def test_a_raw_stream_has_times_by_its_rate_and_no_frame_count(tmp_path: Path) -> None:
    path = write_clip(tmp_path / "raw.h264", [scene(n) for n in range(6)], fps=25)
    reader = open_reader(order_for(path))
    shots, _, _ = read_all(reader)
    assert getattr(reader, "total_frames", 0) is None
    times = [shot.media_ms for shot in shots if shot.media_ms is not None]
    assert len(times) == 6
    assert times == sorted(set(times))


@pytest.mark.parametrize("degrees", [90, 180, 270])
def test_a_rotation_tag_turns_the_picture_upright_once(tmp_path: Path, degrees: int) -> None:
    turn = {90: cv2.ROTATE_90_COUNTERCLOCKWISE, 180: cv2.ROTATE_180, 270: cv2.ROTATE_90_CLOCKWISE}[degrees]
    lying = cv2.rotate(scene(5, 240, 320), turn)
    path = rotate_tag(write_clip(tmp_path / "phone.mp4", [lying] * 3), degrees)
    image = read_clip(path)[0].image
    assert image.shape == (320, 240, 3)
    x1, y1, x2, y2 = MARK_XYXY
    inside = image[y1 + 4 : y2 - 4, x1 + 4 : x2 - 4].mean(axis=(0, 1))
    assert inside[2] > inside[0] + 80
    assert number_of(image) == 5


FORMATS = [
    ("libx264", "yuv420p10le"),
    ("libx264", "yuv422p"),
    ("libx264", "yuv444p"),
    ("libx264", "gray"),
    ("ffv1", "gray16le"),
    ("ffv1", "bgra"),
]


@pytest.mark.parametrize(("codec", "pixel_format"), FORMATS)
def test_every_pixel_format_arrives_as_bgr_bytes(tmp_path: Path, codec: str, pixel_format: str) -> None:
    path = write_clip(tmp_path / "clip.mkv", [scene(n) for n in range(3)], codec=codec, pixel_format=pixel_format)
    images = [shot.image for shot in read_clip(path)]
    assert [number_of(image) for image in images] == [0, 1, 2]
    assert {(image.shape, image.dtype.name) for image in images} == {((240, 320, 3), "uint8")}
    background = images[0][200, 200].astype(int)
    expected = np.array([106] * 3 if pixel_format.startswith("gray") else [150, 120, 90])
    assert np.abs(background - expected).max() <= 12


@pytest.mark.parametrize(("width", "height"), [(1, 1), (3, 2), (641, 361), (4000, 1), (1, 4000)])
def test_odd_and_extreme_shapes_are_read(tmp_path: Path, width: int, height: int) -> None:
    image = np.full((height, width, 3), 120, np.uint8)
    path = write_clip(tmp_path / "odd.nut", [image] * 2, codec="png", pixel_format="rgb24")
    assert [shot.image.shape for shot in read_clip(path)] == [(height, width, 3)] * 2


def test_a_change_of_pixel_format_in_mid_stream_is_followed(tmp_path: Path) -> None:
    images = [scene(n) for n in range(4)]
    full = cv2.imencode(".jpg", images[0], [cv2.IMWRITE_JPEG_SAMPLING_FACTOR, cv2.IMWRITE_JPEG_SAMPLING_FACTOR_422])
    path = write_mjpeg_avi(tmp_path / "trail.avi", [full[1].tobytes(), *(jpeg(image) for image in images[1:])])
    shots = read_clip(path)
    assert [number_of(shot.image) for shot in shots] == [0, 1, 2, 3]
    for shot, image in zip(shots, images, strict=True):
        assert np.abs(shot.image.astype(int) - image).mean() < 3


def test_frames_over_the_pixel_limit_are_refused_one_by_one(tmp_path: Path) -> None:
    path = write_clip(tmp_path / "clip.mp4", [scene(n) for n in range(3)])
    shots, unusable, over = read_all(open_reader(order_for(path, pixel_limit=320 * 240 - 1)))
    assert (len(shots), len(unusable)) == (0, 3)
    assert "320x240" in unusable[0].reason
    assert over.state is CameraState.FINISHED


def numbered_folder(path: Path, names: list[str]) -> Path:
    for number, name in enumerate(names):
        cv2.imwrite(str(path / name), scene(number))
    return path


def test_a_folder_is_read_in_the_order_of_its_numbers(tmp_path: Path) -> None:
    numbered_folder(tmp_path, ["1.png", "2.jpg", "9.PNG", "10.png", "a1.png", "a02.png", "a10.png"])
    (tmp_path / "notes.txt").write_text("no picture")
    (tmp_path / "sub.png").mkdir()
    shots = read_clip(tmp_path)
    assert [number_of(shot.image) for shot in shots] == list(range(7))
    assert [shot.media_ms for shot in shots] == [40.0 * n for n in range(7)]


def test_a_damaged_picture_in_a_folder_is_counted_and_the_others_are_read(tmp_path: Path) -> None:
    numbered_folder(tmp_path, ["1.png", "4.png"])
    (tmp_path / "2.png").write_bytes(b"")
    (tmp_path / "3.png").write_bytes((tmp_path / "1.png").read_bytes()[:40])
    shots, unusable, over = read_all(open_reader(order_for(tmp_path)))
    assert len(shots) == 2
    assert [item.reason.split(":")[0] for item in unusable] == ["2.png", "3.png"]
    assert over.state is CameraState.FINISHED


def test_a_deep_picture_is_scaled_and_transparency_dropped(tmp_path: Path) -> None:
    deep = np.full((4, 4, 3), 0x4000, np.uint16)
    cv2.imwrite(str(tmp_path / "1.png"), deep)
    cv2.imwrite(str(tmp_path / "2.png"), np.full((4, 4, 4), 0x40, np.uint8))
    for shot in read_clip(tmp_path):
        assert shot.image.shape == (4, 4, 3)
        assert np.abs(shot.image.astype(int) - 0x40).max() <= 1
