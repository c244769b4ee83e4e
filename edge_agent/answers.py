"""Read what the cloud says of a frame, and build its published result. Pure."""

from dataclasses import dataclass, replace
from datetime import datetime

import msgspec
import numpy as np

from edge_agent.fusion import merge_crops
from edge_agent.questions import Answer
from edge_agent.resolve import Pending
from pipeline.detections import Detections, Source
from pipeline.geometry import Size
from pipeline.mosaic import Layout, regions_xyxy, to_frame
from pipeline.results import FrameSize, Models, Origin, Result, ResultDetection, Timings
from pipeline.timing import rfc3339


@dataclass(frozen=True, slots=True)
class Stamp:
    """When a frame is answered. ``captured_at`` is wall time, for display."""

    captured_at: datetime
    settled_at_s: float
    now_s: float
    deadline_ms: float


def with_answer(pending: Pending, answer: Answer) -> Pending:
    """The frame with what its answer of the cloud makes of it."""
    reply = answer.reply
    return replace(
        pending,
        origin=Origin.CLOUD if answer.question.kind == "frame" else Origin.FUSED,
        timings=replace(
            pending.timings,
            network_ms=answer.network_ms,
            cloud_queue_ms=reply.queue_ms,
            cloud_infer_ms=reply.infer_ms,
        ),
        cloud_model=answer.model,
        tier=answer.tier,
        better_to_come=answer.more,
    )


def all_seen(answer: Answer) -> Detections:
    """What the larger model saw in the crops of one picture, in frame pixels."""
    question = answer.question
    parts = [to_frame(crop, found) for crop, found in zip(question.crops, answer.reply.detections, strict=False)]
    size = Size(question.frame_width, question.frame_height)
    return merge_crops(parts, regions_xyxy(Layout(size, question.crops)))


def revise(before: Result, pending: Pending, found: Detections, stamp: Stamp) -> Result | None:
    """The next revision of a result; None where it would show nothing else.

    What was promised for the frame was kept, or not, by its first result: the deadline is that one's.
    """
    after = build(pending, found, stamp)
    if after.detections == before.detections:
        return None
    return msgspec.structs.replace(
        after, revision=before.revision + 1, captured_at=before.captured_at, deadline_met=before.deadline_met
    )


def build(pending: Pending, found: Detections, stamp: Stamp, *, final: bool = True) -> Result:
    """The result of a frame; ``final`` where no revision can follow."""
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
        final=final,
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
        models=Models(pending.edge_model if analysed else None, pending.cloud_model),
        bytes_up=pending.bytes_up,
        tier=pending.tier.value,
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
