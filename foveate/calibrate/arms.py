"""How well and how cheaply each way of drawing crops shows the larger model the same places."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from cloud_worker.model_runner import decode_jpeg
from cloud_worker.replies import per_crop
from edge_agent.arms import with_arm
from edge_agent.fusion import merge_crops
from edge_agent.gate import jpeg
from edge_agent.settings import CameraSettings
from pipeline.detections import Detections
from pipeline.detectors.base import Detector
from pipeline.frames import Image
from pipeline.geometry import Size
from pipeline.mosaic import Layout, pack, regions_xyxy, render, shown_px, to_frame, to_rects, whole_frame
from pipeline.policies.crop_arms import ArmRecord, CropArm
from pipeline.policies.offload import Candidate, crops
from pipeline.policies.outcomes import agreement_at

_LOSSLESS = 95
"""JPEG quality from which nobody sees a loss."""


@dataclass(frozen=True, slots=True)
class Cloud:
    """The larger model, and the score that its detections must reach."""

    detector: Detector
    min_score: float


def send(cloud: Cloud, layout: Layout, data: bytes) -> Detections:
    """What the larger model sees on a picture as it is sent, in frame pixels."""
    image = decode_jpeg(memoryview(data), layout.size)
    if image is None:
        raise RuntimeError(f"a JPEG of {layout.size} that was just encoded cannot be decoded")
    found = cloud.detector.detect([image], cloud.min_score)[0]
    replies = per_crop(found, layout.crops, cloud.min_score)
    parts = [to_frame(crop, reply) for crop, reply in zip(layout.crops, replies, strict=True)]
    return merge_crops(parts, regions_xyxy(layout))


class ArmTrial:
    """Shows the same places to the larger model by every arm, and compares with its look at the whole frame, which has
    the size that whole frames are sent in, and hardly a loss.
    """

    def __init__(self, settings: CameraSettings, cloud: Cloud, arms: Iterable[CropArm]) -> None:
        self._settings, self._cloud = settings, cloud
        self.records: dict[CropArm, ArmRecord] = {arm: ArmRecord() for arm in arms}
        self._shown_px = dict.fromkeys(self.records, 0)

    def look(self, image: Image, places: tuple[Candidate, ...]) -> None:
        """Try every arm on the places of a frame, at least one."""
        size = Size(image.shape[1], image.shape[0])
        asked = np.array([place.box for place in places], np.float32)
        images = self._settings.images
        whole = whole_frame(size, images.frame_width_px, images.frame_height_px)
        reference = send(self._cloud, whole, jpeg(render(image, whole), _LOSSLESS))
        for arm, record in self.records.items():
            settings = with_arm(self._settings, arm)
            layout = pack(to_rects(crops(places, settings.offload, size), size), settings.mosaic)
            data = jpeg(render(image, layout), arm.quality)
            score = agreement_at(asked, send(self._cloud, layout, data), reference)
            counts = (score.true_positives, score.false_positives, score.false_negatives)
            self.records[arm] = record.add(*counts, len(data))
            self._shown_px[arm] += shown_px(layout)

    @property
    def bytes_per_px(self) -> Mapping[CropArm, float]:
        """Bytes per pixel of the frame that each arm shows."""
        return {arm: record.size_bytes / max(self._shown_px[arm], 1) for arm, record in self.records.items()}
