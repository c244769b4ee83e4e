"""Constant-velocity Kalman filters for many boxes at once.

The four coordinates centre x, centre y, width and height are filtered independently, so each covariance is a
symmetric 2 x 2 matrix kept as three numbers and no matrix is ever inverted. Noise scales with the box height, as in
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

    ``measurement`` is that of a box that the larger model has found. The small model is off by ``edge_measurement``
    times one minus its score, never by less: a box that it is unsure of is also where it is unsure.
    """

    measurement: float = 0.03
    edge_measurement: float = 0.1
    birth_speed: float = 1.0
    acceleration: float = 1.0
    size_share: float = 0.25


@dataclass(frozen=True, slots=True, eq=False)
class BoxFilter:
    """n filters in one array (5, n, 4): position, velocity, variance of position, covariance, variance of velocity.

    The last axis is centre x, centre y, width, height in pixels; velocities are per second.
    """

    state: Array

    def __len__(self) -> int:
        return len(self.position)

    @classmethod
    def none(cls) -> "BoxFilter":
        return cls(np.empty((5, 0, 4)))

    @property
    def position(self) -> Array:
        return np.asarray(self.state[0])

    @property
    def velocity(self) -> Array:
        return np.asarray(self.state[1])

    @property
    def variances(self) -> tuple[Array, Array, Array]:
        """Of position, of position with velocity, of velocity; (n, 4) each."""
        return self.state[2], self.state[3], self.state[4]

    @property
    def xyxy(self) -> BoxArray:
        """Boxes (n, 4) float32."""
        centre, half = self.state[0, :, :2], np.maximum(self.state[0, :, 2:], 1.0) / 2
        boxes = np.empty((len(self), 4), np.float32)
        boxes[:, :2], boxes[:, 2:] = centre - half, centre + half
        return boxes

    def select(self, index: NDArray[np.intp] | NDArray[np.bool_]) -> "BoxFilter":
        return BoxFilter(self.state[:, index])

    def put(self, index: NDArray[np.intp], changed: "BoxFilter") -> "BoxFilter":
        """The filters with some rows replaced."""
        state = self.state.copy()
        state[:, index] = changed.state
        return BoxFilter(state)


def _scale(height: Array, noise: Noise) -> Array:
    """(n, 4) noise scale in pixels for box heights (n, 1): the height, less for the two size coordinates."""
    return np.asarray(height * np.array([1.0, 1.0, noise.size_share, noise.size_share]))


def centre_size(xyxy: BoxArray) -> Array:
    """Boxes (n, 4) as centre x, centre y, width, height."""
    boxes = xyxy.astype(np.float64)
    out = np.empty_like(boxes)
    out[:, :2], out[:, 2:] = (boxes[:, :2] + boxes[:, 2:]) / 2, boxes[:, 2:] - boxes[:, :2]
    return out


def start(xyxy: BoxArray, noise: Noise) -> BoxFilter:
    """Filters at rest at the given boxes."""
    state = np.zeros((5, len(xyxy), 4))
    state[0] = centre_size(xyxy)
    height = np.maximum(state[0, :, 3:4], 1.0)
    state[2] = (noise.measurement * height) ** 2
    state[4] = (noise.birth_speed * _scale(height, noise)) ** 2
    return BoxFilter(state)


def predict(filters: BoxFilter, by_s: float, noise: Noise) -> BoxFilter:
    """Move every filter ``by_s`` seconds forward (white acceleration)."""
    if by_s <= 0 or not len(filters):
        return filters
    position, velocity, pp, pv, vv = filters.state
    q = (noise.acceleration * _scale(np.maximum(position[:, 3:4], 1.0), noise)) ** 2
    moved = np.empty_like(filters.state)
    moved[0] = position + velocity * by_s
    moved[1] = velocity
    moved[2] = pp + 2 * by_s * pv + by_s**2 * vv + q * (by_s**4 / 4)
    moved[3] = pv + by_s * vv + q * (by_s**3 / 2)
    moved[4] = vv + q * by_s**2
    return BoxFilter(moved)


def update(filters: BoxFilter, xyxy: BoxArray, deviation: Array) -> BoxFilter:
    """Correct every filter by its measured box; rows correspond.

    ``deviation`` (n,) is the standard deviation of each measurement as a share of the box height: measurements that
    differ in quality, as in the NSA Kalman filter of GIAOTracker (Du et al. 2021).
    """
    measured = centre_size(xyxy)
    position, velocity, pp, pv, vv = filters.state
    total = pp + (deviation[:, None] * np.maximum(measured[:, 3:4], 1.0)) ** 2
    gain_p, gain_v = pp / total, pv / total
    residual = measured - position
    corrected = np.empty_like(filters.state)
    corrected[0] = position + gain_p * residual
    corrected[1] = velocity + gain_v * residual
    corrected[2] = (1 - gain_p) * pp
    corrected[3] = (1 - gain_p) * pv
    corrected[4] = vv - gain_v * pv
    return BoxFilter(corrected)


def join(a: BoxFilter, b: BoxFilter) -> BoxFilter:
    """All rows of both."""
    return BoxFilter(np.concatenate([a.state, b.state], axis=1))
