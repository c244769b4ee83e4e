"""The hand-written baseline really detects, and does it on every frame."""

import json
import sys
from pathlib import Path

import numpy as np

from foveate.bench import dense
from foveate.bench.children import run_child
from foveate.models.clips import sampled_frames
from pipeline.detectors.loading import load_detector
from pipeline.detectors.manifest import read_manifest, verified_path
from pipeline.geometry import Size, clip


def model_file() -> Path:
    manifest = read_manifest()
    return verified_path(manifest, manifest.entry("nanodet-g"))


def test_it_finds_what_the_products_detector_finds_at_the_same_size(plaza: Path) -> None:
    session = dense.open_model(model_file())
    detector = load_detector("nanodet-g", input_size=(dense.HEIGHT, dense.WIDTH), threads=1)
    people = 0
    for _, image in sampled_frames(plaza, 5):
        by_hand = sorted(dense.detect(session, image), key=lambda found: -found[1])
        expected = detector.detect([image], dense.LEAST_SCORE)[0]
        people += len(expected)
        assert [detector.labels[found[2]] for found in by_hand] == expected.label.tolist()
        np.testing.assert_allclose([found[1] for found in by_hand], expected.score, atol=1e-4)
        boxes = clip(np.array([found[0] for found in by_hand]), Size(image.shape[1], image.shape[0]))
        np.testing.assert_allclose(boxes, expected.xyxy, atol=0.1)
    assert people > 0


def test_nothing_is_found_on_an_empty_picture() -> None:
    assert dense.detect(dense.open_model(model_file()), np.full((480, 640, 3), 114, np.uint8)) == []


def test_as_a_program_it_reads_every_frame(plaza: Path, tmp_path: Path) -> None:
    counts = tmp_path / "counts.json"
    cpu_s = run_child(
        [sys.executable, "-m", "foveate.bench.dense", str(plaza), str(model_file()), str(counts)], tmp_path / "log"
    )
    found = json.loads(counts.read_text())
    assert found["frames"] == sum(1 for _ in sampled_frames(plaza, 1))
    assert found["objects"] > 0
    assert cpu_s > 0
