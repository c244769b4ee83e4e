import re
from urllib.parse import quote

import msgspec
import pytest
from fastapi import FastAPI
from prometheus_client.parser import text_string_to_metric_families

from edge_agent.status.access import AccessSettings
from edge_agent.status.app import create_app
from edge_agent.status.snapshot import AgentStatus
from pipeline.timing import ManualClock
from tests.support.asgi import call
from tests.support.status_samples import (
    HOSTILE,
    FakeStatusSource,
    agent,
    camera,
    jpeg,
    learning_curve,
    silent_camera,
)

PICTURE = "/api/cameras/plaza/picture.jpg"


@pytest.fixture
def source() -> FakeStatusSource:
    return FakeStatusSource(agent(cameras=[camera(), silent_camera()]))


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(100.0)


@pytest.fixture
def app(source: FakeStatusSource, clock: ManualClock) -> FastAPI:
    return create_app(source, AccessSettings(), clock)


async def test_the_status_is_the_snapshot_as_json(app: FastAPI, source: FakeStatusSource) -> None:
    answer = await call(app, "/api/status")
    assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
    assert msgspec.json.decode(answer.body, type=AgentStatus) == source.current


async def test_however_many_viewers_ask_the_snapshot_is_taken_four_times_a_second(
    app: FastAPI, source: FakeStatusSource, clock: ManualClock
) -> None:
    for _ in range(100):
        for target in ("/api/status", "/metrics", "/readyz", PICTURE):
            await call(app, target)
        clock.advance(0.01)
    assert source.status_calls == 4
    assert source.picture_calls == ["plaza"] * 5


async def test_a_newer_snapshot_replaces_the_older(app: FastAPI, source: FakeStatusSource, clock: ManualClock) -> None:
    assert (await call(app, "/api/status")).json["agent"] == "edge-7"
    before = (await call(app, "/metrics")).body
    source.current = agent(agent="edge-8")
    clock.advance(0.3)
    assert (await call(app, "/api/status")).json["agent"] == "edge-8"
    after = (await call(app, "/metrics")).body
    assert (b'agent="edge-7"' in before, b'agent="edge-8"' in after) == (True, True)


async def test_the_curve_of_what_was_learned_is_thinned_and_ends_with_the_newest_point(
    app: FastAPI, source: FakeStatusSource
) -> None:
    source.curves["plaza"] = learning_curve(minutes=599)
    answer = await call(app, "/api/cameras/plaza/learning")
    assert (answer.status, len(answer.json)) == (200, 200)
    assert answer.json[-1] == msgspec.to_builtins(source.curves["plaza"][-1])
    assert (await call(app, "/api/cameras/gate/learning")).json == []
    assert (await call(app, "/api/cameras/nowhere/learning")).status == 404


async def test_a_picture_comes_with_a_tag_and_is_sent_once(app: FastAPI, source: FakeStatusSource) -> None:
    source.show("plaza", 41)
    first = await call(app, PICTURE)
    assert (first.status, first.headers["content-type"], first.body) == (200, "image/jpeg", jpeg(41))
    assert first.headers["x-foveate-seq"] == "41"
    again = await call(app, PICTURE, headers={"if-none-match": f'"other", {first.headers["etag"]}'})
    assert (again.status, again.body, again.headers["etag"]) == (304, b"", first.headers["etag"])


async def test_a_new_picture_and_the_same_number_of_another_run_have_another_tag(
    app: FastAPI, source: FakeStatusSource, clock: ManualClock
) -> None:
    tags = set()
    for picture in ((41, jpeg(41)), (42, jpeg(42)), (42, jpeg(7))):
        source.pictures["plaza"] = picture
        clock.advance(0.3)
        tags.add((await call(app, PICTURE)).headers["etag"])
    assert len(tags) == 3


async def test_a_camera_without_a_picture_says_why(app: FastAPI) -> None:
    answer = await call(app, "/api/cameras/gate/picture.jpg")
    assert answer.status == 404
    assert "'gate' has no picture yet (offline, rtsp://192.0.2.7/stream refused" in answer.json["detail"]


