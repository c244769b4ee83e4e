"""The status page as people see it, in Chromium."""

import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any
from urllib.parse import quote, unquote

import msgspec
import pytest
import pytest_asyncio
from playwright.async_api import Browser, Locator, Page, expect

from edge_agent.status.access import AccessSettings
from edge_agent.status.snapshot import SteeringStatus
from tests.support.browser import Witness, browsing, serving
from tests.support.status_samples import (
    HOSTILE,
    FakeStatusSource,
    agent,
    alert,
    camera,
    path,
    percentiles,
    queue,
    silent_camera,
    troubled_camera,
    worker,
)

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(120)]

expect.set_options(timeout=20_000)

LONG = "Loading dock of the very long building at the far end of the yard"


@dataclass(frozen=True, slots=True)
class Visit:
    """A page with what it asked for and what went wrong on it."""

    page: Page
    witness: Witness
    port: int


Browsers = Callable[[str], Any]


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def browsers() -> AsyncIterator[Browsers]:
    """Starts each browser once for the module."""
    async with contextlib.AsyncExitStack() as stack:
        started: dict[str, Browser] = {}

        async def start(executable: str) -> Browser:
            if executable not in started:
                started[executable] = await stack.enter_async_context(browsing(executable))
            return started[executable]

        yield start


@pytest_asyncio.fixture(loop_scope="module")
async def page(chromium: str, browsers: Browsers) -> AsyncIterator[Page]:
    browser: Browser = await browsers(chromium)
    context = await browser.new_context(viewport={"width": 1280, "height": 900})
    yield await context.new_page()
    await context.close()


@contextlib.asynccontextmanager
async def visiting(page: Page, source: FakeStatusSource, quiet: bool = True) -> AsyncIterator[Visit]:
    """Open the page of ``source``; with ``quiet``, a console message or page error fails the test, as does a request
    to another host in any case."""
    witness = Witness(page)
    async with serving(source) as port:
        await page.goto(f"http://127.0.0.1:{port}/")
        await expect(page.locator("body")).to_have_attribute("data-link", "live")
        yield Visit(page, witness, port)
        if quiet:
            assert witness.problems == []
    assert [url for url in witness.requests if not url.startswith(f"http://127.0.0.1:{port}/")] == []


def shown(root: Page | Locator, name: str) -> Locator:
    return root.locator(f'[data-field="{name}"]')


async def pixels(card: Locator) -> str:
    found: str = await card.locator("canvas").evaluate("canvas => canvas.toDataURL()")
    return found


async def test_every_number_of_the_snapshot_is_on_the_page(page: Page) -> None:
    async with visiting(page, FakeStatusSource()):
        card = page.locator(".card")
        for name, text in {
            "title": "Plaza, north side",
            "name": "plaza",
            "state": "live",
            "reason": "pictures arrive at 25 per second",
            "since": "for 5 min",
            "hit": "99.96 %",
            "p99": "183 of 200 ms",
            "lambda": "71.4 %",
            "uplink": "433 kbit/s",
            "capture-fps": "25.0 per s",
            "analysed-fps": "5.0 per s",
            "deadline": "deadline 200",
            "sla": "Analysed in time: 98 % within 150 ms",
            "sla-verdict": "met",
            "sla-share": "99.70 %",
            "captured": "12,345",
            "equals": "=",
            "answered": "12,328",
            "dropped": "14",
            "in-flight": "3",
            "drops": "overwritten 13, unusable 1",
        }.items():
            await expect(shown(card, name)).to_have_text(text)
        await expect(card.locator(".legend li")).to_have_text(
            ["cloud211", "fused1,502", "edge640", "edge timeout37", "edge shed12", "carried9,926"]
        )
        await expect(card.locator(".chip")).to_have_text(["7 person", "2 bicycle"])
        rows = [" ".join((await row.inner_text()).split()) for row in await card.locator(".latency tbody tr").all()]
        assert rows == [
            "end to end 61.4 183 200",
            "edge 9.6 22.4 25.5",
            "network 12.3 88.1 90",
            "queue 4.2 31.7 35",
            "cloud 28.9 47.5 50",
        ]
        await expect(shown(page, "agent")).to_have_text("edge-7")
        await expect(shown(page, "version")).to_have_text("0.1.0, up for 7 min")
        await expect(shown(page, "broker-state")).to_have_text("broker 127.0.0.1:1883")
        await expect(shown(page, "circuit-state")).to_have_text("cloud in use")
        await expect(page.locator("#models")).to_contain_text("edgenanodet-g-192@1cloudnanodet-g-416@1")
        cells = await page.locator(".workers tbody tr").locator("th, td").all_inner_texts()
        assert cells == ["w-1", "online", "cloud", "nanodet-g-416@1", "4", "–", "44.8"]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"broker_connected": False}, "cloud unreachable, edge answers"),
        ({"workers": []}, "no worker, edge answers"),
        ({"workers": [worker(online=False, reason="gone")]}, "no worker, edge answers"),
        ({"workers": [], "cloud": "off"}, "cloud switched off"),
    ],
)
async def test_the_cloud_is_not_in_use_while_nobody_can_be_asked(
    page: Page, changes: dict[str, Any], said: str
) -> None:
    async with visiting(page, FakeStatusSource(agent(**changes))):
        await expect(shown(page, "circuit-state")).to_have_text(said)


