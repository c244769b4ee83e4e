"""Build the published result of a frame. Pure."""

from dataclasses import dataclass
from datetime import datetime

import numpy as np

from edge_agent.resolve import Pending
from pipeline.detections import Detections, Source
from pipeline.results import FrameSize, Models, Origin, Result, ResultDetection, Timings
from pipeline.timing import rfc3339


@dataclass(frozen=True, slots=True)
class Stamp:
    """When and by whom a frame is answered. ``captured_at`` is wall time, for display; ``edge_model`` is the small model
    where the frame itself names none.
    """

    captured_at: datetime
    settled_at_s: float
    now_s: float
    deadline_ms: float
    edge_model: str


def build(pending: Pending, found: Detections, stamp: Stamp) -> Result:
    """The final result of a frame."""
    t = pending.timings
    ready_at_s = pending.ready_at_s if pending.ready_at_s is not None else stamp.settled_at_s
    analysed = pending.origin is not Origin.CARRIED
    return Result(
        camera=pending.key.camera,
        epoch=pending.key.epoch,
        seq=pending.key.seq,
        captured_at=rfc3339(stamp.captured_at),
        media_ms=_rounded(pending.media_ms),
        revision=0,
        final=True,
        origin=pending.origin.value,
        reason=pending.reason,
        frame=FrameSize(pending.size.width, pending.size.height),
        detections=_rows(found),
        timings_ms=Timings(
            wait=_rounded(t.wait_ms),
            gate=_rounded(t.gate_ms),
            edge=_rounded(t.edge_ms),
            encode=_rounded(t.encode_ms),
            network=_rounded(t.network_ms),
            cloud_queue=_rounded(t.cloud_queue_ms),
            cloud_infer=_rounded(t.cloud_infer_ms),
            resolve=_rounded((stamp.now_s - ready_at_s) * 1000),
            total=_rounded((stamp.now_s - pending.captured_at_s) * 1000),
        ),
        deadline_ms=stamp.deadline_ms,
        deadline_met=stamp.now_s <= pending.deadline_s,
        models=Models((pending.edge_model or stamp.edge_model) if analysed else None, pending.cloud_model),
        bytes_up=pending.bytes_up,
    )


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 2)


def _rows(found: Detections) -> list[ResultDetection]:
    finite = np.isfinite(found.xyxy).all(axis=1) & np.isfinite(found.score)
    rows = []
    for i in np.flatnonzero(finite):
        x1, y1, x2, y2 = (round(float(v), 1) for v in found.xyxy[i])
        track = int(found.track_id[i])
        rows.append(
            ResultDetection(
                label=str(found.label[i]),
                score=round(float(found.score[i]), 3),
                box=(x1, y1, x2, y2),
                track_id=track if track >= 0 else None,
                source=Source(str(found.source[i])).value,
            )
        )
    return rows
