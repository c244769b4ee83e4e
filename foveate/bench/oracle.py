"""A baseline that nobody can build: it asks about the frames where it knows that the answer will mend the most.

It works as the product does, with the same small model, tracker, crops and fusion, and differs in the choice alone. It
knows what the larger model would say, and the truth. It is greedy: what an answer does for later frames it does not
weigh, so it is a high bar and no strict bound.
"""

from collections import deque
from dataclasses import dataclass, field, replace

import numpy as np

from edge_agent.candidates import as_candidates
from edge_agent.frame_work import draw
from edge_agent.gate import Gate
from edge_agent.settings import CameraSettings
from edge_agent.tracking.history import Entry
from foveate.bench.baseline_work import Work
from foveate.bench.baselines import Way
from foveate.bench.gain import Quota
from foveate.bench.played import Answer, Played, Sent, socket_bytes
from foveate.bench.playlist import shown
from foveate.bench.service_times import ServiceTimes
from foveate.bench.streaming import State, score_state
from foveate.bench.virtual import default_camera
from foveate.calibrate.replay import Looked, Replay, whole_frame
from pipeline.detections import Detections
from pipeline.frames import Frame, FrameKey, Image
from pipeline.geometry import BoxArray, coverage
from pipeline.policies.gain import PRIOR
from pipeline.policies.offload import OffloadDecision, crops
from pipeline.results import Origin

SEEN_COVERAGE = 0.9
"""So much of an object must lie in a region that was sent for it to be seen there."""


@dataclass(slots=True)
class _Oracle:
    """One run: what was asked and has not come back, and what was published."""

    work: Work
    way: Way
    settings: CameraSettings
    edge_s: float
    deadline_s: float
    replay: Replay
    under_way: deque[tuple[float, Looked, BoxArray]] = field(default_factory=deque)
    answers: list[Answer] = field(default_factory=list)
    sent: list[Sent] = field(default_factory=list)

    def until(self, now_s: float) -> None:
        """Take in the answers that are there; each one's own frame is answered by it where it is in time."""
        while self.under_way and self.under_way[0][0] <= now_s:
            there_s, frame, regions = self.under_way.popleft()
            within = coverage(frame.cloud.xyxy, regions).max(axis=1, initial=0.0) >= SEEN_COVERAGE
            in_time = there_s <= frame.scene_s + self.deadline_s
            if not in_time:
                self.publish(frame, frame.scene_s + self.deadline_s, self.replay.published(frame), Origin.EDGE_TIMEOUT)
            self.replay.correct(frame, frame.cloud.select(within), regions)
            if in_time:
                self.publish(frame, there_s, self.replay.published(frame), Origin.FUSED)

    def mended(self, frame: Looked, entry: Entry) -> float:
        """The errors that asking about the whole frame would mend on it."""
        seen = self.work.shown[frame.seq]
        before, after = (
            score_state(_state(frame.seq, 0.0, found), seen) for found in self.replay.what_if_asked(frame, entry)
        )
        return (before.false_positives + before.false_negatives) - (after.false_positives + after.false_negatives)

    def ask(self, frame: Looked, entry: Entry, image: Image, now_s: float) -> None:
        """Send the crops of a frame, or all of it where there is nothing to cut out."""
        survey = self.replay.survey(frame, entry, PRIOR)
        places = as_candidates(survey.places, survey.gain, self.settings.candidates, due_only=False)
        decision = OffloadDecision("mosaic" if places else "frame", "oracle", places)
        key = FrameKey(self.settings.name, 0, frame.seq)
        layout, data = draw(Frame(key, image, frame.scene_s, None), decision, self.settings)
        regions = crops(places, self.settings.offload, frame.size) if places else whole_frame(frame.size)
        pixels = layout.size.width * layout.size.height
        there_s = self.way.ask(len(data), len(frame.cloud), now_s, pixels)
        self.under_way.append((there_s, frame, regions))
        self.sent.append(Sent(frame.seq, now_s, socket_bytes(len(data))))

    def publish(self, frame: Looked, at_s: float, found: Detections, origin: Origin) -> None:
        """Publish an answer of a frame."""
        cloud = origin is Origin.FUSED
        self.answers.append(Answer(_state(frame.seq, at_s, found), origin.value, cloud))


def _state(seq: int, at_s: float, found: Detections) -> State:
    return State(seq, at_s, {str(label): found.xyxy[found.label == label] for label in np.unique(found.label)})


def oracle(work: Work, way: Way, times: ServiceTimes, share: float, deadline_s: float, sample_fps: float) -> Played:
    """Ask about the best ``share`` of the frames that are analysed. Reads the pictures of the playlist."""
    camera = replace(default_camera(work.playlist, deadline_s * 1000), sample_fps=sample_fps)
    state = _Oracle(work, way, camera, times.edge.median_s, deadline_s, Replay(camera))
    gate, quota, looks, clip, due_s = Gate(camera), Quota(share), 0, "", 0.0
    for seq, (at_s, image) in enumerate(shown(work.playlist)):
        state.until(at_s)
        if work.shown[seq].clip.name != clip:
            clip = work.shown[seq].clip.name
            gate = Gate(camera)
            gate.fit(work.size[seq])
        motion = gate.look(image, at_s).motion
        small = work.small[seq].select(work.small[seq].score >= camera.tracker.low_score)
        frame = Looked(seq, at_s, work.size[seq], small, work.large[seq], motion)
        if at_s < due_s - 1e-6:
            state.publish(frame, at_s, state.replay.carried(at_s, frame.size), Origin.CARRIED)
            continue
        due_s, looks = at_s + 1 / sample_fps, looks + 1
        entry, now_s = state.replay.observe(frame), at_s + state.edge_s
        worth = state.mended(frame, entry)
        if quota.take(worth) and worth > 0:
            state.ask(frame, entry, image, now_s)
        else:
            state.publish(frame, now_s, state.replay.published(frame), Origin.EDGE)
    state.until(float("inf"))
    answers = tuple(sorted(state.answers, key=lambda answer: answer.state.published_s))
    captured_s = dict(enumerate(work.captured_s))
    uplink_bytes = sum(question.size_bytes for question in state.sent)
    return Played(answers, captured_s, tuple(state.sent), uplink_bytes, looks * state.edge_s, way.work_s)
