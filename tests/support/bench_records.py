"""Records of runs that were never run, for tests of the report."""

from pathlib import Path
from random import Random
from typing import Any

from foveate.bench.report_page.records import (
    Counts,
    FrameRecord,
    Run,
    RunHead,
    SceneRecord,
    ScheduleRecord,
    Scores,
    write_lines,
    write_run,
)

FRAMES, FPS = 300, 10.0


def head(system: str = "Foveate", setting: str = "default", **changes: Any) -> RunHead:
    """The head of a run on ``mix`` over ``lte``."""
    values: dict[str, Any] = {
        "group": "systems", "playlist": "mix", "network": "lte", "seed": 0, "slo_s": 0.15, "duration_s": FRAMES / FPS,
        "uplink_bytes": 300_000, "jpeg_bytes": 9_000_000, "h264_bytes": 1_000_000.0, "edge_s": 3.0, "cloud_s": 2.0,
    }  # fmt: skip
    return RunHead(system=system, setting=setting, **{**values, **changes})


def every_score(counts: Counts) -> Scores:
    """The same counts by whatever a frame is scored."""
    return Scores(d0=counts, slo=counts, slo_iou30=counts, d0_agreement=counts, slo_agreement=counts)


def frame(seq: int, **changes: Any) -> FrameRecord:
    """A frame that was looked at and answered in time, with one object found and one missed."""
    values: dict[str, Any] = {
        "seq": seq, "at_s": seq / FPS, "clip": "vtest", "origin": "fused", "latency_s": 0.1, "corrected_s": 0.1,
        "cloud": True, "stale_s": 0.3, "sent_bytes": 1000, "sent_at_s": seq / FPS, "found": 1, "true": 2,
        "scores": every_score((1, 0, 1)),
    }  # fmt: skip
    return FrameRecord(**{**values, **changes})


def run(about: RunHead, right: float = 0.9, seed: int = 0, **changes: Any) -> Run:
    """A run whose objects are found with a probability."""
    rng, frames = Random(f"{seed}/{right}"), []
    for seq in range(FRAMES):
        hits = sum(rng.random() < right for _ in range(4))
        score = (hits, 4 - hits, 4 - hits)
        frames.append(frame(seq, scores=every_score(score), found=4, true=4, **changes))
    return Run(about, frames)


def write_evidence(raw: Path) -> None:
    """A whole folder of records: two networks, one of them with an outage."""
    for network, outages in (("lte", []), ("outage", [(10.0, 20.0)])):
        where: dict[str, Any] = {"network": network, "outages": outages}
        write_run(raw, run(head(rate=1e9, **where), 0.9))
        write_run(raw, run(head(rate=1e9, seed=1, **where), 0.9, seed=1))
        write_run(raw, run(head(setting="20 kbit/s", rate=20.0, uplink_bytes=70_000, **where), 0.86))
        edge: dict[str, Any] = {"uplink_bytes": 0, "cloud_s": 0.0, **where}
        still: dict[str, Any] = {"origin": "edge", "cloud": False, "stale_s": None, "sent_bytes": 0, "sent_at_s": None}
        write_run(raw, run(head("B1 edge only, fewer frames", "10 fps", rate=10.0, **edge), 0.8, **still))
        write_run(raw, run(head("B8 random", "0.2 share", rate=0.2, uplink_bytes=400_000, **where), 0.84))
        write_run(raw, run(head("B9 oracle", "share 0.1", uplink_bytes=100_000, **where), 0.95))
        write_run(raw, run(head("B9 oracle", "share 0.9", uplink_bytes=900_000, **where), 0.97))
        late: dict[str, Any] = {"latency_s": 2.0, "corrected_s": 2.0}
        write_run(raw, run(head("B2 cloud only, in turn", "every frame", uplink_bytes=9_000_000, **where), 0.1, **late))
        write_run(raw, run(head("late answers dropped", "-", group="ablation", **where), 0.85))
    for clip in ("vtest", "bottle"):
        for tuned in ("vtest", "bottle"):
            about = head(f"tuned on {tuned}", "0.0100", group="across", playlist=clip, network="none")
            write_run(raw, run(about, 0.9 if clip == tuned else 0.5))
    rng = Random(1)
    scene = [
        SceneRecord(
            seq=n, at_s=n / FPS, clip="vtest", count=rng.randint(1, 6), area=rng.random() / 50,
            speed=1.0 + rng.random(), arrivals=rng.randint(0, 1), idle=rng.random() < 0.2,
        )
        for n in range(FRAMES)
    ]  # fmt: skip
    write_lines(raw / "mix.scene.jsonl", scene)
    loads = [
        ScheduleRecord(
            system=name, load=1.3, seed=1, hit=hit, goodput=hit, fairness=1.1, hopeless_runs=0, late_runs=late_runs
        )
        for name, hit, late_runs in (("Foveate", 0.76, 3), ("B11 first come, first served", 0.1, 4000))
    ]
    write_lines(raw / "schedules.jsonl", loads)
    write_lines(raw / "context.jsonl", [{"command": "foveate bench all --out x", "service_ms": {"edge": 6.0}}])
