"""The sections of the report: what is compared with what, and what came out."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from foveate.bench.ablation import LEFT_OUT
from foveate.bench.bootstrap import f1
from foveate.bench.report_page import tables
from foveate.bench.report_page.measures import System, quantile, systems
from foveate.bench.report_page.page import Figure, Page, Section, interval, number, percent
from foveate.bench.report_page.records import Evidence
from foveate.bench.report_page.segments import Segment, segments

Cell = tuple[str, str]
"""Playlist and network."""
OUTAGE = "outage"
BUSY_LOAD = 0.7
"""Beyond it other work makes service times longer than they are."""
LATENCY_ROWS = ("B2 cloud only, in turn", "B3 cloud only, newest wins", "B0 edge only, every frame")
PATIENT, DROPPED = "waits for the cloud, no timeout", "late answers dropped"


def name_of(cell: Cell) -> str:
    """How people call what was played over a network."""
    return f"{cell[0]} over {cell[1]}"


def slug(kind: str, cell: Cell | None = None) -> str:
    """The name of a plot."""
    return kind if cell is None else f"{kind}-{cell[0]}-{cell[1]}"


def by_cell(evidence: Evidence) -> dict[Cell, list[System]]:
    """The systems of each playlist and network, the mixed playlist and the better networks first."""
    out: dict[Cell, list[System]] = {}
    for system in systems(run for run in evidence.runs if run.head.group != "across"):
        out.setdefault((system.head.playlist, system.head.network), []).append(system)
    return {cell: out[cell] for cell in sorted(out, key=lambda cell: (cell[1] == OUTAGE, cell))}


def chosen(found: Iterable[System], names: Sequence[str]) -> list[System]:
    """The product, and the named systems that are there, in this order."""
    listed = list(found)
    return [tables.full(listed), *(s for name in names for s in listed if s.head.system == name)]


def edge_alone(found: Sequence[System]) -> System | None:
    """The best of the product's runs without its cloud; None where there is none."""
    edge = [system for system in found if system.head.system == tables.EDGE]
    return max(edge, key=lambda system: system.sf1.value, default=None)


def found_segments(evidence: Evidence) -> list[Segment]:
    """The segments of the first playlist that was played without the cloud too."""
    for cell, found in by_cell(evidence).items():
        alone = edge_alone(found)
        if alone is not None and cell[0] in evidence.scenes:
            return segments(evidence.scenes[cell[0]], tables.full(found), alone)
    return []


def across(evidence: Evidence) -> list[System]:
    """The thresholds of one clip on another."""
    return systems(run for run in evidence.runs if run.head.group == "across")


def tell(evidence: Evidence) -> Page:
    """The page. Raises ValueError where no run of the product itself is there."""
    cells = by_cell(evidence)
    if not cells:
        raise ValueError("there is no run to report on")
    sections = (
        *(_bytes(cell, found) for cell, found in cells.items()),
        *(_parts(cell, found) for cell, found in cells.items()),
        *(_latency(cell, found) for cell, found in cells.items()),
        *(_outage(cell, found) for cell, found in cells.items() if tables.full(found).head.outages),
        _loads(evidence),
        _segments(evidence),
        _across(evidence),
        _method(),
    )
    first, found = next(iter(cells.items()))
    lead = (
        "The product, its parts and its alternatives on the same frames over the same networks. Every system is played"
        " on virtual time with service times that were measured on this machine; what a rival does on the camera is"
        " free. Where Foveate loses, it says so." + _doubt(evidence.context)
    )
    return Page("Foveate, compared", lead, tuple(_facts(first, found, cells)), sections, _about(evidence.context))


def _doubt(context: dict[str, Any]) -> str:
    """What speaks against the figures; empty where nothing does."""
    load = context.get("machine", {}).get("load_1min", 0.0)
    if load <= BUSY_LOAD:
        return ""
    return f" *Doubtful: other work kept the machine busy (load {load}) when the service times were measured.*"


def _facts(cell: Cell, found: Sequence[System], cells: dict[Cell, list[System]]) -> list[tuple[str, str]]:
    ours, alone = tables.full(found), edge_alone(found)
    shares = f"{percent(ours.share_of_jpeg)} of JPEG, {percent(ours.share_of_h264, 0)} of H.264"
    p50, p99 = (number(quantile(ours.latency_ms, share), 0) for share in (0.5, 0.99))
    facts = [
        (f"streaming F1, {name_of(cell)}", interval(ours.sf1)),
        ("uplink", f"{number(ours.kbps, 0)} kbit/s: {shares}"),
        ("P50 / P99 of an answer", f"{p50} / {p99} ms"),
        ("in time, of all frames", percent(ours.hits(cloud=False) + ours.hits(cloud=True))),
    ]
    if alone is not None:
        facts.append(("more than without the cloud", interval(ours.less(alone), signed=True)))
    for other, systems_there in cells.items():
        if other[1] == OUTAGE:
            there = tables.full(systems_there)
            share = percent(there.hits(cloud=False) + there.hits(cloud=True))
            facts.append(("in time, through an outage", share))
            break
    return facts


def _bytes(cell: Cell, found: Sequence[System]) -> Section:
    text = (
        "One point per rate of a system; a front, not one point, is what is compared. The bar on Foveate's point is its"
        " 95 % interval. B2 to B6 send whole frames and have no small model; B7 to B9 are the product with another"
        " choice of what to send, B9 with one that nobody can build."
    )
    caption = f"Bytes against streaming F1, {name_of(cell)}."
    plots = (Figure(slug("pareto", cell), caption),)
    found = [system for system in found if system.head.group == "systems"]
    both = tables.table_of_rivals(found), tables.table_of_systems(found)
    return Section(f"Bytes and accuracy: {name_of(cell)}", (text,), plots, both)


