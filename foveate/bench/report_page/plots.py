"""The plots of the report as SVG, by matplotlib, which is needed nowhere else.

Colours of text and lines are placeholders which ``foveate.bench.report_page.html`` turns into those of its theme.
"""

import io
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from foveate.bench.ablation import FULL
from foveate.bench.report_page.measures import System, front
from foveate.bench.report_page.segments import FEATURES, Segment
from foveate.bench.report_page.tables import full, sent_share
from pipeline.results import Origin

INK, FAINT, GRID, PAPER = "#24292f", "#6a737d", "#d9dee3", "#fdfdfc"
OURS = "#0b8a83"
COLOURS = ("#d9772b", "#7b61c2", "#3f7fc1", "#c2506d", "#8c8c3e", "#5d9c59", "#a3694f", "#6f8295", "#b05fb0", "#4aa3b5",
           "#9a6a3f")  # fmt: skip
MARKS = "osD^vPX<>*h"
ORIGIN_COLOURS = {
    Origin.FUSED: OURS, Origin.CLOUD: "#5d9c59", Origin.CARRIED: "#b9c3cc", Origin.EDGE: "#3f7fc1",
    Origin.EDGE_TIMEOUT: "#d9772b", Origin.EDGE_SHED: "#c2506d",
}  # fmt: skip
STYLE: Any = {
    "svg.fonttype": "none", "svg.hashsalt": "foveate", "font.family": "sans-serif", "font.size": 10,
    "text.color": INK, "axes.labelcolor": INK, "axes.edgecolor": FAINT, "axes.titlecolor": INK, "xtick.color": FAINT,
    "ytick.color": FAINT, "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True, "grid.color": GRID,
    "grid.linewidth": 0.8, "axes.axisbelow": True, "legend.frameon": False, "axes.titlesize": 10.5,
    "axes.titlelocation": "left", "axes.titleweight": "bold", "lines.linewidth": 1.6,
}  # fmt: skip


def drawn(draw: Callable[[Figure], None], width: float = 9.0, height: float = 4.6) -> bytes:
    """An SVG of a drawing, the same for the same drawing."""
    with rc_context(STYLE):
        figure = Figure(figsize=(width, height), layout="constrained")
        draw(figure)
        file = io.BytesIO()
        figure.savefig(file, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    return file.getvalue()


def pareto(found: Sequence[System]) -> bytes:
    """Bytes against streaming F1: every rate of every system, and the front of all; once more where it is close."""

    def draw(figure: Figure) -> None:
        whole, close = figure.subplots(1, 2, width_ratios=(1, 1.15))
        for axes in (whole, close):
            _pareto(axes, found)
            axes.set_xlabel("uplink, kbit/s at the socket")
        whole.set_xscale("symlog", linthresh=10, linscale=0.5)
        whole.set_xticks([0, 10, 100, 1000], ["0", "10", "100", "1,000"])
        whole.set_xlim(left=-1.5)
        whole.set_title("all")
        most, ours = 2.2 * max(s.kbps for s in found if s.head.system == FULL), full(found).sf1.value
        close.set_xlim(-0.03 * most, most)
        close.set_ylim(ours - 0.08, min(1.0, ours + 0.03))
        close.set_title("near Foveate")
        whole.set_ylabel("streaming F1 by the deadline")
        handles, labels = whole.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=4, fontsize=9)

    return drawn(draw, height=5.6)


def _pareto(axes: Axes, found: Sequence[System]) -> None:
    shown = [s for s in found if s.head.group == "systems"]
    names = [name for name in dict.fromkeys(s.head.system for s in shown) if name != FULL]
    for name, colour, mark in zip(names, COLOURS, MARKS, strict=False):
        _curve(axes, [(s.kbps, s.sf1.value) for s in shown if s.head.system == name], name, colour, mark)
    _curve(axes, [(s.kbps, s.sf1.value) for s in shown if s.head.system == FULL], FULL, OURS, "o", strong=True)
    ours = full(found)
    if np.isfinite(ours.sf1.low):
        axes.plot([ours.kbps] * 2, [ours.sf1.low, ours.sf1.high], color=OURS, linewidth=1.2)
    best = front([(s.kbps, s.sf1.value) for s in shown])
    axes.step(*zip(*best, strict=True), where="post", color=FAINT, linewidth=0.8, linestyle=":", label="front of all")


def _curve(
    axes: Axes, points: Sequence[tuple[float, float]], name: str, colour: str, mark: str, *, strong: bool = False
) -> None:
    x, y = zip(*sorted(points), strict=True)
    size, width = (7.0, 2.2) if strong else (5.0, 1.2)
    axes.plot(x, y, color=colour, marker=mark, markersize=size, linewidth=width, label=name, zorder=5 if strong else 3)


def latency(found: Sequence[System]) -> bytes:
    """How many answers are there after how long."""

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        for system, colour in zip(found, (OURS, *COLOURS), strict=False):
            values = system.latency_ms
            if len(values):
                label = f"{system.head.system} · {system.head.setting}".removesuffix(" · -")
                axes.plot(values, np.arange(1, len(values) + 1) / len(values), color=colour, label=label)
        deadline_ms = 1000 * found[0].head.slo_s
        axes.axvline(deadline_ms, color=FAINT, linestyle="--", linewidth=1)
        axes.text(deadline_ms, 0.02, " deadline", color=FAINT, fontsize=9)
        axes.set_xscale("log")
        axes.set_xlabel("ms from capture to the first answer, frames that were looked at")
        axes.set_ylabel("share of answers")
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=9)

    return drawn(draw, height=4.2)


