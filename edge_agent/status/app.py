"""The status page, its API, health and metrics: all of them read snapshots and change nothing."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
from fastapi import FastAPI, Request
from fastapi.responses import FileResponse, Response
from fastapi.telemetry import TelemetryConfig
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.staticfiles import StaticFiles

from edge_agent.status.access import AccessGuard, AccessSettings, check_binding
from edge_agent.status.cache import SnapshotCache
from edge_agent.status.prometheus import render_metrics
from edge_agent.status.snapshot import CameraStatus, StatusSource
from pipeline.timing import Clock, MonotonicClock

_STATIC = Path(__file__).parent / "static"

_NO_TELEMETRY: TelemetryConfig = {"tracing": False, "metrics": False, "logs": False, "auto_configure": False}
"""FastAPI's own spans would hold the address of each request, and with it the token of /?token=..."""


def create_app(source: StatusSource, access: AccessSettings, clock: Clock | None = None) -> FastAPI:
    """The web application over ``source``. Raises ConfigError where ``access`` would leave it open to the network."""
    check_binding(access.host, access.token)
    app = FastAPI(title="Foveate", docs_url=None, redoc_url=None, openapi_url=None, telemetry=_NO_TELEMETRY)
    app.state.access = access
    app.add_middleware(AccessGuard, access=access)
    app.mount("/static", StaticFiles(directory=_STATIC, check_dir=False))
    pages = _Pages(SnapshotCache(source, clock or MonotonicClock(), render_metrics))
    routes: dict[str, Callable[..., Awaitable[Response]]] = {
        "/": pages.index,
        "/api/status": pages.status,
        "/api/cameras/{name}/picture.jpg": pages.picture,
        "/api/cameras/{name}/learning": pages.learning,
        "/healthz": pages.healthz,
        "/readyz": pages.readyz,
        "/metrics": pages.metrics,
    }
    for path, endpoint in routes.items():
        app.add_api_route(path, endpoint, methods=["GET", "HEAD"], response_model=None)
    return app


class _Pages:
    """The endpoints. Each answers from memory on the event loop; a camera's name is looked up, never put in a path."""

    def __init__(self, cache: SnapshotCache) -> None:
        self._cache = cache

    async def index(self) -> Response:
        return FileResponse(_STATIC / "index.html")

    async def status(self) -> Response:
        return Response(self._cache.status_json(), media_type="application/json")

    async def picture(self, name: str, request: Request) -> Response:
        camera = next((camera for camera in self._cache.status().cameras if camera.name == name), None)
        if camera is None:
            return _json(404, detail=f"There is no camera named {name!r}.")
        picture = await self._cache.picture(name)
        if picture is None:
            return _json(404, detail=_no_picture(camera))
        headers = {"etag": picture.etag, "x-foveate-seq": str(picture.seq)}
        if picture.etag in [tag.strip() for tag in request.headers.get("if-none-match", "").split(",")]:
            return Response(status_code=304, headers=headers)
        return Response(picture.jpeg, media_type="image/jpeg", headers=headers)

    async def learning(self, name: str) -> Response:
        if all(camera.name != name for camera in self._cache.status().cameras):
            return _json(404, detail=f"There is no camera named {name!r}.")
        return Response(self._cache.learning_curve(name), media_type="application/json")

    async def healthz(self) -> Response:
        return _json(200, status="ok")

    async def readyz(self) -> Response:
        status = self._cache.status()
        return _json(200 if status.ready else 503, ready=status.ready, reason=status.ready_reason)

    async def metrics(self) -> Response:
        return Response(await self._cache.metrics(), headers={"content-type": CONTENT_TYPE_LATEST})


def _no_picture(camera: CameraStatus) -> str:
    why = f"{camera.state}, {camera.reason}" if camera.reason else camera.state
    return f"Camera {camera.name!r} has no picture yet ({why})."


def _json(status_code: int, **content: str | bool) -> Response:
    return Response(msgspec.json.encode(content), status_code, media_type="application/json")
