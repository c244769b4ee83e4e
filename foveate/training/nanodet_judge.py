"""What the general model finds in lessons while it is trained, by the steps of its detector, and how right that is."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray

from edge_agent.lessons.labels import CleaningSettings
from edge_agent.tracking.tracks import TrackerSettings
from foveate.models.scoring import MATCH_IOU
from foveate.training.judge import BATCH, LEAST_SCORE, agreement
from foveate.training.nanodet_samples import Scored, tensor
from foveate.training.onnx_graph import OnnxNetwork
from foveate.training.targets import Answers
from pipeline.detections import Detections
from pipeline.detectors.contract import ModelEntry
from pipeline.detectors.heads import finish
from pipeline.detectors.nanodet import NANODET
from pipeline.detectors.preprocess import Placement
from pipeline.geometry import Size
from pipeline.metrics.matching import score_frame, total

SURE_SCORE = CleaningSettings().sure_score
PUBLISH_SCORE = TrackerSettings().publish_score


def detect(
    network: OnnxNetwork, entry: ModelEntry, pictures: NDArray[np.uint8], labels: Sequence[str]
) -> list[Detections]:
    """Detections of at least ``LEAST_SCORE`` in pictures (n, height, width, 3) uint8 of the input's size."""
    size = Size(pictures.shape[2], pictures.shape[1])
    placement = Placement(size, size, 0, 0, (size.height, size.width))
    names = np.array(labels, np.str_)
    found: list[Detections] = []
    with torch.inference_mode():
        for start in range(0, len(pictures), BATCH):
            outputs = network(tensor(pictures[start : start + BATCH], entry.input), entry.output.outputs)
            for rows in zip(*(outputs[name].numpy() for name in entry.output.outputs), strict=True):
                candidates = NANODET.decode(rows, entry.output, placement.input_px, LEAST_SCORE)
                found.append(finish(candidates, placement, entry.output, names))
    return found


def standing(found: Sequence[Detections], judged: Scored, labels: Sequence[str]) -> float:
    """How well detections stand, 0..1: the mean of F1 for all that is known, at the score from which the agent
    publishes, and of the best F1 for what the larger model is sure of by itself.

    The first asks for what users see, the second for an order of scores in which the larger model's can be found.
    """
    return (published_f1(found, judged, labels) + agreement(found, sure(judged), labels)) / 2


def ordering(found: Sequence[Detections], judged: Scored, labels: Sequence[str]) -> float:
    """How well scores tell what is there from what is not, and what the larger model is sure of from what it is not,
    0..1, wherever they lie: what a network that is still to be tuned can be held to.
    """
    known = judged.samples.answers
    return (agreement(found, known, labels) + agreement(found, sure(judged), labels)) / 2


def published_f1(found: Sequence[Detections], judged: Scored, labels: Sequence[str]) -> float:
    """F1 of what an agent would publish, against all that is known; 0 where nothing is right."""
    scores = []
    for detections, answers in zip(found, judged.samples.answers, strict=True):
        shown = detections.select(detections.score >= PUBLISH_SCORE)
        for class_id, label in enumerate(labels):
            known = answers.xyxy[answers.class_id == class_id]
            ignored = np.arange(len(known) + len(answers.ignored)) >= len(known)
            truth = np.concatenate([known, answers.ignored])
            scores.append(score_frame(shown.xyxy[shown.label == label], truth, ignored, MATCH_IOU))
    pooled = total(scores)
    return pooled.f1 if pooled.true_positives else 0.0


def sure(judged: Scored) -> list[Answers]:
    """Of what is known, that of which the larger model was sure at a look."""
    rows = [scores >= SURE_SCORE for scores in judged.scores]
    return [
        replace(answers, xyxy=answers.xyxy[kept], class_id=answers.class_id[kept])
        for answers, kept in zip(judged.samples.answers, rows, strict=True)
    ]
