"""What the uplink carries with a camera's own model, and without it: the unseen rest of the busy clip over LTE.

The real agent and the real worker on virtual time, see ``foveate.bench.virtual``. The camera shows the whole clip, so
that whatever else is learned live (gains, the gate's thresholds) is learned on the first part by either; what is
counted is the rest alone.
"""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from edge_agent.releases.slot import Staged
from foveate.bench.learned import LEARNED_SHARE
from foveate.bench.network_runs import SEEDS, SHORT_SEEDS, load_models
from foveate.bench.playlist import ONLY_VTEST
from foveate.bench.service_times import measure_times
from foveate.bench.streaming import Shown, frames_shown, pooled, states, streaming_scores
from foveate.bench.virtual import STARTED, Models, Scenario, VirtualRun, default_camera, play
from foveate.bench.virtual_parts import Remembering
from foveate.learn.models import load_learned
from foveate.learn.values import LearnedModel
from pipeline.detectors.base import Detector
from pipeline.network.profiles import profile
from pipeline.releases.manifest import manifest_for
from pipeline.timing import MonotonicClock

Say = Callable[[str], None]
NETWORK = "lte"


def measure(own: LearnedModel, *, short: bool, say: Say) -> tuple[dict[str, float], dict[str, Any]]:
    """The ratio of the uplink's bytes with the camera's own model to those without, medians over the seeds."""
    general, frames = load_models(say), frames_shown(ONLY_VTEST, say)
    seeds = range(SHORT_SEEDS if short else SEEDS)
    arms = {"general": general, "learned": _with_own(general, own, say)}
    details: dict[str, Any] = {}
    for name, models in arms.items():
        runs = []
        for seed in seeds:
            say(f"{ONLY_VTEST.name} over {NETWORK}, {name} model, seed {seed + 1} of {len(seeds)}")
            scenario = Scenario(ONLY_VTEST, default_camera(ONLY_VTEST), profile(NETWORK, seed), seed)
            runs.append(play(scenario, models))
        alone = Scenario(ONLY_VTEST, replace(default_camera(ONLY_VTEST), mode="edge_only"))
        details[name] = _counted(runs, frames) | {"edge_only_f1": unseen_f1(play(alone, models), frames)}
    ratio = statistics.median(details["learned"]["uplink_bytes"]) / statistics.median(
        details["general"]["uplink_bytes"]
    )
    gain = statistics.median(details["learned"]["f1"]) - statistics.median(details["general"]["f1"])
    return {"learn_uplink_ratio": ratio, "learn_uplink_f1_gain": gain}, details


def _with_own(general: Models, own: LearnedModel, say: Say) -> Models:
    """The models of an agent whose camera has promoted its own, with what that one takes on this machine."""
    say("timing the camera's own model")
    model = load_learned(own)
    clip = ONLY_VTEST.parts[0].clip.require()
    times = measure_times(clip.path, default_camera(ONLY_VTEST), model, general.large, MonotonicClock())
    return replace(general, own=_staged(own, Remembering(model)), times=replace(general.times, edge=times.edge))


def _staged(own: LearnedModel, model: Detector) -> Staged:
    """A promoted release of the model."""
    manifest = manifest_for(
        own.entry,
        own.file.read_bytes(),
        kind="camera",
        labels=own.labels,
        input_size=own.input_size,
        now=STARTED,
    )
    return Staged(model, manifest, manifest.entry.sha256)


def unseen_bytes(run: VirtualRun, frames: int) -> int:
    """What was sent at the socket from the first unseen frame on, of a clip of so many frames."""
    from_s = run.captured_s[round(frames * LEARNED_SHARE)]
    return sum(size_bytes for at_s, size_bytes in run.sent if at_s >= from_s)


def unseen_f1(run: VirtualRun, frames: Sequence[Shown]) -> float:
    """F1 of the unseen frames, each with the first result that was published for it."""
    scores = streaming_scores(states(run.results, run.captured_s), frames, run.captured_s, float("inf"))
    return pooled(scores[round(len(frames) * LEARNED_SHARE) :])


def _counted(runs: Sequence[VirtualRun], frames: Sequence[Shown]) -> dict[str, Any]:
    return {
        "uplink_bytes": [unseen_bytes(run, len(frames)) for run in runs],
        "f1": [unseen_f1(run, frames) for run in runs],
        "hit_ratio": [sum(r.deadline_met for r in run.record.values()) / len(run.captured_s) for run in runs],
    }
