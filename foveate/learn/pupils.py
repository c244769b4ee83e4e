"""What the service knows of one camera that learns, in memory and on disk."""

import asyncio
import logging
import shutil
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import msgspec

from edge_agent.status.snapshot import LearningPoint, LearningStatus
from foveate.learn.folders import TAUGHT_FILE, WEIGHTS_FILE, CameraFolders, Taught, replace_file
from foveate.learn.history import History
from foveate.learn.memory import LearnerMemory, read_memory, write_memory
from foveate.learn.release import named
from foveate.learn.settings import LearnSettings, ways
from foveate.learn.subject import Look, Subject
from foveate.learn.telling import status_of
from foveate.learn.values import AttemptOrder, GeneralModel, LearnedModel, Outcome, decode, encode
from foveate.learn.world import World
from foveate.training.order import Progress
from pipeline.policies.enough import LessonSummary
from pipeline.policies.learners import LastTry, Learner, enough_to_learn
from pipeline.timing import rfc3339

_log = logging.getLogger(__name__)
ORDER_FILE = "attempt.json"


@dataclass(frozen=True, slots=True)
class Terms:
    """What holds for all cameras: the agent's name, the settings, and the general model."""

    agent: str
    settings: LearnSettings
    general: GeneralModel


class Pupil:
    """One camera that learns."""

    def __init__(self, subject: Subject, state_dir: Path, terms: Terms, world: World) -> None:
        self.subject, self._terms, self._world = subject, terms, world
        self.folders = CameraFolders(state_dir, subject.name)
        self.history = History(self.folders.history_file)
        self.memory = LearnerMemory()
        self.training: Progress | None = None
        self.waits_for = ""
        self._summary = LessonSummary()
        self._enough = enough_to_learn(self._summary)
        self._writing = asyncio.Lock()
        self._order: AttemptOrder | None = None

    @property
    def name(self) -> str:
        return self.subject.name

    @property
    def now_s(self) -> float:
        """Wall time in Unix seconds."""
        return self._world.now().timestamp()

    def recall(self) -> None:
        """Go on from what an earlier run has kept; blocks."""
        self.memory = read_memory(self.folders.memory_file)
        self.history.recall()

    async def survey(self) -> tuple[Learner, str]:
        """Look at the lessons and the camera anew; and why it is to learn again, where that is news."""
        subject, now_s = self.subject, self.now_s
        look, overview = subject.look(), subject.overview()
        self._summary, self._enough = overview.summary, enough_to_learn(overview.summary)
        news = ""
        if look.drifted != self.memory.drift_seen:
            await self.keep(self.memory.noticed(drifted=look.drifted, now_s=now_s))
            news = look.reason if look.drifted else ""
        drifted_at_s = self.memory.drifted_at_s
        learner = Learner(
            camera=self.name,
            lessons=self._summary.lessons,
            missing=self._enough.reason if self._enough.way == "wait" else "",
            last=self.memory.last,
            drifted_at_s=drifted_at_s,
            since_drift=0 if drifted_at_s is None else overview.since(drifted_at_s),
            in_use=look.own,
            on_trial=look.candidate is not None,
            to_win=_to_win(look),
        )
        return learner, news

    def status(self, unusable: str) -> LearningStatus:
        """How its learning stands; ``unusable`` says why nothing can be learned at all."""
        waits = unusable or self.waits_for
        return status_of(self.subject.look(), self._summary.lessons, self._enough, self.memory, self.training, waits)

    def point(self) -> LearningPoint:
        """What is to be drawn of this minute."""
        look = self.subject.look()
        return LearningPoint(
            at=rfc3339(self._world.now()),
            lessons=self._summary.lessons,
            agreement=look.agreement,
            uplink_kbit_s=look.uplink_kbit_s,
            look_ms=look.look_ms,
            model=look.current,
        )

    def order(self, start_from: Path | None) -> AttemptOrder:
        """What is asked of an attempt now."""
        subject, memory, settings = self.subject, self.memory, self._terms.settings
        way = self._enough.way
        return AttemptOrder(
            camera=self.name,
            lessons=self.folders.lessons,
            folder=self.folders.attempt,
            general=self._terms.general,
            ways=ways(settings.way, "adapt" if way == "wait" else way),
            objects=subject.objects,
            threshold=subject.threshold,
            threads=settings.threads,
            time_limit_s=settings.time_limit_s,
            most_ms=settings.most_ms,
            seed=memory.attempts,
            current=memory.looking(subject.look().current),
            start_from=start_from,
            changed_at_s=memory.changed_at_s,
        )

    def begin(self, order: AttemptOrder) -> None:
        """Note an attempt, so that another run can go on with it; blocks. Raises OSError.

        What another attempt has left behind goes first: two of them must never share lessons or checkpoints.
        """
        self._order = order
        if self.unfinished() != order:
            clear(self.folders.attempt)
        replace_file(self.folders.attempt / ORDER_FILE, encode(order))

    def unfinished(self) -> AttemptOrder | None:
        """The attempt that an earlier run has left, if it was at the same general model; blocks."""
        try:
            order = decode((self.folders.attempt / ORDER_FILE).read_bytes(), AttemptOrder)
        except (OSError, msgspec.MsgspecError):
            return None
        return order if order.general == self._terms.general else None

    async def learned(self, outcome: Outcome) -> Outcome:
        """Take in what an attempt came to; the outcome with its model where it stays. Raises OSError."""
        now = self._world.now()
        kept: Outcome = await self._world.aside(keep_outcome, self.folders, outcome, self._terms.agent, now)
        done = self._done(outcome.in_words(), outcome.lessons, accepted=outcome.accepted)
        await self._end(msgspec.structs.replace(done, way=outcome.way, unreleased=outcome.accepted))
        return kept

    async def failed(self, why: str) -> None:
        """Take in that an attempt has broken down."""
        await self._end(self._done(why, self._summary.lessons, accepted=False, faulty=True))

    async def _end(self, memory: LearnerMemory) -> None:
        """Remember what an attempt came to, and only then forget the attempt: a power cut between makes it anew."""
        await self.keep(memory)
        await self._world.aside(clear, self.folders.attempt)

    def _done(self, in_words: str, lessons: int, *, accepted: bool, faulty: bool = False) -> LearnerMemory:
        """The memory once an attempt has come to its end."""
        drifted_at_s = self.memory.drifted_at_s
        # A drift that was noticed meanwhile is still to be met: what was learned is of the scene before.
        knew = self._order is not None and self._order.changed_at_s == self.memory.changed_at_s
        since_drift = self.subject.overview().since(drifted_at_s) if drifted_at_s is not None and knew else 0
        return msgspec.structs.replace(
            self.memory,
            last=LastTry(self.now_s, lessons, accepted=accepted, faulty=faulty, since_drift=since_drift),
            in_words=in_words,
            drifted_at_s=None if accepted and knew else drifted_at_s,
            attempts=self.memory.attempts + 1,
        )

    async def released(self, model: LearnedModel) -> None:
        """Take in that a model was released."""
        await self.keep(self.memory.with_release(model, self.subject.look().current))

    async def keep(self, memory: LearnerMemory) -> None:
        """Remember; what cannot be written is told, and remembered for this run alone."""
        self.memory = memory
        try:
            async with self._writing:  # a survey and an attempt may both have something to remember
                await self._world.aside(write_memory, self.folders.memory_file, self.memory)
        except OSError as error:
            _log.warning("what %s has learned is not remembered: %s", self.name, error)


