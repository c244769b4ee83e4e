"""Between the general weights and the tuned ones: what lies in the middle often knows both the camera and the world.

*Source* Wortsman et al., "Robust fine-tuning of zero-shot models", CVPR 2022, section 3 (WiSE-FT).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from torch import Tensor

from foveate.training.onnx_graph import OnnxNetwork

SHARES = (0.25, 0.5, 0.75, 1.0)


@dataclass(frozen=True, slots=True)
class Blended:
    """The share of the way from the general weights to the tuned ones, and how the network stands there."""

    share: float
    stands: float


def blend(network: OnnxNetwork, general: Mapping[str, Tensor], stood: float, stands: Callable[[], float]) -> Blended:
    """Leave the blend in the network that stands best, and of equals the one nearest to the general model.

    ``stands`` judges the network as it is, and ``stood`` is what it says of the general one: nothing worse is left.
    """
    tuned = network.copy()

    def put(share: float) -> None:
        # Not by interpolation where nothing of the tuned weights is wanted: they may be no numbers any more.
        network.put(
            {name: general[name].lerp(value, share) if share else general[name] for name, value in tuned.items()}
        )

    best = Blended(0.0, stood)
    for share in SHARES:
        put(share)
        if (found := stands()) > best.stands:
            best = Blended(share, found)
    put(best.share)
    return best
