"""A batch that is shared out gives every picture the answer that it would have had alone."""

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from pipeline.detectors.execution import Execution
from pipeline.detectors.loading import load_detector
from pipeline.detectors.split import SplitSession
from tests.support.onnx_models import brightness_detector, entry, save


class Sums:
    """Tells the sum of each picture, and notes how many it was given, and on which threads. Fails on a negative one."""

    def __init__(self) -> None:
        self.runs: list[int] = []
        self.threads: set[int] = set()

    def get_inputs(self) -> Sequence[Any]:
        return [SimpleNamespace(name="image", type="tensor(float)", shape=["n", 1])]

    def get_outputs(self) -> Sequence[Any]:
        return [SimpleNamespace(name="sums", type="tensor(float)", shape=["n"])]

    def get_modelmeta(self) -> Any:
        return SimpleNamespace(custom_metadata_map={"of": "sums"})

    def run(self, output_names: Sequence[str], feeds: Mapping[str, NDArray[Any]]) -> list[NDArray[Any]]:
        image = feeds["image"]
        self.runs.append(len(image))
        self.threads.add(threading.get_ident())
        if (image < 0).any():
            raise ValueError("negative")
        return [image.sum(axis=1) for _ in output_names]


@given(st.integers(1, 9), st.integers(1, 4))
def test_every_picture_has_its_own_answer_in_its_place(pictures: int, threads: int) -> None:
    whole, single = Sums(), Sums()
    feed = np.arange(pictures * 3, dtype=np.float32).reshape(pictures, 3)
    [sums] = SplitSession(whole, single, threads).run(["sums"], {"image": feed})
    assert sums.tolist() == feed.sum(axis=1).tolist()
    assert sum(whole.runs) + sum(single.runs) == pictures
    if pictures == 1:
        assert not single.runs, "one picture has all threads"
    else:
        assert len(single.runs) == min(threads, pictures)
        assert max(single.runs) - min(single.runs) <= 1, "no thread has much more to do than another"


def test_the_parts_run_on_threads_of_their_own() -> None:
    barrier = threading.Barrier(2, timeout=10.0)

    class Meeting(Sums):
        def run(self, output_names: Sequence[str], feeds: Mapping[str, NDArray[Any]]) -> list[NDArray[Any]]:
            barrier.wait()  # would break if one part waited for the other to end
            return super().run(output_names, feeds)

    single = Meeting()
    SplitSession(Sums(), single, 2).run(["sums"], {"image": np.ones((4, 3), np.float32)})
    assert len(single.threads) == 2


def test_a_part_that_fails_fails_the_batch_as_the_model_would() -> None:
    feed = np.ones((4, 3), np.float32)
    feed[3] = -1
    with pytest.raises(ValueError, match="negative"):
        SplitSession(Sums(), Sums(), 2).run(["sums"], {"image": feed})


def test_it_says_of_the_model_what_the_model_says() -> None:
    session = SplitSession(Sums(), Sums(), 2)
    assert [each.name for each in (*session.get_inputs(), *session.get_outputs())] == ["image", "sums"]
    assert session.get_modelmeta().custom_metadata_map == {"of": "sums"}


def test_a_detector_finds_the_same_whether_its_batches_are_shared_out_or_not(tmp_path: Path) -> None:
    save(tmp_path, entry(inputs={"scale": 1.0}), brightness_detector())
    images = []
    for cell in range(5):
        image = np.zeros((64, 64, 3), np.uint8)
        image[8 * cell : 8 * cell + 8, 16:24] = 255
        images.append(image)
    plain, split = (
        load_detector("fake", input_size=(64, 64), threads=2, models_dir=tmp_path, on=Execution(split_batches=on))
        for on in (False, True)
    )
    wanted, found = plain.detect(images, 0.5), split.detect(images, 0.5)
    assert [each.xyxy.tolist() for each in found] == [each.xyxy.tolist() for each in wanted]
    assert all(len(each) == 1 for each in found)