async def test_queues_show_littles_law_beside_the_measured_length(page: Page) -> None:
    queues = [queue(), queue(HOSTILE, wait_ms=None, expected_length=None, mean_length=0.0)]
    async with visiting(page, FakeStatusSource(agent(queues=queues))):
        cells = await page.locator("#queues tr").locator("th, td").all_inner_texts()
        assert cells[:6] == ["uplink", "11.5", "61.0", "0.702", "0.698", "2"]
        assert cells[6:] == [HOSTILE, "11.5", "–", "–", "0.000", "2"]


async def test_the_way_to_the_cloud_is_told_in_its_four_parts(page: Page) -> None:
    async with visiting(page, FakeStatusSource(agent(paths=[path()]))):
        await expect(page.locator("#ways")).to_have_text(
            "Way to cloud: up 32.4 + queue 1.6 + cloud 21.5 + down 24.5 = 80.0 ms, 104 ms in a bad case; "
            "the link carries about 4.2 Mbit/s"
        )
    async with visiting(page, FakeStatusSource(agent(paths=[]))):
        await expect(page.locator("#ways")).to_be_hidden()


@pytest.mark.parametrize(
    ("mode", "route", "said"),
    [
        ("open", "edge", ""),
        ("saving", "edge", " saving"),
        ("edge", "edge", " edge"),
        ("open", "cloud", " cloud looks first"),
    ],
)
async def test_what_a_camera_holds_to_stands_beside_its_lambda(page: Page, mode: str, route: str, said: str) -> None:
    steering = SteeringStatus(mode=mode, price_per_kb=0.2, agreement=None, route=route, route_reason="")
    async with visiting(page, FakeStatusSource(agent(cameras=[camera(steering=steering)]))):
        await expect(shown(page.locator(".card"), "lambda")).to_have_text(f"71.4 %{said}")


async def test_bars_are_to_scale_and_the_deadline_is_drawn_across_them(page: Page) -> None:
    async with visiting(page, FakeStatusSource()):
        first = page.locator(".latency tbody tr").first
        await page.emulate_media(reduced_motion="reduce")
        track = await first.locator(".track").bounding_box()
        p50 = await first.locator("i.p50").bounding_box()
        p99 = await first.locator("i.p99").bounding_box()
        assert track is not None
        assert p50 is not None
        assert p99 is not None
        assert p50["width"] / track["width"] == pytest.approx(61.4 / 250, abs=0.01)
        assert p99["width"] / track["width"] == pytest.approx(183.2 / 250, abs=0.01)
        line = await first.locator(".track").evaluate("track => parseFloat(getComputedStyle(track, '::after').left)")
        assert line / track["width"] == pytest.approx(200 / 250, abs=0.01)
        parts = [await part.bounding_box() for part in await page.locator(".stack i").all()]
        widths = [part["width"] for part in parts if part is not None]
        assert len(widths) == 6
        assert widths[5] / widths[1] == pytest.approx(9926 / 1502, rel=0.05)


