"""A page as one HTML file: plots and style are inside, nothing is loaded. It is light or dark as its reader likes."""

import re
from collections.abc import Iterable, Mapping
from html import escape
from pathlib import Path

from foveate.bench.report_page.page import Figure, Page, Section, Table

THEME = {
    "#24292f": "var(--ink)",
    "#6a737d": "var(--faint)",
    "#d9dee3": "var(--grid)",
    "#0b8a83": "var(--ours)",
}
"""Colours of the plots that the theme decides, see ``foveate.bench.report_page.plots``."""
STYLE = Path(__file__).with_name("style.css")


def as_html(page: Page, plots: Mapping[str, bytes]) -> str:
    """The page with its plots, SVG by name."""
    facts = "".join(f"<div><dt>{_text(what)}</dt><dd>{_text(value)}</dd></div>" for what, value in page.facts)
    contents = "".join(f'<li><a href="#s{n}">{_text(s.title)}</a></li>' for n, s in enumerate(page.sections))
    sections = "".join(_section(n, section, plots) for n, section in enumerate(page.sections))
    about = "".join(f"<li>{_text(line)}</li>" for line in page.about)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(page.title)}</title>\n<style>\n{STYLE.read_text('utf-8')}</style>\n</head>\n<body>\n"
        f'<header><h1>{_text(page.title)}</h1><p class="lead">{_text(page.lead)}</p><dl>{facts}</dl></header>\n'
        f"<nav><ol>{contents}</ol></nav>\n<main>{sections}</main>\n<footer><ul>{about}</ul></footer>\n"
        "</body>\n</html>\n"
    )


def _section(place: int, section: Section, plots: Mapping[str, bytes]) -> str:
    text = "".join(f"<p>{_text(each)}</p>" for each in section.text)
    figures = "".join(_figure(figure, plots[figure.name]) for figure in section.figures)
    tables = "".join(_table(table) for table in section.tables)
    return f'<section id="s{place}"><h2>{_text(section.title)}</h2>{text}{figures}{tables}</section>\n'


def _figure(figure: Figure, svg: bytes) -> str:
    caption = _text(figure.caption)
    picture = inlined(svg, figure.name)
    return f'<figure role="img" aria-label="{caption}">{picture}<figcaption>{caption}</figcaption></figure>'


def inlined(svg: bytes, name: str) -> str:
    """An SVG as a part of the page: in the colours of its theme and its font, with ids that no other plot has."""
    text = svg.decode()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    for plain, themed in THEME.items():
        text = text.replace(plain, themed)
    text = re.sub(r"font: ([^;\"]*?)(\d[\d.]*px) [^;\"]*", r"font: \1\2 var(--font)", text)
    text = re.sub(r'\bid="([^"]+)"', rf'id="{name}-\1"', text)
    return re.sub(r'(url\(#|xlink:href="#)', rf"\1{name}-", text)


def _table(table: Table) -> str:
    head = "".join(f"<th>{_text(cell)}</th>" for cell in table.header)
    rows = "".join(_row(row, strong=index in table.strong) for index, row in enumerate(table.rows))
    note = f'<p class="note">{_text(table.note)}</p>' if table.note else ""
    return (
        f'<h3>{_text(table.title)}</h3><div class="wide"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div>{note}"
    )


def _row(cells: Iterable[str], *, strong: bool) -> str:
    inside = "".join(f"<td{_tone(cell)}>{_text(cell)}</td>" for cell in cells)
    return f'<tr class="ours">{inside}</tr>' if strong else f"<tr>{inside}</tr>"


def _tone(cell: str) -> str:
    """A colour for who is ahead; the words say it too."""
    for word in ("ahead", "behind"):
        if cell.startswith(word):
            return f' class="{word}"'
    return ""


def _text(text: str) -> str:
    """Escaped; what stands between asterisks or backticks is set apart."""
    text = re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))
    return re.sub(r"\*([^*]+)\*", r"<em>\1</em>", text)
