"""What each setting would cost and bring on a recording, and which one meets a budget."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from edge_agent.arms import with_arm
from edge_agent.candidates import as_candidates
from edge_agent.settings import CameraSettings
from foveate.calibrate.recording import Recording
from foveate.calibrate.replay import Looked, Replay, whole_frame
from foveate.models.scoring import as_truth, score
from pipeline.detections import Detections
from pipeline.geometry import BoxArray, coverage
from pipeline.metrics.matching import Score
from pipeline.policies.crop_arms import CropArm
from pipeline.policies.gain import GainModel
from pipeline.policies.offload import OVERHEAD_BYTES, Adaptive, OffloadDecision, OffloadView, crops

LEAST_GAINS = (0.0, 0.01, 0.02, 0.04, 0.08, 0.15, 0.3, 1.0)
"""What is tried; nothing is asked about at 1."""


@dataclass(frozen=True, slots=True)
class Budget:
    """What a setting must keep to; None is no limit. ``agreement`` is an F1 against the larger model."""

    kbps: float | None = None
    deadline_ms: float | None = None
    agreement: float | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """One setting on the recording: the share of the analysed frames asked about, kbit/s, milliseconds from capture to
    the answer of the larger model (the network's own delay left out), and agreement with it.
    """

    least_gain: float
    asked: float
    kbps: float
    ms: float
    agreement: float

    def excess(self, budget: Budget) -> float:
        """By how much the budget is missed, as a share of it, where it is missed most; 0 where it is met."""
        over = [0.0]
        if budget.kbps is not None:
            over.append(self.kbps / budget.kbps - 1)
        if budget.deadline_ms is not None:
            over.append(self.ms / budget.deadline_ms - 1)
        if budget.agreement is not None:
            over.append(1 - self.agreement / budget.agreement)
        return max(over)


def rows(
    recording: Recording, settings: CameraSettings, model: GainModel, arm: CropArm, kbps: float | None
) -> list[Row]:
    """What every setting comes to; ``kbps`` is the rate at which its pictures would travel (None: at once)."""
    return [_row(recording, with_arm(settings, arm), model, arm, least, kbps) for least in LEAST_GAINS]


def cheapest_wanted(budget: Budget) -> bool:
    """Whether nothing but an agreement is asked for, if that: what goes beyond it is of no use."""
    return budget.kbps is None and budget.deadline_ms is None


def choose(table: Sequence[Row], budget: Budget) -> Row | None:
    """The setting that meets the budget with the highest agreement, or where only that is asked for, the cheapest."""
    met = [row for row in table if row.excess(budget) <= 0]
    if not met:
        return None
    if cheapest_wanted(budget):
        return min(met, key=lambda row: row.kbps)
    return max(met, key=lambda row: (row.agreement, -row.kbps))


def nearest(table: Sequence[Row], budget: Budget) -> Row:
    """The setting that misses the budget by the least."""
    return min(table, key=lambda row: row.excess(budget))


def _row(
    recording: Recording,
    settings: CameraSettings,
    model: GainModel,
    arm: CropArm,
    least_gain: float,
    kbps: float | None,
) -> Row:
    policy = Adaptive(replace(settings.offload, least_gain=least_gain))
    if least_gain >= 1:
        policy = Adaptive(replace(policy.settings, full_frame_s=0.0))
    replay, agreement, sizes = Replay(settings), Score(), []
    full_frame_s = recording.frames[0].scene_s
    for frame in recording.frames:
        entry = replay.observe(frame)
        known = replay.survey(frame, entry, model)
        places = as_candidates(known.places, known.gain, settings.candidates, due_only=True)
        view = OffloadView(places, float("inf"), {}, {}, None, frame.scene_s - full_frame_s, reachable=True)
        decision = policy.decide(view)
        if decision.kind == "frame":
            full_frame_s = frame.scene_s
        if decision.kind != "none":
            regions = _regions(decision, frame, settings)
            replay.correct(frame, _inside(frame.cloud, regions), regions)
            sizes.append(_size_bytes(decision, regions, recording, arm))
        agreement += score(replay.published(frame), as_truth(frame.cloud, 0.0))
    cost, mean_bytes = recording.cost, sum(sizes) / max(len(sizes), 1)
    travel_ms = 0.0 if kbps is None else mean_bytes * 8 / kbps
    return Row(
        least_gain=least_gain,
        asked=len(sizes) / len(recording.frames),
        kbps=sum(sizes) * 8 / 1000 / recording.duration_s,
        ms=cost.edge_ms + (cost.draw_ms + travel_ms + cost.cloud_ms if sizes else 0.0),
        agreement=agreement.f1,
    )


def _regions(decision: OffloadDecision, frame: Looked, settings: CameraSettings) -> BoxArray:
    if decision.kind == "frame":
        return whole_frame(frame.size)
    return crops(decision.places, settings.offload, frame.size)


def _inside(found: Detections, regions: BoxArray) -> Detections:
    """What the larger model would have seen in the regions: of its look at the whole frame, what lies in one."""
    return found.select(coverage(found.xyxy, regions).max(axis=1, initial=0.0) >= 0.5)


def _size_bytes(decision: OffloadDecision, regions: BoxArray, recording: Recording, arm: CropArm) -> float:
    if decision.kind == "frame":
        return recording.cost.frame_bytes
    shown_px = float(((regions[:, 2] - regions[:, 0]) * (regions[:, 3] - regions[:, 1])).sum())
    return OVERHEAD_BYTES + shown_px * recording.bytes_per_px[arm]