async def test_the_budgets_of_the_segments_lie_one_after_the_other_up_to_the_deadline(page: Page) -> None:
    async with visiting(page, FakeStatusSource()):
        await page.emulate_media(reduced_motion="reduce")
        rows = page.locator(".latency tbody tr")
        ends: list[float] = []
        for number in range(1, 5):
            track = rows.nth(number).locator(".track")
            box, bar = await track.bounding_box(), await track.locator("i.p99").bounding_box()
            assert box is not None
            assert bar is not None
            assert (bar["x"] - box["x"]) / box["width"] == pytest.approx(ends[-1] if ends else 0.0, abs=0.01)
            tick = await track.evaluate("track => parseFloat(getComputedStyle(track, '::after').left)")
            ends.append(tick / box["width"])
        assert ends == pytest.approx([25.5 / 250, 115.5 / 250, 150.5 / 250, 200.5 / 250], abs=0.01)


async def test_a_breach_is_seen_in_the_header_on_its_camera_and_in_the_list_of_alerts(page: Page) -> None:
    source = FakeStatusSource()
    async with visiting(page, source):
        await expect(page.locator("#budgets")).to_have_attribute("data-tone", "good")
        await expect(shown(page, "budgets-state")).to_have_text("budgets kept")
        await expect(page.locator("#no-alerts")).to_have_text("No latency budget has been breached.")
        await expect(page.locator(".breaches")).to_be_hidden()
        cleared = alert(camera="plaza", segment="queue", state="cleared", p99_ms=None, detail="queue: all is well")
        source.current = agent(
            cameras=[camera(), troubled_camera()],
            alerts=[alert(), cleared],
            segments={"network": percentiles(20.0, 80.2), "edge": percentiles(39.6, 61.4)},
        )
        card = page.locator(".card").nth(1)
        await expect(shown(page, "budgets-state")).to_have_text("1 budget breached")
        await expect(page.locator("#budgets")).to_have_attribute("data-tone", "bad")
        await expect(shown(card, "breaches").locator("li")).to_have_text(
            "edge over budget P99 62.4 of 25.5 ms for 22 s"
        )
        await expect(shown(card, "turned-down").locator("li")).to_have_text(
            "at most 2.5 frames per second are analysed"
        )
        await expect(card.locator("tr.late th")).to_have_text("edge")
        rows = page.locator("#alerts tr")
        await expect(rows.nth(0)).to_contain_text("gatebreachededge: P99 of 62.4 ms is above the budget of 25.5 ms")
        await expect(rows.nth(1)).to_contain_text("plazaclearedqueue: all is well")
        await expect(page.locator("#together-p99")).to_have_text("network80.2 msedge61.4 ms")


async def test_a_promise_shows_what_edge_and_cloud_have_kept_of_it(page: Page) -> None:
    silent = silent_camera("c")
    async with visiting(page, FakeStatusSource(agent(cameras=[troubled_camera(), silent]))):
        card = page.locator(".card").first
        await page.emulate_media(reduced_motion="reduce")
        await expect(shown(card, "sla")).to_have_text("Analysed in time: 90 % within 100 ms")
        await expect(shown(card, "sla-verdict")).to_have_text("missed")
        await expect(card.locator(".sla-verdict")).to_have_attribute("data-tone", "bad")
        await expect(shown(card, "sla-hits").locator("li")).to_have_text(
            ["12.7 % with the cloud", "72.7 % by the edge", "14.5 % not in time"]
        )
        whole = await shown(card, "sla-bar").bounding_box()
        assert whole is not None
        widths = {}
        for name in ("cloud", "edge", "missed"):
            part = await card.locator(f".sla-bar [data-hit={name}]").bounding_box()
            assert part is not None
            widths[name] = part["width"] / whole["width"]
        assert widths == pytest.approx({"cloud": 230 / 1800, "edge": 1310 / 1800, "missed": 260 / 1800}, abs=0.01)
        await expect(page.locator(".card").nth(1).locator(".sla")).to_be_hidden()


