"""The product with one part taken away or changed, each by a setting of its own where there is one.

Two things have no setting, since nobody would want them: what is published between analysed frames is held instead of
moved along (a view of a row's own record), and the worker's model is the one of 8 bits under the name of the
other. Rows about coalescing, caches and tiers are left out: here one camera asks the workers of one tier, so there is
nothing of the kind to take away.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from edge_agent.settings import CameraSettings, UplinkSettings

NO_LIMIT_MS = 60_000.0
FULL = "Foveate"
LEFT_OUT = ("coalescing and cache", "hysteresis of tiers")
"""Rows of the protocol about parts that do nothing where one camera asks one tier; the group ``worker`` has them."""


def _same_camera(camera: CameraSettings) -> CameraSettings:
    return camera


def _same_uplink(uplink: UplinkSettings) -> UplinkSettings:
    return uplink


@dataclass(frozen=True, slots=True)
class Variant:
    """A row: what is changed. ``key`` rows are measured in the short form on every network.

    ``held``: told once more with boxes held between analysed frames.
    """

    name: str
    camera: Callable[[CameraSettings], CameraSettings] = _same_camera
    uplink: Callable[[UplinkSettings], UplinkSettings] = _same_uplink
    held: bool = False
    int8: bool = False
    key: bool = False


def _policy(name: str, **settings: float) -> Callable[[CameraSettings], CameraSettings]:
    return lambda camera: replace(camera, offload=replace(camera.offload, policy=name, **settings))  # type: ignore[arg-type] # all of them are numbers


def _uniform(camera: CameraSettings) -> CameraSettings:
    return replace(camera, change_detection="uniform", sampling="fixed")


def _half(camera: CameraSettings) -> CameraSettings:
    return replace(camera, sample_fps=camera.sample_fps / 2)


def _crops_only(camera: CameraSettings) -> CameraSettings:
    return replace(camera, offload=replace(camera.offload, full_frame_s=0.0))


def _no_timeout(camera: CameraSettings) -> CameraSettings:
    """Waits for whatever was asked; what is decided by the deadline is decided as if there were all the time."""
    return replace(camera, deadline_ms=NO_LIMIT_MS, wait=replace(camera.wait, least_ms=NO_LIMIT_MS))


def _drop_late(uplink: UplinkSettings) -> UplinkSettings:
    return replace(uplink, late_s=0.0)


def _patient(uplink: UplinkSettings) -> UplinkSettings:
    return replace(uplink, misses_to_open=1_000_000)


def _revised(camera: CameraSettings) -> CameraSettings:
    return replace(camera, revisions=True)


VARIANTS: tuple[Variant, ...] = (
    Variant("half the frames analysed", _half, held=True),
    Variant("uniform sampling, no change gate", _uniform),
    Variant("whole frames, no crops", _policy("always"), key=True),
    Variant("crops only, no whole frames", _crops_only),
    Variant("least confidence, not learned", _policy("min_confidence")),
    Variant("random, not learned", _policy("random")),
    Variant("late answers dropped", uplink=_drop_late, key=True),
    Variant("waits for the cloud, no timeout", _no_timeout, _patient, key=True),
    Variant("worker with 8 bits", int8=True),
    Variant("revisions published as well", _revised, key=True),
)


def budget(kbps: float | None) -> Callable[[UplinkSettings], UplinkSettings]:
    """A limit on what is sent."""
    return lambda uplink: replace(uplink, uplink_kbps=kbps)


RATES: Mapping[str, Callable[[float], Variant]] = {
    FULL: lambda kbps: Variant(FULL, uplink=budget(kbps)),
    "B1 edge only, fewer frames": lambda fps: Variant(
        "B1", lambda camera: replace(camera, mode="edge_only", sample_fps=fps)
    ),
    "B7 least confidence": lambda score: Variant("B7", _policy("min_confidence", threshold=score)),
    "B8 random": lambda share: Variant("B8", _policy("random", share=share)),
}
"""Systems that are the product at several rates, by name: the variant for a rate."""
UNITS = {FULL: "kbit/s", "B1 edge only, fewer frames": "fps", "B7 least confidence": "score", "B8 random": "share"}
