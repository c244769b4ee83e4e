"""What runs inside Triton's Python backend: our own decoding, preprocessing, model and postprocessing, on one thread.

So Triton does the work that the worker does, with the same code, and what is compared is all around it. How a model is
made is in its configuration's ``parameters``: ``model``, ``height``, ``width``, ``takes`` (``jpeg`` or ``tensor``).
"""

import json
from collections.abc import Sequence
from typing import Any

import cv2
import numpy as np
import triton_python_backend_utils as pb_utils
from numpy.typing import NDArray

from pipeline.detections import Detections
from pipeline.detectors.loading import load_detector
from pipeline.detectors.manifest import read_manifest, verified_path
from pipeline.detectors.session import open_session

MIN_SCORE = 0.5


class TritonPythonModel:
    """One model instance. ``execute`` gets the requests that the server has put into one batch."""

    def initialize(self, args: dict[str, str]) -> None:
        """Load the model and run it once at every batch size, as the worker does."""
        cv2.setNumThreads(1)
        config = json.loads(args["model_config"])
        told = {name: value["string_value"] for name, value in config["parameters"].items()}
        size = int(told["height"]), int(told["width"])
        self._inputs = _Jpegs(told["model"], size) if told["takes"] == "jpeg" else _Tensors(told["model"], size)
        for count in range(1, max(1, config["max_batch_size"]) + 1):
            self._inputs.warm_up(count)

    def execute(self, requests: Sequence[Any]) -> list[Any]:
        """One run of the model for all requests; a response for each."""
        return self._inputs.answer(requests)


class _Jpegs:
    """A JPEG in each request; out come rows of x1, y1, x2, y2 in its pixels, score, and the label's index."""

    def __init__(self, model: str, size: tuple[int, int]) -> None:
        self._detector = load_detector(model, input_size=size, threads=1)
        self._size = size
        self._index = {label: index for index, label in enumerate(self._detector.labels)}

    def warm_up(self, count: int) -> None:
        self._detector.detect([np.zeros((*self._size, 3), np.uint8)] * count, MIN_SCORE)

    def answer(self, requests: Sequence[Any]) -> list[Any]:
        jpegs = [pb_utils.get_input_tensor_by_name(request, "jpeg").as_numpy().item() for request in requests]
        images = [np.asarray(cv2.imdecode(np.frombuffer(each, np.uint8), cv2.IMREAD_COLOR)) for each in jpegs]
        return [_response({"detections": self._rows(each)}) for each in self._detector.detect(images, MIN_SCORE)]

    def _rows(self, found: Detections) -> NDArray[np.float32]:
        index = [self._index[str(label)] for label in found.label]
        return np.column_stack((found.xyxy, found.score, index)).astype(np.float32).reshape(1, -1, 6)


class _Tensors:
    """Tensors that are ready for the model in, its own outputs out: what the detections are is left to the client."""

    def __init__(self, model: str, size: tuple[int, int]) -> None:
        manifest = read_manifest()
        entry = manifest.entry(model)
        self._session = open_session(verified_path(manifest, entry), 1, one_shape=True)
        self._input, self._outputs, self._size = entry.input.name, list(entry.output.outputs), size

    def warm_up(self, count: int) -> None:
        self._session.run(self._outputs, {self._input: np.zeros((count, 3, *self._size), np.float32)})

    def answer(self, requests: Sequence[Any]) -> list[Any]:
        parts = [pb_utils.get_input_tensor_by_name(request, self._input).as_numpy() for request in requests]
        found = self._session.run(self._outputs, {self._input: np.concatenate(parts)})
        return [
            _response({name: output[part] for name, output in zip(self._outputs, found, strict=True)})
            for part in _parts([len(each) for each in parts])
        ]


def _parts(counts: Sequence[int]) -> list[slice]:
    ends = np.cumsum(counts).tolist()
    return [slice(end - count, end) for end, count in zip(ends, counts, strict=True)]


def _response(outputs: dict[str, NDArray[Any]]) -> Any:
    return pb_utils.InferenceResponse(
        [pb_utils.Tensor(name, np.ascontiguousarray(each)) for name, each in outputs.items()]
    )