async def test_where_no_budgets_are_watched_none_are_shown(page: Page) -> None:
    async with visiting(page, FakeStatusSource(agent(cameras=[camera(budgets_ms={})]))):
        await expect(page.locator("#budgets")).to_be_hidden()
        await expect(page.locator("#alerts-panel")).to_be_hidden()
        row = page.locator(".latency tbody tr").nth(2)
        assert (await row.inner_text()).split() == ["network", "12.3", "88.1", "–"]


async def test_the_page_follows_the_source(page: Page) -> None:
    source = FakeStatusSource()
    source.show("plaza", 41)
    async with visiting(page, source):
        card = page.locator(".card")
        await expect(card.locator("canvas")).to_have_attribute(
            "aria-label", "Newest picture of Plaza, north side, frame 41"
        )
        before = await pixels(card)
        late = percentiles(90.0, 321.0)
        source.current = agent(
            cameras=[camera(state="stale", reason="no picture for 4 s", captured=99_999, latency=late, drops={})],
            workers=[],
            cloud="open",
            broker_connected=False,
            broker_reason="connection refused",
            ready=False,
            ready_reason="the edge model is loading",
        )
        source.show("plaza", 42)
        await expect(card.locator(".state")).to_have_attribute("data-tone", "warn")
        await expect(shown(card, "state")).to_have_text("stale")
        await expect(shown(card, "captured")).to_have_text("99,999")
        await expect(shown(card, "equals")).to_have_text("≠")
        await expect(shown(card, "drops")).to_have_text("none")
        await expect(card.locator("tr.late")).to_contain_text("321")
        await expect(shown(page, "broker-state")).to_have_text("broker lost: connection refused")
        await expect(shown(page, "circuit-state")).to_have_text("cloud unreachable, edge answers")
        await expect(page.locator("#not-ready")).to_have_text("Not ready yet: the edge model is loading")
        await expect(page.locator("#no-workers")).to_be_visible()
        await expect(card.locator("canvas")).to_have_attribute(
            "aria-label", "Newest picture of Plaza, north side, frame 42"
        )
        assert await pixels(card) != before
        await expect(shown(card, "picture-note")).to_have_text("last picture")


async def test_cameras_come_go_and_keep_their_order(page: Page) -> None:
    source = FakeStatusSource(agent(cameras=[]))
    async with visiting(page, source):
        await expect(page.locator("#no-cameras")).to_have_text("This agent has no camera.")
        source.current = agent(cameras=[camera("b", title="B"), silent_camera("c", title="C")])
        await expect(page.locator("h3")).to_have_text(["B", "C"])
        await expect(page.locator("#no-cameras")).to_be_hidden()
        source.current = agent(cameras=[silent_camera("c", title="C"), camera("a", title="A")])
        await expect(page.locator("h3")).to_have_text(["C", "A"])


async def test_a_camera_that_never_delivered_shows_dashes_and_no_picture(page: Page) -> None:
    async with visiting(page, FakeStatusSource(agent(cameras=[silent_camera()]))) as visit:
        card = page.locator(".card")
        await expect(shown(card, "no-picture")).to_have_text("No picture yet: offline")
        await expect(shown(card, "hit")).to_have_text("–")
        await expect(shown(card, "p99")).to_have_text("– of 200 ms")
        await expect(card.locator(".state")).to_have_attribute("data-tone", "bad")
        assert not [url for url in visit.witness.requests if "picture.jpg" in url]


async def test_a_ratio_is_never_rounded_up_to_all(page: Page) -> None:
    source = FakeStatusSource(
        agent(cameras=[camera("a", deadline_hit_ratio=0.999999), camera("b", deadline_hit_ratio=1.0)])
    )
    async with visiting(page, source):
        await expect(shown(page, "hit")).to_have_text(["99.99 %", "100 %"])


