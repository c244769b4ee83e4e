"""The work on one frame as plain functions: what the stages run on the pools, and what a plain loop can call."""

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from edge_agent.gate import jpeg
from edge_agent.region_of_interest import RegionOfInterest, paint_over
from edge_agent.settings import CameraSettings
from edge_agent.tracking.history import Entry, Tracker, analysed_answer, carried_answer
from pipeline.detections import Detections
from pipeline.detectors.base import Detector
from pipeline.frames import Frame
from pipeline.geometry import Size
from pipeline.mosaic import Layout, MosaicSettings, pack, render, to_rects, whole_frame
from pipeline.policies.offload import OffloadDecision, crops
from pipeline.wire.messages import WireCrop


def wanted(found: Detections, settings: CameraSettings, region: RegionOfInterest | None) -> Detections:
    """The detections of the camera's objects inside its region of interest."""
    if settings.objects and len(found):
        found = found.select(np.isin(found.label, sorted(settings.objects)))
    return region.keep(found) if region is not None else found


def look(detector: Detector, frame: Frame, settings: CameraSettings, region: RegionOfInterest) -> Detections:
    """What the small model sees in the region of interest, in frame pixels."""
    x1, y1, x2, y2 = region.window.xyxy
    found = detector.detect([frame.image[y1:y2, x1:x2]], settings.tracker.low_score)[0]
    if x1 or y1:
        found = found.with_boxes(found.xyxy + np.array([x1, y1, x1, y1], np.float32))
    return wanted(found, settings, region)


def drawn_scale(mosaic: MosaicSettings, factor: float) -> float:
    """The scale of crops that are shrunk by a factor in (0, 1], not below their least one."""
    return max(mosaic.scale * factor, min(mosaic.scale, mosaic.least_scale))


def draw(
    frame: Frame, decision: OffloadDecision, settings: CameraSettings, scale_factor: float = 1.0
) -> tuple[Layout, bytes]:
    """Render and encode what a decision sends: the mosaic of its places, or the whole frame at low quality.

    ``scale_factor`` in (0, 1] shrinks it further, crops not below their least scale. Where a tier that may be asked
    gets masked crops alone, what the masks hide is painted over in all that is drawn: who answers is chosen later.
    """
    images = settings.images
    image = paint_over(frame.image, settings.masks) if settings.privacy.masks else frame.image
    if decision.kind == "frame":
        sides = (round(images.frame_width_px * scale_factor), round(images.frame_height_px * scale_factor))
        layout = whole_frame(frame.size, *sides)
        return layout, jpeg(render(image, layout), images.frame_quality)
    mosaic = replace(settings.mosaic, scale=drawn_scale(settings.mosaic, scale_factor))
    layout = pack(to_rects(crops(decision.places, settings.offload, frame.size), frame.size), mosaic)
    return layout, jpeg(render(image, layout), images.mosaic_quality)


def masked(kind: str, crops: Iterable[WireCrop], size: Size, settings: CameraSettings) -> bool:
    """Whether a picture of a frame of ``size``, as ``draw`` makes it, shows nothing that a mask hides, and nothing but
    crops: one that is as large as the frame is a whole frame, whatever it is called.
    """
    whole = kind == "frame" or any(crop.region == (0, 0, size.width, size.height) for crop in crops)
    return settings.privacy.masks and bool(settings.masks) and not whole


def answer(
    tracker: Tracker,
    entry: Entry | None,
    scene_s: float,
    size: Size,
    settings: CameraSettings,
    most_fps: float | None = None,
) -> Detections:
    """What to publish: for an analysed frame by its entry, for another one from the tracks at its time.

    ``most_fps`` (above 0) is what the sample rate is lowered to.
    """
    if entry is not None:
        return analysed_answer(entry, size, settings.tracker)
    tracks, analysed_at_s = tracker.at(scene_s)
    # A frame is due, and is kept, at the latest after this; boxes that were moved for longer are guesses.
    longest_gap_s = max(settings.change.max_gap_s, 1.0 / min(settings.sample_fps, most_fps or settings.sample_fps))
    if scene_s - analysed_at_s > 1.5 * longest_gap_s + settings.tracker.coast_s:
        return Detections.none()
    return carried_answer(tracks, analysed_at_s, size, settings.tracker)
