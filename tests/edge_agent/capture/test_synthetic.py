import asyncio

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge_agent.capture.base import Captured
from edge_agent.capture.synthetic import Painter, Scene, SyntheticSource, parse_scene
from pipeline.errors import ConfigError
from pipeline.timing import LoopClock, run_virtual

SCENES = st.builds(
    Scene,
    width=st.integers(32, 200),
    height=st.integers(32, 200),
    seed=st.integers(0, 9),
    objects=st.integers(0, 5),
)


def test_the_parameters_are_read() -> None:
    text = "plaza?width=320&height=240&fps=12.5&seconds=2&seed=7&objects=4"
    assert parse_scene(text) == Scene(320, 240, 12.5, 2.0, 7, 4)
    assert parse_scene("") == Scene()
    assert parse_scene("plaza?seconds=0").total_frames is None


@pytest.mark.parametrize(
    "text",
    [
        "beach",
        "plaza?colour=red",
        "plaza?fps=0",
        "plaza?width=two",
        "plaza?width=3.5",
        "plaza?fps=nan",
        "plaza?objects=",
    ],
)
def test_what_the_scene_does_not_have_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="synthetic scene"):
        parse_scene(text)


@settings(max_examples=15, deadline=None)
@given(scene=SCENES, seq=st.integers(0, 500))
def test_a_picture_follows_from_its_number_and_its_truth_lies_in_it(scene: Scene, seq: int) -> None:
    image, boxes = Painter(scene).paint(seq), Painter(scene).truth(seq)
    assert (Painter(scene).paint(seq) == image).all()
    assert image.shape == (scene.height, scene.width, 3)
    assert boxes.shape == (scene.objects, 4)
    assert (boxes >= 0).all()
    assert (boxes[:, 2] <= scene.width).all()
    assert (boxes[:, 3] <= scene.height).all()
    assert (boxes[:, 2:] >= boxes[:, :2]).all()


def test_what_differs_from_the_empty_square_lies_inside_the_true_boxes() -> None:
    people, nobody = Painter(Scene(objects=4)), Painter(Scene(objects=0))
    for seq in (0, 40, 90):
        differs = (people.paint(seq) != nobody.paint(seq)).any(axis=2)
        inside = np.zeros_like(differs)
        for x1, y1, x2, y2 in people.truth(seq).astype(int):
            inside[y1:y2, x1:x2] = True
            assert differs[y1:y2, x1:x2].mean() > 0.25
        assert (differs & ~inside).sum() < 0.002 * differs.size


def test_people_move() -> None:
    painter = Painter(Scene())
    assert (np.abs(painter.truth(10) - painter.truth(0))[:, [0, 2]].max(axis=1) > 1).all()


def test_in_real_time_the_newest_picture_wins_and_keeps_its_own_moment() -> None:
    async def watch() -> list[Captured]:
        source = SyntheticSource(Scene(64, 64, fps=10, seconds=2), realtime=True, clock=LoopClock())
        taken = []
        async for event in source.events():
            if isinstance(event, Captured):
                taken.append(event)
                if len(taken) == 3:
                    await asyncio.sleep(0.75)
        return taken

    taken = run_virtual(watch())
    zero_s = taken[0].captured_at_s
    assert [round(picture.captured_at_s - zero_s, 6) for picture in taken] == [picture.seq / 10 for picture in taken]
    assert sum(picture.lost_before for picture in taken) + len(taken) == taken[-1].seq + 1 == 20
    assert taken[3].lost_before >= 5


def test_otherwise_every_picture_is_given() -> None:
    async def watch() -> list[int]:
        source = SyntheticSource(Scene(64, 64, fps=10, seconds=2), realtime=False, clock=LoopClock())
        return [event.seq async for event in source.events() if isinstance(event, Captured)]

    assert run_virtual(watch()) == list(range(20))


def test_a_scene_without_end_ends_when_closed() -> None:
    async def watch() -> int:
        source = SyntheticSource(Scene(64, 64, seconds=0), realtime=True, clock=LoopClock())
        seen = 0
        async for event in source.events():
            seen += isinstance(event, Captured)
            if seen == 30:
                await source.close()
        return seen

    assert run_virtual(watch()) == 30
