"""A playlist as the baselines see it: both models' answers on every frame, sizes as JPEG, and small grey pictures."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import cv2
import numpy as np
from numpy.typing import NDArray

from edge_agent.gate import BASELINE_QUALITY, jpeg
from foveate.bench.playlist import Clip, Playlist
from foveate.bench.reference import LARGE, SMALL, Say, detections, frames
from foveate.bench.report_page.records import SceneRecord
from foveate.bench.streaming import SURE_SCORE, Shown, frames_shown
from pipeline.detections import Detections
from pipeline.geometry import Size, area, iou
from pipeline.metrics.matching import match

SHRINK = 4
"""The grey pictures are so many times smaller; a change of few pixels is left in them, and noise is not."""
CHANGED_LEVEL = 21
"""A pixel has changed when it differs by more, of 255: the default of Li et al., Reducto (SIGCOMM 2020), its code."""
IDLE_SHARE = 0.001
"""A frame is idle when a smaller share of its pixels has changed since the one before."""
PUBLISH_SCORE = 0.4
"""What the small model must reach to be believed where nothing else is known."""

Grey = NDArray[np.uint8]


@dataclass(frozen=True, slots=True, eq=False)
class ClipFacts:
    """Of every frame of a clip: bytes as JPEG, a small grey picture; and the size of all frames."""

    jpeg_bytes: tuple[int, ...]
    grey: tuple[Grey, ...]
    size: Size


@dataclass(frozen=True, slots=True, eq=False)
class Work:
    """Every frame of a playlist in order: when it is captured, what it shows, what both models see of its label."""

    playlist: Playlist
    captured_s: tuple[float, ...]
    shown: tuple[Shown, ...]
    small: tuple[Detections, ...]
    large: tuple[Detections, ...]
    jpeg_bytes: tuple[int, ...]
    grey: tuple[Grey, ...]
    size: tuple[Size, ...]
    h264_bytes: float

    @property
    def duration_s(self) -> float:
        """From the first frame to the end of the last."""
        return self.captured_s[-1] + 1 / self.shown[-1].clip.fps


@lru_cache(maxsize=8)
def clip_facts(clip: Clip) -> ClipFacts:
    """Read a clip once. Raises SourceError."""
    sizes, grey, shape = [], [], (0, 0)
    for image in frames(clip.path):
        shape = image.shape[:2]
        sizes.append(len(jpeg(image, BASELINE_QUALITY)))
        small = cv2.resize(image, (shape[1] // SHRINK, shape[0] // SHRINK), interpolation=cv2.INTER_AREA)
        grey.append(np.asarray(cv2.blur(cv2.cvtColor(small, cv2.COLOR_BGR2GRAY), (3, 3)), np.uint8))
    return ClipFacts(tuple(sizes), tuple(grey), Size(shape[1], shape[0]))


def load_work(playlist: Playlist, say: Say) -> Work:
    """All that the baselines need to know of a playlist. Raises SourceError and ModelError."""
    captured_s, start_s, h264_bytes = list[float](), 0.0, 0.0
    small, large, sizes, grey, size = list[Detections](), list[Detections](), list[int](), list[Grey](), list[Size]()
    for part in playlist.parts:
        clip, facts = part.clip, clip_facts(part.clip)
        chosen = range(len(facts.jpeg_bytes))[part.first :][: part.frames]
        captured_s += [start_s + n / clip.fps for n in range(len(chosen))]
        start_s += len(chosen) / clip.fps
        small += _chosen(detections(clip.path, SMALL, say), chosen, clip.label, 0.0)
        large += _chosen(detections(clip.path, LARGE, say), chosen, clip.label, SURE_SCORE)
        sizes += [facts.jpeg_bytes[n] for n in chosen]
        grey += [facts.grey[n] for n in chosen]
        size += [facts.size] * len(chosen)
        h264_bytes += clip.h264_bytes(len(chosen))
    shown = frames_shown(playlist, say)
    found = tuple(small), tuple(large)
    return Work(playlist, tuple(captured_s), tuple(shown), *found, tuple(sizes), tuple(grey), tuple(size), h264_bytes)


def _chosen(found: Sequence[Detections], chosen: range, label: str, least: float) -> list[Detections]:
    return [found[n].select((found[n].label == label) & (found[n].score >= least)) for n in chosen]


def changed_share(now: Grey, before: Grey) -> float:
    """The share of the pixels that differ; 1 between pictures of different size."""
    if now.shape != before.shape:
        return 1.0
    return float(np.count_nonzero(cv2.absdiff(now, before) > CHANGED_LEVEL)) / now.size


def scenes(work: Work) -> list[SceneRecord]:
    """What each frame shows, after Yoda (Xiao et al., 2021): what the speed of video analytics depends on.

    Objects are followed by overlap alone, so a fast one counts as gone and come.
    """
    out = []
    for seq, frame in enumerate(work.shown):
        boxes = frame.truth.xyxy[~frame.truth.ignored]
        previous = work.shown[seq - 1] if seq and work.shown[seq - 1].clip is frame.clip else None
        before = boxes[:0] if previous is None else previous.truth.xyxy[~previous.truth.ignored]
        pairs = match(boxes, before, 0.1)
        overlaps = [float(iou(boxes[i : i + 1], before[j : j + 1])[0, 0]) for i, j in pairs]
        picture = work.size[seq].width * work.size[seq].height
        idle = previous is not None and changed_share(work.grey[seq], work.grey[seq - 1]) < IDLE_SHARE
        out.append(
            SceneRecord(
                seq=seq,
                at_s=work.captured_s[seq],
                clip=frame.clip.name,
                count=len(boxes),
                area=float(area(boxes).mean()) / picture if len(boxes) else 0.0,
                speed=float(np.mean([1 / overlap for overlap in overlaps])) if overlaps else None,
                arrivals=len(boxes) - len(pairs) if previous is not None else 0,
                idle=idle,
            )
        )
    return out