async def test_hostile_names_are_shown_as_they_are_and_do_nothing(page: Page) -> None:
    hostile = camera(
        HOSTILE,
        title=f"{HOSTILE} title",
        state=f"{HOSTILE} state",
        reason="\u202eright to left " + HOSTILE,
        finals={HOSTILE: 5, "__proto__": 3, "constructor": 2},
        drops={HOSTILE: 1, "__proto__": 4},
        segments={HOSTILE: percentiles(1.0, 2.0), "__proto__": percentiles(3.0, 4.0)},
        counts={HOSTILE: 3, "__proto__": 1},
        turned_down={HOSTILE: HOSTILE},
    )
    source = FakeStatusSource(
        agent(
            agent=HOSTILE,
            version=HOSTILE,
            broker=HOSTILE,
            cloud=HOSTILE,
            cameras=[hostile, camera("__proto__", title="")],
            workers=[worker(HOSTILE, tier=HOSTILE, models=[HOSTILE], reason=HOSTILE)],
            models={HOSTILE: HOSTILE},
            alerts=[alert(camera=HOSTILE, detail=HOSTILE)],
            ready=False,
            ready_reason=HOSTILE,
        )
    )
    source.show(HOSTILE, 8)
    async with visiting(page, source) as visit:
        card = page.locator(".card").first
        await expect(shown(card, "name")).to_have_text(HOSTILE)
        await expect(shown(card, "title")).to_have_text(f"{HOSTILE} title")
        await expect(card.locator(".chip")).to_have_text([f"3 {HOSTILE}", "1 __proto__"])
        await expect(page.locator(".card h3").nth(1)).to_have_text("__proto__")
        await expect(page.locator("#workers th")).to_have_text(HOSTILE)
        await expect(page.locator("#alerts th")).to_have_text(HOSTILE)
        await expect(shown(card, "turned-down").locator("li")).to_have_text(HOSTILE)
        await expect(card.locator("canvas")).to_be_visible()
        asked = {unquote(url.split("/")[-2]) for url in visit.witness.requests if "picture.jpg" in url}
        assert asked == {HOSTILE}
        assert await page.evaluate("window.hacked") is None
        assert await page.locator("img:not(.wordmark img)").count() == 0


async def test_a_lost_agent_is_said_at_once_and_its_numbers_are_not_shown_as_live(page: Page) -> None:
    source = FakeStatusSource()
    async with visiting(page, source, quiet=False) as visit:
        pass
    await expect(page.locator("#lost")).to_contain_text("Connection to the agent lost, retrying.")
    await expect(page.locator("#lost")).to_contain_text("are not live")
    await expect(shown(page, "state")).to_have_text("not known")
    await expect(page.locator(".links")).to_be_hidden()
    await expect(page).to_have_title("Connection lost · Foveate")
    grey = "getComputedStyle(document.querySelector('main'))"
    assert await page.evaluate(f"{grey}.filter") == "grayscale(1)"
    assert await page.evaluate(f"Number({grey}.opacity)") < 0.6
    source.current = agent(cameras=[camera(captured=54_321)])
    async with serving(source, port=visit.port):
        await expect(shown(page, "captured")).to_have_text("54,321")
        await expect(page.locator("#lost")).to_be_hidden()
        await expect(shown(page, "state")).to_have_text("live")
        assert await page.evaluate(f"Number({grey}.opacity)") == 1
    assert [problem for problem in visit.witness.problems if "ERR_" not in problem] == []


async def test_an_agent_that_answers_nothing_in_time_counts_as_lost(page: Page) -> None:
    async with visiting(page, FakeStatusSource(), quiet=False):
        await page.evaluate(
            "const real = window.fetch; window.fetch = (address, options) => new Promise((_, fail) =>"
            "  options.signal.addEventListener('abort', () => { window.fetch = real; fail(options.signal.reason); }));"
            "null"
        )
        await expect(page.locator("#lost")).to_contain_text("lost, retrying")
        await expect(page.locator("body")).to_have_attribute("data-link", "live")


async def test_the_wait_between_tries_doubles_while_the_agent_is_lost(page: Page) -> None:
    await page.clock.install()
    async with visiting(page, FakeStatusSource()):
        await page.evaluate(
            "window.tries = [];"
            "window.fetch = async () => { window.tries.push(Date.now()); throw new TypeError('no answer'); };"
            "null"
        )
        await page.clock.run_for(60_000)
        tries = await page.evaluate("window.tries")
    assert [round((later - earlier) / 1000) for earlier, later in pairwise(tries)][:6] == [1, 2, 4, 8, 8, 8]