def keep_outcome(folders: CameraFolders, outcome: Outcome, agent: str, now: datetime) -> Outcome:
    """Write what an attempt came to, with its model beside it under the name that it is released by; blocks."""
    if outcome.model is not None:
        model = named(outcome.model, agent, outcome.camera, now)
        file = folders.learn / f"{model.entry.version}.onnx"
        replace_file(file, outcome.model.file.read_bytes())
        weights = outcome.model.file.with_name(WEIGHTS_FILE)
        if outcome.way == "own" and weights.is_file():
            # What is said of the weights is written first: it may be too much for older ones, and never too little.
            replace_file(folders.student / TAUGHT_FILE, encode(Taught(camera=outcome.camera, to=outcome.learned_to)))
            replace_file(folders.student / WEIGHTS_FILE, weights.read_bytes())
        for older in folders.learn.glob("*.onnx"):
            if older != file and older not in read_memory(folders.memory_file).files:
                older.unlink(missing_ok=True)
        outcome = msgspec.structs.replace(outcome, model=msgspec.structs.replace(model, file=file))
    replace_file(folders.outcome_file, encode(outcome))
    return outcome


def clear(attempt: Path) -> None:
    """Forget an attempt that has come to its end; blocks."""
    shutil.rmtree(attempt, ignore_errors=True)


def _to_win(look: Look) -> float:
    """Looks per second whose answer a better model could put right; half of them where nobody knows."""
    disagreement = 0.5 if look.agreement is None else 1.0 - look.agreement
    return look.analysed_fps * disagreement
