"""What saying the cloud's answers again saves, and what it costs: the indoor corner, and two clips to see no harm.

The real agent and the real worker on virtual time, see ``foveate.bench.virtual``, once with ``reuse`` and once without,
with everything else the same; F1 of what is published for each frame first, by decision 016. Each seed has its own
weather on the network and begins the clip some frames later, so that other frames are looked at.
"""

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from foveate.bench.network_runs import f1_of_frames, load_models
from foveate.bench.playlist import BOTTLE, ONE_BY_ONE, VTEST, Clip, Part, Playlist
from foveate.bench.streaming import frames_shown
from foveate.bench.virtual import Models, Scenario, default_camera, play
from pipeline.network.profiles import profile
from pipeline.policies.near_duplicate import NearDuplicateSettings

Say = Callable[[str], None]
NETWORK = "wifi"
SEEDS, SHORT_SEEDS = 5, 2
SPARED = "reused"
"""The reason of a result whose question was spared."""


@dataclass(frozen=True, slots=True)
class Pair:
    """One seed without and with reuse: questions sent, F1, and the questions that were spared."""

    sent_without: int
    sent_with: int
    f1_without: float
    f1_with: float
    spared: int

    @property
    def saved(self) -> float:
        """The share of the questions that were not sent."""
        return 1 - self.sent_with / self.sent_without

    @property
    def f1_loss(self) -> float:
        return self.f1_without - self.f1_with


def run_pair(clip: Clip, seed: int, models: Models, settings: NearDuplicateSettings, say: Say) -> Pair:
    """Play a clip over the same network without and with reuse. Raises SourceError where the clip is absent."""
    say(f"{clip.name} over {NETWORK}, without and with reuse, seed {seed + 1}")
    playlist = Playlist(clip.name, (Part(clip.require(), first=seed),))
    frames, camera = frames_shown(playlist, say), default_camera(playlist)
    network = profile(NETWORK, seed)
    without, again = (
        play(Scenario(playlist, each, network, seed), models) for each in (camera, replace(camera, reuse=settings))
    )
    spared = sum(result.reason == SPARED for result in again.record.values())
    return Pair(len(without.sent), len(again.sent), f1_of_frames(without, frames), f1_of_frames(again, frames), spared)


def figures(name: str, pairs: Sequence[Pair]) -> dict[str, float]:
    """What a clip shows: means over the seeds, and the worst of them."""
    return {
        f"{name}_saved": statistics.fmean(pair.saved for pair in pairs),
        f"{name}_f1_loss": statistics.fmean(pair.f1_loss for pair in pairs),
        f"{name}_saved_least": min(pair.saved for pair in pairs),
        f"{name}_f1_loss_most": max(pair.f1_loss for pair in pairs),
        f"{name}_sent": statistics.fmean(pair.sent_without for pair in pairs),
        f"{name}_spared": statistics.fmean(pair.spared for pair in pairs),
        f"{name}_f1": statistics.fmean(pair.f1_without for pair in pairs),
    }


def measure(short: bool, say: Say) -> Mapping[str, float]:
    """The figures of reuse with its defaults, each a mean over the seeds. Raises SourceError where a clip is absent."""
    models, settings = load_models(say), NearDuplicateSettings(enabled=True)
    goal = range(SHORT_SEEDS if short else SEEDS)
    out = figures("cache", [run_pair(ONE_BY_ONE, seed, models, settings, say) for seed in goal])
    for clip in () if short else (BOTTLE, VTEST):
        out |= figures(f"cache_{clip.name}", [run_pair(clip, 0, models, settings, say)])
    return out
