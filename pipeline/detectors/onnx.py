"""A detector on a model that was proven to fit its contract."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.detections import Detections
from pipeline.detectors.backend import Session
from pipeline.detectors.contract import HeightWidth, InputContract, ModelEntry
from pipeline.detectors.heads import Head, finish
from pipeline.detectors.preprocess import Placement, check_image, fill, place
from pipeline.frames import Image
from pipeline.geometry import Size
from pipeline.policies.buckets import SizeBuckets


@dataclass(frozen=True, slots=True)
class BatchRule:
    """How many pictures one run takes: at most ``size`` (None: any number); exactly that where ``fixed``."""

    size: int | None
    fixed: bool


def tensor_shape(contract: InputContract, batch: int, input_px: HeightWidth) -> tuple[int, int, int, int]:
    """The shape of the input tensor."""
    height, width = input_px
    return (batch, 3, height, width) if contract.layout == "NCHW" else (batch, height, width, 3)


class OnnxDetector:
    """The ``Detector`` on a session; made by ``load_detector`` or ``load_remote``, which prove the model first."""

    def __init__(
        self,
        entry: ModelEntry,
        head: Head,
        session: Session,
        labels: tuple[str, ...],
        input_px: HeightWidth | None,
        batch: BatchRule,
        most_padding: float = 0.0,
    ) -> None:
        self._entry = entry
        self._head = head
        self._session = session
        self._labels = labels
        self._label_array = np.array(labels, dtype=np.str_)
        self._input_px = input_px
        self._batch = batch
        self._buckets = SizeBuckets(entry.input.stride_px, most_padding)
        self._suspect_rows = 0

    @property
    def name(self) -> str:
        return self._entry.name

    @property
    def version(self) -> str:
        return self._entry.version

    @property
    def labels(self) -> tuple[str, ...]:
        return self._labels

    @property
    def entry(self) -> ModelEntry:
        """The manifest's entry, contracts included."""
        return self._entry

    @property
    def input_size(self) -> HeightWidth | None:
        """The input's (height, width) in pixels; None in native mode."""
        return self._input_px

    @property
    def batch_size(self) -> int | None:
        """Pictures per run of the model; None where any number fits."""
        return self._batch.size

    @property
    def suspect_rows(self) -> int:
        """Output rows dropped so far because they held NaN or a score outside 0..1; above 0, doubt the model."""
        return self._suspect_rows

    def detect(self, images: Sequence[Image], min_score: float) -> list[Detections]:
        """Detections per picture; see ``Detector``. Raises ValueError for what is no picture."""
        placements = [self._place(check_image(image)) for image in images]
        results = [Detections.none()] * len(images)
        for members in self._runs(placements):
            outputs = self._infer([images[i] for i in members], [placements[i] for i in members])
            for row, index in enumerate(members):
                placement = placements[index]
                rows = [output[row] for output in outputs]
                candidates = self._head.decode(rows, self._entry.output, placement.input_px, min_score)
                self._suspect_rows += candidates.suspect
                results[index] = finish(candidates, placement, self._entry.output, self._label_array)
        return results

    def input_of(self, picture: Size) -> Size:
        """The size of the model's input for a picture of this size; pictures with the same one run together."""
        height, width = self._place(picture).input_px
        return Size(width, height)

    def _place(self, picture: Size) -> Placement:
        placement = place(picture, self._entry.input, self._input_px)
        if self._input_px is not None:
            return placement
        bucket, (height, width) = self._buckets.of(Size(*placement.input_px[::-1])), self._entry.input.largest_px
        return replace(placement, input_px=(min(bucket.height, height), min(bucket.width, width)))

    def _runs(self, placements: Sequence[Placement]) -> Iterator[list[int]]:
        """Indices of the pictures of each run: one input shape, no more than fit."""
        by_shape: dict[HeightWidth, list[int]] = {}
        for index, placement in enumerate(placements):
            by_shape.setdefault(placement.input_px, []).append(index)
        for members in by_shape.values():
            step = self._batch.size or len(members)
            for start in range(0, len(members), step):
                yield members[start : start + step]

    def _infer(self, images: Sequence[Image], placements: Sequence[Placement]) -> list[NDArray[Any]]:
        contract = self._entry.input
        count = self._batch.size if self._batch.fixed and self._batch.size else len(images)
        batch = np.empty(tensor_shape(contract, count, placements[0].input_px), dtype=contract.dtype)
        batch[len(images) :] = 0
        for slot, image, placement in zip(batch, images, placements, strict=False):
            fill(image, placement, contract, slot)
        return self._session.run(list(self._entry.output.outputs), {contract.name: batch})
