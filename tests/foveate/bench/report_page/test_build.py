"""A report is made from records alone, and from all of them."""

import json
import re
from pathlib import Path

import pytest

from foveate.bench.report_page.build import build
from foveate.bench.report_page.html import inlined
from pipeline.errors import ConfigError
from tests.support.bench_records import write_evidence


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    write_evidence(folder / "raw")
    build(folder)
    return folder


def everything(folder: Path) -> dict[str, bytes]:
    files = [folder / "report.md", folder / "report.html", *sorted((folder / "plots").iterdir())]
    return {file.name: file.read_bytes() for file in files}


def test_the_same_records_give_the_same_report_to_the_byte(out: Path, tmp_path: Path) -> None:
    (tmp_path / "raw").mkdir()
    for file in (out / "raw").iterdir():
        (tmp_path / "raw" / file.name).write_bytes(file.read_bytes())
    build(tmp_path)
    assert everything(tmp_path) == everything(out)


def test_another_record_gives_another_report(out: Path, tmp_path: Path) -> None:
    write_evidence(tmp_path / "raw")
    [file] = (tmp_path / "raw").glob("systems_Foveate_default_mix_lte_0*")
    lines = file.read_text().splitlines()
    worse = json.loads(lines[7])
    worse["scores"]["slo"], worse["latency_s"] = [0, 9, 9], 0.8
    file.write_text("\n".join([*lines[:7], json.dumps(worse), *lines[8:]]))
    build(tmp_path)
    assert (tmp_path / "report.md").read_bytes() != (out / "report.md").read_bytes()


def test_a_loss_is_told_like_a_win(out: Path) -> None:
    rows = [line for line in (out / "report.md").read_text().splitlines() if re.search(r"\| (ahead|behind)", line)]
    rivals = {line.split("|")[1].strip(): line for line in rows}
    assert re.search(r"behind by 0\.\d{3}: 0\.9", rivals["B9 oracle"])
    assert re.search(r"ahead by 0\.\d{3}: 0\.(79|8)", rivals["B1 edge only, fewer frames"])
    assert "ahead: never reached" in rivals["B2 cloud only, in turn"]


def test_every_plot_that_the_pages_name_is_there_and_no_other(out: Path) -> None:
    named = set(re.findall(r"\(plots/([^)]+)\)", (out / "report.md").read_text()))
    assert named == {file.name for file in (out / "plots").iterdir()}
    assert "timeline-mix-outage.svg" in named
    assert "timeline-mix-lte.svg" not in named
    assert (out / "report.html").read_text().count("<svg") == len(named)


def test_the_page_loads_nothing_and_no_two_things_in_it_share_a_name(out: Path) -> None:
    page = (out / "report.html").read_text()
    assert not re.search(r'(src|href)="(?!#)', page.replace("xlink:href=", "xlink-href="))
    assert not re.search(r'@import|url\((?!["\']?#)', page)
    names = re.findall(r'\bid="([^"]+)"', page)
    assert len(names) == len(set(names))
    for used in re.findall(r'(?:url\(#|xlink:href="#)([^")]+)', page):
        assert used in names


def test_text_and_lines_of_the_plots_follow_the_theme(out: Path) -> None:
    page = (out / "report.html").read_text()
    assert "prefers-color-scheme: dark" in page
    assert "var(--ink)" in inlined((out / "plots" / "latency-mix-lte.svg").read_bytes(), "x")
    assert "#24292f" not in page


def test_without_records_it_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="measure first"):
        build(tmp_path)


def test_a_damaged_record_is_named(tmp_path: Path) -> None:
    write_evidence(tmp_path / "raw")
    [file] = (tmp_path / "raw").glob("systems_B9-oracle_share-0.9_mix_lte_0*")
    file.write_text(file.read_text()[:-40])
    with pytest.raises(ConfigError, match=r"B9-oracle.*damaged"):
        build(tmp_path)


def test_a_measurement_that_was_broken_off_can_be_looked_at(tmp_path: Path) -> None:
    write_evidence(tmp_path / "raw")
    (tmp_path / "raw" / "schedules.jsonl").unlink()
    for file in (tmp_path / "raw").glob("*_outage_*"):
        file.unlink()
    build(tmp_path)
    assert "mix over lte" in (tmp_path / "report.md").read_text()


@pytest.mark.parametrize(("load", "doubtful"), [(0.2, False), (5.0, True)])
def test_a_busy_machine_makes_the_figures_doubtful(load: float, doubtful: bool, tmp_path: Path) -> None:
    write_evidence(tmp_path / "raw")
    (tmp_path / "raw" / "context.jsonl").write_text(json.dumps({"machine": {"load_1min": load}}))
    build(tmp_path)
    assert ("Doubtful" in (tmp_path / "report.md").read_text()) is doubtful
