"""What a second look is worth: the predicted probability that the larger model's answer changes what is published.

A logistic regression on features of a place, learned from the camera's own answers: each reply says, for every place
that it looked at, whether the answer there was changed. Nobody labels anything, and what is learned is where the
larger model *differs*, not where the small one is unsure; frames that are hard for both are worth nothing (the case
for deferral rules fitted after the fact: Narasimhan et al. 2022, "Post-hoc estimators for learning to defer"; reward
from the weak detector's output: Wang et al. 2024, "ORIC").
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.policies.places import FEATURES, PRIOR_WEIGHTS

Array = NDArray[np.float64]

_PRIOR_STRENGTH = 1.0
"""How firmly the weights stand before anything was learned: the precision of each."""
_MOST_LOGIT = 30.0
_NEWTON_STEPS = 3
_UNSEEN_PRIOR = (0.1, 2.0)
"""Changes at no known place, and whole frames looked at, that the rate of such changes starts from."""
_UNSEEN_HALF_LIFE = 250.0
"""After so many whole frames, an earlier one counts half."""


def _prior_precision() -> Array:
    return np.eye(len(FEATURES)) * _PRIOR_STRENGTH


@dataclass(frozen=True, slots=True, eq=False)
class GainModel:
    """A belief about the weights: Gaussian with mean ``weights`` (d,) and ``precision`` (d, d).

    ``unseen_changes`` of ``unseen_looks`` whole frames: changes where the edge saw nothing at all. ``lessons`` counts
    the places learned from. Older lessons fade: after ``half_life`` later ones they count half.
    """

    weights: Array = field(default_factory=lambda: np.array(PRIOR_WEIGHTS))
    precision: Array = field(default_factory=_prior_precision)
    unseen_changes: float = _UNSEEN_PRIOR[0]
    unseen_looks: float = _UNSEEN_PRIOR[1]
    lessons: int = 0
    half_life: float = 5_000.0

    def gain(self, features: Array) -> Array:
        """The probability (n,) that a look changes the answer at each place, from features (n, d)."""
        return _sigmoid(features @ self.weights)

    @property
    def unseen_gain(self) -> float:
        """Changes to be expected of a whole frame at places that the edge knows nothing of."""
        return self.unseen_changes / self.unseen_looks

    def learn(self, features: Array, changed: NDArray[np.bool_], weight: Array) -> "GainModel":
        """The model after an answer: whether it ``changed`` (n,) what was published at places with ``features``
        (n, d). ``weight`` (n,) is how many places each stands for.

        The posterior stays Gaussian by Laplace's approximation, found by Newton's method: sequential Bayesian logistic
        regression (Spiegelhalter and Lauritzen 1990, section 6; Bishop 2006, section 4.5).
        """
        count = len(features)
        if not count:
            return self
        kept = 0.5 ** (count / self.half_life)
        old = _prior_precision() * (1 - kept) + self.precision * kept
        weights = self.weights
        for _ in range(_NEWTON_STEPS):
            likely = _sigmoid(features @ weights)
            gradient = features.T @ (weight * (changed - likely)) - old @ (weights - self.weights)
            curved = old + (features.T * (weight * likely * (1 - likely))) @ features
            weights = weights + np.linalg.solve(curved, gradient)
        return replace(self, weights=weights, precision=curved, lessons=self.lessons + count)

    def learn_unseen(self, changes: int) -> "GainModel":
        """The model after an answer to a whole frame that changed something at so many unknown places."""
        kept = 0.5 ** (1 / _UNSEEN_HALF_LIFE)
        return replace(
            self,
            unseen_changes=_UNSEEN_PRIOR[0] * (1 - kept) + self.unseen_changes * kept + changes,
            unseen_looks=_UNSEEN_PRIOR[1] * (1 - kept) + self.unseen_looks * kept + 1,
        )

    def as_dict(self) -> dict[str, Any]:
        """The model as plain values, for JSON."""
        return {
            "features": list(FEATURES),
            "weights": self.weights.tolist(),
            "precision": self.precision.tolist(),
            "unseen_changes": self.unseen_changes,
            "unseen_looks": self.unseen_looks,
            "lessons": self.lessons,
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "GainModel":
        """The model that ``as_dict`` gave. Raises ValueError where it is none, or one of other features."""
        try:
            weights = np.array(values["weights"], np.float64)
            precision = np.array(values["precision"], np.float64)
            changes, looks = float(values["unseen_changes"]), float(values["unseen_looks"])
            lessons, features = int(values["lessons"]), tuple(values["features"])
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"it is no gain model ({error!r})") from error
        if features != FEATURES:
            raise ValueError("its gain model is of other features: it was made by another version")
        d = len(FEATURES)
        sound = weights.shape == (d,) and precision.shape == (d, d) and 0 <= changes < np.inf and 0 < looks < np.inf
        if not sound or not (np.isfinite(weights).all() and np.isfinite(precision).all()) or lessons < 0:
            raise ValueError("its gain model has weights of another size, or numbers that cannot be")
        if not np.allclose(precision, precision.T) or np.linalg.eigvalsh(precision).min() <= 0:
            raise ValueError("its gain model's precision is no positive definite matrix")
        return cls(weights, precision, changes, looks, lessons)


PRIOR = GainModel()
"""What is believed of a camera that nothing is known of."""


def _sigmoid(logit: Array) -> Array:
    return np.asarray(1.0 / (1.0 + np.exp(np.minimum(np.maximum(-logit, -_MOST_LOGIT), _MOST_LOGIT))))
