"""Fine-tuning the general model on a camera's lessons: carefully, as what it knows of the world is soon forgotten.

The first convolutions stay as they are, the others are pulled back to where they were (L2-SP: Li et al., "Explicit
Inductive Bias for Transfer Learning", ICML 2018, equation 3), steps are small, and the average of the weights is what
is kept. Resumable, stopped in time, and the same for a seed as far as PyTorch allows.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from foveate.training.augment import AugmentSettings
from foveate.training.dataset import showing
from foveate.training.fit import CHECKPOINT, Desk, load, save
from foveate.training.nanodet_judge import detect, standing
from foveate.training.nanodet_loss import Grid, loss
from foveate.training.nanodet_samples import Scored, tensor, view
from foveate.training.onnx_graph import OnnxNetwork
from foveate.training.order import Progress
from pipeline.detectors.contract import ModelEntry


@dataclass(frozen=True, slots=True)
class TuneSettings:
    """How the general model is fine-tuned.

    ``frozen`` is the share of the convolutions, from the picture on, that stay as they are; ``pull`` times the learning
    rate is the share of the way back to the general weights that each step takes; ``memory`` the share of the averaged
    weights that outlives a step; ``power`` what the teacher's scores are raised to, so that they keep their order and
    what is there is said louder. The averaged weights are judged ``checks`` times, evenly; training ends where none of
    the last ``patience`` was better than before.
    """

    steps: int = 400
    batch: int = 8
    rate: float = 1e-4
    warm_up: float = 0.05
    frozen: float = 0.35
    pull: float = 10.0
    memory: float = 0.98
    power: float = 0.5
    most_gradient: float = 10.0
    checks: int = 5
    patience: int = 3
    checkpoint_s: float = 20.0
    say_s: float = 1.0
    augment: AugmentSettings = field(
        default_factory=lambda: AugmentSettings(
            least_scale=0.94, most_scale=1.06, shift=0.04, contrast=0.15, brightness=15.0
        )
    )


@dataclass(frozen=True, slots=True)
class Tuned:
    """How a fine-tuning went: steps done, and seconds spent, earlier starts included."""

    steps: int
    spent_s: float


class Tuning:
    """One fine-tuning of one network. ``run`` leaves the best averaged weights in it."""

    def __init__(
        self,
        network: OnnxNetwork,
        entry: ModelEntry,
        parts: tuple[Scored, Scored],
        labels: Sequence[str],
        settings: TuneSettings,
        seed: int,
    ) -> None:
        self._network, self._entry, self._labels, self._settings = network, entry, labels, settings
        self._learned, self._judged = parts
        self._rng = np.random.default_rng(seed)
        self._shown = showing(self._learned.samples, len(labels))
        convolutions = network.convolutions()
        for names in convolutions[: round(len(convolutions) * settings.frozen)]:
            for name in names:
                network.weights[name].requires_grad_(requires_grad=False)
        self._taught = {name: value for name, value in network.weights.items() if value.requires_grad}
        self._general = {name: value.detach().clone() for name, value in self._taught.items()}
        self._optimizer = torch.optim.AdamW(self._taught.values(), lr=settings.rate, weight_decay=0.0)
        self._grid = Grid.of(self._learned.samples.pictures.shape[1:3], entry.output.strides)
        self._average, self._best = self._copy(), self._copy()
        self._best_standing, self._stale, self._checked = -1.0, 0, 0
        self._step, self._spent_s, self._loss = 0, 0.0, math.nan

    def run(self, desk: Desk) -> Tuned:
        """Tune until the steps are done, the time is up, or nothing gets better."""
        self._load(desk)
        begun_s = desk.clock.now_s() - self._spent_s
        saved_s = said_s = desk.clock.now_s()
        while (done := self._done(desk.time_limit_s)) < 1 and self._stale < self._settings.patience:
            self._loss = self._learn(done)
            self._check(desk.time_limit_s)
            now_s = desk.clock.now_s()
            self._spent_s = now_s - begun_s
            if now_s - said_s >= self._settings.say_s:
                said_s = now_s
                desk.say(self._progress(desk.time_limit_s))
            if now_s - saved_s >= self._settings.checkpoint_s:
                saved_s = now_s
                self._save(desk)
        self._save(desk)
        self._put(self._best if self._best_standing >= 0 else self._average)
        return Tuned(self._step, self._spent_s)

    def _done(self, time_limit_s: float) -> float:
        """How far the schedule is, 0..1: by steps, or by time where that runs out first."""
        return max(self._step / self._settings.steps, self._spent_s / time_limit_s)

    def _progress(self, time_limit_s: float) -> Progress:
        done = min(self._done(time_limit_s), 1.0)
        left_s = self._spent_s / done * (1 - done) if done > 0 else None
        return Progress(doing="adapting the general model", done=done, left_s=left_s, loss=self._loss)

    def _learn(self, done: float) -> float:
        settings = self._settings
        rate = settings.rate * min(1.0, (done + 0.01) / settings.warm_up) * (1 + math.cos(math.pi * done)) / 2
        for group in self._optimizer.param_groups:
            group["lr"] = rate
        chosen = self._rng.choice(len(self._learned), settings.batch, p=self._shown)
        views = [view(self._learned, index, settings.augment, self._rng) for index in chosen]
        logits, distances = forward(
            self._network, self._entry, tensor(np.stack([seen for seen, _ in views]), self._entry.input)
        )
        targets = [targets.louder(settings.power) for _, targets in views]
        cost = loss(self._grid, logits, distances, targets)
        self._optimizer.zero_grad()
        cost.backward()
        torch.nn.utils.clip_grad_norm_(self._taught.values(), settings.most_gradient)
        self._optimizer.step()
        self._step += 1
        with torch.no_grad():
            for name, value in self._taught.items():
                value.lerp_(self._general[name], min(1.0, rate * settings.pull))
                self._average[name].lerp_(value, 1 - settings.memory)
        return float(cost.detach())

    def _check(self, time_limit_s: float) -> None:
        """Judge the averaged weights where the next check is due."""
        if self._done(time_limit_s) < (self._checked + 1) / self._settings.checks or len(self._judged) == 0:
            return
        self._checked += 1
        own = self._copy()
        self._put(self._average)
        found = detect(self._network, self._entry, self._judged.samples.pictures, self._labels)
        stands = standing(found, self._judged, self._labels)
        self._put(own)
        if stands > self._best_standing:
            self._best, self._best_standing, self._stale = _clone(self._average), stands, 0
        else:
            self._stale += 1

    def _copy(self) -> dict[str, Tensor]:
        return _clone(self._taught)

    def _put(self, weights: dict[str, Tensor]) -> None:
        self._network.put(weights)

    def _save(self, desk: Desk) -> None:
        state = {
            "about": desk.about,
            "weights": self._copy(),
            "average": self._average,
            "best": self._best,
            "best_standing": self._best_standing,
            "stale": self._stale,
            "checked": self._checked,
            "optimizer": self._optimizer.state_dict(),
            "step": self._step,
            "spent_s": self._spent_s,
            "loss": self._loss,
            "random": json.dumps(self._rng.bit_generator.state),
        }
        save(state, desk.folder / CHECKPOINT)

    def _load(self, desk: Desk) -> None:
        state = load(desk.folder / CHECKPOINT)
        if state is None or state.get("about") != desk.about:
            return
        self._put(state["weights"])
        self._optimizer.load_state_dict(state["optimizer"])
        self._average, self._best, self._best_standing = state["average"], state["best"], state["best_standing"]
        self._stale, self._checked, self._loss = state["stale"], state["checked"], state["loss"]
        self._step, self._spent_s = state["step"], state["spent_s"]
        self._rng.bit_generator.state = json.loads(state["random"])


def forward(network: OnnxNetwork, entry: ModelEntry, pictures: Tensor) -> tuple[Tensor, Tensor]:
    """Class logits (batch, cells, classes) and distance logits (batch, cells, 4 * bins) of all strides, in order.

    Logits, as the sigmoid before the outputs leaves no gradient to a sure mistake.
    """
    count = len(entry.output.strides)
    scores, distances = entry.output.outputs[:count], entry.output.outputs[count:]
    before = [network.before_sigmoid(name) for name in scores]
    values = network(pictures, [*before, *distances])
    return (
        torch.cat([values[name].flatten(2).transpose(1, 2) for name in before], dim=1),
        torch.cat([values[name] for name in distances], dim=1),
    )


def _clone(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in weights.items()}
