"""A measured load as a table and as JSON."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from rich import box
from rich.table import Table

from foveate.load.outcomes import Summary
from foveate.load.runs import Measured, Searched

_SEGMENTS = {"round_trip": "round trip", "network": "network", "queue": "queue", "batch_wait": "batch wait",
             "infer": "infer"}  # fmt: skip


def counts_table(summary: Summary) -> Table:
    """How many requests there were and what became of them."""
    table = Table("requests", "number", "share", box=box.SIMPLE)
    rows = {"offered": summary.offered, "sent": summary.sent, "answered in time": summary.in_time}
    rows |= {"late": summary.late}
    rows |= {f"refused, {reason}": count for reason, count in summary.refused.items()}
    rows |= {"unanswered": summary.unanswered}
    rows |= {f"not sent, {reason}": count for reason, count in summary.not_sent.items()}
    if summary.answered_twice:
        rows["answered twice"] = summary.answered_twice
    for name, count in rows.items():
        table.add_row(name, str(count), f"{count / summary.offered:.2%}" if summary.offered else "")
    return table


def times_table(summary: Summary) -> Table:
    """Percentiles of the answers' round trip and of its parts."""
    table = Table("of the answers, ms", "P50", "P95", "P99", box=box.SIMPLE)
    for name, label in _SEGMENTS.items():
        found = summary.segments.get(name)
        values = ("", "", "") if found is None else (found.p50_ms, found.p95_ms, found.p99_ms)
        table.add_row(label, *(value if isinstance(value, str) else f"{value:.1f}" for value in values))
    return table


def tried_table(searched: Searched) -> Table:
    """Every rate that the search has tried, in order."""
    table = Table("rate per s", "runs", "requests", "missed", "95 % interval", box=box.SIMPLE)
    for tried in searched.tried:
        low, high = tried.interval
        share = f"{tried.miss_share:.2%}"
        table.add_row(f"{tried.rate_per_s:.1f}", str(tried.runs), str(tried.offered), share, f"{low:.2%} to {high:.2%}")
    return table


def sentences(measured: Measured) -> list[str]:
    """What else there is to say of a run."""
    summary, spent = measured.summary, measured.spent
    sizes = ", ".join(f"{count} of {size}" for size, count in summary.batch_sizes.items() if size)
    cpu = f"generator {spent.generator_s:.1f}, broker {spent.broker_s:.1f}, workers {spent.workers_s:.1f}"
    lines = [
        f"goodput {summary.goodput_per_s:.1f} per s of {summary.offered_per_s:.1f} offered",
        f"answers by batch size: {sizes or 'none'}; from the cache: {summary.sources.get('cache', 0)}",
        "answers by worker: " + (", ".join(f"{name} {count}" for name, count in summary.servers.items()) or "none"),
        f"CPU seconds: {cpu}, everything else on this machine {spent.others_s:.1f}",
    ]
    if not summary.kept_up:
        lines.append(
            f"doubtful: {summary.late_sends} requests went out more than 5 ms late, the worst by"
            f" {summary.worst_send_lag_ms:.0f} ms, and {sum(summary.not_sent.values())} did not go out; run the"
            " generator on a machine of its own."
        )
    return lines


def found_sentence(searched: Searched, most_missed: float) -> str:
    """What the search found, with its uncertainty."""
    best, above = searched.found.best, searched.found.above
    if best is None:
        lowest = "" if above is None else f" ({above.rate_per_s:.1f} per s missed {above.miss_share:.1%})"
        return f"no rate was found with at most {most_missed:.1%} misses{lowest}"
    low, high = best.interval
    limit = (
        "the limit of the search" if above is None else f"{above.rate_per_s:.1f} per s missed {above.miss_share:.2%}"
    )
    return (
        f"the highest rate with at most {most_missed:.1%} misses is {best.rate_per_s:.1f} per s: {best.miss_share:.2%}"
        f" missed of {best.offered} in {best.runs} runs (95 % interval {low:.2%} to {high:.2%}); {limit}"
    )


def run_json(measured: Measured) -> dict[str, Any]:
    """A run as plain values."""
    summary = measured.summary
    return {
        **asdict(summary),
        "rate_per_s": measured.rate_per_s,
        "offered_per_s": summary.offered_per_s,
        "goodput_per_s": summary.goodput_per_s,
        "miss_share": summary.miss_share,
        "kept_up": summary.kept_up,
        "cpu": asdict(measured.spent),
    }


def search_json(searched: Searched) -> dict[str, Any]:
    """A search as plain values."""
    found = searched.found
    named: Mapping[str, Any] = {"best": found.best, "above": found.above}
    return {
        **{name: None if tried is None else asdict(tried) for name, tried in named.items()},
        "tried": [asdict(tried) for tried in searched.tried],
    }
