"""Targets, where pictures go, batches and reuse, on the status page in Chromium."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from playwright.async_api import Locator, Page, expect

from tests.support.browser import Witness, browsing, serving
from tests.support.status_samples import (
    HOSTILE,
    FakeStatusSource,
    agent,
    camera,
    serving_worker,
    target,
    tiers,
    worker,
)

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(120)]


@pytest_asyncio.fixture(loop_scope="module")
async def page(chromium: str) -> AsyncIterator[Page]:
    async with browsing(chromium) as browser:
        yield await browser.new_page(viewport={"width": 1280, "height": 900})


def full() -> FakeStatusSource:
    """Three targets, one of them gone, cameras that allow more and less, and a worker that batches and remembers."""
    at_home = tiers(
        allowed=["device"], masked_only=[], plan=[], answers={}, sent_bytes={"edge": 0}, leaving_site_bytes=0
    )
    return FakeStatusSource(
        agent(
            cameras=[camera(tiers=tiers()), camera("ward", tiers=at_home), camera("untold")],
            targets=[
                target(),
                target(f"edge@{HOSTILE}", closed="no_worker", workers=0, round_trip_ms=None),
                target("cloud", round_trip_ms=118.2, moved=0),
            ],
            workers=[serving_worker(), worker()],
            bytes_leaving_site=1_568_400,
        )
    )


async def rows(body: Locator) -> list[list[str]]:
    found = []
    for row in await body.locator("tr").all():
        cells = await row.locator("th, td").all_inner_texts()
        found.append([" ".join(cell.split()) for cell in cells])
    return found


async def test_targets_plans_and_bytes_are_told_and_names_from_outside_stay_names(page: Page) -> None:
    witness = Witness(page)
    async with serving(full()) as port:
        await page.goto(f"http://127.0.0.1:{port}/")
        await expect(page.locator("#targets tr")).to_have_count(3)
        hall, gone, cloud = await rows(page.locator("#targets"))
        assert hall == ["edge@hall", "asked", "edge, hall", "nanodet-g-416", "2", "43.7", "1", "1,840", "1,801", "21",
                        "18", "14.7 MB"]  # fmt: skip
        assert gone[:6] == [f"edge@{HOSTILE}", "not asked no worker", f"edge, {HOSTILE}", "nanodet-g-416", "0", "–"]
        assert cloud[2] == "cloud"
        assert await rows(page.locator("#plans")) == [
            [
                "plaza",
                "edge, cloud (masked crops)",
                "edge@hall, then cloud",
                "10,615",
                "1,517",
                "196",
                "12.1 MB",
                "1.6 MB",
            ],
            ["ward", "nowhere, device alone", "–", "0", "0", "0", "0", "0"],
        ]
        await expect(page.locator("#leaving")).to_have_text("Pictures that have left the site: 1.6 MB")
        assert await page.evaluate("window.hacked") is None
        assert witness.problems == []


async def test_batches_are_drawn_to_scale_and_the_mean_of_hits_and_misses_is_taken_apart(page: Page) -> None:
    async with serving(full()) as port:
        await page.goto(f"http://127.0.0.1:{port}/")
        await expect(page.locator("#serving tr")).to_have_count(1)  # the other worker tells nothing
        [told] = await rows(page.locator("#serving"))
        assert told[0] == "w-2"
        assert told[2:6] == ["idle 997, deadline 214, full 12", "8.2 %", "77", "22.9 %"]
        assert told[6:] == ["0.23 × 1.9 + 0.77 × 52.4 = 40.8", "318 kB"]
        heights = await page.locator("#serving .bars i").evaluate_all("all => all.map(one => one.clientHeight)")
        assert heights == sorted(heights, reverse=True)
        assert heights[1] / heights[0] == pytest.approx(311 / 804, abs=0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_on_a_phone_every_figure_stands_beside_its_name_without_sideways_scrolling(
    page: Page, scheme: str
) -> None:
    await page.set_viewport_size({"width": 390, "height": 844})
    await page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    async with serving(full()) as port:
        await page.goto(f"http://127.0.0.1:{port}/")
        await expect(page.locator("#targets tr")).to_have_count(3)
        assert await page.evaluate("document.documentElement.scrollWidth") == 390
        for name in ("targets", "plans", "serving"):
            table = page.locator(".scroll", has=page.locator(f"#{name}"))
            assert await table.evaluate("scroll => scroll.scrollWidth <= scroll.clientWidth"), name
        label = await page.locator("#targets td").nth(4).evaluate("cell => getComputedStyle(cell, '::before').content")
        assert label == '"Expected ms "'


async def test_without_targets_and_figures_there_are_no_such_panels(page: Page) -> None:
    async with serving(FakeStatusSource()) as port:
        await page.goto(f"http://127.0.0.1:{port}/")
        await expect(page.locator(".card .state")).to_have_text("live")
        await expect(page.locator("#tiers-panel")).to_be_hidden()
        await expect(page.locator("#serving-panel")).to_be_hidden()
