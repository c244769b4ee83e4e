"""A model on a server of the Open Inference Protocol: what goes wrong is one sentence, and never waits for ever."""

import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from numpy.typing import NDArray

from pipeline.detectors.loading import load_remote
from pipeline.detectors.open_inference import OpenInferenceSession
from pipeline.detectors.open_inference_codec import InferenceServerError, decode_infer, encode_infer
from pipeline.errors import ModelError
from tests.support.onnx_models import SIDE, answer, entry, fake_detector, save
from tests.support.open_inference import Behaviour, open_inference_server

MODEL = fake_detector(*answer([(9, 1, 0.75, (0.5, 0.5, 1, 1.5))])).SerializeToString()
HALF = fake_detector(*answer([(9, 1, 0.75, (0.5, 0.5, 1, 1.5))]), dtype="float16").SerializeToString()
PICTURES = {"image": np.zeros((2, 3, SIDE, SIDE), np.float32)}
NAMES = ["scores", "distances"]


@pytest.fixture
def behaviour() -> Behaviour:
    return Behaviour()


@pytest.fixture
def session(behaviour: Behaviour) -> Iterator[OpenInferenceSession]:
    with open_inference_server(MODEL, behaviour) as url:
        made = OpenInferenceSession(url, timeout_s=0.3)
        made.connect()
        yield made
        made.close()


@pytest.mark.parametrize(
    "url",
    [
        "",
        "nothing",
        "http://host",
        "http://host/v2/models/",
        "ftp://host/v2/models/m",
        "http://h:x/v2/models/m",
        "http://[/",
    ],
)
def test_what_is_no_address_of_a_model_is_refused(url: str) -> None:
    with pytest.raises(ModelError, match="is not the address of a model: give http://HOST:PORT/v2/models/NAME"):
        OpenInferenceSession(url)


def test_the_server_says_what_its_model_takes_and_gives(session: OpenInferenceSession) -> None:
    [image] = session.get_inputs()
    assert (image.name, image.type, image.shape) == ("image", "tensor(float)", ("?", 3, SIDE, SIDE))
    assert [output.name for output in session.get_outputs()] == NAMES


def test_one_connection_serves_all_calls(session: OpenInferenceSession, behaviour: Behaviour) -> None:
    for _ in range(5):
        scores, distances = session.run(NAMES, PICTURES)
    assert (scores.shape[0], distances.shape[0]) == (2, 2)
    assert (behaviour.infers, len(behaviour.connections)) == (5, 1)


def test_outputs_come_in_the_order_asked_for(session: OpenInferenceSession) -> None:
    scores, distances = session.run(NAMES, PICTURES)
    turned = session.run(NAMES[::-1], PICTURES)
    np.testing.assert_array_equal(turned[0], distances)
    np.testing.assert_array_equal(turned[1], scores)


def test_a_fault_of_the_server_is_told_with_its_own_words_and_the_next_call_works(
    session: OpenInferenceSession, behaviour: Behaviour
) -> None:
    behaviour.fails = "out of\nmemory"
    with pytest.raises(InferenceServerError, match=r"infer is answered 500: out of memory"):
        session.run(NAMES, PICTURES)
    behaviour.fails = ""
    assert len(session.run(NAMES, PICTURES)) == 2


def test_a_server_that_hangs_is_not_waited_for_for_ever(session: OpenInferenceSession, behaviour: Behaviour) -> None:
    behaviour.hangs = threading.Event()
    with pytest.raises(InferenceServerError, match=r"did not answer within 0\.3 s"):
        session.run(NAMES, PICTURES)
    behaviour.hangs.set()
    behaviour.hangs = None
    assert behaviour.infers == 1, "what hung is not asked again"
    assert len(session.run(NAMES, PICTURES)) == 2


