import contextlib

import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.detectors.onnx_header import NotOnnxError, read_header
from tests.support.onnx_models import brightness_detector

DATA = brightness_detector().SerializeToString()


def test_versions_are_those_that_the_onnx_package_reads() -> None:
    header = read_header(DATA)
    model = onnx.load_model_from_string(DATA)
    assert header.ir_version == model.ir_version
    assert header.opsets == {"ai.onnx": model.opset_import[0].version}


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "empty"),
        (b"<!DOCTYPE html><html></html>", "web page"),
        (b"version https://git-lfs.github.com/spec/v1\n", "Git LFS"),
        (b"just some text, no model", "not an ONNX file"),
        (DATA[:400], "cut off"),
        (DATA[:-1], "cut off"),
    ],
)
def test_what_is_no_model_is_told_apart(data: bytes, reason: str) -> None:
    with pytest.raises(NotOnnxError, match=reason):
        read_header(data)


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    with contextlib.suppress(NotOnnxError):
        assert read_header(data).ir_version is not None
