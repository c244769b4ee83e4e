"""The figures over shaped networks: the playlist ``mix`` over LTE, an outage, and the busy clip over WiFi.

The real agent and the real worker on virtual time (``foveate.bench.virtual``), with the product's default settings but
for what ``SCENES`` names. All from the network's seed: medians over the seeds.
"""

import statistics
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from edge_agent.gate import BASELINE_QUALITY, jpeg
from edge_agent.settings import CameraSettings
from foveate.bench.playlist import MIX, MIX_SHORT, ONLY_VTEST, Playlist, shown
from foveate.bench.service_times import measure_times
from foveate.bench.streaming import (
    Shown,
    cloud_scores,
    frames_shown,
    gap_recovery,
    pooled,
    states,
    streaming_scores,
)
from foveate.bench.virtual import Models, Scenario, VirtualRun, default_camera, play
from pipeline.detectors.loading import load_detector
from pipeline.network.profiles import OUTAGES, profile
from pipeline.results import Origin, Result
from pipeline.timing import Clock, MonotonicClock

Say = Callable[[str], None]
SLO_MS = 150.0
"""The deadline on the mixed playlist and through the outage; the busy clip over WiFi has the product's default."""
MIX_FPS = 10.0
"""Frames analysed per second at most: all that two of the three clips have."""
SEEDS, SHORT_SEEDS = 5, 2
BACK_S = OUTAGES[0][1]
FRESH_S = 0.5
"""What was captured so long before the link came back is fresh."""


def load_models(say: Say, clock: Clock | None = None) -> Models:
    """The product's default models, with what they take on this machine, by real time or by another ``clock``."""
    say("timing the models")
    small = load_detector("nanodet-g-int8", input_size=(192, 256), threads=1)
    large = load_detector("nanodet-g", input_size=None, threads=1)
    clip = ONLY_VTEST.parts[0].clip.require()
    times = measure_times(clip.path, default_camera(ONLY_VTEST, SLO_MS), small, large, clock or MonotonicClock())
    return Models.remembering(small, large, times)


def jpeg_bytes(playlist: Playlist) -> int:
    """What every frame of a playlist takes as JPEG of quality 80; encodes them all."""
    return sum(len(jpeg(image, BASELINE_QUALITY)) for _, image in shown(playlist))


def h264_bytes(frames: Sequence[Shown]) -> float:
    """What the frames of a playlist take as H.264."""
    return sum(clip.h264_bytes(count) for clip, count in Counter(frame.clip for frame in frames).items())


def run_over(
    playlist: Playlist, network: str | None, camera: CameraSettings, models: Models, seeds: int, say: Say
) -> list[VirtualRun]:
    """Play a playlist once per seed."""
    runs = []
    for seed in range(seeds):
        say(f"{playlist.name} over {network or 'no network'}, {camera.mode}, seed {seed + 1} of {seeds}")
        way = None if network is None else profile(network, seed)
        runs.append(play(Scenario(playlist, camera, way, seed), models))
    return runs


def streaming_f1(run: VirtualRun, frames: Sequence[Shown], within_ms: float, *, strict: bool = False) -> float:
    """Streaming F1 of a run, see ``foveate.bench.streaming``."""
    published = states(run.results, run.captured_s)
    return pooled(streaming_scores(published, frames, run.captured_s, within_ms / 1000, strict=strict))


def p99_ms(results: Sequence[Result]) -> float:
    """The 99th percentile of the latency of analysed frames, capture to answer."""
    return float(np.percentile([r.timings_ms.total or 0.0 for r in results if r.origin != Origin.CARRIED.value], 99))


def measure_mix(models: Models, *, short: bool, say: Say) -> tuple[dict[str, float], dict[str, Any]]:
    """The mixed playlist over LTE."""
    playlist, seeds = (MIX_SHORT, SHORT_SEEDS) if short else (MIX, SEEDS)
    frames = frames_shown(playlist, say)
    camera = replace(default_camera(playlist, SLO_MS), sample_fps=MIX_FPS)
    edge = run_over(playlist, None, replace(camera, mode="edge_only"), models, 1, say)[0]
    runs = run_over(playlist, "lte", camera, models, seeds, say)
    f1_cloud, f1_edge = pooled(cloud_scores(frames)), streaming_f1(edge, frames, SLO_MS)
    f1 = [streaming_f1(run, frames, SLO_MS) for run in runs]
    up = statistics.median(run.uplink_bytes for run in runs)
    figures = {
        "mix_lte_uplink_share_of_jpeg": up / jpeg_bytes(playlist),
        "mix_lte_uplink_share_of_h264": up / h264_bytes(frames),
        "mix_lte_sf1_ratio": statistics.median(f1) / f1_cloud,
        "mix_lte_gap_recovery": statistics.median(gap_recovery(value, f1_edge, f1_cloud) for value in f1),
        "mix_lte_p99_ms": statistics.median(p99_ms(run.results) for run in runs),
    }
    details = {
        "f1_cloud": f1_cloud,
        "sf1_edge_only": f1_edge,
        "sf1": f1,
        "sf1_at_capture": [streaming_f1(run, frames, 0.0) for run in runs],
        "strict": _strict(frames, edge, runs),
        "runs": [run_details(run) for run in runs],
        "service_ms": models.times.as_ms(),
    }
    return figures, details


