"""The systems that Foveate is held against on the same frames, over the same network model.

They are loops over dense answers that were computed before, not programs; what a camera does for them costs no time,
which favours them. An answer travels as the product's does: up the link, through a worker that takes one question
after another, and down.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from random import Random
from typing import Literal

import numpy as np

from edge_agent.tracking.history import Tracker, carried_answer
from edge_agent.tracking.tracks import TrackerSettings
from foveate.bench.baseline_work import PUBLISH_SCORE, Work
from foveate.bench.played import Answer, Played, Sent, socket_bytes
from foveate.bench.service_times import ServiceTimes
from foveate.bench.streaming import State
from pipeline.detections import Detections
from pipeline.network.link import Link
from pipeline.network.profiles import Profile
from pipeline.results import Origin

FRAME_PX = 416 * 576
"""The picture that the larger model makes of a whole frame."""
REPLY_BYTES, REPLY_BYTES_PER_BOX = 200, 40
COAST_S = 5.0
"""So long a baseline that follows objects goes on without an answer about them."""

Fill = Literal["nothing", "hold", "velocity", "change"]
"""What is answered between answers of the cloud: nothing, the last one, or the last one moved along; with ``change``
only up to the newest frame that was wanted, since after that nothing moves.
"""
Wants = Callable[[int], bool]
"""Whether a frame is to be sent, asked once about each frame in order that can be sent."""


class Way:
    """Up the link, through the worker, and down again. ``network`` None: no time passes on the way.

    ``times`` None: the worker takes no time.
    """

    def __init__(self, network: Profile | None, times: ServiceTimes | None, seed: int) -> None:
        self._up: Link | None
        self._down: Link | None
        self._up, self._down = (None, None) if network is None else network.links(0.0)
        self._times, self._rng = times, Random(seed)
        self._free_s = self.work_s = 0.0

    def ask(self, payload_bytes: int, boxes: int, now_s: float, pixels: int = FRAME_PX) -> float:
        """Send a question now, later than all before; the moment at which its answer is there."""
        at_s = _over(self._up, payload_bytes, now_s)
        if self._times is not None:
            taken_s = self._times.cloud_s(pixels, self._rng)
            self.work_s += taken_s
            self._free_s = max(at_s + self._times.decode.draw_s(self._rng), self._free_s) + taken_s
            at_s = self._free_s
        return _over(self._down, REPLY_BYTES + REPLY_BYTES_PER_BOX * boxes, at_s)


def _over(link: Link | None, size_bytes: int, now_s: float) -> float:
    return now_s if link is None else link.transmit(size_bytes, now_s)


@dataclass(frozen=True, slots=True)
class Rules:
    """How a baseline asks: so many questions at once at most (None: no limit), the newest frame when there is room
    (else those that find none are lost), given up after ``timeout_s``; and what it answers in between.
    """

    fill: Fill
    in_flight: int | None = 2
    timeout_s: float | None = None


@dataclass(slots=True)
class _Asking:
    """A baseline at work: questions under way, and what was published."""

    work: Work
    way: Way
    rules: Rules
    answers: list[Answer] = field(default_factory=list)
    sent: list[Sent] = field(default_factory=list)
    under_way: deque[tuple[float, float, int]] = field(default_factory=deque)
    """Until when a question takes its place, when its answer is there, and its frame."""
    waiting: int | None = None
    newest: int = 0
    wanted_s: float = 0.0
    tracker: Tracker = field(init=False)
    last: Detections = field(default_factory=Detections.none)

    def __post_init__(self) -> None:
        self.tracker = Tracker(_FOLLOWING)

    def take(self, seq: int) -> None:
        """A frame that is to be sent."""
        if self.rules.in_flight is None or len(self.under_way) < self.rules.in_flight:
            self._send(seq, self.work.captured_s[seq])
        else:
            self.waiting = seq

    def until(self, now_s: float) -> None:
        """Let time pass."""
        while self.under_way and min(self.under_way)[0] <= now_s:
            first = min(self.under_way)
            self.under_way.remove(first)
            over_s, there_s, seq = first
            if there_s <= over_s:
                self._take_in(seq, there_s)
            if self.waiting is not None:
                self._send(self.waiting, over_s)
                self.waiting = None

    def fill(self, seq: int, now_s: float) -> None:
        """Answer a frame from what is known now, where the rules say so."""
        self.newest = seq
        if self.rules.fill == "nothing":
            return
        found = self.last
        if self.rules.fill != "hold":
            at_s = self.wanted_s if self.rules.fill == "change" else self.work.captured_s[seq]
            tracks, seen_at_s = self.tracker.at(at_s)
            found = Detections.none()
            if at_s - seen_at_s <= COAST_S:
                found = carried_answer(tracks, seen_at_s, self.work.size[seq], _FOLLOWING)
        self.answers.append(Answer(_state(seq, now_s, found), Origin.CARRIED.value, cloud=False))

    def _send(self, seq: int, now_s: float) -> None:
        size_bytes = self.work.jpeg_bytes[seq]
        there_s = self.way.ask(size_bytes, len(self.work.large[seq]), now_s)
        timeout_s = self.rules.timeout_s
        # Whoever waits longer than a deadline does so for a newer frame's sake, not for this one's.
        over_s = there_s if timeout_s is None else min(there_s, self.work.captured_s[seq] + timeout_s)
        self.under_way.append((max(over_s, now_s), there_s, seq))
        self.sent.append(Sent(seq, now_s, socket_bytes(size_bytes)))

    def _take_in(self, seq: int, at_s: float) -> None:
        found = self.work.large[seq]
        self.answers.append(Answer(_state(seq, at_s, found), Origin.CLOUD.value, cloud=True))
        self.last = found
        self.tracker.observe(seq, self.work.captured_s[seq], found)
        if self.newest > seq:
            self.fill(self.newest, at_s)


_FOLLOWING = replace(TrackerSettings(), publish_score=0.0, coast_s=0.0)
"""All that the larger model saw is followed until its next answer."""


def _state(seq: int, at_s: float, found: Detections) -> State:
    labels = np.unique(found.label).tolist()
    return State(seq, at_s, {label: found.xyxy[found.label == label] for label in labels})


def over_link(work: Work, way: Way, wants: Wants, rules: Rules) -> Played:
    """Play a baseline that sends whole frames as JPEG of quality 80 and has no model of its own."""
    asking = _Asking(work, way, rules)
    for seq, at_s in enumerate(work.captured_s):
        asking.until(at_s)
        wanted = wants(seq)
        if wanted:
            asking.wanted_s = at_s
        asking.fill(seq, at_s)
        if wanted:
            asking.take(seq)
            asking.until(at_s)
    asking.until(float("inf"))
    # An answer by the cloud comes after the one that filled the gap, and corrects it.
    answers = sorted(asking.answers, key=lambda answer: answer.state.published_s)
    captured_s = dict(enumerate(work.captured_s))
    uplink_bytes = sum(question.size_bytes for question in asking.sent)
    return Played(tuple(answers), captured_s, tuple(asking.sent), uplink_bytes, 0.0, way.work_s)


def edge_dense(work: Work, times: ServiceTimes, seed: int) -> Played:
    """The small model on every frame, whose boxes are published as they are."""
    rng, free_s, spent_s, answers = Random(seed), 0.0, 0.0, []
    for seq, at_s in enumerate(work.captured_s):
        took_s = times.edge.draw_s(rng)
        spent_s += took_s
        free_s = max(free_s, at_s) + took_s
        found = work.small[seq].select(work.small[seq].score >= PUBLISH_SCORE)
        answers.append(Answer(_state(seq, free_s, found), Origin.EDGE.value, cloud=False))
    return Played(tuple(answers), dict(enumerate(work.captured_s)), (), 0, spent_s, 0.0)


def every(n: int) -> Wants:
    """Every n-th frame."""
    return lambda seq: seq % n == 0