def timeline(system: System, rivals: Sequence[System]) -> bytes:
    """Through an outage: what was sent, how the answers came about, how old the cloud's last word was. First seed."""

    def draw(figure: Figure) -> None:
        bytes_axes, answer_axes, stale_axes = figure.subplots(3, sharex=True, height_ratios=(1, 1.6, 1.3))
        frames = system.runs[0].frames
        seconds = np.arange(int(frames[-1].at_s) + 2)
        sent = [(f.sent_at_s, f.sent_bytes * 8 / 1000) for f in frames if f.sent_at_s is not None]
        kbit, _ = np.histogram([at for at, _ in sent], seconds, weights=[size for _, size in sent])
        bytes_axes.step(seconds[:-1], kbit, where="post", color=OURS)
        bytes_axes.set_title("sent, kbit in each second; shaded: no link")
        bottom = np.zeros(len(seconds) - 1)
        for origin, colour in ORIGIN_COLOURS.items():
            counts, _ = np.histogram([f.at_s + 1e-6 for f in frames if f.origin == origin.value], seconds)
            if counts.any():
                answer_axes.bar(seconds[:-1] + 0.5, counts, 0.9, bottom, color=colour, label=origin.value)
            bottom = bottom + counts
        answer_axes.set_title("answers in each second by their origin")
        answer_axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=9)
        for each, colour in zip((system, *rivals), (OURS, *COLOURS), strict=False):
            known = [(f.at_s, f.stale_s) for f in each.runs[0].frames if f.stale_s is not None]
            stale_axes.plot(*zip(*known, strict=True), color=colour, label=each.head.system, linewidth=1.3)
        stale_axes.set_title("age of the cloud's last word when a frame is due, s")
        stale_axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=9)
        stale_axes.set_xlabel("s from the beginning")
        for axes in (bytes_axes, answer_axes, stale_axes):
            axes.set_xlim(0, seconds[-1])
            axes.set_ylim(bottom=0)
            for start, end in system.head.outages:
                axes.axvspan(start, end, color=FAINT, alpha=0.18, linewidth=0)

    return drawn(draw, height=6.4)


def parts(found: Sequence[System]) -> bytes:
    """What each change of a part does to streaming F1, with its interval."""

    def draw(figure: Figure) -> None:
        axes, ours = figure.subplots(), full(found)
        changed = sorted((s for s in found if s.head.group == "ablation"), key=lambda s: s.less(ours).value)
        for place, system in enumerate(reversed(changed)):
            less = system.less(ours)
            colour = (COLOURS[0] if less.value < 0 else COLOURS[2]) if less.sure_sign else FAINT
            if np.isfinite(less.low):
                axes.plot([less.low, less.high], [place, place], color=colour, linewidth=2.2, solid_capstyle="butt")
            axes.plot([less.value], [place], "o", color=colour)
        axes.axvline(0, color=FAINT, linewidth=1)
        axes.set_yticks(range(len(changed)), [s.head.system for s in reversed(changed)])
        axes.tick_params(axis="y", colors=INK, length=0)
        axes.set_xlabel("difference of streaming F1 to all parts (95 % interval; grey: it may be none)")

    return drawn(draw, height=3.8)


def features(found: Sequence[Segment]) -> bytes:
    """The cloud's gain on each segment against what the segment shows."""

    def draw(figure: Figure) -> None:
        clips = sorted({segment.clip for segment in found})
        all_axes = figure.subplots(1, len(FEATURES), sharey=True)
        for axes, name in zip(all_axes, FEATURES, strict=True):
            for clip, colour in zip(clips, (OURS, *COLOURS), strict=False):
                inside = [segment for segment in found if segment.clip == clip]
                x, y = [getattr(s, name) for s in inside], [s.gain for s in inside]
                axes.scatter(x, y, s=20, color=colour, alpha=0.75, linewidth=0, label=clip)
            axes.axhline(0, color=FAINT, linewidth=0.8)
            axes.set_xlabel(name)
        all_axes[0].set_ylabel("gain in F1")
        all_axes[-1].legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=9)

    return drawn(draw, height=2.9)


def across(found: Sequence[System]) -> bytes:
    """A static threshold of one camera on another: what is kept of F1, and what is sent."""

    def draw(figure: Figure) -> None:
        tuned, clips = sorted({s.head.system for s in found}), sorted({s.head.playlist for s in found})
        cells = {(s.head.system, s.head.playlist): s for s in found}
        measures: tuple[tuple[str, Callable[[System], float]], ...] = (
            ("agreement with the larger model (F1)", lambda s: s.f1("slo_agreement")),
            ("share of the frames sent", sent_share),
        )
        for axes, (title, measure) in zip(figure.subplots(1, 2), measures, strict=True):
            values = np.array([[measure(cells[name, clip]) for clip in clips] for name in tuned])
            axes.pcolormesh(values, cmap="GnBu", vmin=0, vmax=1.4, edgecolors=PAPER, linewidth=1)
            axes.invert_yaxis()
            axes.grid(visible=False)
            axes.set_xticks(np.arange(len(clips)) + 0.5, clips)
            axes.set_yticks(np.arange(len(tuned)) + 0.5, tuned)
            axes.tick_params(colors=INK, length=0)
            axes.set_title(title)
            for (row, column), value in np.ndenumerate(values):
                axes.text(
                    column + 0.5,
                    row + 0.5,
                    f"{value:.2f}",
                    ha="center",
                    va="center",
                    color="#10222b",
                    fontweight="bold",
                )

    return drawn(draw, height=2.8)
