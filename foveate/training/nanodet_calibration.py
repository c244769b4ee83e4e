"""Scores of the general model that mean what they say, with nothing added to its graph."""

from collections.abc import Sequence

import torch

from foveate.training.confidence import Platt, calibration_error, error_on_unseen, fit_platt, verdicts
from foveate.training.judge import agreement
from foveate.training.nanodet_judge import detect, standing
from foveate.training.nanodet_samples import Scored
from foveate.training.onnx_graph import OnnxNetwork
from pipeline.detectors.contract import ModelEntry, OutputContract

MOST_COST = 0.005
"""What a calibration may take from how the model stands: scores pushed together cannot be told apart any more."""


def calibrate(network: OnnxNetwork, contract: ModelEntry, judged: Scored, labels: Sequence[str]) -> dict[str, float]:
    """Fold a calibration of scores into the last convolutions, where it helps and costs nothing; the expected
    calibration error before, and after on detections that the calibration was not fitted on.
    """
    found = detect(network, contract, judged.samples.pictures, labels)
    seen = verdicts(found, judged.samples.answers, labels)
    before, after, platt = calibration_error(seen), error_on_unseen(seen), fit_platt(seen)
    general = network.copy()
    fold(network, contract.output, platt)
    calibrated = detect(network, contract, judged.samples.pictures, labels)
    loss = standing(found, judged, labels) - standing(calibrated, judged, labels)
    if after < before and loss <= MOST_COST:
        found = calibrated
    else:
        network.put(general)
        after = before
    return {"ece_before": before, "ece": after, "f1_judged": agreement(found, judged.samples.answers, labels)}


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
