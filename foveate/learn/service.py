"""Has the cameras of an agent learn: watches their lessons, trains one at a time, judges, releases what is accepted."""

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path

import msgspec

from edge_agent.status.snapshot import LearningPoint, LearningStatus
from foveate.learn.folders import earlier_student
from foveate.learn.history import EVERY_S
from foveate.learn.pupils import Pupil, Terms, clear
from foveate.learn.subject import Subject
from foveate.learn.telling import parting
from foveate.learn.values import AttemptOrder
from foveate.learn.world import World
from foveate.training.order import Progress
from pipeline.errors import ConfigError, FoveateError, ModelError
from pipeline.policies.learners import LearnersSettings, Next, next_learner

_log = logging.getLogger(__name__)


class LearnService:
    """See the module. Everything is kept below ``state_dir``; ``unusable`` says why nothing can be trained at all."""

    def __init__(
        self, subjects: Sequence[Subject], state_dir: Path, terms: Terms, world: World, unusable: str = ""
    ) -> None:
        self._terms, self._world, self._state_dir = terms, world, state_dir
        settings = terms.settings
        self._limits = LearnersSettings(again_after_s=settings.retrain_hours * 3600, growth=settings.growth)
        self._pupils = {subject.name: Pupil(subject, state_dir, terms, world) for subject in subjects}
        self._unusable = unusable

    def status(self, camera: str) -> LearningStatus | None:
        """How a camera's learning stands, for the page; None where it does not learn."""
        pupil = self._pupils.get(camera)
        return None if pupil is None else pupil.status(self._unusable)

    def curve(self, camera: str) -> Sequence[LearningPoint]:
        """How a camera's learning has gone."""
        pupil = self._pupils.get(camera)
        return () if pupil is None else pupil.history.points

    def part(self) -> None:
        """Say at the end of a run what cameras without a model can go on with; looks at the disk."""
        for pupil in self._pupils.values():
            if said := parting(pupil.status(self._unusable), pupil.name, left_off=pupil.unfinished() is not None):
                self._world.say(said)

    async def run(self) -> None:
        """Learn until cancelled; no fault of it ever reaches a camera."""
        for pupil in self._pupils.values():
            await self._world.aside(pupil.recall)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._remember(), name="learn/history")
            tasks.create_task(self._watch(), name="learn/watch")
            tasks.create_task(self._learn(), name="learn")

    async def _remember(self) -> None:
        """A point of each camera's curve every minute."""
        while True:
            await asyncio.sleep(EVERY_S)
            for pupil in self._pupils.values():
                pupil.history.add(pupil.point())
                await self._world.aside(pupil.history.save)

    async def _watch(self) -> None:
        """Keep what is known of the cameras fresh while one of them is trained."""
        while True:
            await asyncio.sleep(self._terms.settings.check_every_s)
            if any(pupil.training is not None for pupil in self._pupils.values()):
                await self._survey()

    async def _learn(self) -> None:
        if self._unusable:  # said now, not once there are lessons enough
            self._world.say(f"lessons are taken, but {self._unusable}")
        for pupil in () if self._unusable else self._pupils.values():
            order = await self._world.aside(pupil.unfinished)
            if order is None:
                await self._world.aside(clear, pupil.folders.attempt)
                continue
            await self._survey()
            self._world.say(f"{pupil.name} goes on with what it was learning")
            await self._attempt(pupil, order)
        while True:
            for pupil in self._pupils.values():
                if pupil.memory.unreleased:
                    await self._release(pupil)
                    # It is on its way to the camera: until it is there, nothing seems to be on trial.
                    await asyncio.sleep(self._terms.settings.check_every_s)
            found = await self._survey()
            if found.camera is None or self._unusable:
                await asyncio.sleep(self._terms.settings.check_every_s)
                continue
            self._world.say(f"{found.camera} learns: {found.reason}")
            pupil = self._pupils[found.camera]
            start_from = await self._world.aside(earlier_student, self._state_dir, pupil.name)
            await self._attempt(pupil, pupil.order(start_from))

    async def _survey(self) -> Next:
        learners = []
        for pupil in self._pupils.values():
            learner, news = await pupil.survey()
            learners.append(learner)
            if news:
                self._world.say(f"{pupil.name} is to learn again: {news}")
        found = next_learner(learners, self._world.now().timestamp(), self._limits)
        for camera, waits_for in found.waiting.items():
            self._pupils[camera].waits_for = waits_for
        return found

    async def _attempt(self, pupil: Pupil, order: AttemptOrder) -> None:
        """One attempt and what follows from it; a fault is a sentence, and is tried again later."""
        pupil.training = Progress(doing="gathering its lessons", done=0.0)

        def say(progress: Progress) -> None:
            pupil.training = progress

        try:
            await self._world.aside(pupil.begin, order)
            outcome = await pupil.learned(await self._world.attempt(order, say))
            self._world.say(f"{pupil.name}: {outcome.in_words()}")
        except (FoveateError, OSError) as error:
            await pupil.failed(str(error))
            self._world.say(f"{pupil.name} did not learn: {error}")
            if isinstance(error, ConfigError):  # PyTorch is missing, say: another try would end the same way
                self._unusable = str(error)
        finally:
            pupil.training = None

    async def _release(self, pupil: Pupil) -> None:
        """Release an accepted model; where the broker is at fault it is tried again at the next turn."""
        outcome = await self._world.aside(pupil.folders.outcome)
        try:
            if outcome is not None and outcome.model is not None:
                released = await self._world.release(outcome)
                self._world.say(f"{pupil.name}: {released} is released, to be proven beside the model that looks now")
                await pupil.released(outcome.model)
                return
        except ModelError as error:  # there is no such model to release, now or ever
            self._world.say(f"{pupil.name}: {error}")
        except (FoveateError, OSError) as error:
            _log.warning("%s: %s", pupil.name, error)
            return
        await pupil.keep(msgspec.structs.replace(pupil.memory, unreleased=False))
