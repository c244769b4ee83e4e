"""Links between the pages lead somewhere."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(path for path in ROOT.rglob("*.md") if not {".venv", "build", ".pytest_cache"} & set(path.parts))
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_FENCED = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)


def without_code(text: str) -> str:
    return re.sub(r"`[^`\n]*`", "", _FENCED.sub("", text))


def links(page: Path) -> list[str]:
    return [link for link in _LINK.findall(without_code(page.read_text("utf-8"))) if "://" not in link]


def anchors(page: Path) -> set[str]:
    """The names of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", _FENCED.sub("", page.read_text("utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_leads_to_a_file_of_the_repository_and_a_heading_in_it(page: Path) -> None:
    for link in links(page):
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        assert target.exists(), link
        assert target.is_relative_to(ROOT), link
        if anchor:
            assert anchor in anchors(target), link


def test_there_are_pages_and_links_to_check() -> None:
    assert len(PAGES) > 12
    assert len(links(ROOT / "README.md")) > 10


def test_pages_name_no_path_of_the_machine_they_were_written_on() -> None:
    listed = subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in listed.split():
        found = re.findall(r"(?<![\w.])/(?:work|tmp|root|home)/\S+", (ROOT / name).read_text("utf-8"))
        assert not found, f"{name}: {found}"


def test_every_decision_has_a_number_of_its_own_and_stands_in_the_index() -> None:
    folder = ROOT / "docs" / "decisions"
    pages = sorted(path.name for path in folder.glob("[0-9]*.md"))
    assert [name[:3] for name in pages] == [f"{number:03}" for number in range(1, len(pages) + 1)]
    assert links(folder / "README.md") == pages
    index = (folder / "README.md").read_text("utf-8")
    for name in pages:
        title = (folder / name).read_text("utf-8").splitlines()[0]
        assert f"| [{name[:3]}]({name}) | {title.removeprefix(f'# {name[:3]}: ')} |" in index


def test_the_picture_of_the_page_is_a_png_that_loads_quickly() -> None:
    data = (ROOT / "docs" / "images" / "page.png").read_bytes()
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    assert len(data) < 400_000
    assert int.from_bytes(data[16:20], "big") >= 1000
