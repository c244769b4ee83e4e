from pathlib import Path

import numpy as np
import onnx
import pytest
import torch

from foveate.training.export import entry, write
from foveate.training.judge import detect, tensor
from foveate.training.network import Separable, Student, StudentShape
from foveate.training.proof import proven
from pipeline.detectors.loading import load_file
from pipeline.errors import ModelError
from tests.support.lessons import scene

LABELS = ("person", "bicycle")
INPUT_PX = (96, 128)
PICTURES = np.stack([lesson.picture for lesson in scene(6)])


def student(seed: int = 0) -> Student:
    """A network whose normalisation and heads are anything but those of a newborn one."""
    torch.manual_seed(seed)
    made = Student(StudentShape(len(LABELS)))
    for module in made.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            torch.nn.init.uniform_(module.weight, 0.5, 1.5)
            torch.nn.init.normal_(module.bias, std=0.2)
    torch.nn.init.normal_(made.centre.weight, std=0.3)
    torch.nn.init.normal_(made.reach.weight, std=0.05)
    made.train()
    with torch.no_grad():
        for _ in range(20):
            made(tensor(PICTURES, torch.device("cpu")))
    made.eval()
    return made


def test_the_file_detects_what_the_network_detects(tmp_path: Path) -> None:
    made, path = student(), tmp_path / "model.onnx"
    write(made, LABELS, path)
    contract = entry(path, "yard", LABELS, INPUT_PX, "a test")
    detector = load_file(path, contract, label_file=None, input_size=INPUT_PX, threads=1)
    assert detector.labels == LABELS
    expected = detect(made, PICTURES, LABELS)
    assert sum(map(len, expected)) > 20
    for picture, want in zip(PICTURES, expected, strict=True):
        found = detector.detect([picture], 0.05)[0]
        assert len(found) == len(want)
        np.testing.assert_allclose(found.score, want.score, atol=1e-4)
        np.testing.assert_allclose(np.sort(found.xyxy, axis=0), np.sort(want.xyxy, axis=0), atol=0.05)
    assert proven(made, path, contract, INPUT_PX, PICTURES).input_size == INPUT_PX


def test_one_file_takes_any_batch_and_size(tmp_path: Path) -> None:
    made, path = student(), tmp_path / "model.onnx"
    write(made, LABELS, path)
    detector = load_file(
        path, entry(path, "yard", LABELS, INPUT_PX, "a test"), label_file=None, input_size=(48, 64), threads=1
    )
    assert detector.batch_size is None
    together = detector.detect(list(PICTURES), 0.1)
    assert [len(found) for found in together] == [len(detector.detect([picture], 0.1)[0]) for picture in PICTURES]


def test_a_file_of_another_network_is_not_proven(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    write(student(1), LABELS, path)
    with pytest.raises(ModelError, match="does not do what the network does"):
        proven(student(0), path, entry(path, "yard", LABELS, INPUT_PX, "a test"), INPUT_PX, PICTURES)


def test_normalisation_is_folded_away_and_the_file_is_small(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    write(student(), LABELS, path)
    assert "BatchNormalization" not in {node.op_type for node in onnx.load(path).graph.node}
    assert path.stat().st_size < 300_000


@pytest.mark.parametrize(("stride", "outputs", "residual"), [(1, 16, True), (2, 16, False), (1, 32, False)])
def test_a_block_adds_its_input_where_the_shape_stays(stride: int, outputs: int, residual: bool) -> None:
    block = Separable(16, outputs, 3, stride=stride).eval()
    assert block.residual is residual
    assert block(torch.zeros(1, 16, 8, 8)).shape == (1, outputs, 8 // stride, 8 // stride)
