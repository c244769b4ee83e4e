"""A written student is only given away when its file was seen to do what the network does."""

from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from foveate.training.export import INPUT
from foveate.training.judge import tensor
from foveate.training.network import Student
from pipeline.detectors.contract import HeightWidth, ModelEntry
from pipeline.detectors.loading import load_file
from pipeline.detectors.onnx import OnnxDetector
from pipeline.detectors.session import open_session
from pipeline.errors import ModelError

MOST_SCORE_DIFFERENCE = 1e-3
MOST_REACH_RATIO = 1e-2


def proven(
    student: Student, path: Path, contract: ModelEntry, input_px: HeightWidth, pictures: NDArray[np.uint8]
) -> OnnxDetector:
    """Load a student's file by its contract, after its outputs were compared with the student's on pictures
    (n, height, width, 3) uint8 BGR of the input's size. Raises ModelError where they differ.
    """
    session = open_session(path, 1, one_shape=True)
    score, reach = session.run(list(contract.output.outputs), {INPUT: pictures})
    student.eval()
    with torch.inference_mode():
        logits, expected = student(tensor(pictures, torch.device("cpu")))
    # Where two neighbours are equal but for rounding, the file may see the peak in the other: peaks are left to it.
    stated = torch.sigmoid(logits).numpy()
    off_score = float(np.abs(score - stated)[score > 0].max(initial=0))
    off_reach = float(np.abs(reach / expected.numpy() - 1).max())
    if not (off_score <= MOST_SCORE_DIFFERENCE and off_reach <= MOST_REACH_RATIO):
        raise ModelError(
            f"{path} does not do what the network does that it was written from (scores differ by up to "
            f"{off_score:.4f}, distances by {off_reach:.2%}): do not use it, and report this."
        )
    return load_file(path, contract, label_file=None, input_size=input_px, threads=1)
