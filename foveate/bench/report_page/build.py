"""From a folder of records to ``report.md``, ``report.html`` and ``plots/``."""

from pathlib import Path

from foveate.bench.report_page import plots, story, tables
from foveate.bench.report_page.html import as_html
from foveate.bench.report_page.markdown import as_markdown
from foveate.bench.report_page.records import Evidence, read_evidence
from pipeline.errors import ConfigError


def build(out: Path) -> None:
    """Write the report from ``out/raw``; the same records give the same report. Raises ConfigError."""
    evidence = read_evidence(out / "raw")
    if not any(run.head.group != "across" for run in evidence.runs):
        raise ConfigError(f"There are no runs in {out / 'raw'}: measure first, or name another folder with --out.")
    page, pictures = story.tell(evidence), draw_all(evidence)
    try:
        (out / "plots").mkdir(parents=True, exist_ok=True)
        for name, svg in pictures.items():
            (out / "plots" / f"{name}.svg").write_bytes(on_paper(svg))
        (out / "report.md").write_text(as_markdown(page), "utf-8")
        (out / "report.html").write_text(as_html(page, pictures), "utf-8")
    except OSError as error:
        raise ConfigError(f"Cannot write to {out} ({error.strerror or error}): name another with --out.") from error


def draw_all(evidence: Evidence) -> dict[str, bytes]:
    """Every plot of the report by its name."""
    out = {}
    for cell, found in story.by_cell(evidence).items():
        out[story.slug("pareto", cell)] = plots.pareto(found)
        out[story.slug("parts", cell)] = plots.parts(found)
        out[story.slug("latency", cell)] = plots.latency(story.latency_systems(found))
        ours = tables.full(found)
        if ours.head.outages:
            out[story.slug("timeline", cell)] = plots.timeline(ours, story.timeline_rivals(found))
    segments, across = story.found_segments(evidence), story.across(evidence)
    if segments:
        out["features"] = plots.features(segments)
    if across:
        out["across"] = plots.across(across)
    return out


def on_paper(svg: bytes) -> bytes:
    """A plot as a file of its own: on paper, since nobody knows what is behind it."""
    start = svg.index(b">", svg.index(b"<svg")) + 1
    sheet = b'\n <rect width="100%" height="100%" fill="' + plots.PAPER.encode() + b'"/>'
    return svg[:start] + sheet + svg[start:]
