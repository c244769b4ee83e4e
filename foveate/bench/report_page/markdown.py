"""A page as Markdown, its plots as files beside it."""

from collections.abc import Iterable

from foveate.bench.report_page.page import Page, Section, Table


def as_markdown(page: Page) -> str:
    """The page, with plots in ``plots/NAME.svg``."""
    lines = [f"# {page.title}", "", page.lead, "", "| | |", "|---|---|"]
    lines += [f"| {what} | **{value}** |" for what, value in page.facts]
    for section in page.sections:
        lines += ["", *_section(section)]
    lines += ["", "---", "", *(f"- {line}" for line in page.about)]
    return "\n".join(lines) + "\n"


def _section(section: Section) -> list[str]:
    lines = [f"## {section.title}"]
    for text in section.text:
        lines += ["", text]
    for figure in section.figures:
        lines += ["", f"![{figure.caption}](plots/{figure.name}.svg)", "", f"*{figure.caption}*"]
    for table in section.tables:
        lines += ["", *_table(table)]
    return lines


def _table(table: Table) -> list[str]:
    lines = [f"**{table.title}**", "", _row(table.header), _row(["---"] + ["---:"] * (len(table.header) - 1))]
    for index, row in enumerate(table.rows):
        lines.append(_row(f"**{cell}**" if index in table.strong else cell for cell in row))
    return [*lines, "", table.note] if table.note else lines


def _row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
