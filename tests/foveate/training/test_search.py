import pytest
from hypothesis import given
from hypothesis import strategies as st

from foveate.training.network import COARSEST_PX
from foveate.training.search import Candidate, input_size, measure, median_ms, search, sizes, usual
from pipeline.errors import ModelError
from pipeline.geometry import Size
from pipeline.timing import ManualClock, MonotonicClock

candidates = st.lists(
    st.builds(Candidate, st.just((192, 256)), st.sampled_from([0.5, 1.0]), st.floats(0.1, 50)), min_size=1
)


@given(candidates, st.floats(0.1, 60))
def test_the_slowest_network_within_the_limit_is_chosen(found: list[Candidate], most_ms: float) -> None:
    if min(candidate.ms for candidate in found) > most_ms:
        with pytest.raises(ModelError, match="the fastest takes"):
            search(found, most_ms)
        return
    chosen = search(found, most_ms)
    assert chosen.ms <= most_ms
    assert all(candidate.ms <= chosen.ms or candidate.ms > most_ms for candidate in found)


@pytest.mark.parametrize(
    ("picture", "expected"),
    [
        (Size(768, 576), (192, 256)),
        (Size(320, 240), (192, 256)),
        (Size(320, 180), (144, 256)),
        (Size(90, 160), (160, 96)),
    ],
)
def test_the_usual_input_has_the_camera_s_proportion(picture: Size, expected: tuple[int, int]) -> None:
    assert usual(picture) == expected


@given(st.integers(40, 2000), st.integers(40, 2000))
def test_no_input_has_more_pixels_than_the_lessons_or_breaks_the_stride(width: int, height: int) -> None:
    found = sizes(Size(width, height))
    assert found
    for rows, columns in found:
        assert rows % COARSEST_PX == columns % COARSEST_PX == 0
        assert max(rows, columns) <= max(width, height) + COARSEST_PX


def test_a_long_thin_picture_keeps_a_row_of_cells() -> None:
    assert input_size(Size(1000, 20), 256) == (COARSEST_PX, 256)


def test_candidates_are_timed_on_whole_frames_and_larger_ones_take_longer() -> None:
    found = measure(Size(256, 64), Size(512, 128), ["person"], MonotonicClock())
    assert {candidate.width for candidate in found} == {1.5, 1.0, 0.5}
    assert {candidate.input_px for candidate in found} == {(64, 256), (48, 208), (32, 160)}
    assert all(candidate.ms > 0 for candidate in found)


def test_a_time_is_the_median_after_a_warm_up() -> None:
    clock = ManualClock()
    durations = iter([9.0] * 3 + [0.001] * 8 + [5.0] * 7)
    assert median_ms(lambda: clock.advance(next(durations)), clock) == pytest.approx(1.0)
