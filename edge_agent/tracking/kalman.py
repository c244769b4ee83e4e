"""Constant-velocity Kalman filters for many boxes at once.

The four coordinates centre x, centre y, width and height are filtered independently, so each covariance is a
symmetric 2 x 2 matrix kept as three arrays and no matrix is ever inverted. Noise scales with the box height, as in
DeepSORT (Wojke et al. 2017, section 2.1); time is in seconds rather than frames, so that irregular sampling is no
special case.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipeline.geometry import BoxArray

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Noise:
    """Standard deviations as shares of the box height: of a measurement, of speed at birth (per s), of
    acceleration (per s^2); ``size_share`` scales the last two for width and height, which change more slowly.
    """

    measurement: float = 0.03
    birth_speed: float = 1.0
    acceleration: float = 1.0
    size_share: float = 0.25


@dataclass(frozen=True, slots=True, eq=False)
class BoxFilter:
    """n filters. ``position`` and ``velocity`` are (n, 4) as centre x, centre y, width, height in pixels (per s);
    ``pp``, ``pv``, ``vv`` are (n, 4) variances and covariance of position and velocity.
    """

    position: Array
    velocity: Array
    pp: Array
    pv: Array
    vv: Array

    def __len__(self) -> int:
        return len(self.position)

    @property
    def xyxy(self) -> BoxArray:
        """Boxes (n, 4) float32."""
        half = np.maximum(self.position[:, 2:], 1.0) / 2
        centre = self.position[:, :2]
        return np.concatenate([centre - half, centre + half], axis=1).astype(np.float32)

    def select(self, index: NDArray[np.intp] | NDArray[np.bool_]) -> "BoxFilter":
        return BoxFilter(self.position[index], self.velocity[index], self.pp[index], self.pv[index], self.vv[index])


def _scale(position: Array, noise: Noise) -> Array:
    """(n, 4) noise scale in pixels: the height, less for the two size coordinates."""
    height = np.maximum(position[:, 3:4], 1.0)
    return np.asarray(height * np.array([1.0, 1.0, noise.size_share, noise.size_share]))


def centre_size(xyxy: BoxArray) -> Array:
    """Boxes (n, 4) as centre x, centre y, width, height."""
    low, high = xyxy[:, :2].astype(np.float64), xyxy[:, 2:].astype(np.float64)
    return np.concatenate([(low + high) / 2, high - low], axis=1)


def start(xyxy: BoxArray, noise: Noise) -> BoxFilter:
    """Filters at rest at the given boxes."""
    position = centre_size(xyxy)
    height = np.maximum(position[:, 3:4], 1.0)
    measured = np.broadcast_to((noise.measurement * height) ** 2, position.shape).copy()
    speed = (noise.birth_speed * _scale(position, noise)) ** 2
    return BoxFilter(position, np.zeros_like(position), measured, np.zeros_like(position), speed)


def predict(state: BoxFilter, by_s: float, noise: Noise) -> BoxFilter:
    """Move every filter ``by_s`` seconds forward (white acceleration)."""
    if by_s <= 0:
        return state
    q = (noise.acceleration * _scale(state.position, noise)) ** 2
    return BoxFilter(
        state.position + state.velocity * by_s,
        state.velocity,
        state.pp + 2 * by_s * state.pv + by_s**2 * state.vv + q * by_s**4 / 4,
        state.pv + by_s * state.vv + q * by_s**3 / 2,
        state.vv + q * by_s**2,
    )


def update(state: BoxFilter, xyxy: BoxArray, noise: Noise) -> BoxFilter:
    """Correct every filter by its measured box; rows correspond."""
    measured = centre_size(xyxy)
    height = np.maximum(measured[:, 3:4], 1.0)
    residual_variance = state.pp + (noise.measurement * height) ** 2
    gain_p, gain_v = state.pp / residual_variance, state.pv / residual_variance
    residual = measured - state.position
    return BoxFilter(
        state.position + gain_p * residual,
        state.velocity + gain_v * residual,
        (1 - gain_p) * state.pp,
        (1 - gain_p) * state.pv,
        state.vv - gain_v * state.pv,
    )


def join(a: BoxFilter, b: BoxFilter) -> BoxFilter:
    """All rows of both."""
    return BoxFilter(
        np.concatenate([a.position, b.position]),
        np.concatenate([a.velocity, b.velocity]),
        np.concatenate([a.pp, b.pp]),
        np.concatenate([a.pv, b.pv]),
        np.concatenate([a.vv, b.vv]),
    )
