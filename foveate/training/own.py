"""A small network of a camera's own, learned from its lessons."""

import hashlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import cv2
import msgspec
import torch

from edge_agent.lessons.lesson import Lesson
from foveate.training import hardware
from foveate.training.confidence import calibration_error, error_on_unseen, fit_platt, verdicts
from foveate.training.dataset import Samples, prepare, split_by_time
from foveate.training.export import entry, write
from foveate.training.fit import Desk, FitSettings, Fitting, load, save
from foveate.training.judge import detect
from foveate.training.network import Student, StudentShape
from foveate.training.order import Order, Progress, Say, Trained
from foveate.training.proof import proven
from foveate.training.search import measure, search, usual
from pipeline.detectors.contract import HeightWidth, ModelEntry
from pipeline.errors import ConfigError
from pipeline.geometry import Size
from pipeline.timing import Clock, MonotonicClock

PLAN, WEIGHTS, MODEL = "plan.json", "weights.pt", "model.onnx"
LEAST_LESSONS, LEAST_OBJECTS = 20, 20
RESERVE = 0.08
"""Share of the time limit that is left for calibration, export and proof."""
PROVEN_PICTURES = 4


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The network that has been decided on; ``about`` tells its training from others, so that a restart goes on."""

    about: str
    input_px: HeightWidth
    width: float


def train(
    lessons: Sequence[Lesson],
    order: Order,
    say: Say,
    settings: FitSettings | None = None,
    clock: Clock | None = None,
) -> Trained:
    """Train as ordered; what a former start of the same training has left in ``order.folder`` is gone on with.

    Raises ConfigError where there is too little to learn from, ModelError where no network fits the time asked for.
    """
    clock, settings = clock or MonotonicClock(), settings or FitSettings()
    begun_s = clock.now_s()
    learned, judged = split_by_time(lessons)
    _check(learned, order)
    _set_up(order)
    say(Progress(doing="choosing a network", done=0.0))
    plan = _plan(learned, order, settings, clock)
    student = _newborn(plan, order)
    parts = [prepare(part, order.labels, plan.input_px) for part in (learned, judged)]
    limit_s = order.time_limit_s * (1 - RESERVE) - (clock.now_s() - begun_s)
    fitting = Fitting(student, parts[0], parts[1], order.labels, settings, order.seed)
    fitted = fitting.run(Desk(order.folder, plan.about, clock, max(limit_s, 1.0), say))
    say(Progress(doing="calibrating and proving", done=1.0, left_s=order.time_limit_s * RESERVE))
    counts = {"lessons": len(learned), "judged": len(judged), "steps": fitted.steps}
    figures = {**counts, "f1_judged": fitted.f1, **calibrate(student, parts[1], order.labels)}
    path, contract = _export(student, plan, order, parts[0])
    return Trained(
        file=path,
        entry=contract,
        labels=order.labels,
        input_size=plan.input_px,
        figures=figures,
        train_s=max(fitted.spent_s, clock.now_s() - begun_s),
    )


def calibrate(student: Student, judged: Samples, labels: Sequence[str]) -> dict[str, float]:
    """Fold a calibration of scores into the student's last layer; the expected calibration error before, and after on
    detections that the calibration was not fitted on.
    """
    seen = verdicts(detect(student, judged.pictures, labels), judged.answers, labels)
    platt = fit_platt(seen)
    with torch.no_grad():
        student.centre.weight.mul_(platt.slope)
        student.centre.bias.mul_(platt.slope).add_(platt.offset)
    return {"ece_before": calibration_error(seen), "ece": error_on_unseen(seen)}


def _check(learned: Sequence[Lesson], order: Order) -> None:
    known = Counter(label for lesson in learned for label in lesson.known.label.tolist())
    if len(learned) < LEAST_LESSONS or not order.labels:
        raise ConfigError(
            f"{len(learned)} lessons of {len(order.labels)} classes are too few to train a model for camera "
            f"{order.camera}: {LEAST_LESSONS} lessons and one class are needed; collect more."
        )
    if scarce := [label for label in order.labels if known[label] < LEAST_OBJECTS]:
        raise ConfigError(
            f"The {len(learned)} lessons of camera {order.camera} show {known[scarce[0]]} objects of the class "
            f"{scarce[0]!r}, and a network learns to see it from {LEAST_OBJECTS} at least: collect more of them, or "
            "leave the class out of the camera's objects."
        )


def _set_up(order: Order) -> None:
    order.folder.mkdir(parents=True, exist_ok=True)
    hardware.use_threads(order.threads)
    cv2.setNumThreads(1)
    torch.manual_seed(order.seed)


def _plan(learned: Sequence[Lesson], order: Order, settings: FitSettings, clock: Clock) -> Plan:
    """The network to train: the one that a former start has chosen, else chosen now and written down."""
    about = _about(learned, order, settings)
    file = order.folder / PLAN
    try:
        plan = msgspec.json.decode(file.read_bytes(), type=Plan)
    except (OSError, msgspec.MsgspecError):
        plan = None
    if plan is not None and plan.about == about:
        return plan
    newest = learned[-1]
    picture = Size(newest.picture.shape[1], newest.picture.shape[0])
    if order.most_ms is None:
        plan = Plan(about=about, input_px=usual(picture), width=1.0)
    else:
        chosen = search(measure(picture, newest.window, order.labels, clock), order.most_ms)
        plan = Plan(about=about, input_px=chosen.input_px, width=chosen.width)
    file.write_bytes(msgspec.json.encode(plan))
    return plan


def _about(learned: Sequence[Lesson], order: Order, settings: FitSettings) -> str:
    """What tells one training from another: what is learned, from what, and how."""
    parts = [order.camera, order.labels, order.seed, order.most_ms, order.start_from, settings, len(learned)]
    times = [lesson.taken_at.isoformat() for lesson in learned]
    return hashlib.sha256(repr([parts, times]).encode()).hexdigest()


def _newborn(plan: Plan, order: Order) -> Student:
    """A student that knows nothing, or whatever of an earlier one's weights has the same shape."""
    student = Student(StudentShape(len(order.labels), plan.width))
    if order.start_from is not None:
        earlier = load(order.start_from / WEIGHTS)
        if earlier is None:
            raise ConfigError(
                f"{order.start_from / WEIGHTS} holds no weights to start from: name the folder of a finished training."
            )
        own = student.state_dict()
        student.load_state_dict(
            {name: earlier[name] if _fits(earlier.get(name), value) else value for name, value in own.items()}
        )
    student.to(hardware.device(), memory_format=torch.channels_last)
    return student


def _fits(earlier: object, own: torch.Tensor) -> bool:
    return isinstance(earlier, torch.Tensor) and earlier.shape == own.shape


def _export(student: Student, plan: Plan, order: Order, learned: Samples) -> tuple[Path, ModelEntry]:
    """Write weights and model, and prove the model on the newest pictures."""
    student = student.cpu().eval()
    save(student.state_dict(), order.folder / WEIGHTS)
    path = order.folder / MODEL
    write(student, order.labels, path)
    contract = entry(path, order.camera, order.labels, plan.input_px, f"learned from {len(learned)} lessons")
    proven(student, path, contract, plan.input_px, learned.pictures[-PROVEN_PICTURES:])
    return path, contract
