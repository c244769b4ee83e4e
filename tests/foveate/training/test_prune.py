from pathlib import Path

import msgspec
import numpy as np
import onnx
import pytest

from foveate.training.prune import keep_classes, with_labels
from pipeline.detectors.loading import load_file
from pipeline.detectors.session import open_session
from pipeline.errors import ModelError
from tests.support.small_nanodet import LABELS, SIDES, pictures, small_base, small_nanodet

KEPT = (2, 1)


def test_kept_classes_say_what_they_said_before_in_the_new_order(tmp_path: Path) -> None:
    model = small_nanodet()
    outputs = []
    for name, each in (("all", model), ("kept", keep_classes(model, ["scores"], len(LABELS), KEPT))):
        onnx.save(each, tmp_path / f"{name}.onnx")
        outputs.append(
            open_session(tmp_path / f"{name}.onnx", 1, one_shape=True).run(
                ["scores", "distances"], {"image": pictures(1)}
            )
        )
    before, after = outputs
    assert after[0].shape[2] == len(KEPT)
    np.testing.assert_allclose(after[0], before[0][..., list(KEPT)], atol=1e-6)
    np.testing.assert_allclose(after[1], before[1], atol=1e-6)


def test_the_original_is_left_alone_and_nothing_without_a_reader_stays() -> None:
    model = small_nanodet()
    before = model.SerializeToString()
    smaller = keep_classes(model, ["scores"], len(LABELS), KEPT)
    assert model.SerializeToString() == before
    read = {name for node in smaller.graph.node for name in node.input}
    assert {tensor.name for tensor in smaller.graph.initializer} <= read


def test_the_smaller_model_keeps_its_contract_and_tells_its_classes(tmp_path: Path) -> None:
    base = small_base(tmp_path)
    smaller = with_labels(keep_classes(small_nanodet(), ["scores"], len(LABELS), [1]), ["person"])
    onnx.save(smaller, tmp_path / "person.onnx")
    output = msgspec.structs.replace(base.entry.output, classes=1)
    entry = msgspec.structs.replace(base.entry, output=output)
    detector = load_file(tmp_path / "person.onnx", entry, label_file=None, input_size=base.input_size, threads=1)
    assert detector.labels == ("person",)


def test_an_output_that_is_not_split_off_as_declared_is_refused() -> None:
    with pytest.raises(ModelError, match="not split off 5 class channels"):
        keep_classes(small_nanodet(), ["scores"], 5, [0])
    with pytest.raises(ModelError, match=f"not split off {SIDES} class"):
        keep_classes(small_nanodet(), ["scores"], SIDES, [0])
