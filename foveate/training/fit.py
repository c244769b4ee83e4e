"""The training loop: resumable, stopped in time, and the same for a seed as far as PyTorch allows."""

import json
import math
import os
import pickle
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from foveate.training.augment import AugmentSettings, augment
from foveate.training.dataset import Samples, class_weights, showing
from foveate.training.judge import agreement, detect, tensor
from foveate.training.losses import REACH_WEIGHT, centre_loss, reach_loss
from foveate.training.network import Student
from foveate.training.order import Progress, Say
from foveate.training.paste import PasteSettings, paste
from foveate.training.targets import targets
from pipeline.timing import Clock

CHECKPOINT = "checkpoint.pt"


@dataclass(frozen=True, slots=True)
class FitSettings:
    """How a student is fitted.

    ``rate`` is the highest learning rate of the one-cycle schedule (Smith and Topin, "Super-Convergence", 2018, section
    3), reached after ``warm_up`` of it. ``memory`` is the share of the averaged weights that outlives a step. The
    averaged weights are judged ``checks`` times, evenly over the schedule's second half, in which they settle; training
    ends where each of the last ``patience`` was worse by more than ``alike`` than the best before.
    """

    steps: int = 3000
    batch: int = 8
    rate: float = 4e-3
    last_rate: float = 1e-5
    warm_up: float = 0.1
    weight_decay: float = 0.05
    memory: float = 0.995
    most_gradient: float = 10.0
    checks: int = 8
    patience: int = 4
    alike: float = 0.005
    most_judged: int = 96
    checkpoint_s: float = 20.0
    say_s: float = 1.0
    augment: AugmentSettings = field(default_factory=AugmentSettings)
    paste: PasteSettings = field(default_factory=PasteSettings)


@dataclass(frozen=True, slots=True)
class Desk:
    """Where and how long a training works: its folder, what tells it from others, its clock, its end, and its voice."""

    folder: Path
    about: str
    clock: Clock
    time_limit_s: float
    say: Say


@dataclass(frozen=True, slots=True)
class Fitted:
    """How a fit went: steps done, the best agreement on the judged part, and seconds spent, earlier starts included."""

    steps: int
    f1: float
    spent_s: float


