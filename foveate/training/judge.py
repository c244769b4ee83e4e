"""What a student finds in pictures, by the same steps as the detector that its file becomes."""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from foveate.models.scoring import Truth, best_f1
from foveate.training.network import STRIDE_PX, Student
from foveate.training.targets import Answers
from pipeline.detections import Detections
from pipeline.detectors.centre import CENTRE
from pipeline.detectors.contract import OutputContract
from pipeline.detectors.heads import finish
from pipeline.detectors.preprocess import Placement
from pipeline.geometry import Size

LEAST_SCORE = 0.05
NMS_IOU = 0.5
"""Boxes around neighbouring peaks of one large object overlap less than those of detectors with many anchors."""
BATCH = 16


def output_contract(classes: int) -> OutputContract:
    """What a student's outputs mean."""
    return OutputContract(
        head="centre", outputs=("score", "reach"), strides=(STRIDE_PX,), classes=classes, nms_iou=NMS_IOU
    )


def peaks(logits: Tensor) -> Tensor:
    """Probabilities of cells that no neighbour surpasses; 0 elsewhere. Any shape (batch, classes, rows, columns)."""
    score = torch.sigmoid(logits)
    return score * (score >= functional.max_pool2d(score, 3, stride=1, padding=1))


def tensor(pictures: NDArray[np.uint8], device: torch.device) -> Tensor:
    """Pictures (batch, height, width, 3) uint8 as the network's input, in the memory order that trains fastest."""
    return torch.from_numpy(pictures).to(device).permute(0, 3, 1, 2).float()


def detect(student: Student, pictures: NDArray[np.uint8], labels: Sequence[str]) -> list[Detections]:
    """Detections of at least ``LEAST_SCORE`` in pictures (n, height, width, 3) uint8 BGR of the student's size."""
    size = Size(pictures.shape[2], pictures.shape[1])
    placement = Placement(size, size, 0, 0, (size.height, size.width))
    contract, names = output_contract(len(labels)), np.array(labels, np.str_)
    device = next(student.parameters()).device
    student.eval()
    found: list[Detections] = []
    with torch.inference_mode():
        for start in range(0, len(pictures), BATCH):
            logits, reach = student(tensor(pictures[start : start + BATCH], device))
            for outputs in zip(peaks(logits).cpu().numpy(), reach.cpu().numpy(), strict=True):
                candidates = CENTRE.decode(outputs, contract, placement.input_px, LEAST_SCORE)
                found.append(finish(candidates, placement, contract, names))
    return found


def agreement(found: Sequence[Detections], known: Sequence[Answers], labels: Sequence[str]) -> float:
    """The best F1 over score thresholds against what is known; what lies in ignored regions does not count."""
    names = np.array(labels, np.str_)
    truth = {
        number: Truth(
            np.concatenate([answers.xyxy, answers.ignored]),
            np.concatenate([names[answers.class_id], np.repeat(names[:1], len(answers.ignored))]),
            np.arange(len(answers.xyxy) + len(answers.ignored)) >= len(answers.xyxy),
        )
        for number, answers in enumerate(known)
    }
    return best_f1(dict(enumerate(found)), truth, None)
