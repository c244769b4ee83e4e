"""A camera that learns: which frames become lessons, what they cost, and that nothing of them leaves."""

import ast
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from edge_agent.lessons.container import decode
from edge_agent.lessons.lesson import Lesson
from edge_agent.lessons.settings import LessonSettings
from edge_agent.lessons.store import INDEX, SUFFIX, LessonStore
from edge_agent.lessons.taking import LESSON_EPOCH, MOST_FRAMES, MOST_OPEN_BYTES, Moment, Open, Taking, Taught
from edge_agent.region_of_interest import bind
from edge_agent.settings import CameraSettings, UplinkSettings
from pipeline.detections import Detections
from pipeline.frames import Frame, FrameKey, Image
from pipeline.geometry import Size
from pipeline.policies.lesson_marks import Mark
from pipeline.policies.offload import OffloadSettings
from pipeline.timing import run_virtual
from tests.support.agents import (
    HEIGHT,
    PERSON_XYXY,
    WIDTH,
    Deed,
    Pictures,
    SmallModel,
    Stage,
    camera,
    play,
)
from tests.support.detectors import grey_picture

LEARNS = LessonSettings(enabled=True)


def changing(seq: int) -> Image:
    """Pictures that look different every second, so that none is the same as one before."""
    random = np.random.default_rng(seq // 10)
    patches = random.integers(0, 255, (4, 5, 3), dtype=np.uint8)
    return np.asarray(np.kron(patches, np.ones((HEIGHT // 4, WIDTH // 5, 1), np.uint8)), np.uint8)


def learner(lessons: LessonSettings = LEARNS, **changes: Any) -> CameraSettings:
    return camera(lessons=lessons, **changes)


def quiet() -> OffloadSettings:
    """Nothing is asked about for the answer's sake, or hardly anything."""
    return OffloadSettings(full_frame_s=0.0, tail_deviations=1.0, least_gain=1.0, audit_share=0.0)


def run(tmp_path: Path, settings: CameraSettings, count: int = 110, **changes: Any) -> Stage:
    sources = changes.pop("sources", [Pictures(count, paint=changing)])
    return run_virtual(play(*sources, cameras=[settings], state_dir=tmp_path, **changes))


def kept(tmp_path: Path) -> list[Lesson]:
    return LessonStore(tmp_path / "lessons" / "gate").read()


def looks_for_lessons(made: Stage) -> list[Any]:
    assert made.cloud is not None
    return [request for request in made.cloud.requests if request.epoch == LESSON_EPOCH]


def test_a_camera_that_is_not_told_to_learn_keeps_nothing(tmp_path: Path) -> None:
    made = run(tmp_path, camera())
    assert made.agent.cameras[0].taking is None
    assert not (tmp_path / "lessons").exists()
    assert looks_for_lessons(made) == []


def test_a_whole_frame_and_its_answer_become_a_lesson(tmp_path: Path) -> None:
    offload = replace(quiet(), full_frame_s=2.0)
    run(tmp_path, learner(replace(LEARNS, most_per_minute=0.0), offload=offload))
    lessons = kept(tmp_path)
    assert len(lessons) > 2
    for one in lessons:
        assert one.picture.shape == (HEIGHT, WIDTH, 3)
        assert one.known.xyxy[0] == pytest.approx(np.array(PERSON_XYXY), abs=1.5)
        assert (one.known.label.tolist(), one.teacher, one.edge) == (["person"], "nanodet-g@1", "small@1")


def test_where_the_uplink_is_idle_whole_frames_are_asked_about_for_lessons_alone(tmp_path: Path) -> None:
    made = run(tmp_path, learner(offload=quiet()))
    asked = looks_for_lessons(made)
    assert {request.kind for request in asked} == {"frame"}
    assert 4 <= len(asked) <= 6  # 11 s, one in two seconds at most
    assert len(kept(tmp_path)) >= len(asked) - 2
    assert len({(request.epoch, request.seq) for request in asked}) == len(asked)


def test_a_look_for_lessons_changes_no_frames_origin_and_its_bytes_are_counted(tmp_path: Path) -> None:
    learning, plain = run(tmp_path, learner(offload=quiet())), run(tmp_path / "plain", camera(offload=quiet()))
    assert [r.origin for r in learning.results()] == [r.origin for r in plain.results()]
    assert learning.counts().invariant_ok
    assert learning.agent.cameras[0].board.bytes_up > plain.agent.cameras[0].board.bytes_up


def test_looks_for_lessons_confirm_the_tracks_too(tmp_path: Path) -> None:
    unsure = SmallModel(("person", 0.3, PERSON_XYXY))
    learning = run(tmp_path, learner(offload=quiet()), model=unsure)
    plain = run(tmp_path / "plain", camera(offload=quiet()), model=unsure)
    shown = [sum(bool(r.detections) for r in made.results()) for made in (learning, plain)]
    assert shown[1] == 0
    assert shown[0] > 50


@pytest.mark.parametrize(("share", "asks"), [(0.0, False), (0.25, True)])
def test_looks_for_lessons_take_no_more_than_their_share_of_a_budget(tmp_path: Path, share: float, asks: bool) -> None:
    settings = learner(replace(LEARNS, uplink_share=share), offload=quiet())
    made = run(tmp_path, settings, uplink=UplinkSettings(uplink_kbps=200.0))
    assert bool(looks_for_lessons(made)) == asks


def test_frames_between_become_lessons_by_their_confirmed_tracks(tmp_path: Path) -> None:
    run(tmp_path, learner(replace(LEARNS, most_per_minute=12.0), offload=quiet()))
    lessons = kept(tmp_path)
    followed = [one for one in lessons if one.known.source.tolist() == ["track"]]
    assert len(followed) > 2
    assert all(one.known.xyxy[0] == pytest.approx(np.array(PERSON_XYXY), abs=1.5) for one in followed)


def test_without_answers_nothing_is_learned_and_no_frame_is_lost(tmp_path: Path) -> None:
    made = run(tmp_path, learner(offload=quiet()), deeds=(Deed(delay_s=None),))
    assert kept(tmp_path) == []
    assert made.counts().invariant_ok


def test_stills_have_no_tracks_and_teach_nothing(tmp_path: Path) -> None:
    source = Pictures(20, paint=changing)
    source.stills = True
    made = run(tmp_path, learner(), sources=[source])
    assert made.agent.cameras[0].taking is None


def test_a_file_that_is_read_as_fast_as_can_be_keeps_the_time_between_its_lessons(tmp_path: Path) -> None:
    offload = replace(quiet(), full_frame_s=1.0)
    made = run(tmp_path, learner(offload=offload), sources=[Pictures(110, live=False, paint=changing)])
    lessons = kept(tmp_path)
    assert looks_for_lessons(made) == []
    assert len(lessons) > 5
    assert (lessons[-1].taken_at - lessons[0].taken_at).total_seconds() > 7


def test_no_byte_of_a_lesson_leaves_over_mqtt(tmp_path: Path) -> None:
    made = run(tmp_path, learner(offload=quiet()))
    files = sorted((tmp_path / "lessons" / "gate").glob("*.lesson"))
    assert files
    for file in files:
        data = file.read_bytes()
        assert decode(data)
        body = data[-200:-100]  # within the picture
        for message in made.heard:
            assert body not in message.payload
            assert b"FVL1" not in message.payload
    assert not [message.topic for message in made.heard if "lesson" in message.topic]


def test_what_keeps_lessons_has_no_way_to_send_them() -> None:
    ways = (
        "pipeline.transport",
        "pipeline.wire",
        "socket",
        "aiomqtt",
        "edge_agent.uplink",
        "edge_agent.publish",
        "http",
    )
    for name in ("store", "container", "marks", "picture", "lesson", "labels", "followed", "taking", "offline"):
        source = Path("edge_agent/lessons", f"{name}.py").read_text("utf-8")
        for node in ast.walk(ast.parse(source)):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not [one for one in names if one.startswith(ways)], name


def moment(seq: int, scene_s: float, key_epoch: int = 9) -> Moment:
    frame = Frame(FrameKey("gate", key_epoch, seq), grey_picture(100, WIDTH, HEIGHT), 0.0, None)
    return Moment(frame, bind((), (), frame.size), np.empty((0, 4), np.float32), scene_s, "small@1")


def taking(tmp_path: Path, **changes: Any) -> Taking:
    return Taking(replace(LEARNS, **changes), LessonStore(tmp_path), 0.5)


def opened(seq: int, scene_s: float, picture: Image) -> Open:
    of = moment(seq, scene_s)
    return Open(of.frame.key, 0.0, scene_s, picture, Size(WIDTH, HEIGHT), of.region, of.motion, of.edge)


def test_frames_are_taken_a_little_apart_but_a_whole_one_always(tmp_path: Path) -> None:
    takes = taking(tmp_path)
    for seq, kind in enumerate(("none", "none", "frame", "mosaic", "none")):
        takes.decided(moment(seq, seq * 0.2), kind)
    taken = []
    while (one := takes.next_frame()) is not None:
        taken.append(one.frame.key.seq)
    assert taken == [0, 2]


def test_frames_that_are_not_made_small_in_time_give_way_to_newer_ones_and_are_counted(tmp_path: Path) -> None:
    takes = taking(tmp_path)
    for seq in range(10):
        takes.decided(moment(seq, seq * 1.0), "none")
    first = takes.next_frame()
    assert first is not None
    assert first.frame.key.seq == 10 - MOST_FRAMES
    assert takes.counters["displaced"] == 10 - MOST_FRAMES


def test_pictures_that_wait_for_their_annotation_are_bounded_in_bytes(tmp_path: Path) -> None:
    takes = taking(tmp_path)
    picture = np.zeros((1000, 1000, 3), np.uint8)
    for seq in range(20):
        takes.opened(opened(seq, seq * 0.5, picture))
    assert takes.counters["displaced"] == 20 - MOST_OPEN_BYTES // picture.nbytes


def test_a_frame_is_finished_once_all_that_its_annotation_depends_on_is_known(tmp_path: Path) -> None:
    takes = taking(tmp_path)
    takes.decided(moment(0, 10.0), "frame")
    takes.opened(opened(0, 10.0, grey_picture(100, 8, 8)))
    takes.answered(FrameKey("gate", 9, 0), Taught(Detections.none(), "large@2"))
    takes.decided(moment(1, 11.4), "none")
    assert takes.next_finished() is None
    takes.decided(moment(2, 11.6), "none")
    finished = takes.next_finished()
    assert finished is not None
    assert finished[1] is not None
    assert finished[1].teacher == "large@2"
    assert takes.next_finished() is None


def test_a_file_that_begins_anew_leaves_no_frame_to_be_mixed_up(tmp_path: Path) -> None:
    takes = taking(tmp_path)
    takes.decided(moment(0, 50.0), "frame")
    takes.opened(opened(0, 50.0, grey_picture(100, 8, 8)))
    takes.decided(moment(1, 0.0), "none")
    takes.decided(moment(2, 60.0), "none")
    assert takes.next_finished() is None
    assert takes.counters["forgotten"] == 1


def test_only_the_newest_look_for_lessons_is_waited_for(tmp_path: Path) -> None:
    takes = taking(tmp_path)
    first, second = FrameKey("gate", LESSON_EPOCH, 1), FrameKey("gate", LESSON_EPOCH, 2)
    takes.asked(first, FrameKey("gate", 9, 1))
    takes.asked(second, FrameKey("gate", 9, 2))
    assert takes.about(first) is None
    assert takes.about(second) == FrameKey("gate", 9, 2)


def test_a_teacher_that_is_never_heard_from_again_costs_bounded_memory(tmp_path: Path) -> None:
    takes = taking(tmp_path)
    for seq in range(1000):
        takes.answered(FrameKey("gate", 9, seq), Taught(Detections.none(), "large@2"))
    takes.decided(moment(0, 0.0), "frame")
    takes.opened(opened(0, 0.0, grey_picture(100, 8, 8)))
    takes.decided(moment(1, 9.0), "none")
    finished = takes.next_finished()
    assert finished is not None
    assert finished[1] is None


def test_at_the_end_the_index_knows_every_lesson_so_that_none_is_opened_at_the_next_start(tmp_path: Path) -> None:
    run(tmp_path, learner())
    folder = tmp_path / "lessons" / "gate"
    indexed = msgspec.msgpack.decode((folder / INDEX).read_bytes(), type=list[Mark])
    names = {path.name for path in folder.glob(f"*{SUFFIX}")}
    assert names
    assert {mark.name for mark in indexed} == names
