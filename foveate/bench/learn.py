"""The group ``learn``: a camera's own model, from the lessons of the first part of a clip, judged on the rest."""

import asyncio
import math
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import Any

import cv2
import msgspec

from edge_agent.lessons.offline import lessons_from
from edge_agent.lessons.store import LessonStore
from edge_agent.settings import CameraSettings
from foveate.bench import canary, learned_uplink
from foveate.bench.learned import Looked, learned_frames, night, side_by_side, teacher_f1
from foveate.bench.main_job import Inputs
from foveate.bench.playlist import BOTTLE, ONE_BY_ONE, VTEST, Clip, Part, Playlist
from foveate.bench.reference import LARGE, SMALL, detections, frames
from foveate.bench.report import Report
from foveate.bench.virtual import default_camera
from foveate.learn.attempt_process import attempt
from foveate.learn.models import load_learned
from foveate.learn.values import AttemptOrder, GeneralModel, LearnedModel, Outcome
from foveate.training.order import Progress, Way
from pipeline.detectors.base import Detector
from pipeline.detectors.loading import load_detector
from pipeline.timing import MonotonicClock

Say = Callable[[str], None]
SEEDS, SHORT_SEEDS = 3, 1
TIME_LIMIT_S, SHORT_TIME_LIMIT_S = 480.0, 120.0
THREADS = 2
TELL_EVERY_S = 15.0
BEGAN = datetime.fromisoformat("2026-06-01T10:00:00+00:00")
"""When the clips are taken to begin; a morning in summer."""


def measure(inputs: Inputs, say: Say) -> Report:
    """Measure the group. The clips are those of the protocol; ``inputs`` says only whether it is to be short.

    Raises SourceError where a clip is absent.
    """
    for clip in (VTEST, BOTTLE, ONE_BY_ONE):
        clip.require()
    cv2.setNumThreads(1)  # what a look takes is told of one thread
    with tempfile.TemporaryDirectory(prefix="foveate-learn-") as folder:
        return _Group(Path(folder), inputs.short, say).measure()


