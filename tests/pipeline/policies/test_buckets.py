"""Few input sizes, and no more padding than allowed."""

from hypothesis import given
from hypothesis import strategies as st

from pipeline.geometry import Size
from pipeline.policies.buckets import SizeBuckets

sides = st.integers(1, 4000)
strides = st.sampled_from([1, 8, 32])


def test_without_padding_every_multiple_of_the_stride_is_a_bucket() -> None:
    assert SizeBuckets(32).of(Size(33, 64)) == Size(64, 64)
    assert SizeBuckets(32).of(Size(1, 577)) == Size(32, 608)


@given(width=sides, height=sides, stride=strides, most=st.floats(0, 1))
def test_a_bucket_holds_its_picture_and_pads_no_more_than_allowed(
    width: int, height: int, stride: int, most: float
) -> None:
    bucket = SizeBuckets(stride, most).of(Size(width, height))
    assert bucket.width >= width
    assert bucket.height >= height
    assert bucket.width % stride == bucket.height % stride == 0
    aligned = -(-width // stride) * -(-height // stride) * stride * stride
    assert bucket.width * bucket.height <= aligned * (1 + most) + 1e-6


@given(width=sides, height=sides, stride=strides, most=st.floats(0, 1))
def test_a_bucket_is_its_own_bucket(width: int, height: int, stride: int, most: float) -> None:
    buckets = SizeBuckets(stride, most)
    assert buckets.of(buckets.of(Size(width, height))) == buckets.of(Size(width, height))


def test_more_padding_makes_fewer_sizes() -> None:
    counts = [
        len({SizeBuckets(32, most).of(Size(side, side)).width for side in range(32, 577)}) for most in (0.0, 0.25, 0.5)
    ]
    assert counts[0] == 18
    assert counts[0] > counts[1] > counts[2]
