"""Scores of the general model that mean what they say, with nothing added to its graph."""

from collections.abc import Sequence

import numpy as np
import torch

from foveate.training.confidence import Platt, calibration_error, fit_platt, verdicts
from foveate.training.judge import agreement
from foveate.training.nanodet_judge import detect, ordering, sure
from foveate.training.nanodet_samples import Scored, joined
from foveate.training.onnx_graph import OnnxNetwork
from pipeline.detections import Detections
from pipeline.detectors.contract import ModelEntry, OutputContract

SHARES = (1.0, 0.5, 0.25)
MOST_DOUBTED, CAUTIOUS = 0.1, 0.25
"""Where the larger model doubts more of what is known than this share, a calibration goes no further than a quarter of
the way: all of it would put what is doubted, being there, above every threshold, and beside what is sure.
"""
MOST_COST = 0.005
"""What a calibration may take from the order of the scores: pushed together, they cannot be told apart any more."""


def calibrate(
    network: OnnxNetwork, contract: ModelEntry, learned: Scored, judged: Scored, labels: Sequence[str]
) -> dict[str, float]:
    """Fold a calibration of scores into the last convolutions, as far as it costs nothing.

    It is fitted on lessons of both kinds, as there are mostly too few mistakes in the newest alone. Returns F1 on those
    judged, and their expected calibration error before and after, there by a calibration fitted on those learned.
    """
    both = joined(learned, judged)
    found = detect(network, contract, both.samples.pictures, labels)
    known = both.samples.answers
    taught, unseen = (
        verdicts(found[part], known[part], labels) for part in (slice(len(learned)), slice(len(learned), None))
    )
    seen = verdicts(found, known, labels)
    platt, stood = fit_platt(seen), ordering(found, both, labels)
    share, most = 0.0, CAUTIOUS if doubted(both) > MOST_DOUBTED else 1.0
    for tried in (each for each in SHARES if each <= most):
        part = towards(platt, tried)
        better = calibration_error(seen, part) < calibration_error(seen)
        if better and ordering(calibrated(found, part), both, labels) >= stood - MOST_COST:
            share = tried
            break
    fold(network, contract.output, towards(platt, share))
    return {
        "f1_judged": agreement(found[len(learned) :], judged.samples.answers, labels),
        "ece_before": calibration_error(unseen),
        "ece": calibration_error(unseen, towards(fit_platt(taught), share)),
    }


def doubted(judged: Scored) -> float:
    """Of all that is known, the share of which the larger model was not sure by itself; 0 where nothing is known."""
    known = sum(len(scores) for scores in judged.scores)
    return 1 - sum(len(answers.xyxy) for answers in sure(judged)) / known if known else 0.0


def towards(platt: Platt, share: float) -> Platt:
    """A calibration that goes a share of the way, 0 no step and 1 all of it."""
    return Platt(1 + share * (platt.slope - 1), share * platt.offset)


def calibrated(found: Sequence[Detections], platt: Platt) -> list[Detections]:
    """Detections with calibrated scores; they keep their order, so those that were suppressed still would be."""
    return [
        Detections.of(each.xyxy, platt(each.score.astype(np.float64)).astype(np.float32), each.label) for each in found
    ]


def fold(network: OnnxNetwork, output: OutputContract, platt: Platt) -> None:
    """Calibrate by the weights of the class channels that are behind each score output."""
    classes = slice(0, output.classes)
    done: set[str] = set()
    for name in output.outputs[: len(output.strides)]:
        weight, bias = network.convolution_above(network.before_sigmoid(name))
        if weight in done:  # strides may share a convolution
            continue
        done.add(weight)
        with torch.no_grad():
            network.weights[weight][classes] *= platt.slope
            network.weights[bias][classes] *= platt.slope
            network.weights[bias][classes] += platt.offset
