"""From detections in the sent picture to a reply: each detection goes home to its crop."""

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from msgspec import structs

from cloud_worker.jobs import Job, ReplyAddress
from pipeline.detections import Detections
from pipeline.geometry import coverage
from pipeline.wire.codec import encode_reply
from pipeline.wire.messages import AnswerSource, Echo, Refusal, Reply, Request, WireCrop, WireDetection

DETAIL_CHARACTERS = 400
LEAST_INSIDE = 0.65
"""A box with less of its area than this inside its crop was seen across a gap: only the mosaic joins the two."""


@dataclass(frozen=True, slots=True)
class Durations:
    """Where a request's time in this worker went so far, in milliseconds."""

    queue_ms: float = 0.0
    batch_wait_ms: float = 0.0
    infer_ms: float = 0.0
    total_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class Sealed:
    """A reply ready to send; ``refused`` is None for an answer."""

    payload: bytes
    refused: Refusal | None


@dataclass(frozen=True, slots=True)
class ReplyWriter:
    """Writes replies in the name of one worker. ``versions`` are those of the served models."""

    worker: str
    versions: Mapping[str, str]

    def answer(
        self, job: Job, found: Detections, spent: Durations, batch_size: int, source: AnswerSource = "run"
    ) -> Sealed:
        """The reply with detections; a refusal where they cannot be put on the wire."""
        request = job.request
        reply = self._reply(
            request.key,
            request.model,
            spent,
            detections=per_crop(found, request.crops, request.min_score),
            batch_size=batch_size,
        )
        try:
            return Sealed(encode_reply(structs.replace(reply, source=source)), None)
        except ValueError as error:
            return self.refusal(job.address, request, Refusal.FAILED, f"the answer cannot be sent: {error}", spent)

    def refusal(
        self, address: ReplyAddress, request: Request | None, refused: Refusal, detail: str, spent: Durations
    ) -> Sealed:
        """The reply that says why there are no detections.

        Where the header cannot be read or repeated, the key is the agent of the reply topic and ``-`` as camera: the
        correlation data tells which request it was.
        """
        if request is not None:
            reply = self._reply(request.key, request.model, spent, refused=refused, detail=detail)
            with contextlib.suppress(ValueError):
                return Sealed(encode_reply(reply), refused)
        reply = self._reply((address.agent, "-", 0, 0), "", spent, refused=refused, detail=detail)
        return Sealed(encode_reply(reply), refused)

    def echo(self, address: ReplyAddress, echo: Echo) -> bytes:
        """The reply to a probe."""
        return encode_reply(self._reply((address.agent, "-", 0, echo.echo), "", Durations()))

    def _reply(
        self,
        key: tuple[str, str, int, int],
        model: str,
        spent: Durations,
        *,
        detections: Sequence[list[WireDetection]] = (),
        batch_size: int = 0,
        refused: Refusal | None = None,
        detail: str = "",
    ) -> Reply:
        agent, camera, epoch, seq = key
        return Reply(
            agent=agent,
            camera=camera,
            epoch=epoch,
            seq=seq,
            worker=self.worker,
            model=model,
            model_version=self.versions.get(model, ""),
            detections=list(detections),
            queue_ms=spent.queue_ms,
            batch_wait_ms=spent.batch_wait_ms,
            infer_ms=spent.infer_ms,
            total_ms=spent.total_ms,
            batch_size=batch_size,
            refused=refused,
            detail=detail[:DETAIL_CHARACTERS],
        )


def per_crop(found: Detections, crops: Sequence[WireCrop], min_score: float) -> list[list[WireDetection]]:
    """Detections per crop, in the order of ``crops``, boxes ``xyxy`` cut to the crop and in its pixels.

    ``found`` is in pixels of the sent picture. A detection belongs to the crop that holds its centre; one whose
    centre lies in a gap, or that has over a third of its area outside its crop, is dropped, and so is one that is not
    finite or below ``min_score``.
    """
    result: list[list[WireDetection]] = [[] for _ in crops]
    sound = np.isfinite(found.xyxy).all(axis=1) & (found.score >= min_score) & (found.score <= 1)
    found = found.select(sound & (found.xyxy[:, 2:] > found.xyxy[:, :2]).all(axis=1))
    if len(found) == 0 or not crops:
        return result
    placed = np.array([crop.placed for crop in crops], dtype=np.float32)
    tiles = np.concatenate([placed[:, :2], placed[:, :2] + placed[:, 2:]], axis=1)
    centre = (found.xyxy[:, :2] + found.xyxy[:, 2:]) / 2
    holds = np.all((centre[:, None] >= tiles[None, :, :2]) & (centre[:, None] < tiles[None, :, 2:]), axis=2)
    inside = coverage(found.xyxy, tiles)
    homes = np.argmax(holds, axis=1)
    own_share = np.take_along_axis(inside, homes[:, None], axis=1)[:, 0]
    rows = np.flatnonzero(np.any(holds, axis=1) & (own_share >= LEAST_INSIDE))
    corners = tiles[homes[rows]]
    origin = corners[:, [0, 1, 0, 1]]
    boxes = np.clip(found.xyxy[rows], origin, corners[:, [2, 3, 2, 3]]) - origin
    labels, scores = found.label[rows].tolist(), found.score[rows].tolist()
    for home, label, score, (x1, y1, x2, y2) in zip(homes[rows].tolist(), labels, scores, boxes.tolist(), strict=True):
        if x2 > x1 and y2 > y1:
            result[home].append(WireDetection(str(label), score, (x1, y1, x2, y2)))
    return result