async def test_a_hidden_tab_asks_for_nothing_and_asks_at_once_when_it_is_seen_again(page: Page) -> None:
    await page.clock.install()
    source = FakeStatusSource()
    source.show("plaza", 1)
    async with visiting(page, source) as visit:
        await expect(page.locator(".card canvas")).to_be_visible()
        await page.evaluate(
            "Object.defineProperty(document, 'hidden', {get: () => window.isHidden, configurable: true});"
            "window.isHidden = true; document.dispatchEvent(new Event('visibilitychange'))"
        )
        await page.clock.run_for(2_000)  # what was under way ends
        before = len(visit.witness.requests)
        await page.clock.run_for(60_000)
        assert len(visit.witness.requests) == before
        source.current = agent(cameras=[camera(captured=77_777)])
        await page.evaluate("window.isHidden = false; document.dispatchEvent(new Event('visibilitychange'))")
        await expect(shown(page, "captured")).to_have_text("77,777")


async def test_a_picture_is_sent_again_only_when_it_is_another(page: Page) -> None:
    source = FakeStatusSource(agent(cameras=[camera("live"), camera("done", state="finished")]))
    source.show("live", 1)
    source.show("done", 1)
    statuses: dict[str, list[int]] = {"live": [], "done": []}
    page.on(
        "response",
        lambda r: statuses[r.url.split("/")[-2]].append(r.status) if "picture.jpg" in r.url else None,
    )
    async with visiting(page, source):
        await expect(page.locator(".card canvas:visible")).to_have_count(2)
        while statuses["live"].count(304) < 2:
            await page.wait_for_event("response")
        assert statuses["live"].count(200) == 1
        assert statuses["done"] == [200]
        source.show("live", 2)
        label = page.locator(".card canvas").first
        await expect(label).to_have_attribute("aria-label", "Newest picture of Plaza, north side, frame 2")
        assert statuses["live"].count(200) == 2


@pytest.mark.parametrize("width", [1280, 400])
async def test_tables_break_no_word_and_the_queues_show_every_column(page: Page, width: int) -> None:
    await page.set_viewport_size({"width": width, "height": 900})
    names = ["square/detect", "uplink"]
    status = agent(queues=[queue(name) for name in names], alerts=[alert(camera="square")])
    async with visiting(page, FakeStatusSource(status)):
        heads = page.locator("#queues th bdi, #alerts th bdi")
        await expect(heads).to_have_count(3)
        lines = await heads.evaluate_all("all => all.map(one => one.getClientRects().length)")
        assert lines == [1, 1, 1]
        pill = await page.locator(".sla-verdict").evaluate("pill => pill.querySelector('span').getClientRects().length")
        assert pill == 1
        cells = [await cell.bounding_box() for cell in await page.locator("#queues tr:first-child td").all()]
        assert all(a and b and a["x"] + a["width"] <= b["x"] + 1 for a, b in pairwise(cells))
        last = await page.locator("#queues tr:first-child td:last-child").bounding_box()
        assert last is not None
        assert last["x"] + last["width"] <= width
        table = page.locator(".scroll", has=page.locator("#queues"))
        assert await table.evaluate("scroll => scroll.scrollWidth <= scroll.clientWidth")


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_a_phone_needs_no_sideways_scrolling(page: Page, scheme: str) -> None:
    await page.set_viewport_size({"width": 390, "height": 844})
    await page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    many = {f"{origin}_of_a_long_name": 10**9 for origin in ("cloud", "fused", "edge")}
    source = FakeStatusSource(
        agent(
            agent="agent" * 20,
            broker="broker.example." * 8,
            cameras=[
                camera("x" * 90, title="W" * 80, reason="y" * 300, finals=many, captured=10**12, counts={"z" * 90: 1}),
                silent_camera(HOSTILE, title=LONG),
                camera(latency=percentiles(88_888.8, 99_999.9), uplink_kbit_s=123_456.7),
            ],
            workers=[worker("w" * 60, models=["m" * 60, "n" * 60], reason="gone " * 20, online=False)],
            ready=False,
            ready_reason="r" * 300,
        )
    )
    source.show("plaza", 1)
    async with visiting(page, source):
        await expect(page.locator(".card")).to_have_count(3)
        assert await page.evaluate("document.documentElement.scrollWidth") == 390
        for card in await page.locator(".card").all():
            assert await card.evaluate("card => card.scrollWidth <= card.clientWidth")


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_text_stands_out_from_its_ground(page: Page, scheme: str) -> None:
    await page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    source = FakeStatusSource(
        agent(cameras=[camera(), troubled_camera(), silent_camera(), camera("f", state="frozen")], alerts=[alert()])
    )
    async with visiting(page, source):
        found = await page.evaluate(CONTRASTS)
    assert len(found) > 30
    assert {text: ratio for text, ratio in found if ratio < 4.5} == {}


