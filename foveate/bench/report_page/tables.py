"""The tables of the report, each from the systems of one playlist over one network."""

from collections import defaultdict
from collections.abc import Sequence
from statistics import median

from foveate.bench.ablation import FULL
from foveate.bench.report_page.measures import System, least_cost, quantile, value_at
from foveate.bench.report_page.page import NOTHING, Table, interval, number, percent
from foveate.bench.report_page.records import ScheduleRecord
from foveate.bench.report_page.segments import FEATURES, Segment, rank_correlation

EVEN = 0.005
"""Closer than this two values of F1 are called even where there is no interval for their difference."""
EDGE = "B1 edge only, fewer frames"
FROM_NOTHING = ("B7 least confidence", "B8 random")
"""Systems which, at the rate 0, are the product without its cloud."""


def full(found: Sequence[System]) -> System:
    """The product as it is by default, of one playlist and network."""
    return next(s for s in found if s.head.system == FULL and s.head.setting == "default")


def table_of_systems(found: Sequence[System]) -> Table:
    """Every system at every rate: bytes and scores."""
    ours, rows, strong = full(found), list[tuple[str, ...]](), set[int]()
    for system in sorted(found, key=lambda system: system.head.system != FULL):
        if system is ours:
            strong.add(len(rows))
        rows.append(
            (
                f"{system.head.system} · {system.head.setting}",
                number(system.kbps, 1),
                number(system.peak_kbps, 0),
                percent(system.share_of_jpeg),
                percent(system.share_of_h264, 0),
                interval(system.sf1),
                NOTHING if system is ours else interval(system.less(ours), signed=True),
                number(system.f1("d0")),
                number(system.f1("slo_iou30")),
                number(system.f1("slo_agreement")),
                number(system.f1("slo", "vtest")),
                number(system.count_accuracy),
            )
        )
    header = (
        "system · setting", "kbit/s", "peak 1 s", "of JPEG", "of H.264", "sF1 [95 %]", "minus Foveate [95 %]",
        "sF1, D = 0", "sF1, IoU 0.3", "agreement", "vtest, truth", "count",
    )  # fmt: skip
    return Table("All systems and settings", header, tuple(rows), strong=frozenset(strong))


def table_of_rivals(found: Sequence[System]) -> Table:
    """Each rival at the product's bytes, at each of the product's rates, and its bytes at the product's score."""
    ours = full(found)
    rates = sorted((s for s in found if s.head.system == FULL), key=lambda system: system.kbps)
    rows = []
    for name, curve in _curves(found).items():
        at_rates = [_at_equal_bytes(curve, rate) for rate in rates]
        cost = least_cost(curve, ours.sf1.value)
        best = max(score for _, score in curve)
        cost_text = f"never (at most {best:.3f})" if cost is None else number(cost, 1)
        ratio = NOTHING if cost is None else number(cost / ours.kbps, 2)
        rows.append((name, *at_rates, cost_text, ratio))
    header = (
        "rival",
        *(f"at {number(rate.kbps, 0)} kbit/s: Foveate {rate.sf1.value:.3f}" for rate in rates),
        f"its kbit/s for {ours.sf1.value:.3f}",
        f"times {number(ours.kbps, 0)} kbit/s",
    )
    note = (
        "Streaming F1 of the rival at the bytes of each of Foveate's rates, and whether Foveate is ahead or behind."
        " Between measured rates by straight lines; nothing is extended past them: below its least rate a rival cannot"
        " be compared at equal bytes, past its highest it keeps its best score."
    )
    return Table("Against each rival at equal bytes, and at equal streaming F1", header, tuple(rows), note)


def _curves(found: Sequence[System]) -> dict[str, list[tuple[float, float]]]:
    """(kbit/s, streaming F1) of the rivals' rates by name."""
    curves: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
    for system in found:
        if system.head.group == "systems" and system.head.system != FULL:
            curves[system.head.system].append((system.kbps, system.sf1.value))
    edge_alone = max(curves.get(EDGE, []), key=lambda point: point[1], default=None)
    if edge_alone is not None:
        for name in set(FROM_NOTHING) & curves.keys():
            curves[name].append(edge_alone)
    return dict(sorted(curves.items()))


def _at_equal_bytes(curve: Sequence[tuple[float, float]], ours: System) -> str:
    least, most = min(x for x, _ in curve), max(x for x, _ in curve)
    if least > ours.kbps:
        cost = least_cost(curve, ours.sf1.value)
        return "ahead: never reached" if cost is None else f"ahead: {cost / max(ours.kbps, 1e-9):,.0f} times the bytes"
    theirs = value_at(curve, ours.kbps) if ours.kbps <= most else max(y for _, y in curve)
    difference = ours.sf1.value - (theirs or 0.0)
    if abs(difference) < EVEN:
        return f"even: {theirs:.3f}"
    return f"{'ahead' if difference > 0 else 'behind'} by {abs(difference):.3f}: {theirs:.3f}"


