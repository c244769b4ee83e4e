"""Between the general weights and the tuned ones: what lies in the middle often knows both the camera and the world.

*Source* Wortsman et al., "Robust fine-tuning of zero-shot models", CVPR 2022, section 3 (WiSE-FT).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from torch import Tensor

from foveate.training.onnx_graph import OnnxNetwork

SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)


@dataclass(frozen=True, slots=True)
class Blended:
    """The share of the way from the general weights to the tuned ones, and how both ends of the choice stand."""

    share: float
    stands: float
    general: float


def blend(network: OnnxNetwork, general: Mapping[str, Tensor], stands: Callable[[], float]) -> Blended:
    """Leave the blend in the network that stands best, and of equals the one nearest to the general model.

    ``stands`` judges the network as it is; the share 0 is the general model itself, so nothing worse is left.
    """
    tuned = {name: value.detach().clone() for name, value in network.weights.items()}

    def put(share: float) -> None:
        # Not by interpolation where nothing of the tuned weights is wanted: they may be no numbers any more.
        network.put(
            {name: general[name].lerp(value, share) if share else general[name] for name, value in tuned.items()}
        )

    found: dict[float, float] = {}
    for share in SHARES:
        put(share)
        found[share] = stands()
    best = max(SHARES, key=lambda share: found[share])
    put(best)
    return Blended(best, found[best], found[0.0])
