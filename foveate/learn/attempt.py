"""One attempt at a model for a camera: split its lessons, train, judge, and try the other way if need be."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

import cv2

from foveate.learn.folders import knows
from foveate.learn.judge import CpuClock, Judge, Judgement
from foveate.learn.lesson_files import LessonFiles, Parts, wanted_labels
from foveate.learn.models import base_model, learned_model, load_general, load_learned
from foveate.learn.training_process import train
from foveate.learn.twin import eight_bit_twin
from foveate.learn.values import AttemptOrder, LearnedModel, Outcome, Tried
from foveate.training.order import Order, Progress, Say, Trained, Way
from pipeline.detectors.base import Detector
from pipeline.errors import ModelError
from pipeline.policies.acceptance import JudgedFigures
from pipeline.timing import Clock, rfc3339, wall_time

Train = Callable[[Order, Path, Say], Awaitable[Trained]]
TWIN_LOSS = 0.005
"""F1 that the 8-bit build may lose against the float one and still be taken for its speed."""
TWIN_TIME = 0.9
"""Of the float build's time, which a small network's 8-bit build does not always win."""


class Attempt:
    """Carries out an order. ``trainer`` is what trains, a process of its own unless another one is given."""

    def __init__(self, order: AttemptOrder, say: Say, trainer: Train | None = None, clock: Clock | None = None) -> None:
        self._order, self._say, self._train = order, say, trainer or train
        self._clock, self._files = clock or CpuClock(), LessonFiles(order.folder)

    async def go(self) -> Outcome:
        """Try the ways in order until a model is accepted. Raises FoveateError where nothing can be tried at all."""
        order = self._order
        parts = await asyncio.to_thread(self._files.part, order.lessons, order.changed_at_s)
        labels = wanted_labels(parts.learned_labels, order.objects)
        tried: list[Tried] = []
        model: LearnedModel | None = None
        for way in order.ways if labels and parts.learned and parts.judged else ():
            result, model = await self._try(way, parts, labels)
            tried.append(result)
            if model is not None:
                break
        return Outcome(
            camera=order.camera,
            at=rfc3339(wall_time()),
            lessons=parts.lessons,
            judged=parts.judged,
            tried=tuple(tried),
            learned_from=parts.learned_from,
            learned_to=parts.learned_to,
            teacher=parts.teacher,
            model=model,
            fault="" if tried else f"its {parts.lessons} lessons hold nothing to learn from and to be judged by",
        )

    async def _try(self, way: Way, parts: Parts, labels: tuple[str, ...]) -> tuple[Tried, LearnedModel | None]:
        order = self._order
        asked = Order(
            way=way,
            camera=order.camera,
            labels=labels,
            folder=order.folder / way,
            seed=order.seed,
            time_limit_s=order.time_limit_s,
            threads=order.threads,
            most_ms=order.most_ms,
            base=base_model(order.general),
            start_from=self._start(parts) if way == "own" else None,
        )
        try:
            trained = await self._train(asked, self._files.learned, self._say)
        except ModelError as error:
            return Tried(way=way, accepted=False, reasons=(str(error),)), None
        self._say(Progress(doing="judging the model on lessons that it has never seen", done=1.0))
        return await asyncio.to_thread(self._judge, way, trained, parts)

    def _start(self, parts: Parts) -> Path | None:
        """The weights to start from, unless they have been taught by lessons that are to judge."""
        student = self._order.start_from
        return None if student is None or knows(student, self._order.camera, parts.judged_from) else student

    def _judge(self, way: Way, trained: Trained, parts: Parts) -> tuple[Tried, LearnedModel | None]:
        """Judge a model in both builds, and take the faster one of those that are accepted; blocks."""
        order = self._order
        counted = tuple(dict.fromkeys([*trained.labels, *wanted_labels(parts.judged_labels, order.objects)]))
        cv2.setNumThreads(1)  # a look is to be timed on one thread
        judge = Judge(self._files.read_judged(), counted, order.threshold, self._clock)
        builds = {"float": learned_model(trained)}
        detectors = [load_learned(builds["float"])]
        try:
            twin = eight_bit_twin(builds["float"], self._files.learned)
            detectors.append(load_learned(twin))
            builds["8 bits"] = twin
        except ModelError as error:  # it can be done without
            self._say(Progress(doing=f"no 8-bit build: {error}", done=1.0))
        judgements = judge.judge(detectors, self._rivals())
        name, judgement = better_build(dict(zip(builds, judgements, strict=True)))
        figures = figures_of(judgement) | {f"train_{key}": value for key, value in trained.figures.items()}
        result = Tried(
            way=way,
            accepted=judgement.acceptance.accepted,
            reasons=judgement.acceptance.reasons,
            build=name,
            figures=figures,
            train_s=trained.train_s,
        )
        return result, builds[name] if result.accepted else None

    def _rivals(self) -> list[Detector]:
        current = self._order.current
        rivals: list[Detector] = [load_general(self._order.general)]
        try:
            return rivals if current is None else [*rivals, load_learned(current)]
        except ModelError as error:  # the rollout compares them all the same, in the agent, which has a file of its own
            self._say(Progress(doing=f"judged beside the general model alone: {error}", done=1.0))
            return rivals


def better_build(judged: Mapping[str, Judgement]) -> tuple[str, Judgement]:
    """Of the float build, the first, and perhaps the 8-bit one: the latter where it wins, or alone is accepted."""
    (name, first), *twins = judged.items()
    mine = first.trained
    for twin, judgement in twins:
        its = judgement.trained
        as_good = mine.f1 - its.f1 <= TWIN_LOSS and mine.best_f1 - its.best_f1 <= TWIN_LOSS
        wins = as_good and its.median_ms < TWIN_TIME * mine.median_ms
        if judgement.acceptance.accepted and (wins or not first.acceptance.accepted):
            return twin, judgement
    return name, first


def figures_of(judgement: Judgement) -> dict[str, float]:
    """The figures of a judgement by name: the model's own, and the rivals' with their number."""
    grounds = judgement.grounds
    figures: dict[str, float] = {
        "judged_pictures": grounds.pictures,
        "judged_with_objects": grounds.with_objects,
        "judged_objects": grounds.objects,
        **_named(judgement.trained, ""),
    }
    for number, one in enumerate(judgement.rivals):
        prefix = "general_" if number == 0 else "current_"
        figures |= _named(one.rival, prefix)
        bounds = {"f1_gain": one.at_threshold.value, "f1_gain_low": one.at_threshold.low}
        figures |= {f"{prefix}{name}": round(value, 4) for name, value in bounds.items() if value == value}
    return figures


def _named(figures: JudgedFigures, prefix: str) -> dict[str, float]:
    values = {
        "f1": figures.f1,
        "best_f1": figures.best_f1,
        "ece": figures.ece,
        "overconfidence": figures.overconfidence,
        "blind_share": figures.blind_share,
        "median_ms": figures.median_ms,
    }
    values |= {f"f1_{label}": one.f1 for label, one in figures.classes.items()}
    return {f"{prefix}{name}": round(value, 4) for name, value in values.items()}