class _Group:
    """One run of the group, in a folder of its own."""

    def __init__(self, folder: Path, short: bool, say: Say) -> None:
        self._folder, self._short, self._say = folder, short, say
        self._clock = MonotonicClock()
        self._general = load_detector(SMALL[0], input_size=SMALL[1], threads=1)

    def measure(self) -> Report:
        figures: dict[str, float] = {}
        details: dict[str, Any] = {"short": self._short}
        found, details["vtest"], own = self._vtest()
        figures |= found
        found, details["bottle"], _ = self._clip(BOTTLE, ("own",))
        figures |= {f"learn_bottle_{name}": found[name] for name in ("gain", "time_ratio") if name in found}
        found, details["one-by-one"], _ = self._clip(ONE_BY_ONE, ("adapt",))
        figures |= {"learn_one_gain": found["gain"]} if found else {}
        if own is not None:
            details["elsewhere"] = self._elsewhere(own)
            found, details["uplink"] = learned_uplink.measure(own, short=self._short, say=self._say)
            figures |= found
        found = canary.measure(self._short, self._say)
        figures |= {name: found[name] for name in ("canary_exposed", "canary_requests", "canary_false")}
        details["canary"] = dict(found)
        return Report(figures, details, tuple(_doubts(figures, details)))

    def _vtest(self) -> tuple[dict[str, float], dict[str, Any], LearnedModel | None]:
        """The busy clip, once per seed; the figures are medians over the seeds."""
        runs, models = [], []
        for seed in range(SHORT_SEEDS if self._short else SEEDS):
            found, detail, model = self._clip(VTEST, ("own",), seed)
            runs.append((found, detail))
            models.append(model)
        seeds = [found | {"seed": number} for number, (found, _) in enumerate(runs)]
        details = {"seeds": seeds, "runs": [detail for _, detail in runs]}
        if any(model is None for model in models):
            return {}, details, next((model for model in models if model is not None), None)
        figures = {
            "learn_f1_gain": median(one["gain"] for one in seeds),
            "learn_time_ratio": median(one["time_ratio"] for one in seeds),
            "learn_gap_closed": median(one["gap_closed"] for one in seeds),
            "learn_train_s": median(one["train_s"] for one in seeds),
        }
        typical = min(range(len(seeds)), key=lambda i: abs(seeds[i]["gain"] - figures["learn_f1_gain"]))
        return figures, details, models[typical]

    def _clip(
        self, clip: Clip, ways: tuple[Way, ...], seed: int = 0
    ) -> tuple[dict[str, float], dict[str, Any], LearnedModel | None]:
        """Learn from the first part of a clip by the product's own attempt, and score its model on the rest."""
        outcome = self._attempt(clip, ways, seed)
        details: dict[str, Any] = {"outcome": outcome.in_words(), "tried": msgspec.to_builtins(outcome.tried)}
        if outcome.model is None:
            return {}, details, None
        models: dict[str, Detector] = {"general": self._general, "learned": load_learned(outcome.model)}
        threshold = lesson_camera(clip).tracker.publish_score
        looked = side_by_side(models, clip, threshold, self._clock, self._say)
        teacher = teacher_f1(clip, self._say)
        details |= {"looked": {name: asdict(one) for name, one in looked.items()}, "teacher_f1": teacher}
        train_s = sum(one.train_s for one in outcome.tried)
        return _figures(looked, teacher) | {"train_s": train_s}, details, outcome.model

    def _attempt(self, clip: Clip, ways: tuple[Way, ...], seed: int) -> Outcome:
        work = self._folder / f"{clip.name}-{seed}"
        lessons = self._lessons(clip)
        self._say(f"learning {clip.name}, seed {seed}")
        order = AttemptOrder(
            camera=clip.name,
            lessons=lessons,
            folder=work,
            general=GeneralModel(name=SMALL[0], input_size=SMALL[1]),
            ways=ways,
            objects=(clip.label,),
            threads=THREADS,
            time_limit_s=SHORT_TIME_LIMIT_S if self._short else TIME_LIMIT_S,
            seed=seed,
        )
        return asyncio.run(attempt(order, self._progress()))

    def _lessons(self, clip: Clip) -> Path:
        """The lessons of the first part of a clip, by the product's own cleaning of the larger model's answers."""
        folder = self._folder / "lessons" / clip.name
        if folder.exists():
            return folder
        count, camera = learned_frames(clip, self._say), lesson_camera(clip)
        seen = detections(clip.path, LARGE, self._say)[:count]
        shown = ((number / clip.fps, image) for number, image in zip(range(count), frames(clip.path), strict=False))
        store = LessonStore(folder)
        for lesson in lessons_from(shown, seen, camera, teacher=LARGE[0], edge=SMALL[0], began=BEGAN):
            store.add(lesson)
        store.close()
        return folder

    def _elsewhere(self, own: LearnedModel) -> dict[str, Any]:
        """What the busy camera's own model is worth at another camera, and at its own by night: where it fails."""
        models: dict[str, Detector] = {"general": self._general, "learned": load_learned(own)}
        threshold = lesson_camera(VTEST).tracker.publish_score
        self._say("the model of one camera at another, and by night")
        at_other = side_by_side(models, ONE_BY_ONE, threshold, self._clock, self._say)
        by_night = side_by_side(models, VTEST, threshold, self._clock, self._say, night())
        return {
            "another_camera": {name: asdict(one) for name, one in at_other.items()},
            "night": {name: asdict(one) for name, one in by_night.items()},
        }

    def _progress(self) -> Callable[[Progress], None]:
        """Tells of a training about once in so many seconds."""
        told_s = [float("-inf")]

        def say(progress: Progress) -> None:
            now_s = self._clock.now_s()
            if now_s - told_s[0] >= TELL_EVERY_S:
                told_s[0] = now_s
                left = "" if progress.left_s is None else f", about {progress.left_s:.0f} s left"
                self._say(f"{progress.doing}, {progress.done:.0%}{left}")

        return say


def lesson_camera(clip: Clip) -> CameraSettings:
    """The product's default camera, with the clip's objects."""
    return replace(default_camera(Playlist(clip.name, (Part(clip),))), name=clip.name)


def _figures(looked: Mapping[str, Looked], teacher: float) -> dict[str, float]:
    """How the learned model stands against the general one; F1 at the best threshold of each."""
    general, learned = looked["general"], looked["learned"]
    gap = teacher - general.best_f1
    figures = {"gain": learned.best_f1 - general.best_f1, "time_ratio": learned.ms / general.ms}
    return figures | {"gap_closed": figures["gain"] / gap if gap > 0 else math.nan}


def _doubts(figures: Mapping[str, float], details: Mapping[str, Any]) -> list[str]:
    """What speaks against the figures."""
    doubts = [f"{name} is not a number" for name, value in figures.items() if not math.isfinite(value)]
    attempts = {"bottle": [details["bottle"]], "one-by-one": [details["one-by-one"]], "vtest": details["vtest"]["runs"]}
    return doubts + [
        f"{clip} has no model to measure: {detail['outcome']}"
        for clip, of_clip in attempts.items()
        for detail in of_clip
        if "looked" not in detail
    ]
