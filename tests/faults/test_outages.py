"""One run with two cameras through every outage: of a camera, of the worker, of the broker, and its end by SIGTERM.

Time-outs and pauses are the defaults, and what is promised of them is measured. The deadlines are longer than the
default, so that the cloud's help is seen on a busy machine too.
"""

import json
import signal
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio

from tests.support.processes import (
    CLOCK,
    Arguments,
    Listener,
    Product,
    cut_clip,
    free_port_pair,
    gone,
    listening,
    product,
    read_record,
    until,
)
from tests.support.rtsp import RtspServer

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(120)]

CONFIG = """\
web: {{enabled: false}}
defaults: {{publish: all, deadline_ms: 500}}
cameras:
  - {{name: street, source: "{url}"}}
  - {{name: plaza, source: "synthetic:plaza?seconds=0&fps=5&width=320&height=240", realtime: true}}
"""
CAMERA_BACK_WITHIN_S = 10
CLOUD_BACK_WITHIN_S = 5
STOPPED_WITHIN_S = 5


@dataclass
class Scene:
    """A running product, who listens to it, and the camera that it watches."""

    run: Product
    listener: Listener
    server: RtspServer
    folder: Path

    async def healthy(self) -> None:
        """Wait until both cameras are answered with the cloud's help, over MQTT."""
        start = {name: len(self.listener.results(name)) for name in ("street", "plaza")}
        for name, seen in start.items():
            await until(
                lambda name=name, seen=seen: {"fused", "cloud"} & set(self.listener.origins(name)[seen:]),  # type: ignore[misc]
                f"answers of the cloud for {name}; {self.listener.states(name)} {self.run.stderr[-1500:]}",
            )

    def recorded(self, name: str) -> list[int]:
        """The frames of a camera in the record file."""
        return [result.seq for result in read_record(self.folder / "r.jsonl") if result.camera == name]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def scene(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Scene]:
    folder = tmp_path_factory.mktemp("outages")
    cut_clip(folder / "street.mp4", 795)
    server = RtspServer(folder)
    await server.start()
    (folder / "foveate.yaml").write_text(CONFIG.format(url=server.url("street.mp4")))
    port = free_port_pair()
    outputs: Arguments = ["--record", folder / "r.jsonl", "--summary", folder / "s.json"]
    try:
        async with (
            listening(port) as listener,
            product(folder, "run", "-c", folder / "foveate.yaml", "--port", str(port), *outputs) as run,
        ):
            yield Scene(run, listener, server, folder)
    finally:
        await server.kill()


async def test_a_camera_that_is_killed_is_stale_then_offline_and_back_soon_after_it_returns(scene: Scene) -> None:
    await scene.healthy()
    told = len(scene.listener.states("street"))
    await scene.server.kill()
    await until(lambda: scene.listener.state("street") == "offline", "the state offline")
    during = scene.listener.states("street")[told:]
    assert [state["state"] for state in during][:2] == ["stale", "offline"]
    assert all(state["reason"] for state in during)
    before = len(scene.listener.results("street"))
    plaza_before = len(scene.listener.results("plaza"))
    await scene.server.start()
    returned_at_s = CLOCK.now_s()
    await until(lambda: len(scene.listener.results("street")) > before, "results after the return")
    took_s = CLOCK.now_s() - returned_at_s
    assert took_s < CAMERA_BACK_WITHIN_S, f"results came {took_s:.1f} s after the server's return"
    assert scene.listener.state("street") == "live"
    assert len(scene.listener.results("plaza")) > plaza_before
    seqs = [result.seq for result in scene.listener.results("plaza")]
    assert seqs == list(range(seqs[0], seqs[0] + len(seqs)))  # its neighbour has lost nothing


async def test_a_killed_worker_leaves_no_gap_and_the_cloud_answers_again_after_its_restart(scene: Scene) -> None:
    await scene.healthy()
    worker = scene.run.child("foveate.worker_child")
    assert worker is not None
    before = len(scene.listener.results("plaza"))
    worker.kill()
    await until(
        lambda: {"edge", "edge_timeout"} & set(scene.listener.origins("plaza")[before:]), "the edge's own answers"
    )
    await until(lambda: scene.run.child("foveate.worker_child") not in (None, worker), "a new worker process")
    told = len(scene.listener.workers())
    await until(lambda: any(w.online for w in scene.listener.workers()[told:]), "the new worker's announcement")
    announced_at_s = CLOCK.now_s()
    await scene.healthy()
    took_s = CLOCK.now_s() - announced_at_s
    assert took_s < CLOUD_BACK_WITHIN_S, f"the cloud answered {took_s:.1f} s after the new worker's announcement"
    seqs = [result.seq for result in scene.listener.results("plaza")[before:]]
    assert seqs == list(range(seqs[0], seqs[0] + len(seqs)))


async def test_a_killed_broker_leaves_the_answers_going_into_the_record_and_mqtt_comes_back(scene: Scene) -> None:
    await scene.healthy()
    broker = scene.run.child("foveate.broker")
    assert broker is not None
    before = scene.recorded("plaza")[-1]
    heard = len(scene.listener.messages)
    broker.kill()
    await until(lambda: scene.run.child("foveate.broker") not in (None, broker), "a new broker process")
    await scene.healthy()
    await until(lambda: scene.recorded("plaza")[-1] > before + 5, "answers in the record")
    seqs = scene.recorded("plaza")
    assert seqs == list(range(seqs[0], seqs[0] + len(seqs)))
    states = [message.topic for message in scene.listener.messages[heard:]]
    assert {"foveate/plaza/state", "foveate/street/state"} <= set(states)  # told again to a broker that forgot
    assert scene.listener.availability()[-1] == "online"


async def test_sigterm_ends_it_soon_with_code_0_a_goodbye_a_summary_and_no_orphan(scene: Scene) -> None:
    await scene.healthy()
    children = scene.run.children()
    assert len(children) >= 3  # broker, worker, the street's reader
    told_at_s = CLOCK.now_s()
    scene.run.send_signal(signal.SIGTERM)
    assert await scene.run.ended() == 0, scene.run.stderr
    took_s = CLOCK.now_s() - told_at_s
    assert took_s < STOPPED_WITHIN_S, f"the run ended {took_s:.1f} s after SIGTERM"
    assert gone(children)
    assert scene.listener.availability()[-1] == "offline"
    for name in ("street", "plaza"):
        assert scene.listener.state(name) == "offline"
        assert scene.listener.states(name)[-1]["reason"] == "the agent has stopped"
    assert "Traceback" not in scene.run.stderr
    summary = json.loads((scene.folder / "s.json").read_text())
    assert summary["invariant_ok"] is True
    assert summary["in_flight"] == 0
    assert summary["record_lost"] == summary["counters"]["record_lost"] == 0
    assert set(summary["drops"]) <= {"stopped", "overwritten", "unusable"}
    assert summary["cameras"]["plaza"]["drops"].keys() <= {"stopped"}
    assert len(read_record(scene.folder / "r.jsonl")) == sum(summary["finals"].values())