def _strict(frames: Sequence[Shown], edge: VirtualRun, runs: Sequence[VirtualRun]) -> dict[str, float]:
    """The same with the larger model's unsure detections counted as absent."""
    f1_cloud = pooled(cloud_scores(frames))
    f1_edge = streaming_f1(edge, frames, SLO_MS, strict=True)
    f1 = statistics.median(streaming_f1(run, frames, SLO_MS, strict=True) for run in runs)
    recovered = gap_recovery(f1, f1_edge, f1_cloud)
    return {"sf1_ratio": f1 / f1_cloud, "sf1_edge_only": f1_edge, "gap_recovery": recovered}


def measure_outage(models: Models, *, short: bool, say: Say) -> tuple[dict[str, float], dict[str, Any]]:
    """LTE with an outage of 10 s, and one of 2 s right after it."""
    # With revisions an answer is seen when it comes, also where its frame has been answered meanwhile.
    camera = replace(default_camera(ONLY_VTEST, SLO_MS), revisions=True)
    runs = run_over(ONLY_VTEST, "outage", camera, models, SHORT_SEEDS if short else SEEDS, say)
    back = [recovery_ms(run) for run in runs]
    answered = [sum(r.deadline_met for r in run.record.values()) / len(run.captured_s) for run in runs]
    figures = {"outage_answered": min(answered), "outage_recovery_ms": statistics.median(back)}
    limit_ms = profile("outage").rtt_s * 1000 + service_ms(runs) + 200
    details = {"recovery_ms": back, "recovery_limit_ms": limit_ms, "runs": [run_details(run) for run in runs]}
    return figures, details


def recovery_ms(run: VirtualRun) -> float:
    """From the link's return to the first result that the cloud had a part in, of a frame that was fresh by then."""
    arrivals = [
        run.captured_s[r.seq] + (r.timings_ms.total or 0.0) / 1000
        for r in run.results
        if r.models.cloud is not None and run.captured_s[r.seq] >= BACK_S - FRESH_S
    ]
    return (min((at_s for at_s in arrivals if at_s >= BACK_S), default=float("inf")) - BACK_S) * 1000


def service_ms(runs: Sequence[VirtualRun]) -> float:
    """What the worker takes for one question: the median of its queue and its run."""
    return statistics.median(
        (r.timings_ms.cloud_queue or 0.0) + r.timings_ms.cloud_infer
        for run in runs
        for r in run.results
        if r.timings_ms.cloud_infer is not None
    )


def measure_wifi(models: Models, *, short: bool, say: Say) -> tuple[dict[str, float], dict[str, Any]]:
    """The busy clip over WiFi, by its true boxes."""
    frames = frames_shown(ONLY_VTEST, say)
    camera = default_camera(ONLY_VTEST)
    runs = run_over(ONLY_VTEST, "wifi", camera, models, SHORT_SEEDS if short else SEEDS, say)
    f1 = [f1_of_frames(run, frames) for run in runs]
    up = statistics.median(run.uplink_bytes for run in runs)
    figures = {"vtest_wifi_f1": statistics.median(f1), "vtest_wifi_uplink_share_of_h264": up / h264_bytes(frames)}
    return figures, {"f1": f1, "runs": [run_details(run) for run in runs]}


def f1_of_frames(run: VirtualRun, frames: Sequence[Shown]) -> float:
    """F1 of all frames, each with the first result that was published for it."""
    return streaming_f1(run, frames, within_ms=float("inf"))


def run_details(run: VirtualRun) -> Mapping[str, Any]:
    """One run in numbers."""
    origins: dict[str, int] = {}
    for result in run.record.values():
        origins[result.origin] = origins.get(result.origin, 0) + 1
    analysed = len(run.record) - origins.get(Origin.CARRIED.value, 0)
    cloud = origins.get(Origin.CLOUD.value, 0) + origins.get(Origin.FUSED.value, 0)
    return {
        "origins": origins,
        "uplink_bytes": run.uplink_bytes,
        "hit_ratio": sum(r.deadline_met for r in run.record.values()) / len(run.captured_s),
        "lambda_edge": 1 - cloud / analysed if analysed else None,
        "p99_ms": p99_ms(run.results),
        "counters": run.counters,
    }
