"""What a run came to: one value for people and for ``--summary``."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from edge_agent.board import LATE_COUNTERS, Board
from edge_agent.camera import Camera
from edge_agent.reuse_counts import ReuseCounts
from foveate.children import Usage
from foveate.plan import NetworkSettings
from pipeline.metrics.attainment import Attainment
from pipeline.metrics.histogram import LogHistogram

_LEFT_OUT_ON_PURPOSE = frozenset({"not_due", "unchanged"})
_MEANINGS = {
    "edge_late": "the deadline came before the small model was done",
    "detector_busy": "a newer frame took the turn",
    "too_late_to_send": "the cloud was to look first, and the time was too short to send it",
    "storm": "changes came from everywhere",
}
"""Of reasons for which a frame is carried."""


def summary(
    cameras: Sequence[Camera],
    usage: dict[str, Usage],
    counters: dict[str, int],
    record_fault: str = "",
    network: NetworkSettings | None = None,
) -> dict[str, Any]:
    """The summary of a run, as ``--summary`` writes it. Durations in milliseconds, sizes in bytes.

    ``counters`` are the agent's; ``record_fault`` says why the record file lacks results;
    ``network`` is the modelled one, if there was one.
    """
    deadlines = {c.deadline_ms for c in cameras}
    # Where cameras have different deadlines there is none for all of them; each camera's part has its own.
    whole = _part([c.board for c in cameras], deadlines.pop() if len(deadlines) == 1 else None)
    return {
        **whole,
        "attainment": attainment(cameras),
        "duration_s": round(_duration_s([c.board for c in cameras]), 3),
        "record_lost": counters.get("record_lost", 0),
        "record_fault": record_fault,
        "network": None if network is None else asdict(network),
        "counters": counters,
        "cpu_s": {role: round(u.cpu_s, 2) for role, u in usage.items()},
        "rss_mb": {role: round(u.rss_mb, 1) for role, u in usage.items()},
        "cameras": {
            c.name: {
                "state": c.board.state.value,
                "reason": c.board.reason,
                "remark": c.remark,
                **_part([c.board], c.deadline_ms),
                "attainment": attainment([c]),
            }
            for c in cameras
        },
    }


def attainment(cameras: Sequence[Camera]) -> dict[str, Any]:
    """In time / accepted of some cameras together, with the hits of edge and cloud apart.

    Target and limit are null where the cameras have different ones; ``met`` is whether every camera meets its own.
    """
    together = Attainment()
    for camera in cameras:
        together.merge(camera.board.attainment)
    limits_ms = {c.settings.budget.sla.within_ms or c.deadline_ms for c in cameras}
    targets = {c.settings.budget.sla.share for c in cameras}
    verdicts = [c.board.attainment.met(c.settings.budget.sla.share) for c in cameras]
    accepted = together.accepted
    return {
        "within_ms": limits_ms.pop() if len(limits_ms) == 1 else None,
        "target": targets.pop() if len(targets) == 1 else None,
        "accepted": accepted,
        "share": round(together.share, 6) if together.share is not None else None,
        "met": False not in verdicts if accepted else None,
        "hit_edge": round(together.hit_edge / accepted, 6) if accepted else None,
        "hit_cloud": round(together.hit_cloud / accepted, 6) if accepted else None,
    }


def attainment_in_words(found: dict[str, Any], missed_by: Sequence[str] = ()) -> str:
    """For people: ``98 % within 100 ms: met``, or by which cameras it was missed, and what it came to."""
    if found["met"] is None:
        return "nothing was accepted for analysis"
    target = "each camera's target" if found["target"] is None else f"{100 * found['target']:g} %"
    within = "" if found["within_ms"] is None else f" within {found['within_ms']:g} ms"
    hits = f"edge {found['hit_edge']:.1%}, cloud {found['hit_cloud']:.1%}"
    share = math.floor(10_000 * found["share"] + 1e-7) / 100  # 100 % means all of them
    verdict = "met" if found["met"] else f"missed{' by ' * bool(missed_by)}{', '.join(missed_by)}"
    return f"{target}{within}: {verdict}, {share:g} % of {found['accepted']} accepted frames in time ({hits})"


def held_up_in_words(carried: dict[str, int]) -> str:
    """For people: why most of the frames that were to be analysed were carried; empty where none was."""
    held_up = Counter({reason: n for reason, n in carried.items() if reason not in _LEFT_OUT_ON_PURPOSE})
    if not held_up:
        return ""
    [(reason, most)] = held_up.most_common(1)
    meaning = f" ({_MEANINGS[reason]})" if reason in _MEANINGS else ""
    return f"{held_up.total()} frames; most often: {reason}{meaning}, {most} times"


def _missed_by(cameras: dict[str, Any]) -> list[str]:
    """The cameras that missed their promise, where there is more than one."""
    return [name for name, one in cameras.items() if one["attainment"]["met"] is False] if len(cameras) > 1 else []


def _duration_s(boards: list[Board]) -> float:
    """From the first capture to the last result."""
    first = [board.first_capture_s for board in boards if board.first_capture_s is not None]
    last = [board.last_result_s for board in boards if board.last_result_s is not None]
    return max(last) - min(first) if first and last else 0.0


def _part(boards: list[Board], deadline_ms: float | None) -> dict[str, Any]:
    ledgers = [board.ledger.snapshot() for board in boards]
    finals: Counter[str] = Counter()
    drops: Counter[str] = Counter()
    latency, analysed = LogHistogram(), LogHistogram()
    for board, ledger in zip(boards, ledgers, strict=True):
        finals.update(ledger.finals)
        drops.update(ledger.drops)
        latency.merge(board.latency)
        analysed.merge(board.latency_analysed)
    answered = sum(finals.values())
    cloud = finals["cloud"] + finals["fused"]
    looked = answered - finals["carried"]
    return {
        "captured": sum(ledger.captured for ledger in ledgers),
        "finals": {k: v for k, v in finals.items() if v},
        "drops": {k: v for k, v in drops.items() if v},
        "carried": dict(sum((board.carried for board in boards), Counter[str]())),
        "in_flight": sum(ledger.in_flight for ledger in ledgers),
        "invariant_ok": all(ledger.invariant_ok for ledger in ledgers),
        "latency_ms": _percentiles(latency),
        "latency_analysed_ms": _percentiles(analysed),
        "deadline_ms": deadline_ms,
        "deadline_hit_ratio": round(sum(b.on_time for b in boards) / answered, 6) if answered else None,
        "bytes_up": sum(board.bytes_up for board in boards),
        "bytes_by_tier": _together(board.departures.by_tier for board in boards),
        "bytes_leaving_site": sum(board.departures.leaving_site_bytes for board in boards),
        "jpeg_all_bytes": sum(_jpeg_all_bytes(b, ledger.captured) for b, ledger in zip(boards, ledgers, strict=True)),
        "lambda_edge": round(1 - cloud / looked, 4) if looked else None,
        "answers_by_tier": _together(board.answers_by_tier for board in boards),
        "reuse": _reuse(ReuseCounts.together(board.reuse for board in boards)),
        **{kind: sum(board.counters[kind] for board in boards) for kind in LATE_COUNTERS},
    }


def _reuse(counts: ReuseCounts) -> dict[str, Any]:
    return {
        "spared": counts.spared,
        "answered": counts.answered,
        "hit_ratio": None if counts.hit_ratio is None else round(counts.hit_ratio, 4),
        "mean_ms": None if counts.mean_ms is None else round(counts.mean_ms, 2),
    }


def _together(parts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Sums by name, zeros included."""
    total: dict[str, int] = {}
    for part in parts:
        for name, count in part.items():
            total[name] = total.get(name, 0) + count
    return total