@pytest.mark.parametrize("name", ["nobody", HOSTILE, "..", "%", "plaza ", "PLAZA", "a" * 5000])
async def test_an_unknown_camera_is_a_sentence_and_never_reaches_the_source(
    app: FastAPI, source: FakeStatusSource, name: str
) -> None:
    answer = await call(app, f"/api/cameras/{quote(name, safe='')}/picture.jpg")
    assert answer.status == 404
    assert "There is no camera named" in answer.json["detail"]
    assert source.picture_calls == []


@pytest.mark.parametrize(
    "target", ["/static/../app.py", "/static/%2e%2e/app.py", "/static/..%2f..%2fsnapshot.py", "/static//etc/passwd"]
)
async def test_no_file_outside_the_static_folder_is_served(app: FastAPI, target: str) -> None:
    assert (await call(app, target)).status == 404


async def test_a_name_with_a_slash_is_no_path(app: FastAPI) -> None:
    assert (await call(app, "/api/cameras/..%2f..%2fetc/picture.jpg")).status == 404


async def test_a_camera_with_a_hostile_name_has_its_picture(source: FakeStatusSource) -> None:
    source.current = agent(cameras=[camera(HOSTILE)])
    source.show(HOSTILE, 5)
    app = create_app(source, AccessSettings())
    assert (await call(app, f"/api/cameras/{quote(HOSTILE, safe='')}/picture.jpg")).body == jpeg(5)


async def test_health_does_not_depend_on_the_pipeline(app: FastAPI, source: FakeStatusSource) -> None:
    answer = await call(app, "/healthz")
    assert (answer.status, answer.json, source.status_calls) == (200, {"status": "ok"}, 0)


async def test_readiness_follows_the_snapshot_and_says_why_not(
    app: FastAPI, source: FakeStatusSource, clock: ManualClock
) -> None:
    ready = await call(app, "/readyz")
    assert (ready.status, ready.json) == (200, {"ready": True, "reason": ""})
    source.current = agent(ready=False, ready_reason="the edge model is loading")
    clock.advance(1)
    waiting = await call(app, "/readyz")
    assert (waiting.status, waiting.json) == (503, {"ready": False, "reason": "the edge model is loading"})


async def test_metrics_parse_as_prometheus_text(app: FastAPI) -> None:
    answer = await call(app, "/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=")
    names = {family.name for family in text_string_to_metric_families(answer.body.decode())}
    assert {"foveate_frames_captured", "foveate_latency_seconds", "process_cpu_seconds"} <= names


async def test_the_page_and_everything_it_names_is_served(app: FastAPI) -> None:
    page = await call(app, "/")
    assert (page.status, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    named = set(re.findall(r'(?:src|href)="([^"]+)"', page.body.decode()))
    assert {"/static/app.js", "/static/style.css", "/static/icon.svg"} <= named
    scripts = (await call(app, "/static/app.js")).body.decode() + (await call(app, "/static/camera.js")).body.decode()
    named |= {f"/static/{name}" for name in re.findall(r'from "\./([^"]+)"', scripts)}
    for target in named:
        assert (await call(app, target)).status == 200, target


async def test_no_script_writes_data_as_markup(app: FastAPI) -> None:
    for name in ("app.js", "camera.js", "dom.js"):
        script = (await call(app, f"/static/{name}")).body.decode()
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", script)


@pytest.mark.parametrize("target", ["/", "/api/status", PICTURE, "/healthz", "/readyz", "/metrics"])
async def test_head_answers_like_get_without_surprises(app: FastAPI, source: FakeStatusSource, target: str) -> None:
    source.show("plaza", 1)
    assert (await call(app, target, "HEAD")).status == 200


async def test_the_api_is_never_stored_and_static_files_are_checked_again(app: FastAPI) -> None:
    for target in ("/", "/api/status", "/metrics", "/healthz", "/api/cameras/nobody/picture.jpg"):
        assert (await call(app, target)).headers["cache-control"] == "no-store"
    assert (await call(app, "/static/app.js")).headers["cache-control"] == "no-cache"
