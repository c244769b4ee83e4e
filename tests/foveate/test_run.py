"""The all-in-one run from inside: what ends it, and what does not."""

import asyncio
import io
import json
import re
import webbrowser
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
from rich.console import Console

from edge_agent.capture.base import Ended
from foveate.config.load import Overrides
from foveate.config.settings import for_sources, plan
from foveate.plan import Outputs
from foveate.run import STOP_LIMIT_S, Run, _first_of_ours, _has_display, _named, _open_browser
from pipeline.errors import BrokerError, ConfigError, ModelError
from pipeline.results import CameraState
from pipeline.timing import run_virtual
from pipeline.transport.settings import MqttSettings
from tests.support.agents import UNSURE_PERSON, SmallModel
from tests.support.brokers import free_port
from tests.support.processes import free_port_pair, gone, listening, until


def quiet_run(seconds: str = "0", **overrides: Any) -> Run:
    """A run of a synthetic scene without a page (0: without an end); made, not started."""
    chosen: Overrides = {"web.enabled": False, "cameras.realtime": True, **overrides}
    source = f"synthetic:plaza?seconds={seconds}&fps=5&width=320&height=240"
    return Run(plan(for_sources([source], chosen)), Outputs(), Console(file=io.StringIO(), width=200))


async def test_a_stage_that_raises_on_a_scene_that_ends_gives_exit_code_1_a_summary_a_goodbye_and_no_process_left(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    broken = SmallModel(UNSURE_PERSON, fails_at=2)
    monkeypatch.setattr("foveate.edge_models.load_detector", lambda *_, **__: broken)
    port = free_port_pair()
    run = quiet_run("20", **{"broker.embedded.port": port, "broker.embedded.port_v3": port + 1})
    run._outputs = Outputs(summary=tmp_path / "s.json")
    async with listening(port) as listener:
        assert await run.go() == 1
        await until(lambda: listener.availability()[-1:] == ["offline"], "the goodbye")
    found = json.loads((tmp_path / "s.json").read_text())
    (told,) = found["cameras"].values()
    assert told["state"] == "offline"
    assert "the small model broke" in told["reason"]
    assert found["invariant_ok"] is True
    assert gone([child for child in psutil.Process().children() if "foveate" in " ".join(child.cmdline())])


async def test_a_run_that_fails_gives_its_summary_all_the_same(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("foveate.edge_models.load_detector", lambda *_, **__: SmallModel())
    run = quiet_run(**{"broker.url": f"mqtt://127.0.0.1:{free_port()}"})
    run._outputs = Outputs(summary=tmp_path / "s.json")

    async def break_down(_: object) -> None:
        await asyncio.sleep(3)  # the cameras have begun after two
        raise RuntimeError("a helper broke")

    monkeypatch.setattr("edge_agent.uplink.Uplink.run", break_down)
    with pytest.raises(BaseException) as caught:  # noqa: PT011 - a group or the fault itself
        await run.go()
    assert "a helper broke" in repr(caught.value)
    found = json.loads((tmp_path / "s.json").read_text())
    assert found["captured"] > 0
    assert found["invariant_ok"] is True


async def test_a_record_on_a_full_disk_is_counted_and_the_run_goes_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("foveate.edge_models.load_detector", lambda *_, **__: SmallModel())
    run = quiet_run("1", **{"broker.url": f"mqtt://127.0.0.1:{free_port()}"})
    run._outputs = Outputs(summary=tmp_path / "s.json", record=Path("/dev/full"))
    assert await run.go() == 0
    found = json.loads((tmp_path / "s.json").read_text())
    assert found["record_lost"] == sum(found["finals"].values()) > 0
    assert found["record_fault"] == "No space left on device"
    assert "results were not written: No space left on device" in written(run)


def test_sessions_have_client_ids_that_no_other_session_has() -> None:
    made = [_named(MqttSettings("h", client_id=given), "site-a", "control").client_id for given in (None, None, "mine")]
    assert len(set(made)) == 3
    for client_id, base in zip(made, ("site-a", "site-a", "mine"), strict=True):
        assert re.fullmatch(f"{base}-control-[0-9a-f]{{6}}", client_id or "")


def test_a_browser_that_cannot_be_opened_is_no_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(address: str) -> bool:
        raise webbrowser.Error("no browser")

    monkeypatch.setattr("foveate.run.webbrowser.open", fail)
    _open_browser("http://127.0.0.1/")


def written(run: Run) -> str:
    out = run._console.file
    assert isinstance(out, io.StringIO)
    return out.getvalue()


def test_a_fault_of_ours_is_found_at_any_depth_of_a_group() -> None:
    fault = BrokerError("the port is taken")
    inner = BaseExceptionGroup("inner", [asyncio.CancelledError(), fault])
    assert _first_of_ours(BaseExceptionGroup("outer", [ValueError("x"), inner])) is fault
    assert _first_of_ours(ExceptionGroup("outer", [ValueError("x")])) is None


def agent_with(workers: list[object]) -> Any:
    return SimpleNamespace(uplink=SimpleNamespace(workers=SimpleNamespace(all=lambda: workers)))


@pytest.mark.parametrize(("code", "fault"), [(2, ConfigError), (5, ModelError)])
def test_a_worker_that_refuses_to_start_ends_the_run_with_its_code(code: int, fault: type[Exception]) -> None:
    run = quiet_run()
    run._worker = SimpleNamespace(exit_code=code)  # type: ignore[assignment]  # all that is asked of it
    with pytest.raises(fault, match="the worker cannot start"):
        run._worker_is_hopeless(agent_with([]))


def test_a_worker_that_has_served_and_then_refuses_its_model_leaves_the_edge_alone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    run = quiet_run()
    run._worker = SimpleNamespace(exit_code=5)  # type: ignore[assignment]  # all that is asked of it
    assert run._worker_is_hopeless(agent_with([object()]))
    assert "the edge answers alone" in caplog.text


@pytest.mark.parametrize("code", [None, 0, 1, -9, -15])
def test_a_worker_that_runs_or_has_crashed_is_not_given_up(code: int | None) -> None:
    run = quiet_run()
    run._worker = SimpleNamespace(exit_code=code)  # type: ignore[assignment]  # all that is asked of it
    assert not run._worker_is_hopeless(agent_with([]))


class Stubborn:
    """An agent that does not stop when told to."""

    cameras = ()

    def __init__(self) -> None:
        self.told = False

    async def run(self, wait_for_cloud_s: float) -> dict[str, Ended | None]:
        await asyncio.Event().wait()
        return {}

    def stop(self) -> None:
        self.told = True


def test_an_agent_that_does_not_stop_is_left_after_a_few_seconds(caplog: pytest.LogCaptureFixture) -> None:
    agent = Stubborn()

    async def main() -> tuple[int, float]:
        stop = asyncio.Event()
        stop.set()
        code = await quiet_run()._until_done(agent, stop)  # type: ignore[arg-type]  # all that is asked of it
        return code, asyncio.get_running_loop().time()

    code, took_s = run_virtual(main())
    assert (code, agent.told) == (0, True)
    assert took_s == pytest.approx(STOP_LIMIT_S)
    assert "did not stop" in caplog.text


class Finished:
    """An agent whose sources have ended in given states."""

    cameras = ()

    def __init__(self, *states: CameraState | None) -> None:
        self._ends = {str(n): None if s is None else Ended(s, "") for n, s in enumerate(states)}

    async def run(self, wait_for_cloud_s: float) -> dict[str, Ended | None]:
        return self._ends

    def stop(self) -> None:
        pass


@pytest.mark.parametrize(
    ("states", "code"),
    [
        ([CameraState.FINISHED], 0),
        ([CameraState.FINISHED, None], 0),
        ([CameraState.INVALID_INPUT], 3),
        ([CameraState.FINISHED, CameraState.UNSUPPORTED_CODEC], 3),
        ([CameraState.AUTH_FAILED, CameraState.FINISHED], 3),
        ([CameraState.OFFLINE, CameraState.INVALID_INPUT], 1),
    ],
)
def test_the_exit_code_tells_whether_a_source_has_failed(states: list[CameraState | None], code: int) -> None:
    agent = Finished(*states)
    ended = quiet_run()._until_done(agent, asyncio.Event())  # type: ignore[arg-type]  # all that is asked of it
    assert run_virtual(ended) == code


def test_a_run_at_another_broker_starts_no_process_of_its_own() -> None:
    made = quiet_run(**{"broker.url": f"mqtt://127.0.0.1:{free_port()}"})._plan
    assert made.embedded is None
    assert made.worker is None


@pytest.mark.parametrize(("name", "found"), [("DISPLAY", True), ("WAYLAND_DISPLAY", True), ("", False)])
def test_a_browser_is_opened_only_where_there_is_a_display(
    monkeypatch: pytest.MonkeyPatch, name: str, found: bool
) -> None:
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    if name:
        monkeypatch.setenv(name, ":0")
    assert _has_display() is found