def _jpeg_all_bytes(board: Board, captured: int) -> int:
    """What every captured frame as JPEG would have taken, from the frames that were measured."""
    if not board.jpeg_samples:
        return 0
    return round(board.jpeg_sample_bytes / board.jpeg_samples * captured)


def _percentiles(histogram: LogHistogram) -> dict[str, float | None]:
    values = {f"p{p}": histogram.percentile(p) for p in (50, 95, 99)} | {"max": histogram.greatest}
    return {name: None if value is None else round(value, 2) for name, value in values.items()}


def _size(size_bytes: int) -> str:
    return f"{size_bytes / 1e6:.2f} MB" if size_bytes >= 1_000_000 else f"{size_bytes / 1e3:.1f} kB"


def _left_site(leaving_bytes: int, on_site_bytes: int) -> str:
    left = f"{_size(leaving_bytes)} of pictures, to the tier cloud" if leaving_bytes else "no pictures"
    return left + (f"; {_size(on_site_bytes)} to workers on site" if on_site_bytes else "")


def show(result: dict[str, Any], console: Console) -> None:
    """Print a summary for people."""
    table = Table(title="Foveate", show_header=False, title_justify="left", box=None, pad_edge=False)
    table.add_column(style="bold")
    table.add_column()
    latency = result["latency_analysed_ms"]
    ratio = result["deadline_hit_ratio"]
    jpeg = result["jpeg_all_bytes"]
    share = f" ({result['bytes_up'] / jpeg:.1%} of JPEG of every frame)" if jpeg else ""
    table.add_row("frames", f"{result['captured']} captured in {result['duration_s']:.1f} s")
    table.add_row("answered", ", ".join(f"{n} {origin}" for origin, n in sorted(result["finals"].items())) or "none")
    table.add_row("dropped", ", ".join(f"{n} {why}" for why, n in sorted(result["drops"].items())) or "none")
    if latency["p50"] is not None:
        table.add_row("latency", f"P50 {latency['p50']:.0f} ms, P99 {latency['p99']:.0f} ms, analysed frames")
    if ratio is not None and result["deadline_ms"] is not None:
        share_in_time = f"{ratio:.2%} of all answers within {result['deadline_ms']:.0f} ms, analysed or carried"
        table.add_row("answered in time", share_in_time)
    table.add_row("analysed in time", attainment_in_words(result["attainment"], _missed_by(result["cameras"])))
    if held_up := held_up_in_words(result["carried"]):
        table.add_row("not analysed", held_up)
    if (breaches := result["counters"].get("budget_breaches")) is not None:
        table.add_row("alerts", f"{breaches or 'no'} breach{'' if breaches == 1 else 'es'} of latency budgets")
    if result["lambda_edge"] is not None:
        table.add_row("edge alone", f"{result['lambda_edge']:.1%} of the analysed frames (lambda)")
    table.add_row("uplink", f"{_size(result['bytes_up'])}{share}")
    table.add_row("left the site", _left_site(result["bytes_leaving_site"], result["bytes_by_tier"]["edge"]))
    if result["network"] is not None:
        table.add_row("network", f"modelled: {result['network']['profile']}, seed {result['network']['seed']}")
    if result["record_lost"]:
        table.add_row("record", f"{result['record_lost']} results were not written: {result['record_fault']}")
    table.add_row("CPU", ", ".join(f"{role} {s:.1f} s" for role, s in result["cpu_s"].items()))
    table.add_row("memory", ", ".join(f"{role} {m:.0f} MB" for role, m in result["rss_mb"].items()))
    for name, camera in result["cameras"].items():
        reason = f": {camera['reason']}" if camera["reason"] else ""
        table.add_row(name, f"{camera['state']}{reason}")
        if camera["remark"]:
            table.add_row("", f"[yellow]{escape(camera['remark'])}[/yellow]")
    console.print(table)
