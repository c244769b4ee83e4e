"""For how long frames go without the larger model's answer when the worker on site loses its power.

Real agent, real workers, virtual time (``tier_agents``). Nobody is told of the death: the agent has to notice that
answers are missing, ask the cloud instead, and come back once the worker is alive again.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from edge_agent.settings import UplinkSettings
from foveate.bench.tier_agents import Played, World, play
from pipeline.policies.tier_cost import PRESETS

DIES_S, BACK_S, DURATION_S = 8.0, 4.0, 18.0
DEADLINE_S = 0.2
_STEPS = 3
"""Deaths are so many parts of a frame's period apart, so that requests are met on their way, in the model, and not."""


@dataclass(frozen=True, slots=True)
class Death:
    """What one death cost: the last frame without an answer was captured ``degraded_s`` after it, and ``frames`` there
    were; besides ``not_worth`` ones, of which the weights say that the cloud is not worth asking about them. Requests
    came back ``back_s`` after the worker was alive again (None: not in this run).
    """

    degraded_s: float
    frames: int
    not_worth: int
    back_s: float | None


def death(played: Played, dies_s: float) -> Death | None:
    """What the death at this moment cost; None where nobody was asking the worker on site."""
    if not any(dies_s - DEADLINE_S < at_s <= dies_s for at_s in played.asked_s):
        return None
    ends = {result.seq: result for result in played.results if result.revision == 0}
    since = [seq for seq, at_s in played.captured_s.items() if dies_s - DEADLINE_S < at_s]
    unworthy = [seq for seq in since if seq in ends and ends[seq].reason == "not_worth"]
    met = {seq for seq in since if seq in ends and ends[seq].origin in ("fused", "cloud")}
    lost_s = [played.captured_s[seq] for seq in since if seq not in met and seq not in unworthy]
    alive_s = dies_s + BACK_S
    back_s = min((at_s - alive_s for at_s in played.asked_s if at_s >= alive_s), default=None)
    return Death(max((max(0.0, at_s - dies_s) for at_s in lost_s), default=0.0), len(lost_s), len(unworthy), back_s)


def deaths(networks: Sequence[str], presets: Sequence[str], steps: int) -> list[Death]:
    """Deaths over networks, weights and moments; those in which the worker on site was in use."""
    found = []
    for network in networks:
        for preset in presets:
            for step in range(steps):
                world = World(network, step, UplinkSettings(weights=PRESETS[preset]), DURATION_S, back_s=BACK_S)
                dies_s = DIES_S + step / steps / world.per_s
                world = World(network, step, world.uplink, DURATION_S, dies_s=dies_s, back_s=BACK_S)
                found.append(death(play(world), dies_s))
    return [each for each in found if each is not None]


def measure(short: bool, say: Callable[[str], None]) -> Mapping[str, float]:
    """The longest time, and the mean number of frames, without an answer after a death; how soon requests come back."""
    say("a worker on site that loses its power")
    networks, presets = (("wifi",), ("latency", "balanced")) if short else (("wifi", "lte"), tuple(PRESETS))
    found = deaths(networks, presets, 2 if short else _STEPS)
    if not found:
        say("left out: in no run was the worker on site asked when it died")
        return {}
    back_s = [each.back_s for each in found if each.back_s is not None]
    figures = {
        "tier_kill_degraded_s": max(each.degraded_s for each in found),
        "tier_kill_degraded_frames": fmean(each.frames for each in found),
        "tier_kill_not_worth_frames": fmean(each.not_worth for each in found),
        "tier_kill_deaths": float(len(found)),
        "tier_kill_came_back": float(len(back_s)),
    }
    return figures | ({"tier_kill_back_s": max(back_s)} if back_s else {})