CONTRASTS = """() => {
  const canvas = Object.assign(document.createElement("canvas"), {width: 1, height: 1});
  const context = canvas.getContext("2d", {willReadFrequently: true});
  const paint = (colours) => {
    context.clearRect(0, 0, 1, 1);
    for (const colour of colours) { context.fillStyle = colour; context.fillRect(0, 0, 1, 1); }
    return [...context.getImageData(0, 0, 1, 1).data].slice(0, 3).map((v) => {
      const c = v / 255;
      return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
    });
  };
  const luminance = ([r, g, b]) => 0.2126 * r + 0.7152 * g + 0.0722 * b;
  const grounds = (element) => element === null ? []
    : [...grounds(element.parentElement), getComputedStyle(element).backgroundColor];
  const texts = [...document.querySelectorAll("body *")].filter((element) => element.checkVisibility()
    && [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim()));
  return texts.map((element) => {
    const ground = grounds(element);
    const [a, b] = [luminance(paint(ground)), luminance(paint([...ground, getComputedStyle(element).color]))];
    return [element.textContent, (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05)];
  });
}"""


async def test_the_page_has_headings_captions_and_live_regions(page: Page) -> None:
    async with visiting(page, FakeStatusSource()):
        assert await page.locator("h1").all_inner_texts() == ["Foveate"]
        headings = await page.locator("h2").all_text_contents()
        assert headings == ["Cameras", "Alerts", "Workers and models", "Tiers", "Batches and reuse", "Queues"]
        assert await page.locator("table:not(:has(caption))").count() == 0
        assert await page.locator("th:not([scope])").count() == 0
        assert await shown(page, "state").get_attribute("aria-live") == "polite"
        assert await page.locator("#lost").get_attribute("role") == "alert"
        assert await page.locator("html").get_attribute("lang") == "en"


async def test_with_a_token_the_page_opens_by_its_address_once_and_stays_open(page: Page) -> None:
    source = FakeStatusSource()
    async with serving(source, AccessSettings(token="S3cr&t/Ü")) as port:
        address = f"http://127.0.0.1:{port}/"
        refused = await page.goto(address)
        assert refused is not None
        assert refused.status == 401
        await page.goto(f"{address}?token={quote('S3cr&t/Ü', safe='')}")
        await expect(shown(page, "captured")).to_have_text("12,345")
        assert page.url == address
        await page.reload()
        await expect(shown(page, "captured")).to_have_text("12,345")


async def test_a_page_whose_token_is_no_longer_taken_says_what_to_do(page: Page) -> None:
    async with visiting(page, FakeStatusSource(), quiet=False) as visit:
        pass
    async with serving(FakeStatusSource(), AccessSettings(token="other"), visit.port):
        await expect(page.locator("#lost")).to_contain_text("open this page once as /?token=…")


async def test_the_snapshot_on_the_page_is_the_one_of_the_api(page: Page) -> None:
    source = FakeStatusSource(agent(cameras=[camera(f"c{n}", title=f"Camera {n}", captured=n) for n in range(12)]))
    async with visiting(page, source) as visit:
        answer = await page.request.get(f"http://127.0.0.1:{visit.port}/api/status")
        names = [found["title"] for found in msgspec.json.decode(await answer.body())["cameras"]]
        await expect(page.locator("h3")).to_have_text(names)
