"""Detections of one frame as a struct of arrays."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.geometry import BoxArray


class Source(StrEnum):
    """Where a detection's box comes from."""

    EDGE = "edge"
    CLOUD = "cloud"
    TRACK = "track"


@dataclass(frozen=True, slots=True, eq=False)
class Detections:
    """n detections; row i of each array belongs to detection i.

    ``xyxy`` (n, 4) float32 in pixels of the picture at hand (frame pixels unless the holder says otherwise),
    ``score`` (n,) float32 in [0, 1], ``label`` (n,) names, ``source`` (n,) values of ``Source``,
    ``track_id`` (n,) int64, -1 where there is no track.
    """

    xyxy: BoxArray
    score: NDArray[np.float32]
    label: NDArray[np.str_]
    source: NDArray[np.str_]
    track_id: NDArray[np.int64]

    def __post_init__(self) -> None:
        n = len(self.xyxy)
        if self.xyxy.shape != (n, 4) or not len(self.score) == len(self.label) == len(self.source) == n:
            raise ValueError(f"arrays of different length: {self.xyxy.shape}, {self.score.shape}, {self.label.shape}")
        if len(self.track_id) != n:
            raise ValueError(f"{len(self.track_id)} track ids for {n} boxes")
        for array in (self.xyxy, self.score, self.label, self.source, self.track_id):
            array.setflags(write=False)

    def __len__(self) -> int:
        return len(self.xyxy)

    @classmethod
    def of(
        cls,
        xyxy: Any,
        score: Any,
        label: Any,
        source: Source = Source.EDGE,
        track_id: Any = None,
    ) -> "Detections":
        """Build from anything that numpy can turn into arrays; all rows share one source."""
        boxes = np.array(xyxy, dtype=np.float32).reshape(-1, 4)
        n = len(boxes)
        return cls(
            boxes,
            np.array(score, dtype=np.float32).reshape(-1),
            np.array(label, dtype=np.str_).reshape(-1),
            np.array([source.value] * n, dtype=np.str_),  # np.full would keep one letter
            np.full(n, -1, np.int64) if track_id is None else np.array(track_id, dtype=np.int64).reshape(-1),
        )

    @classmethod
    def none(cls) -> "Detections":
        """No detections."""
        return cls.of([], [], [])

    def select(self, index: Any) -> "Detections":
        """The rows that a numpy index or mask selects."""
        return Detections(
            self.xyxy[index].copy(),
            self.score[index].copy(),
            self.label[index].copy(),
            self.source[index].copy(),
            self.track_id[index].copy(),
        )

    def with_boxes(self, xyxy: BoxArray) -> "Detections":
        """The same detections with other boxes."""
        return Detections(
            np.array(xyxy, dtype=np.float32).reshape(-1, 4),
            self.score.copy(),
            self.label.copy(),
            self.source.copy(),
            self.track_id.copy(),
        )

    @classmethod
    def concat(cls, parts: Iterable["Detections"]) -> "Detections":
        """All rows of all parts, in order."""
        items = list(parts)
        if not items:
            return cls.none()
        return cls(
            np.concatenate([d.xyxy for d in items]),
            np.concatenate([d.score for d in items]),
            np.concatenate([d.label for d in items]),
            np.concatenate([d.source for d in items]),
            np.concatenate([d.track_id for d in items]),
        )