@pytest.mark.parametrize(
    "garbage",
    [
        b"", b"[]", b"{}", b"\xff", b'{"outputs": 3}', b'{"outputs": [{"name": "scores"}]}',
        b'{"outputs": [{"name": "scores", "datatype": "FP32", "shape": [1, 2], "data": [1]}]}',
        b'{"outputs": [{"name": "scores", "datatype": "BF16", "shape": [1], "data": [1]}]}',
    ],
)  # fmt: skip
def test_a_reply_that_is_none_is_an_error_and_no_answer(
    session: OpenInferenceSession, behaviour: Behaviour, garbage: bytes
) -> None:
    behaviour.garbage = garbage
    with pytest.raises(InferenceServerError, match="the reply"):
        session.run(NAMES, PICTURES)


def test_another_version_is_not_taken_for_the_one_that_was_proven(
    session: OpenInferenceSession, behaviour: Behaviour
) -> None:
    session.run(NAMES, PICTURES)
    behaviour.version = "2"
    with pytest.raises(
        InferenceServerError, match="now serves version 2 instead of 1; name one version in the address"
    ):
        session.run(NAMES, PICTURES)


def test_a_version_can_be_named_in_the_address(tmp_path: Path) -> None:
    save(tmp_path, entry(), MODEL)
    with open_inference_server(MODEL) as url:
        detector = load_remote("fake", f"{url}/versions/1", input_size=(SIDE, SIDE), models_dir=tmp_path)
        assert len(detector.detect([np.zeros((SIDE, SIDE, 3), np.uint8)], 0.5)[0]) == 1


def test_a_server_that_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    save(tmp_path, entry(), MODEL)
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/v2/models/fake"
        with pytest.raises(
            ModelError, match=r"Cannot use the model at .*: the server cannot be reached \(.*refused.*\)\."
        ):
            load_remote("fake", url, input_size=(SIDE, SIDE), models_dir=tmp_path)


@pytest.mark.parametrize(
    ("ready", "path", "reason"),
    [
        (False, "", "ready is answered 503: the model is loading"),
        (True, "x", "is answered 404: Request for unknown model"),
    ],
)
def test_a_model_that_is_not_there_or_not_ready_is_one_sentence(ready: bool, path: str, reason: str) -> None:
    with (
        open_inference_server(MODEL, Behaviour(ready=ready)) as url,
        pytest.raises(ModelError, match=reason),
    ):
        OpenInferenceSession(url + path).connect()


def test_half_floats_go_in_binary_and_are_refused_where_only_json_is_understood(tmp_path: Path) -> None:
    save(tmp_path, entry(inputs={"dtype": "float16"}), HALF)
    with open_inference_server(HALF) as url:
        detector = load_remote("fake", url, input_size=(SIDE, SIDE), models_dir=tmp_path)
        assert len(detector.detect([np.zeros((SIDE, SIDE, 3), np.uint8)], 0.5)[0]) == 1
    with (
        open_inference_server(HALF, Behaviour(binary=False)) as url,
        pytest.raises(ModelError, match="float16, which a server without binary tensors cannot take"),
    ):
        load_remote("fake", url, input_size=(SIDE, SIDE), models_dir=tmp_path)


tensors = arrays(
    st.sampled_from([np.float32, np.uint8]), array_shapes(max_dims=4, max_side=5), elements=st.integers(0, 200)
)


@given(first=tensors, second=tensors, binary=st.booleans())
def test_what_is_encoded_says_its_own_shape_type_and_place(
    first: NDArray[Any], second: NDArray[Any], binary: bool
) -> None:
    body, headers = encode_infer(["out"], {"a": first, "b": second}, binary=binary)
    length = int(headers.get("Inference-Header-Content-Length", len(body)))
    described = json.loads(body[:length])["inputs"]
    rest = body[length:]
    for array, each in zip((first, second), described, strict=True):
        assert each["shape"] == list(array.shape)
        if binary:
            size = each["parameters"]["binary_data_size"]
            np.testing.assert_array_equal(np.frombuffer(rest[:size], array.dtype).reshape(array.shape), array)
            rest = rest[size:]
        else:
            np.testing.assert_array_equal(np.array(each["data"], array.dtype).reshape(array.shape), array)
    assert rest == b""


@given(data=st.binary(max_size=200), length=st.none() | st.integers(0, 300))
def test_any_bytes_are_an_error_and_never_another_exception(data: bytes, length: int | None) -> None:
    with pytest.raises(InferenceServerError):
        decode_infer(data, length, ["out"])
