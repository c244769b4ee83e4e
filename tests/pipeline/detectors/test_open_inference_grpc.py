"""A model on a server of the Open Inference Protocol over gRPC: one sentence for each fault, and no wait for ever."""

import socket
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.detectors.loading import load_remote, remote_session
from pipeline.detectors.open_inference import OpenInferenceSession
from pipeline.detectors.open_inference_codec import InferenceServerError
from pipeline.detectors.open_inference_grpc import OpenInferenceGrpcSession
from pipeline.detectors.open_inference_proto import MESSAGES, decode_infer, encode_infer
from pipeline.errors import ModelError
from tests.support.brokers import free_port
from tests.support.onnx_models import SIDE, answer, entry, fake_detector, save
from tests.support.open_inference import Behaviour
from tests.support.open_inference_grpc import open_inference_grpc_server

MODEL = fake_detector(*answer([(9, 1, 0.75, (0.5, 0.5, 1, 1.5))])).SerializeToString()
HALF = fake_detector(*answer([(9, 1, 0.75, (0.5, 0.5, 1, 1.5))]), dtype="float16").SerializeToString()
PICTURES = {"image": np.zeros((2, 3, SIDE, SIDE), np.float32)}
NAMES = ["scores", "distances"]


@pytest.fixture
def behaviour() -> Behaviour:
    return Behaviour()


@pytest.fixture
def session(behaviour: Behaviour) -> Iterator[OpenInferenceGrpcSession]:
    with open_inference_grpc_server(MODEL, behaviour) as url:
        made = OpenInferenceGrpcSession(url, timeout_s=0.5)
        made.connect()
        yield made
        made.close()


@pytest.mark.parametrize("url", ["grpc://host/m", "grpc://host:8001", "grpc://host:8001/", "grpc://h:x/m", "grpc://[/"])
def test_what_is_no_address_of_a_model_is_refused(url: str) -> None:
    with pytest.raises(ModelError, match=r"is not the address of a model: give .* or grpc://HOST:PORT/NAME"):
        remote_session(url)


def test_the_scheme_says_how_the_server_is_spoken_to() -> None:
    assert isinstance(remote_session("grpcs://host:8001/m"), OpenInferenceGrpcSession)
    assert isinstance(remote_session("https://host/v2/models/m"), OpenInferenceSession)


def test_without_the_extra_the_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "grpc", None)
    monkeypatch.delitem(sys.modules, "pipeline.detectors.open_inference_grpc")
    with pytest.raises(ModelError, match=r"^The model at grpc://host:8001/m needs gRPC .*install foveate\[grpc\]"):
        remote_session("grpc://host:8001/m")


def test_the_server_says_what_its_model_takes_and_gives(session: OpenInferenceGrpcSession) -> None:
    [image] = session.get_inputs()
    assert (image.name, image.type, image.shape) == ("image", "tensor(float)", ("?", 3, SIDE, SIDE))
    assert [output.name for output in session.get_outputs()] == NAMES


def test_one_connection_serves_all_calls(session: OpenInferenceGrpcSession, behaviour: Behaviour) -> None:
    for _ in range(5):
        scores, distances = session.run(NAMES, PICTURES)
    assert (scores.shape[0], distances.shape[0]) == (2, 2)
    assert (behaviour.infers, len(behaviour.connections)) == (5, 1)


def test_outputs_come_in_the_order_asked_for(session: OpenInferenceGrpcSession) -> None:
    scores, distances = session.run(NAMES, PICTURES)
    turned = session.run(NAMES[::-1], PICTURES)
    np.testing.assert_array_equal(turned[0], distances)
    np.testing.assert_array_equal(turned[1], scores)


def test_a_fault_of_the_server_is_told_with_its_own_words_and_the_next_call_works(
    session: OpenInferenceGrpcSession, behaviour: Behaviour
) -> None:
    behaviour.fails = "out of\nmemory"
    with pytest.raises(InferenceServerError, match=r"ModelInfer is answered INTERNAL: out of memory"):
        session.run(NAMES, PICTURES)
    behaviour.fails = ""
    assert len(session.run(NAMES, PICTURES)) == 2


def test_a_server_that_hangs_is_not_waited_for_for_ever(
    session: OpenInferenceGrpcSession, behaviour: Behaviour
) -> None:
    behaviour.hangs = threading.Event()
    with pytest.raises(InferenceServerError, match=r"did not answer within 0\.5 s"):
        session.run(NAMES, PICTURES)
    behaviour.hangs.set()
    behaviour.hangs = None
    assert behaviour.infers == 1, "what hung is not asked again"
    assert len(session.run(NAMES, PICTURES)) == 2


def test_a_server_that_went_and_came_back_is_used_again_at_once() -> None:
    port = free_port()
    with open_inference_grpc_server(MODEL, port=port) as url:
        session = OpenInferenceGrpcSession(url, timeout_s=2.0)
        session.connect()
        session.run(NAMES, PICTURES)
    with pytest.raises(InferenceServerError, match="the server cannot be reached or takes nothing"):
        session.run(NAMES, PICTURES)
    with open_inference_grpc_server(MODEL, port=port):
        assert len(session.run(NAMES, PICTURES)) == 2
    with open_inference_grpc_server(MODEL, port=port):  # and without a call in between that failed
        assert len(session.run(NAMES, PICTURES)) == 2
    session.close()


