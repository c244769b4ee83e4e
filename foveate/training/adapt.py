"""The general model, adapted to one camera: fewer classes, the input that suits it, weights tuned on its lessons.

Where few people pass an empty place, a network that knows nothing would learn these few by heart. The general model
knows what a person is; what it lacks is how this camera shows one, and what the larger model says of it.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import cv2
import msgspec
import numpy as np
import onnx
import torch

from edge_agent.lessons.lesson import Lesson
from foveate.training import hardware
from foveate.training.blend import blend
from foveate.training.dataset import split_by_time
from foveate.training.fit import Desk
from foveate.training.input_size import choose, sizes
from foveate.training.nanodet_calibration import calibrate
from foveate.training.nanodet_judge import detect, ordering, standing
from foveate.training.nanodet_proof import prove
from foveate.training.nanodet_samples import Scored, prepare, thinned
from foveate.training.onnx_graph import OnnxNetwork, read_model, with_weights
from foveate.training.order import BaseModel, Order, Progress, Say, Trained
from foveate.training.prune import keep_classes, with_labels
from foveate.training.search import median_ms
from foveate.training.tune import TuneSettings, Tuning
from pipeline.detectors.contract import HeightWidth, ModelEntry
from pipeline.detectors.loading import load_file
from pipeline.errors import ConfigError, ModelError
from pipeline.frames import Image
from pipeline.geometry import Size
from pipeline.timing import Clock, MonotonicClock

PLAN, SMALLER, MODEL = "plan.json", "smaller.onnx", "model.onnx"
HEAD = "nanodet"
LEAST_LESSONS, LEAST_OBJECTS = 20, 20
LOOKS_AFTER = 10
"""Time that is left for blending, calibration and proof, in looks at the judged lessons: they take about eight."""
CHOOSING_SHARE = 0.2
"""Share of the time limit after which no further input is tried."""
MOST_TRIED, MOST_JUDGED, PROVEN_PICTURES = 160, 100, 4
"""Lessons that an input is chosen by, that a check looks at, and that the file is proven on."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The input that has been decided on; ``about`` tells its training from others, so that a restart goes on."""

    about: str
    input_px: HeightWidth


@dataclass(frozen=True, slots=True, eq=False)
class _Subject:
    """A network in training: its contract, and the lessons it learns from and is judged by at its input."""

    network: OnnxNetwork
    contract: ModelEntry
    labels: tuple[str, ...]
    learned: Scored
    judged: Scored

    def stands(self) -> float:
        """How well it stands as it is."""
        found = detect(self.network, self.contract, self.judged.samples.pictures, self.labels)
        return standing(found, self.judged, self.labels)


def train(
    lessons: Sequence[Lesson],
    order: Order,
    say: Say,
    settings: TuneSettings | None = None,
    clock: Clock | None = None,
) -> Trained:
    """Adapt as ordered; what a former start of the same training has left in ``order.folder`` is gone on with.

    Raises ConfigError where there is nothing to start from or too little to learn from, ModelError where the model
    cannot be trained, none of its inputs fits the time asked for, or the file does not do what was trained.
    """
    clock, settings = clock or MonotonicClock(), settings or TuneSettings()
    begun_s = clock.now_s()
    learned, judged = split_by_time(lessons)
    base = _checked(learned, order)
    order.folder.mkdir(parents=True, exist_ok=True)
    hardware.use_threads(order.threads)
    cv2.setNumThreads(1)
    torch.manual_seed(order.seed)
    say(Progress(doing="choosing an input", done=0.0))
    model = _smaller(base, order)
    network, about = OnnxNetwork(model), _about(learned, order, base, settings)
    input_px = _plan(about, network, learned, order, base, clock).input_px
    contract = _contract(base.entry, order, input_px)
    parts = (prepare(part, order.labels, contract.input, input_px) for part in (learned, thinned(judged, MOST_JUDGED)))
    subject = _Subject(network, contract, order.labels, *parts)
    figures = _tune(subject, order, settings, Desk(order.folder, about, clock, order.time_limit_s, say), begun_s)
    path, contract = _write(subject, model, order.folder / MODEL)
    return Trained(
        file=path,
        entry=contract,
        labels=order.labels,
        input_size=input_px,
        figures={"lessons": float(len(learned)), "judged": float(len(judged)), **figures},
        train_s=max(figures["spent_s"], clock.now_s() - begun_s),
    )


