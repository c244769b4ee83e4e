"""An adapted model is only given away when its file was seen to do what was trained."""

from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from foveate.training.nanodet_samples import tensor
from foveate.training.onnx_graph import OnnxNetwork
from pipeline.detectors.contract import ModelEntry
from pipeline.detectors.loading import load_file
from pipeline.detectors.onnx import OnnxDetector
from pipeline.detectors.session import open_session
from pipeline.errors import ModelError

MOST_SCORE_DIFFERENCE = 0.01
"""Weights that are stored as float16 are rounded, by a two-thousandth at most."""


def prove(network: OnnxNetwork, path: Path, contract: ModelEntry, pictures: NDArray[np.uint8]) -> OnnxDetector:
    """Load the file by its contract, after its scores were compared with the network's on pictures (n, height, width,
    3) uint8 of its input's size. Raises ModelError where they differ.
    """
    names = list(contract.output.outputs[: len(contract.output.strides)])
    inputs = tensor(pictures, contract.input)
    written = open_session(path, 1, one_shape=True).run(names, {contract.input.name: inputs.numpy()})
    with torch.inference_mode():
        trained = network(inputs, names)
    off = max(float(np.abs(each - trained[name].numpy()).max()) for name, each in zip(names, written, strict=True))
    if not off <= MOST_SCORE_DIFFERENCE:
        raise ModelError(
            f"{path} does not do what was trained (scores differ by up to {off:.4f}): do not use it, and report this."
        )
    return load_file(path, contract, label_file=None, input_size=contract.input.size_px, threads=1)