@pytest.mark.parametrize(
    "garbage",
    [
        b"", b"\xff", b"[]",
        MESSAGES["Reply"](outputs=[MESSAGES["Tensor"](name="scores")]).SerializeToString(),
        MESSAGES["Reply"](
            outputs=[MESSAGES["Tensor"](name=name, datatype="FP32", shape=[1]) for name in NAMES],
            raw_output_contents=[b"1234"],
        ).SerializeToString(),
        MESSAGES["Reply"](
            outputs=[MESSAGES["Tensor"](name=name, datatype="FP32", shape=[-1, -1]) for name in NAMES],
            raw_output_contents=[b"1234", b"1234"],
        ).SerializeToString(),
        MESSAGES["Reply"](
            outputs=[MESSAGES["Tensor"](name=name, datatype="FP32", shape=[2, 2]) for name in NAMES]
        ).SerializeToString(),
    ],
)  # fmt: skip
def test_a_reply_that_is_none_is_an_error_and_no_answer(
    session: OpenInferenceGrpcSession, behaviour: Behaviour, garbage: bytes
) -> None:
    behaviour.garbage = garbage
    with pytest.raises(InferenceServerError, match="the reply"):
        session.run(NAMES, PICTURES)


def test_another_version_is_not_taken_for_the_one_that_was_proven(
    session: OpenInferenceGrpcSession, behaviour: Behaviour
) -> None:
    session.run(NAMES, PICTURES)
    behaviour.version = "2"
    with pytest.raises(
        InferenceServerError, match="now serves version 2 instead of 1; name one version in the address"
    ):
        session.run(NAMES, PICTURES)


def test_a_version_can_be_named_in_the_address(tmp_path: Path) -> None:
    save(tmp_path, entry(), MODEL)
    with open_inference_grpc_server(MODEL) as url:
        detector = load_remote("fake", f"{url}/versions/1", input_size=(SIDE, SIDE), models_dir=tmp_path)
        assert len(detector.detect([np.zeros((SIDE, SIDE, 3), np.uint8)], 0.5)[0]) == 1
        with pytest.raises(ModelError, match="NOT_FOUND: Request for unknown model"):
            load_remote("fake", f"{url}/versions/7", input_size=(SIDE, SIDE), models_dir=tmp_path)


def test_half_floats_go_too(tmp_path: Path) -> None:
    save(tmp_path, entry(inputs={"dtype": "float16"}), HALF)
    with open_inference_grpc_server(HALF) as url:
        detector = load_remote("fake", url, input_size=(SIDE, SIDE), models_dir=tmp_path)
        assert len(detector.detect([np.zeros((SIDE, SIDE, 3), np.uint8)], 0.5)[0]) == 1


def test_a_server_that_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    save(tmp_path, entry(), MODEL)
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"grpc://127.0.0.1:{unused.getsockname()[1]}/fake"
        with pytest.raises(
            ModelError, match=r"Cannot use the model at .*: the server cannot be reached .*refused.*\.$"
        ):
            load_remote("fake", url, input_size=(SIDE, SIDE), models_dir=tmp_path)


@pytest.mark.parametrize(
    ("ready", "path", "reason"),
    [(False, "", "says that the model is not ready"), (True, "x", "NOT_FOUND: Request for unknown model")],
)
def test_a_model_that_is_not_there_or_not_ready_is_one_sentence(ready: bool, path: str, reason: str) -> None:
    with (
        open_inference_grpc_server(MODEL, Behaviour(ready=ready)) as url,
        pytest.raises(ModelError, match=reason),
    ):
        OpenInferenceGrpcSession(url + path).connect()


def test_with_grpcs_the_server_must_show_a_certificate_that_the_machine_trusts(
    authority: Callable[[str, int], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = authority("localhost", 2)
    pair = ((folder / "key.pem").read_bytes(), (folder / "cert.pem").read_bytes())
    with open_inference_grpc_server(MODEL, credentials=grpc.ssl_server_credentials([pair])) as url:
        monkeypatch.setenv("SSL_CERT_FILE", str(folder / "ca.pem"))
        trusting = OpenInferenceGrpcSession(url, timeout_s=5.0)
        trusting.connect()
        assert len(trusting.run(NAMES, PICTURES)) == 2
        trusting.close()
        monkeypatch.setenv("SSL_CERT_FILE", str(authority("localhost", 3) / "ca.pem"))
        with pytest.raises(ModelError, match="cannot be reached"):
            OpenInferenceGrpcSession(url, timeout_s=5.0).connect()


@given(data=st.binary(max_size=200))
def test_any_bytes_are_an_error_and_never_another_exception(data: bytes) -> None:
    with pytest.raises(InferenceServerError):
        decode_infer(data, ["out"])


@given(
    version=st.text(max_size=5), shape=st.lists(st.integers(0, 4), min_size=1, max_size=4), kind=st.sampled_from("fB")
)
def test_what_is_encoded_carries_each_tensor_with_its_shape_and_type(version: str, shape: list[int], kind: str) -> None:
    array = np.arange(np.prod(shape), dtype=kind).reshape(shape)
    request = MESSAGES["Request"].FromString(encode_infer(("m", version), ["out"], {"a": array, "b": array.T}))
    assert (request.model_name, request.model_version, request.outputs[0].name) == ("m", version, "out")
    for described, raw, sent in zip(request.inputs, request.raw_input_contents, (array, array.T), strict=True):
        np.testing.assert_array_equal(np.frombuffer(raw, kind).reshape(tuple(described.shape)), sent)
        assert described.datatype == {"f": "FP32", "B": "UINT8"}[kind]