def _parts(cell: Cell, found: Sequence[System]) -> Section:
    text = (
        "Differences are paired: both are scored on the same segments. Plain EDF without early drop tells nothing with"
        f" one camera; see the worker under load. With one tier they do nothing, so not here: {', '.join(LEFT_OUT)}."
    )
    plots = (Figure(slug("parts", cell), f"What changing one part does to streaming F1, {name_of(cell)}."),)
    return Section(f"What each part is worth: {name_of(cell)}", (text,), plots, (tables.table_of_parts(found),))


def latency_systems(found: Sequence[System]) -> list[System]:
    """Those whose latency is told."""
    return chosen(found, (*LATENCY_ROWS, PATIENT, DROPPED, "revisions published as well"))


def _latency(cell: Cell, found: Sequence[System]) -> Section:
    plots = (Figure(slug("latency", cell), f"From capture to the first answer, {name_of(cell)}."),)
    return Section(f"Latency: {name_of(cell)}", (), plots, (tables.table_of_latency(latency_systems(found)),))


def timeline_rivals(found: Sequence[System]) -> list[System]:
    """Whose staleness is shown beside the product's."""
    return chosen(found, ("B2 cloud only, in turn", "B3 cloud only, newest wins"))[1:]


def _outage(cell: Cell, found: Sequence[System]) -> Section:
    ours = tables.full(found)
    inside = [f for f in ours.frames if any(start <= f.at_s < end for start, end in ours.head.outages)]
    in_time = sum(f.latency_s is not None and f.latency_s <= ours.head.slo_s + 1e-6 for f in inside)
    during = np.sum([f.scores.slo for f in inside], axis=0) if inside else np.zeros(3)
    text = (
        f"While there is no link, {in_time} of {len(inside)} frames are answered in time, with a streaming F1 of"
        f" {number(float(f1(during)))}." if inside else "No frame was captured while there was no link."
    )  # fmt: skip
    plots = (Figure(slug("timeline", cell), f"Through an outage, {name_of(cell)}: Foveate, first seed."),)
    return Section(f"Through an outage: {name_of(cell)}", (text,), plots)


def _loads(evidence: Evidence) -> Section:
    text = (
        "The worker's real queue, admission and batcher with a model that sleeps for its service time. A batch saves"
        " nothing here, as measured for this model on a CPU, so a rule that fills batches can only lose."
    )
    return Section("The worker under load", (text,), (), (tables.table_of_loads(evidence.schedules),))


def _segments(evidence: Evidence) -> Section:
    text = (
        "Each point is a segment of 5 s: how much higher F1 is with the cloud than without, against what it shows."
        " Rankings of systems change with content, so these clips stand for themselves only."
    )
    found = found_segments(evidence)
    plots = (Figure("features", "The cloud's gain by what a segment shows."),) if found else ()
    return Section("Where the cloud helps", (text,), plots, (tables.table_of_features(found),) if found else ())


def _across(evidence: Evidence) -> Section:
    text = (
        "A static threshold on changed pixels, tuned on one clip so that boxes moved along reach nine tenths of the"
        " larger model's F1, and used on the others, without latency. Such thresholds do not transfer."
    )
    found = across(evidence)
    plots = (Figure("across", "A threshold of one camera on another."),) if found else ()
    return Section("Another camera", (text,), plots, (tables.table_across(found),) if found else ())


METHOD = """
Streaming F1 (sF1): at each capture the newest published state that is there by the deadline (D = SLO; D = 0: at
capture) is scored against what is there then, IoU 0.5, one to one, pooled over all frames. The truth of vtest are true
boxes; elsewhere the larger model's detections, of which the unsure ones count neither way. *Agreement* is with the
larger model's sure detections on every clip: it rewards its errors too.

Intervals are of a block bootstrap over segments of 5 s, seeds together. Bytes are those at the socket, with MQTT and
TCP/IP headers; peaks count what results tell of, so what was asked after its answer is missing in them. Loss is delay
here; what is repeated is not counted. Seconds of the models are as measured, one thread, and leave out capture, gate
and messages.

What favours the rivals: encoding on the camera is free for them, B4's worker takes no time, B6 learns from a part of
what it is scored on, and a frame that is filled in between answers is published anew when an answer comes. Three clips
of a few minutes allow no general claim, whoever is ahead.
"""


def _method() -> Section:
    return Section("How it was measured", tuple(text.replace("\n", " ") for text in METHOD.strip().split("\n\n")))


def _about(context: dict[str, Any]) -> tuple[str, ...]:
    machine = context.get("machine", {})
    command, date, commit = (context.get(name, "?") for name in ("command", "date", "commit"))
    processor, cpus, load = (machine.get(name, "?") for name in ("processor", "cpus", "load_1min"))
    times = ", ".join(f"{name} {value}" for name, value in context.get("service_ms", {}).items())
    return (
        f"Command: `{command}`, {date}, commit {commit}",
        f"Machine: {processor}, {cpus} cores, load {load} at the start",
        f"Service times, medians in ms: {times}; the worker's model with 8 bits {context.get('int8_cloud_ms', '?')}",
        "Records: `raw/`, a file per run and a line per frame; this page is made from them alone",
    )