class Fitting:
    """One training of one student. ``run`` leaves the best averaged weights in it."""

    def __init__(
        self,
        student: Student,
        learned: Samples,
        judged: Samples,
        labels: Sequence[str],
        settings: FitSettings,
        seed: int,
    ) -> None:
        self._student = student
        self._device = next(student.parameters()).device
        self._learned, self._judged = learned, _thinned(judged, settings.most_judged)
        self._labels, self._settings = labels, settings
        self._rng = np.random.default_rng(seed)
        self._shown = showing(learned, len(labels))
        self._class_weights = torch.from_numpy(class_weights(learned.counts(len(labels)))).to(self._device)
        self._optimizer = torch.optim.AdamW(_groups(student, settings.weight_decay), lr=settings.rate)
        self._average = _copy(student)
        self._best, self._best_f1, self._stale = _copy(student), -1.0, 0
        self._step, self._spent_s, self._checked, self._loss = 0, 0.0, 0, math.nan

    def run(self, desk: Desk) -> Fitted:
        """Fit until the steps are done, the time is up, or nothing gets better."""
        self._load(desk)
        begun_s = desk.clock.now_s() - self._spent_s
        saved_s = said_s = desk.clock.now_s()
        while (done := self._done(desk.time_limit_s)) < 1 and self._stale < self._settings.patience:
            self._loss = self._learn(done)
            now_s = desk.clock.now_s()
            self._spent_s = now_s - begun_s
            if now_s - said_s >= self._settings.say_s:
                said_s = now_s
                desk.say(self._progress(desk.time_limit_s))
            self._check(desk.time_limit_s)
            if now_s - saved_s >= self._settings.checkpoint_s:
                saved_s = now_s
                self._save(desk)
        self._save(desk)
        self._student.load_state_dict(self._best if self._best_f1 >= 0 else self._average)
        return Fitted(self._step, self._best_f1, self._spent_s)

    def _done(self, time_limit_s: float) -> float:
        """How far the schedule is, 0..1: by steps, or by time where that runs out first."""
        return max(self._step / self._settings.steps, self._spent_s / time_limit_s)

    def _progress(self, time_limit_s: float) -> Progress:
        done = min(self._done(time_limit_s), 1.0)
        left_s = self._spent_s / done * (1 - done) if done > 0 else None
        return Progress(doing="learning", done=done, left_s=left_s, loss=self._loss)

    def _learn(self, done: float) -> float:
        settings = self._settings
        for group in self._optimizer.param_groups:
            group["lr"] = rate(done, settings)
        pictures, heat, counted, reach, weight = self._batch()
        self._student.train()
        logits, sides = self._student(pictures)
        loss = centre_loss(logits, heat, counted, self._class_weights) + REACH_WEIGHT * reach_loss(sides, reach, weight)
        self._optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self._student.parameters(), settings.most_gradient)
        self._optimizer.step()
        self._step += 1
        # The first averages forget fast, since they begin with weights that know nothing.
        kept = min(settings.memory, (1 + self._step) / (10 + self._step))
        with torch.no_grad():
            for name, value in self._student.state_dict().items():
                average = self._average[name]
                average.lerp_(value, 1 - kept) if average.is_floating_point() else average.copy_(value)
        return float(loss.detach())

    def _batch(self) -> list[Tensor]:
        settings, samples = self._settings, self._learned
        shown = self._rng.choice(len(samples), (settings.batch, 2), p=self._shown)
        views, wanted = [], []
        for index, other in shown:
            picture, answers = paste(*samples.at(index), samples.at(other), settings.paste, self._rng)
            view, seen = augment(picture, answers, settings.augment, self._rng)
            views.append(view)
            wanted.append(targets(seen, len(self._labels), samples.input_px))
        arrays = [[getattr(each, name) for each in wanted] for name in ("heat", "counted", "reach", "weight")]
        return [
            tensor(np.stack(views), self._device),
            *(torch.from_numpy(np.stack(each)).to(self._device) for each in arrays),
        ]

    def _check(self, time_limit_s: float) -> None:
        """Judge the averaged weights where the next check is due."""
        due = 0.5 + 0.5 * (self._checked + 1) / self._settings.checks
        if self._done(time_limit_s) < due or len(self._judged) == 0:
            return
        self._checked += 1
        own = _copy(self._student)
        self._student.load_state_dict(self._average)
        f1 = agreement(detect(self._student, self._judged.pictures, self._labels), self._judged.answers, self._labels)
        self._student.load_state_dict(own)
        # Of two about as good ones the later is taken: it has learned for longer.
        if f1 >= self._best_f1 - self._settings.alike:
            best_f1 = max(f1, self._best_f1)
            self._best, self._best_f1, self._stale = {k: v.clone() for k, v in self._average.items()}, best_f1, 0
        else:
            self._stale += 1

    def _save(self, desk: Desk) -> None:
        state = {
            "about": desk.about,
            "student": self._student.state_dict(),
            "average": self._average,
            "best": self._best,
            "best_f1": self._best_f1,
            "stale": self._stale,
            "optimizer": self._optimizer.state_dict(),
            "step": self._step,
            "spent_s": self._spent_s,
            "checked": self._checked,
            "loss": self._loss,
            "random": json.dumps(self._rng.bit_generator.state),
        }
        save(state, desk.folder / CHECKPOINT)

    def _load(self, desk: Desk) -> None:
        state = load(desk.folder / CHECKPOINT)
        if state is None or state.get("about") != desk.about:
            return
        self._student.load_state_dict(state["student"])
        self._optimizer.load_state_dict(state["optimizer"])
        # What is loaded lies on the CPU, and is averaged with weights that may lie elsewhere.
        self._average, self._best = (
            {name: value.to(self._device) for name, value in state[kept].items()} for kept in ("average", "best")
        )
        self._best_f1, self._stale, self._loss = state["best_f1"], state["stale"], state["loss"]
        self._step, self._spent_s, self._checked = state["step"], state["spent_s"], state["checked"]
        self._rng.bit_generator.state = json.loads(state["random"])


def rate(done: float, settings: FitSettings) -> float:
    """The learning rate where ``done`` 0..1 of the schedule lies behind: up in a straight line, down in a cosine."""
    if done < settings.warm_up:
        return max(settings.last_rate, settings.rate * done / settings.warm_up)
    falling = (1 + math.cos(math.pi * (done - settings.warm_up) / (1 - settings.warm_up))) / 2
    return settings.last_rate + (settings.rate - settings.last_rate) * falling


def save(state: dict[str, Any], path: Path) -> None:
    """Write a file that is either the old or the new one, whatever happens in between."""
    partial = path.with_suffix(".partial")
    with partial.open("wb") as file:
        torch.save(state, file)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)


def load(path: Path) -> dict[str, Any] | None:
    """What ``save`` wrote, on the CPU; None where there is none or it is damaged. Runs no code of the file."""
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except (OSError, RuntimeError, EOFError, ValueError, KeyError, pickle.UnpicklingError):
        return None
    return state if isinstance(state, dict) else None


def _copy(student: Student) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in student.state_dict().items()}


def _groups(student: Student, weight_decay: float) -> list[dict[str, Any]]:
    """Kernels decay, biases and normalisation do not."""
    parameters = list(student.parameters())
    return [
        {"params": [p for p in parameters if p.ndim > 1], "weight_decay": weight_decay},
        {"params": [p for p in parameters if p.ndim <= 1], "weight_decay": 0.0},
    ]


def _thinned(samples: Samples, most: int) -> Samples:
    if len(samples) <= most:
        return samples
    chosen = np.linspace(0, len(samples) - 1, most).astype(int)
    return Samples(samples.pictures[chosen], tuple(samples.answers[index] for index in chosen))
