"""What a JPEG says of itself."""

import cv2
import numpy as np
import pytest

from pipeline.wire.jpeg import jpeg_size


def picture(width: int, height: int, *options: int) -> bytes:
    noise = np.random.default_rng(7).integers(0, 255, (height, width, 3), dtype=np.uint8)
    return cv2.imencode(".jpg", noise, list(options))[1].tobytes()


JPEG = picture(64, 32)


@pytest.mark.parametrize("size", [(1, 1), (3, 2), (641, 361), (4000, 1), (1, 4000)])
@pytest.mark.parametrize("progressive", [0, 1])
def test_the_size_is_read_from_the_header(size: tuple[int, int], progressive: int) -> None:
    jpeg = picture(*size, cv2.IMWRITE_JPEG_PROGRESSIVE, progressive)
    assert jpeg_size(jpeg) == size
    assert jpeg_size(memoryview(jpeg)) == size
    assert jpeg_size(jpeg + bytes(100)) == size  # cameras pad with zeros


def test_the_size_of_the_picture_is_read_and_not_that_of_a_thumbnail_in_it() -> None:
    thumbnail = picture(16, 8)
    app1 = b"\xff\xe1" + (len(thumbnail) + 2).to_bytes(2, "big") + thumbnail
    jpeg = JPEG[:2] + app1 + b"\xff" + JPEG[2:]  # and a fill byte
    assert jpeg_size(jpeg) == (64, 32)
    assert jpeg_size(jpeg[:-2]) is None


def test_a_jpeg_without_a_size_has_none() -> None:
    at = JPEG.index(b"\xff\xc0") + 5
    assert jpeg_size(JPEG[:at] + bytes(2) + JPEG[at + 2 :]) is None  # no height
    assert jpeg_size(b"\xff\xd8\xff\xd9") is None
    assert jpeg_size(b"\xff\xd8\xff\xda\x00\x02\xff\xd9") is None
    assert jpeg_size(b"\xff\xd8\xff\xc0\xff\xd9") is None
