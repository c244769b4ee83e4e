"""The figures of rollouts: what faulty models cost before they are withdrawn, and how often good ones are.

Faults are tried in the real agent with the real models on virtual time (``canary_runs.py``), releases that are faulty
as files at the real receiver (``canary_files.py``), and false withdrawals by the real gate in many trials on the
answers of both models to a real clip (``canary_gate.py``).
"""

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from edge_agent.releases.judging import JudgingSettings
from foveate.bench import canary_files
from foveate.bench.canary_gate import Marks, poisoned, scored, seen_wrongly, trials, worse
from foveate.bench.canary_models import GoesBlind, Model, OneScene, honest, raising, shifted, wrongly_normalised, zeroed
from foveate.bench.canary_runs import Rollout, Trial, drift
from foveate.bench.network_runs import load_models
from foveate.bench.playlist import ONE_BY_ONE, VTEST, Part, Playlist
from foveate.bench.reference import LARGE, SMALL, detections
from foveate.bench.virtual import Models, default_camera, default_uplink
from foveate.simulation.record import CpuClock
from pipeline.detections import Detections
from pipeline.policies.evidence import RolloutSettings

Say = Callable[[str], None]
FALSE_TRIALS = 200
QUICK = JudgingSettings(audits_per_minute=60.0, audits_per_hour=1800.0, gate=RolloutSettings(slice_s=5.0))
"""Where the clip is shorter than the default pace needs: an answer of the larger model every second or two, and slices
of five seconds. What is allowed, and how sure one must be, are the defaults.
"""
BUSY = Playlist("vtest", (Part(VTEST),))
LONG = Playlist("vtest three times", (Part(VTEST), Part(VTEST), Part(VTEST)))
MOVED_AT = 150
TURNED = Playlist("vtest, then another scene", (Part(VTEST, MOVED_AT), Part(ONE_BY_ONE, 1000)))
VTEST_HEIGHT_PX = 576
BUSY_SPREAD = 0.4
"""Of the logarithm of what a look takes on a busy machine: one in twenty takes about twice as long as usual."""


def measure(short: bool, say: Say) -> dict[str, float]:
    """Measure the figures; ``short`` leaves out the rollout of a good model to its end.

    Raises SourceError where a clip is absent, RuntimeError where a power cut leaves a camera without a whole model.
    """
    VTEST.require()
    models = load_models(say, CpuClock())  # what other work on this machine adds says nothing of a model
    figures = _faults(models, say)
    figures |= _drift(models, say)
    figures |= _files(models, say)
    figures |= _false(models, say)
    if not short:
        say("a good model, to the end")
        figures |= _good(Trial(LONG, models, honest(models.small), judging=QUICK).run())
    return figures


def _faults(models: Models, say: Say) -> dict[str, float]:
    """Each fault once: the worst of all, and the frames on which each was decided."""
    small = models.small
    blind = GoesBlind(small)
    candidates: dict[str, Trial] = {
        "zeroed_head": Trial(BUSY, models, zeroed(small)),
        "shifted_classes": Trial(BUSY, models, shifted(small)),
        "wrong_normalisation": Trial(BUSY, models, wrongly_normalised(small)),
        "doubled_latency": Trial(BUSY, models, honest(small), slower=2.0),
        "raises": Trial(BUSY, models, raising(small)),
        "hangs": Trial(BUSY, models, honest(small), slower=1e6),
        "offline": Trial(BUSY, models, zeroed(small), offline=True),
        "blind_as_canary": Trial(BUSY, models, blind, goes_blind=blind, judging=QUICK),
        "poisoned_teacher": Trial(BUSY, _poisoned(models), zeroed(small)),
    }
    found: dict[str, Rollout] = {}
    for name, trial in candidates.items():
        found[name] = trial.run()
        say(f"{name}: {found[name].stage} after {found[name].requests} frames: {found[name].reason}")
    figures = {f"canary_{name}_requests": _requests(one) for name, one in found.items()}
    return figures | {
        "canary_exposed": max(one.exposed for one in found.values()),
        "canary_requests": max(figures.values()),
        "canary_unanswered": float(sum(one.unanswered for one in found.values())),
    }


