"""Lessons from a recording go through the cleaning, the region of interest and the masks of a live camera."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from edge_agent.capture.settings import CaptureSettings
from edge_agent.lessons.lesson import Lesson
from edge_agent.lessons.marks import summary_of
from edge_agent.lessons.offline import _Replay, lessons_from
from edge_agent.settings import CameraSettings
from pipeline.detections import Detections
from pipeline.frames import Image
from pipeline.geometry import Size

BEGAN = datetime(2026, 3, 1, 23, 59, 58, tzinfo=UTC)
CAMERA = CameraSettings("yard", CaptureSettings(""), objects=frozenset({"person"}))
PERSON = (300.0, 200.0, 360.0, 320.0)


def frames(count: int, width: int = 640, height: int = 480) -> Iterator[tuple[float, Image]]:
    for number in range(count):
        yield number * 0.5, np.full((height, width, 3), (60, 90, 120), np.uint8)


def seen(*boxes: tuple[float, float, float, float], label: str = "person", score: float = 0.9) -> Detections:
    return Detections.of(boxes, [score] * len(boxes), [label] * len(boxes))


def lessons(found: list[Detections], camera: CameraSettings = CAMERA, **size: int) -> list[Lesson]:
    of = lessons_from(frames(len(found), **size), found, camera, teacher="large@2", edge="small@1", began=BEGAN)
    return list(of)


def test_every_frame_becomes_a_lesson_in_order_with_its_time_and_models() -> None:
    made = lessons([seen(PERSON)] * 7)
    assert [one.taken_at for one in made] == [BEGAN + timedelta(seconds=0.5 * number) for number in range(7)]
    assert {(one.camera, one.teacher, one.edge) for one in made} == {("yard", "large@2", "small@1")}
    assert [one.conditions.hour for one in made] == [23] * 4 + [0] * 3
    assert all(one.conditions.coloured for one in made)


def test_the_picture_fits_the_box_and_boxes_follow_it() -> None:
    [one] = lessons([seen(PERSON)])
    assert one.picture.shape == (240, 320, 3)
    assert one.window == Size(640, 480)
    assert one.known.xyxy.tolist() == [[150, 100, 180, 160]]


def test_a_small_frame_is_not_enlarged() -> None:
    [one] = lessons([seen((10, 10, 30, 60))], width=100, height=80)
    assert one.picture.shape == (80, 100, 3)
    assert one.known.xyxy.tolist() == [[10, 10, 30, 60]]


def test_only_the_window_of_the_region_of_interest_is_shown() -> None:
    corner = ((320.0, 240.0), (640.0, 240.0), (640.0, 480.0), (320.0, 480.0))
    [one] = lessons([seen((400, 300, 440, 380), (10, 10, 50, 90))], replace(CAMERA, roi=corner))
    assert one.picture.shape == (240, 320, 3)
    assert one.known.xyxy.tolist() == [[80, 60, 120, 140]]
    assert len(one.ignored) == 0


def test_an_object_under_a_mask_is_neither_object_nor_background() -> None:
    mask = ((0.0, 0.0), (320.0, 0.0), (320.0, 480.0), (0.0, 480.0))
    [one] = lessons([seen((400, 300, 440, 380), (100, 100, 140, 180))], replace(CAMERA, masks=(mask,)))
    assert one.known.xyxy.tolist() == [[200, 150, 220, 190]]
    assert one.ignored.tolist() == [[50, 50, 70, 90]]


def test_other_classes_than_the_cameras_are_background() -> None:
    [one] = lessons([seen(PERSON, label="dog")])
    assert len(one.known) == len(one.ignored) == 0


def test_a_grey_picture_is_told_from_one_in_colour() -> None:
    grey = [(0.0, np.full((96, 128, 3), 90, np.uint8))]
    [one] = lessons_from(grey, [seen()], CAMERA, teacher="t", edge="e", began=BEGAN)
    assert not one.conditions.coloured
    assert one.conditions.brightness == pytest.approx(90, abs=1)


def test_tracks_have_ids_that_no_other_recording_repeats() -> None:
    first = lessons([seen(PERSON)] * 3)
    later = list(
        lessons_from(frames(3), [seen(PERSON)] * 3, CAMERA, teacher="t", edge="e", began=BEGAN + timedelta(seconds=1))
    )
    ids = [{i for one in made for i in one.known.track_id.tolist()} for made in (first, later)]
    assert [len(part) for part in ids] == [1, 1]
    assert ids[0] != ids[1]
    assert summary_of([*first, *later]).labels["person"].tracks == 2


def test_frames_and_detections_must_be_as_many() -> None:
    with pytest.raises(ValueError, match="argument 2"):
        list(lessons_from(frames(3), [seen()] * 2, CAMERA, teacher="t", edge="e", began=BEGAN))


def test_of_a_long_recording_only_what_looks_can_still_say_something_about_is_held() -> None:
    replay, reach_s = _Replay(CAMERA), CAMERA.lessons.cleaning.reach_s
    for seq, (at_s, image) in enumerate(frames(60)):
        replay.add(seq, at_s, image, seen(PERSON))
        list(replay.finished(at_s - reach_s))
        assert len(replay._open) <= reach_s / 0.5 + 1
        assert len(replay._entries) <= 2 * reach_s / 0.5 + 2
