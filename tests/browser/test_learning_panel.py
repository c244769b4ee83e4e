"""What a camera learns, on the status page in Chromium."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from playwright.async_api import Page, expect

from tests.support.browser import Witness, browsing, serving
from tests.support.status_samples import HOSTILE, FakeStatusSource, agent, camera, learning, learning_curve

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(120)]


@pytest_asyncio.fixture(loop_scope="module")
async def page(chromium: str) -> AsyncIterator[Page]:
    async with browsing(chromium) as browser:
        yield await browser.new_page(viewport={"width": 1280, "height": 900})


async def test_the_panel_tells_how_far_a_training_is_and_how_it_has_gone(page: Page) -> None:
    source = FakeStatusSource(agent(cameras=[camera(learning=learning(candidate=HOSTILE))]))
    source.curves["plaza"] = learning_curve()
    witness = Witness(page)
    async with serving(source) as port:
        await page.goto(f"http://127.0.0.1:{port}/")
        panel = page.locator(".learning")
        await expect(panel.locator(".learning-stage")).to_have_text("training")
        await expect(panel.locator('[data-field="learning-left"]')).to_have_text("about 3 min left")
        await expect(panel.locator('[role="progressbar"]')).to_have_attribute("aria-valuenow", "25")
        facts = await panel.locator(".models div").all_inner_texts()
        assert [" ".join(fact.split()) for fact in facts] == [
            "lessons 412",
            "agreement 0.874",
            "way a small model of its own",
            "looks now nanodet-g-int8@1.0.0",
            f"being proven {HOSTILE}",
        ]
        curves = panel.locator(".curves li")
        await expect(curves).to_have_count(4)
        values = [" ".join((await curve.inner_text()).split()) for curve in await curves.all()]
        assert values == ["lessons 420", "agreement, F1 0.920", "uplink, kbit/s 122", "a look, ms 1.9"]
        await expect(curves.locator("path.model")).to_have_count(4)  # one change of model in each
        await expect(panel.locator('[data-field="learning-span"]')).to_contain_text("the last 89 min")
        assert witness.problems == []


async def test_a_camera_that_does_not_learn_has_no_panel_and_asks_for_no_curve(page: Page) -> None:
    witness = Witness(page)
    async with serving(FakeStatusSource()) as port:
        await page.goto(f"http://127.0.0.1:{port}/")
        await expect(page.locator(".card .state")).to_have_text("live")
        await expect(page.locator(".learning")).to_be_hidden()
        assert not [url for url in witness.requests if url.endswith("/learning")]
        assert witness.problems == []