def _tune(subject: _Subject, order: Order, settings: TuneSettings, desk: Desk, begun_s: float) -> dict[str, float]:
    """Tune, blend and calibrate within the rest of the desk's time; what was seen on the way."""
    network, general = subject.network, subject.network.copy()
    looked_s = desk.clock.now_s()
    stood = subject.stands()
    after_s = LOOKS_AFTER * (desk.clock.now_s() - looked_s)
    limit_s = max(desk.time_limit_s - (desk.clock.now_s() - begun_s) - after_s, 1.0)
    tuning = Tuning(network, subject.contract, (subject.learned, subject.judged), subject.labels, settings, order.seed)
    tuned = tuning.run(replace(desk, time_limit_s=limit_s))
    desk.say(Progress(doing="blending, calibrating and proving", done=1.0, left_s=after_s))
    blended = blend(network, general, stood, subject.stands)
    return {
        "steps": float(tuned.steps),
        "spent_s": tuned.spent_s,
        "tuned_share": blended.share,
        "stands_general": stood,
        "stands": blended.stands,
        **calibrate(network, subject.contract, subject.learned.thinned(MOST_JUDGED), subject.judged, subject.labels),
    }


def _write(subject: _Subject, model: Any, path: Path) -> tuple[Path, ModelEntry]:
    """Write the weights back into their model, and prove the file on the newest lessons learned from."""
    weights = {name: value.numpy() for name, value in subject.network.copy().items()}
    onnx.save(with_weights(model, weights), path)
    contract = _signed(subject.contract, path, len(subject.learned))
    prove(subject.network, path, contract, subject.learned.samples.pictures[-PROVEN_PICTURES:])
    return path, contract


def _checked(learned: Sequence[Lesson], order: Order) -> BaseModel:
    """The model to start from. Raises ConfigError that says what is missing."""
    base = order.base
    if base is None:
        raise ConfigError(f"No general model is named to adapt for camera {order.camera}: give the order a base.")
    if base.entry.output.head != HEAD:
        raise ConfigError(
            f"The general model {base.entry.name!r} has the output head {base.entry.output.head!r}, and only "
            f"{HEAD!r} can be adapted: train a model of the camera's own."
        )
    if foreign := [label for label in order.labels if label not in base.labels]:
        raise ConfigError(
            f"The general model {base.entry.name!r} knows no class {foreign[0]!r}, which camera {order.camera} is to "
            "learn: leave it out, or train a model of the camera's own."
        )
    for label in order.labels:
        objects = sum(int((lesson.known.label == label).sum()) for lesson in learned)
        if objects < LEAST_OBJECTS or len(learned) < LEAST_LESSONS:
            raise ConfigError(
                f"{len(learned)} lessons with {objects} objects of class {label!r} are too few to adapt a model to "
                f"camera {order.camera}: {LEAST_LESSONS} lessons and {LEAST_OBJECTS} objects of each class are needed; "
                "collect more."
            )
    if not order.labels:
        raise ConfigError(f"No class is named to learn for camera {order.camera}: give the order labels.")
    return base


def _smaller(base: BaseModel, order: Order) -> Any:
    """The general model with the ordered classes alone."""
    output = base.entry.output
    kept = [base.labels.index(label) for label in order.labels]
    scores = output.outputs[: len(output.strides)]
    return with_labels(keep_classes(read_model(base.file), scores, output.classes, kept), order.labels)


