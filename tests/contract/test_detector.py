"""What every detector on a proven model does, wherever its model runs."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from pipeline.detections import Detections
from pipeline.detectors.loading import load_detector, load_remote
from pipeline.detectors.onnx import OnnxDetector
from pipeline.errors import ModelError
from pipeline.frames import Image
from tests.support.inference_servers import mlserver_server, triton_server
from tests.support.onnx_models import brightness_detector, entry, save
from tests.support.open_inference import Behaviour, open_inference_server
from tests.support.open_inference_grpc import open_inference_grpc_server

KINDS = (
    "here", "HTTP, binary", "HTTP, JSON", "HTTP, a connection for each", "gRPC, binary", "gRPC, numbers",
    "Triton, http", "Triton, grpc", "MLServer, http", "MLServer, grpc",
)  # fmt: skip
SERVERS = (open_inference_server, open_inference_grpc_server)


@pytest.fixture(scope="module")
def triton_urls(triton: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    with triton_server(triton, brightness_detector(), tmp_path_factory.mktemp("triton")) as urls:
        yield urls


@pytest.fixture(scope="module")
def mlserver_urls(mlserver: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    with mlserver_server(mlserver, brightness_detector(), tmp_path_factory.mktemp("mlserver")) as urls:
        yield urls


@pytest.fixture(params=KINDS)
def detector(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OnnxDetector]:
    """Finds bright cells of 8x8 pixels in pictures of any size up to 96x128."""
    model = brightness_detector()
    save(tmp_path, entry(inputs={"scale": 1.0, "largest_px": (96, 128)}), model)
    kind, _, how = request.param.partition(", ")
    if kind == "here":
        yield load_detector("fake", input_size=None, threads=1, models_dir=tmp_path)
        return
    (tmp_path / "fake.onnx").unlink()
    if kind in ("Triton", "MLServer"):
        urls = request.getfixturevalue(f"{kind.lower()}_urls")
        yield load_remote("fake", urls[how], input_size=None, models_dir=tmp_path)
        return
    behaviour = Behaviour(binary=how not in ("JSON", "numbers"), closes_after_each="each" in how)
    with SERVERS[kind == "gRPC"](model.SerializeToString(), behaviour) as url:
        yield load_remote("fake", url, input_size=None, models_dir=tmp_path)


def spot(row: int, column: int, height: int = 64, width: int = 64) -> Image:
    image = np.zeros((height, width, 3), np.uint8)
    image[row * 8 : row * 8 + 8, column * 8 : column * 8 + 8] = 255
    return image


def assert_at(found: Detections, row: int, column: int) -> None:
    np.testing.assert_allclose(found.xyxy, [[column * 8, row * 8, column * 8 + 8, row * 8 + 8]], atol=0.1)
    assert found.label.tolist() == ["class_0"]


def test_name_version_and_labels_are_those_of_the_contract(detector: OnnxDetector) -> None:
    assert (detector.name, detector.version) == ("fake", "1.0.0")
    assert detector.labels == ("class_0", "class_1", "class_2")


def test_each_picture_gets_its_own_answer_whatever_its_company(detector: OnnxDetector) -> None:
    places = [(0, 0), (3, 5), (7, 7), (1, 2)]
    found = detector.detect([spot(*place) for place in places], 0.5)
    assert len(found) == 4
    for each, place in zip(found, places, strict=True):
        assert_at(each, *place)
        assert_at(detector.detect([spot(*place)], 0.5)[0], *place)


def test_pictures_of_mixed_sizes_are_no_matter(detector: OnnxDetector) -> None:
    found = detector.detect([spot(1, 1), spot(9, 14, 96, 128), spot(2, 2, 40, 30)], 0.5)
    for each, place in zip(found, [(1, 1), (9, 14), (2, 2)], strict=True):
        assert_at(each, *place)


def test_no_picture_gives_no_answer(detector: OnnxDetector) -> None:
    assert detector.detect([], 0.5) == []


def test_what_is_no_picture_is_refused(detector: OnnxDetector) -> None:
    with pytest.raises(ValueError, match="uint8 BGR"):
        detector.detect([np.zeros((8, 8), np.uint8)], 0.5)


def test_a_contract_that_the_model_does_not_keep_is_found_at_loading(tmp_path: Path) -> None:
    model = brightness_detector()
    save(tmp_path, entry(inputs={"scale": 1.0, "dtype": "uint8"}), model)
    with pytest.raises(ModelError, match="contract declares dtype uint8"):
        load_detector("fake", input_size=(64, 64), threads=1, models_dir=tmp_path)
    for server in SERVERS:
        with (
            server(model.SerializeToString()) as url,
            pytest.raises(ModelError, match="contract declares dtype uint8"),
        ):
            load_remote("fake", url, input_size=(64, 64), models_dir=tmp_path)
