"""The loop that one writes by hand: every frame, the whole picture, the float model on one thread.

The baseline of ``cpu_share_of_dense``. It uses nothing of the product but the model's file, so that what is measured
is what its user would run instead. ``python -m foveate.bench.dense CLIP MODEL COUNTS`` writes the counts as JSON.
"""

import json
import sys
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

HEIGHT, WIDTH = 320, 416
STRIDES = (8, 16, 32)
BINS = 11
MEAN_BGR = (103.53, 116.28, 123.675)
STD_BGR = np.array([57.375, 57.12, 58.395], np.float32).reshape(3, 1, 1)
LEAST_SCORE = 0.5
NMS_IOU = 0.6


def open_model(path: Path) -> Any:
    """A session on one thread."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def detect(session: Any, image: NDArray[np.uint8]) -> list[tuple[NDArray[np.float32], float, int]]:
    """Box (4,) ``xyxy`` in frame pixels, score and class of each object on a BGR picture."""
    scale = min(HEIGHT / image.shape[0], WIDTH / image.shape[1])
    small = cv2.resize(image, (round(image.shape[1] * scale), round(image.shape[0] * scale)))
    canvas = np.full((HEIGHT, WIDTH, 3), 114, np.uint8)
    canvas[: small.shape[0], : small.shape[1]] = small
    tensor = cv2.dnn.blobFromImage(canvas, mean=MEAN_BGR) / STD_BGR
    outputs = session.run(None, {session.get_inputs()[0].name: tensor})
    boxes, scores, classes = [], [], []
    for stride, score, distance in zip(STRIDES, outputs[:3], outputs[3:], strict=True):
        best = score[0].max(axis=1)
        cells = np.flatnonzero(best >= LEAST_SCORE)
        boxes.append(_boxes(distance[0][cells], cells, stride) / scale)
        scores.append(best[cells])
        classes.append(score[0][cells].argmax(axis=1))
    xyxy, score, label = np.concatenate(boxes), np.concatenate(scores), np.concatenate(classes)
    xywh = np.concatenate([xyxy[:, :2], xyxy[:, 2:] - xyxy[:, :2]], axis=1)
    kept = cv2.dnn.NMSBoxesBatched(xywh.tolist(), score.tolist(), label.tolist(), LEAST_SCORE, NMS_IOU)
    return [(xyxy[i], float(score[i]), int(label[i])) for i in kept]


def _boxes(logits: NDArray[np.float32], cells: NDArray[np.intp], stride: int) -> NDArray[np.float32]:
    weights = np.exp(logits.reshape(-1, 4, BINS))
    reach = (weights @ np.arange(BINS, dtype=np.float32)) / weights.sum(axis=2) * stride
    row, column = np.divmod(cells, WIDTH // stride)
    centre = (np.stack([column, row], axis=1) + 0.5) * stride
    return np.concatenate([centre - reach[:, :2], centre + reach[:, 2:]], axis=1).astype(np.float32)


def main() -> None:
    """Run over a clip."""
    clip, model, counts = sys.argv[1:]
    cv2.setNumThreads(1)
    session = open_model(Path(model))
    capture = cv2.VideoCapture(clip)
    frames = objects = 0
    while True:
        readable, image = capture.read()
        if not readable:
            break
        frames += 1
        objects += len(detect(session, np.asarray(image, np.uint8)))
    Path(counts).write_text(json.dumps({"frames": frames, "objects": objects}))


if __name__ == "__main__":
    main()