def _plan(
    about: str, network: OnnxNetwork, learned: Sequence[Lesson], order: Order, base: BaseModel, clock: Clock
) -> Plan:
    """The input to train for: the one that a former start has chosen, else chosen now and written down."""
    file = order.folder / PLAN
    try:
        plan = msgspec.json.decode(file.read_bytes(), type=Plan)
    except (OSError, msgspec.MsgspecError):
        plan = None
    if plan is not None and plan.about == about:
        return plan
    until_s = clock.now_s() + CHOOSING_SHARE * order.time_limit_s
    shown = learned[-1]
    candidates = sizes(
        Size(shown.picture.shape[1], shown.picture.shape[0]), base.input_size, base.entry.input.stride_px
    )
    if order.most_ms is not None:
        frame = np.full((shown.window.height, shown.window.width, 3), 127, np.uint8)
        candidates = _in_time(candidates, order, base, frame, clock)

    def stands(size: HeightWidth) -> float:
        contract = _contract(base.entry, order, size)
        tried = prepare(thinned(learned, MOST_TRIED), order.labels, contract.input, size)
        return ordering(detect(network, contract, tried.samples.pictures, order.labels), tried, order.labels)

    plan = Plan(about=about, input_px=choose(candidates, stands, lambda: clock.now_s() < until_s)[0].input_px)
    file.write_bytes(msgspec.json.encode(plan))
    return plan


def _in_time(
    candidates: Sequence[HeightWidth], order: Order, base: BaseModel, frame: Image, clock: Clock
) -> list[HeightWidth]:
    """The inputs at which the model takes no longer than asked for, for frames like this on one thread here."""
    file = order.folder / SMALLER
    onnx.save(_smaller(base, order), file)
    times = {}
    for size in candidates:
        contract = _signed(_contract(base.entry, order, size), file, 0)
        detector = load_file(file, contract, label_file=None, input_size=size, threads=1)
        times[size] = median_ms(lambda detector=detector: detector.detect([frame], 0.3), clock)  # type: ignore[misc]
    fitting = [size for size in candidates if order.most_ms is None or times[size] <= order.most_ms]
    if not fitting:
        fastest = min(times, key=lambda size: times[size])
        raise ModelError(
            f"The general model {base.entry.name!r} takes at least {times[fastest]:.2f} ms per picture on this "
            f"machine, at {fastest[0]}x{fastest[1]}, and camera {order.camera} is allowed {order.most_ms:g} ms: allow "
            "more time, or train a model of the camera's own."
        )
    return fitting


def _contract(entry: ModelEntry, order: Order, input_px: HeightWidth) -> ModelEntry:
    """The general model's contract with fewer classes and another usual input."""
    largest = (max(entry.input.largest_px[0], input_px[0]), max(entry.input.largest_px[1], input_px[1]))
    return msgspec.structs.replace(
        entry,
        name=f"{order.camera}-adapted",
        labels=None,
        measured={},
        input=msgspec.structs.replace(entry.input, size_px=input_px, largest_px=largest),
        output=msgspec.structs.replace(entry.output, classes=len(order.labels)),
    )


def _signed(contract: ModelEntry, path: Path, lessons: int) -> ModelEntry:
    """The contract with a file's hash; its version is the beginning of it."""
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    source = f"{contract.source}; adapted on {lessons} lessons"
    return msgspec.structs.replace(contract, file=path.name, sha256=digest, version=digest[:12], source=source)


def _about(learned: Sequence[Lesson], order: Order, base: BaseModel, settings: TuneSettings) -> str:
    """What tells one training from another: what is learned, from what, and how."""
    parts = [order.camera, order.labels, order.seed, order.most_ms, base.entry.sha256, base.input_size, settings]
    times = [lesson.taken_at.isoformat() for lesson in learned]
    return hashlib.sha256(repr([parts, times]).encode()).hexdigest()
