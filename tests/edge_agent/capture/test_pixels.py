import os
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edge_agent.capture.pixels import SharedPicture, create_shared_file


@pytest.fixture
def shared_file() -> Iterator[int]:
    descriptor = create_shared_file()
    yield descriptor
    os.close(descriptor)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sizes=st.lists(st.tuples(st.integers(1, 80), st.integers(1, 80)), min_size=1, max_size=6))
def test_pictures_of_changing_size_come_out_as_they_went_in(shared_file: int, sizes: list[tuple[int, int]]) -> None:
    writer, reader = SharedPicture(shared_file), SharedPicture(shared_file)
    for height, width in sizes:
        image = np.random.default_rng(height * width).integers(0, 256, (height, width, 3), np.uint8)
        writer.write(image)
        copy = reader.copy(height, width)
        assert (copy == image).all()
        assert not copy.flags.writeable
        writer.write(255 - image)
        assert (copy == image).all()


def test_more_than_the_file_holds_is_refused(shared_file: int) -> None:
    SharedPicture(shared_file).write(np.zeros((4, 4, 3), np.uint8))
    for height, width in ((1000, 1000), (0, 4), (-1, -1)):
        with pytest.raises(ValueError, match="holds no picture"):
            SharedPicture(shared_file).copy(height, width)


def test_the_file_cannot_be_cut_under_the_other_side(shared_file: int) -> None:
    SharedPicture(shared_file).write(np.zeros((4, 4, 3), np.uint8))
    with pytest.raises(PermissionError):
        os.ftruncate(shared_file, 0)
