"""What the gain of the cloud depends on: features of each segment of 5 s, and the product's gain there.

The features are those of Yoda (Xiao et al., "Towards Performance Clarity of Edge Video Analytics", SEC 2021).
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import spearmanr

from foveate.bench.bootstrap import SEGMENT_S, f1
from foveate.bench.report_page.measures import System
from foveate.bench.report_page.records import SceneRecord

FEATURES = ("count", "area", "speed", "arrivals", "idle")
LEAST_OBJECTS = 10
"""In fewer sightings a segment's F1 is chance."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A segment: mean count, mean area as a share of the frame, speed as 1/IoU of consecutive boxes, arrivals per
    second, share of idle frames; and by how much F1 is higher with the cloud than without.
    """

    number: int
    clip: str
    count: float
    area: float
    speed: float
    arrivals: float
    idle: float
    gain: float


def segments(scene: Sequence[SceneRecord], with_cloud: System, without: System) -> list[Segment]:
    """The segments in which there is something to be seen."""
    frames: defaultdict[int, list[SceneRecord]] = defaultdict(list)
    for frame in scene:
        frames[int(frame.at_s / SEGMENT_S)].append(frame)
    ours, theirs = with_cloud.segments(), without.segments()
    out = []
    for number, inside in sorted(frames.items()):
        if sum(frame.count for frame in inside) < LEAST_OBJECTS or number not in ours or number not in theirs:
            continue
        speeds = [frame.speed for frame in inside if frame.speed is not None]
        areas = [frame.area for frame in inside if frame.count]
        out.append(
            Segment(
                number,
                inside[len(inside) // 2].clip,
                float(np.mean([frame.count for frame in inside])),
                float(np.mean(areas)),
                float(np.mean(speeds)) if speeds else 1.0,
                sum(frame.arrivals for frame in inside) / SEGMENT_S,
                float(np.mean([frame.idle for frame in inside])),
                float(f1(ours[number]) - f1(theirs[number])),
            )
        )
    return out


def rank_correlation(found: Sequence[Segment], feature: str) -> float:
    """Spearman's, of a feature and the gain; NaN where there is nothing to rank."""
    values, gains = [getattr(each, feature) for each in found], [each.gain for each in found]
    if len(found) < 3 or len(set(values)) < 2 or len(set(gains)) < 2:
        return float("nan")
    return float(spearmanr(values, gains).statistic)