def _requests(found: Rollout) -> float:
    """Infinite for a fault that was not noticed."""
    return float(found.requests) if found.stage == "withdrawn" else math.inf


def _poisoned(models: Models) -> Models:
    """One in ten of the larger model's boxes is wrong."""
    large, rng = models.large, np.random.default_rng(5)

    def see(image: np.ndarray, least: float) -> Detections:
        return poisoned(large.detect([image], least)[0], rng)

    return replace(models, large=Model(large.name, large.labels, see))


def _drift(models: Models, say: Say) -> dict[str, float]:
    """A model that knows one scene alone, as the camera is turned to another one."""
    found = drift(TURNED, models, OneScene(models.small, VTEST_HEIGHT_PX), QUICK, MOVED_AT / VTEST.fps)
    say(f"camera turned: {found.stage} after {found.requests} audits: {found.reason}")
    return {
        "canary_drift_audits": float(found.requests) if found.stage == "fallen_back" else math.inf,
        "canary_drift_unanswered": float(found.unanswered),
    }


def _files(models: Models, say: Say) -> dict[str, float]:
    """Releases that are damaged or not signed by whom the edge trusts, and power cuts in mid-switch."""
    refused = canary_files.refused(models.small)
    say(f"releases: {refused}")
    cuts = canary_files.switches_cut(models.small)
    say(f"power cut at each of {cuts} steps of a switch: a whole model each time")
    return {
        "canary_files_wrongly_taken": float(sum(not right for right in refused.values())),
        "canary_power_cuts": float(cuts),
    }


def _false(models: Models, say: Say) -> dict[str, float]:
    """False withdrawals, of models that see the same and of such with errors of their own; and what is caught."""
    label, camera = VTEST.label, default_camera(BUSY)
    marks = Marks(camera.tracker.publish_score, default_uplink().min_score)
    teacher = [_of(d, label, default_uplink().asked_score) for d in detections(VTEST.path, LARGE, say)]
    look = [_of(d, label, camera.tracker.low_score) for d in detections(VTEST.path, SMALL, say)]
    rng = np.random.default_rng(7)
    bad_teacher = [poisoned(one, rng) for one in teacher]
    same = scored(look, teacher, marks, None, 0)
    own = scored(look, teacher, marks, seen_wrongly, 1)
    own_poisoned = scored(look, bad_teacher, marks, seen_wrongly, 2)
    blind = scored([Detections.none()] * len(look), bad_teacher, marks, None, 3)
    fewer = scored(look, teacher, marks, worse, 4)
    busy = np.exp(BUSY_SPREAD * rng.standard_normal(1000))
    times_ms = (1000 * models.times.edge.median_s * busy).tolist()
    pairs = {
        "identical": (same, same),
        "independent": (own, own),
        "poisoned": (own_poisoned, own_poisoned),
        "poisoned_blind": (blind, own_poisoned),
        "worse": (fewer, same),
    }
    figures: dict[str, float] = {}
    for name, (candidate, current) in pairs.items():
        found = trials(candidate, current, times_ms, FALSE_TRIALS, RolloutSettings())
        say(f"{name}: {found}")
        figures |= {
            f"canary_{name}_withdrawn": found.share_withdrawn,
            f"canary_{name}_promoted": found.promoted / found.trials,
            f"canary_{name}_comparisons": found.comparisons,
        }
    wrong = max(figures[f"canary_{name}_withdrawn"] for name in ("identical", "independent", "poisoned"))
    return figures | {"canary_false": wrong}


def _of(found: Detections, label: str, least: float) -> Detections:
    return found.select((found.label == label) & (found.score >= least))


def _good(found: Rollout) -> dict[str, float]:
    return {
        "canary_good_promoted": float(found.stage == "full"),
        "canary_good_comparisons": float(found.requests),
        "canary_good_exposed": found.exposed,
        "canary_good_unanswered": float(found.unanswered),
    }
