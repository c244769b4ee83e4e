"""Every batch size has been run before the first request, and what that took is known."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloud_worker.warm_up import LONG_S, ROUNDS, WarmUp, batch_sizes, warm_up, warm_ups
from pipeline.detections import Detections
from pipeline.errors import ModelError
from pipeline.frames import Image
from pipeline.geometry import Size
from pipeline.policies.buckets import SizeBuckets
from pipeline.timing import ManualClock


class Timed:
    """Takes 10 ms and 2 ms per picture, and 100 ms more for a shape that is its largest yet."""

    name, version, labels = "m", "1", ("person",)

    def __init__(self, clock: ManualClock, batch_size: int | None = None, pause_s: float = 0.0) -> None:
        self.batch_size, self._pause_s = batch_size, pause_s
        self._clock, self._largest = clock, 0

    def input_of(self, picture: Size) -> Size:
        return SizeBuckets(32).of(picture)

    def detect(self, images: Sequence[Image], min_score: float) -> list[Detections]:
        height, width = images[0].shape[:2]
        first_s = 0.1 if len(images) * width * height > self._largest else 0.0
        self._largest = max(self._largest, len(images) * width * height)
        self._clock.advance(0.010 + 0.002 * len(images) + first_s + self._pause_s)
        return [Detections.none()] * len(images)


def test_every_batch_size_is_run_and_the_cost_of_the_first_run_is_in_no_figure() -> None:
    clock = ManualClock()
    detector = Timed(clock)
    times = warm_up(detector, [WarmUp(Size(96, 64), 4)], clock)
    sizes = [4, 3, 2, 1] * ROUNDS
    assert [(each.model, each.bucket, each.batch) for each in times] == [("m", Size(96, 64), n) for n in sizes]
    assert [round(each.run_s, 6) for each in times] == [0.018, 0.016, 0.014, 0.012] * ROUNDS


def test_a_slow_model_is_measured_once_so_that_it_is_ready_all_the_same() -> None:
    clock = ManualClock()
    times = warm_up(Timed(clock, pause_s=LONG_S / 4), [WarmUp(Size(96, 64), 4)], clock)
    assert [each.batch for each in times] == [4, 3, 2, 1]


def test_a_model_of_a_fixed_size_is_warmed_at_it_and_another_at_half_the_sides() -> None:
    assert warm_ups((192, 256), 8, native=False) == [WarmUp(Size(256, 192), 8)]
    assert warm_ups((416, 576), 8, native=True) == [WarmUp(Size(576, 416), 1), WarmUp(Size(288, 208), 8)]


def test_a_model_that_takes_fewer_at_once_than_it_may_be_asked_for_is_one_sentence() -> None:
    class Narrow(Timed):
        def detect(self, images: Sequence[Image], min_score: float) -> list[Detections]:
            if len(images) > 4:
                raise RuntimeError("batch-size must be <= 4\nfor 'm'.")
            return super().detect(images, min_score)

    clock = ManualClock()
    told = (
        r"Model 'm' fails on 8 pictures of 96x64 at once \(batch-size must be <= 4 for 'm'\): lower worker\.max_batch"
    )
    with pytest.raises(ModelError, match=told):
        warm_up(Narrow(clock), [WarmUp(Size(96, 64), 8)], clock)
    assert warm_up(Narrow(clock), [WarmUp(Size(96, 64), 4)], clock)


def test_a_model_that_runs_one_picture_at_a_time_is_warmed_with_one() -> None:
    clock = ManualClock()
    detector = Timed(clock, batch_size=1)
    assert {each.batch for each in warm_up(detector, [WarmUp(Size(64, 64), 8)], clock)} == {1}


@given(st.integers(1, 1024))
def test_every_size_up_to_32_is_warmed_and_larger_ones_by_doubling(most: int) -> None:
    sizes = batch_sizes(most)
    assert sizes == sorted(sizes, reverse=True)
    assert set(range(1, min(most, 32) + 1)) <= set(sizes)
    assert sizes[0] == most
    assert len(sizes) <= 32 + 5
    assert all(any(other < size <= 2 * other for other in sizes) for size in sizes if size > 1)
