"""What a clip costs to send, and its first frames."""

from pathlib import Path

import cv2
import pytest

from foveate.bench.clip import cut, measure, video_bytes_per_frame
from foveate.models.clips import sampled_frames
from pipeline.errors import SourceError
from tests.support.video_clips import number_of, scene, write_audio, write_clip


@pytest.fixture
def clip(tmp_path: Path) -> Path:
    return write_clip(tmp_path / "clip.mp4", [scene(number) for number in range(12)])


def numbers(path: Path) -> list[int]:
    return [number_of(image) for _, image in sampled_frames(path, 1)]


def test_jpeg_bytes_are_those_of_every_frame_at_quality_80(clip: Path) -> None:
    sizes = [
        len(cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, 80])[1]) for _, image in sampled_frames(clip, 1)
    ]
    found = measure(clip)
    assert (found.frames, found.jpeg_bytes) == (12, sum(sizes))


def test_a_cut_clip_has_the_first_frames(clip: Path, tmp_path: Path) -> None:
    cut(clip, 5, tmp_path / "short.mp4")
    assert numbers(tmp_path / "short.mp4") == [0, 1, 2, 3, 4]


def test_a_clip_shorter_than_the_cut_is_copied_whole(clip: Path, tmp_path: Path) -> None:
    cut(clip, 50, tmp_path / "short.mp4")
    assert numbers(tmp_path / "short.mp4") == list(range(12))


def test_a_clip_with_frames_out_of_order_loses_none_in_between(tmp_path: Path) -> None:
    source = Path(__file__).parents[3] / "sample_videos" / "plaza.mp4"
    cut(source, 25, tmp_path / "short.mp4")
    kept = [image for _, image in sampled_frames(tmp_path / "short.mp4", 1)]
    assert 25 <= len(kept) < 60
    for image, (_, original) in zip(kept, sampled_frames(source, 1), strict=False):
        assert (image == original).all()


def test_the_video_stream_is_less_than_the_file(clip: Path) -> None:
    assert 0 < video_bytes_per_frame(clip) * 12 < clip.stat().st_size


def test_files_that_are_no_video_are_refused(tmp_path: Path) -> None:
    text = tmp_path / "notes.mp4"
    text.write_text("not a video")
    for path in (text, write_audio(tmp_path / "sound.mp4"), tmp_path / "absent.mp4"):
        with pytest.raises(SourceError, match=path.name):
            video_bytes_per_frame(path)
        with pytest.raises(SourceError, match=path.name):
            cut(path, 5, tmp_path / "out.mp4")