def table_of_parts(found: Sequence[System]) -> Table:
    """The product with one part taken away, in the columns of the protocol."""
    ours = full(found)
    rows = [_part(ours, ours)]
    rows += [_part(system, ours) for system in found if system.head.group == "ablation"]
    header = (
        "row", "sF1 [95 %]", "difference [95 %]", "seeds, least to most", "vtest, truth", "Mbit/s", "of JPEG / H.264",
        "P50 / P99 ms", "hits edge + cloud", "goodput per s", "models s/s edge + cloud",
    )  # fmt: skip
    return Table("One part changed at a time", header, tuple(rows), strong=frozenset({0}))


def _part(system: System, ours: System) -> tuple[str, ...]:
    least, most = system.by_seed
    edge_s, cloud_s = system.model_load
    latency = system.latency_ms
    return (
        "Foveate, all parts" if system is ours else system.head.system,
        interval(system.sf1),
        NOTHING if system is ours else interval(system.less(ours), signed=True),
        f"{least:.3f} to {most:.3f}",
        number(system.f1("slo", "vtest")),
        number(system.kbps / 1000),
        f"{percent(system.share_of_jpeg)} / {percent(system.share_of_h264, 0)}",
        f"{number(quantile(latency, 0.5), 0)} / {number(quantile(latency, 0.99), 0)}",
        f"{percent(system.hits(cloud=False))} + {percent(system.hits(cloud=True))}",
        number(system.goodput, 1),
        f"{number(edge_s)} + {number(cloud_s)}",
    )


def table_of_latency(found: Sequence[System]) -> Table:
    """From capture to the answer, to its correction, and how old the larger model's last word is."""
    rows, strong = list[tuple[str, ...]](), set[int]()
    for system in found:
        if not len(system.latency_ms):
            continue
        if system is full(found):
            strong.add(len(rows))
        answer = [number(quantile(system.latency_ms, share), 0) for share in (0.5, 0.95, 0.99, 1.0)]
        corrected = [number(quantile(system.corrected_ms, share), 0) for share in (0.5, 0.95)]
        stale = [number(quantile(system.stale_ms, share), 0) for share in (0.5, 0.95, 1.0)]
        hits = percent(system.hits(cloud=False)), percent(system.hits(cloud=True))
        name = f"{system.head.system} · {system.head.setting}".removesuffix(" · -")
        rows.append((name, *answer, *corrected, *stale, *hits, number(system.goodput, 1)))
    header = (
        "system", "P50 ms", "P95", "P99", "most", "corrected P50", "P95", "stale P50", "P95", "most", "hits edge",
        "hits cloud", "goodput per s",
    )  # fmt: skip
    note = "Latency is of the frames that were looked at; hits are of all frames that were captured."
    return Table("Latency, corrections and staleness", header, tuple(rows), note, frozenset(strong))


def table_of_loads(records: Sequence[ScheduleRecord]) -> Table:
    """Medians over the seeds of the queue's runs."""
    groups: defaultdict[tuple[float, str], list[ScheduleRecord]] = defaultdict(list)
    for record in records:
        groups[record.load, record.system].append(record)
    rows, strong = list[tuple[str, ...]](), set[int]()
    for (load, name), runs in sorted(groups.items(), key=lambda item: (item[0][0], item[0][1] != FULL, item[0][1])):
        if name == FULL:
            strong.add(len(rows))
        hit, goodput, fairness = (median(getattr(r, what) for r in runs) for what in ("hit", "goodput", "fairness"))
        hopeless, late = (sum(getattr(r, what) for r in runs) for what in ("hopeless_runs", "late_runs"))
        rows.append((name, f"{load:g}", percent(hit), percent(goodput), number(fairness, 2), f"{hopeless}", f"{late}"))
    header = ("queue", "load", "in time", "goodput of capacity", "best / worst camera", "hopeless runs", "late runs")
    return Table("One worker, 24 cameras, deadlines of 60, 150 and 400 ms", header, tuple(rows), "", frozenset(strong))


def table_of_features(found: Sequence[Segment]) -> Table:
    """How the gain goes with what the segments show."""
    clips = sorted({segment.clip for segment in found})
    rows = []
    for name in FEATURES:
        each = [number(rank_correlation([s for s in found if s.clip == clip], name), 2) for clip in clips]
        rows.append((name, number(rank_correlation(found, name), 2), *each))
    header = ("feature", "all segments", *clips)
    title = f"Rank correlation (Spearman) of a feature with the cloud's gain, {len(found)} segments of 5 s"
    return Table(title, header, tuple(rows))


def table_across(found: Sequence[System]) -> Table:
    """A static threshold found on one clip, used on another: F1 against the larger model, and the frames it sends."""
    tuned, clips = sorted({s.head.system for s in found}), sorted({s.head.playlist for s in found})
    cells = {(s.head.system, s.head.playlist): s for s in found}
    rows = []
    for name in tuned:
        threshold = next(s.head.setting for s in found if s.head.system == name)
        parts = [f"{cells[name, clip].f1('slo_agreement'):.3f} ({percent(sent_share(cells[name, clip]), 0)})"
                 for clip in clips if (name, clip) in cells]  # fmt: skip
        rows.append((f"{name}, {threshold}", *parts))
    return Table("Agreement, and in brackets the share of frames sent", ("threshold", *clips), tuple(rows))


def sent_share(system: System) -> float:
    """The share of the frames that were sent."""
    return sum(frame.sent_bytes > 0 for frame in system.frames) / len(system.frames)
