"""Real workers under load: what batching gains, what is left past the capacity, how two share, and one that dies.

Everything runs on this machine: workers, broker and generator, each in a process of its own. Where other programs take
their share of its cores the figures say little, and the module says so.
"""

import asyncio
import math
from collections.abc import Callable, Mapping

from foveate.bench.worker_batching import FULL, SHORT, SMALL, WHOLE, batching, batching_past_capacity
from foveate.bench.worker_growth import failover, growth

NOISE_CORES = 0.1


def measure(short: bool, say: Callable[[str], None]) -> Mapping[str, float]:
    """``batch_goodput_gain``, ``two_workers_real_gain`` and ``failover_s``, and what belongs to them.

    ``short``: about a minute, and without the default input and the frozen worker. What could not be
    compared, as no rate was answered, is left out.
    """
    return asyncio.run(_measure(short, say))


async def _measure(short: bool, say: Callable[[str], None]) -> dict[str, float]:
    extent = SHORT if short else FULL
    say("one of two workers fails")
    figures = await failover(short, say)
    say("two workers against one")
    figures |= await growth(extent, say)
    if not short:
        say("batching, whole frames")
        whole = await batching_past_capacity(WHOLE, extent, say)
        figures |= {f"{name}_whole": value for name, value in whole.items()}
    say("batching, small pictures")
    figures |= await batching(SMALL, extent, say)
    noisy = {name: value for name, value in figures.items() if "others_cores" in name and value > NOISE_CORES}
    for name, value in noisy.items():
        say(f"doubtful: other programs took {value:.2f} cores ({name}); measure again on a machine of its own")
    return {name: value for name, value in figures.items() if math.isfinite(value)}
