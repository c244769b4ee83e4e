import json
from pathlib import Path

import pytest

from pipeline.detectors.labels import metadata_labels, read_label_file
from pipeline.errors import ModelError

ODD = ['a "quoted" one', "two\nlines", "🙂 +/#"]


@pytest.mark.parametrize(
    "text",
    [
        "['cat', 'dog', 'cow']",
        '["cat", "dog", "cow"]',
        "{0: 'cat', 1: 'dog', 2: 'cow'}",
        '{"0": "cat", "1": "dog", "2": "cow"}',
    ],
)
def test_names_are_read_from_json_and_from_python_literals(text: str) -> None:
    assert metadata_labels({"names": text}, 3, "m.onnx") == ("cat", "dog", "cow")


def test_names_are_data_whatever_is_in_them() -> None:
    assert metadata_labels({"names": json.dumps(ODD)}, 3, "m.onnx") == tuple(ODD)


def test_classes_without_names_are_numbered() -> None:
    assert metadata_labels({}, 2, "m.onnx") == ("class_0", "class_1")


@pytest.mark.parametrize(
    "text",
    [
        "x" * 10_000_000,
        "[" * 5000,
        "['a', 'b']",
        "['a', 1, 'c']",
        "{0: 'a', 2: 'c', 3: 'd'}",
        "['a', '', 'c']",
        "7",
        "",
    ],
)
def test_names_that_are_too_long_broken_or_of_the_wrong_number_are_refused(text: str) -> None:
    with pytest.raises(ModelError, match=r"m\.onnx"):
        metadata_labels({"names": text}, 3, "m.onnx")


def test_an_expression_in_the_metadata_is_never_evaluated(tmp_path: Path) -> None:
    target = tmp_path / "created"
    with pytest.raises(ModelError):
        metadata_labels({"names": f"[open({str(target)!r}, 'w').name] * 3"}, 3, "m.onnx")
    assert not target.exists()


def test_a_label_file_has_one_name_per_class(tmp_path: Path) -> None:
    path = tmp_path / "names.txt"
    path.write_text("cat\ntraffic light\n", "utf-8")
    assert read_label_file(path, 2) == ("cat", "traffic light")
    with pytest.raises(ModelError, match="has 2 class names, but the model has 3 classes"):
        read_label_file(path, 3)
    with pytest.raises(ModelError, match="Cannot read the label file"):
        read_label_file(tmp_path / "absent.txt", 2)
