"""``foveate edge`` and ``foveate worker`` as separate processes at a mosquitto broker."""

import asyncio
import signal
import subprocess
from pathlib import Path

import pytest

from pipeline.results import decode_result
from tests.support.brokers import HOST, Mosquitto
from tests.support.processes import cut_clip, listening, product, until

FRAMES = 30


def _subscribe(version: str, port: int) -> "subprocess.Popen[str]":
    command = ["mosquitto_sub", "-V", version, "-h", HOST, "-p", str(port), "-t", "foveate/gate/result", "-C", "5"]
    return subprocess.Popen([*command, "-W", "40"], stdout=subprocess.PIPE, text=True)


@pytest.mark.mosquitto
async def test_an_edge_and_a_worker_meet_at_mosquitto_and_any_client_reads_the_results(
    mosquitto: str, tmp_path: Path
) -> None:
    broker = Mosquitto(mosquitto)
    await asyncio.to_thread(broker.start)
    url = f"broker: {{url: 'mqtt://{HOST}:{broker.port}'}}\n"
    (tmp_path / "worker.yaml").write_text(f"{url}worker: {{threads: 1}}\n")
    clip = cut_clip(tmp_path / "gate.mp4", FRAMES)
    (tmp_path / "edge.yaml").write_text(
        f"{url}web: {{enabled: false}}\n"
        f"cameras: [{{name: gate, source: {clip}, realtime: true, deadline_ms: 1000, publish: all}}]\n"
    )
    try:
        async with (
            listening(broker.port) as listener,
            product(tmp_path, "worker", "-c", tmp_path / "worker.yaml") as worker,
        ):
            await until(lambda: any("/worker/" in m.topic for m in listener.messages), "the worker's announcement")
            subscribers = [_subscribe(version, broker.port) for version in ("mqttv5", "mqttv311")]
            async with product(tmp_path, "edge", "-c", tmp_path / "edge.yaml") as edge:
                assert await edge.ended() == 0, edge.stderr
            await until(lambda: listener.availability()[-1:] == ["offline"], "the edge's goodbye")
            for subscriber in subscribers:
                lines = (await asyncio.to_thread(subscriber.communicate))[0].splitlines()
                assert [decode_result(line).camera for line in lines] == ["gate"] * 5
            assert set(listener.origins("gate")) & {"fused", "cloud"}
            seqs = [result.seq for result in listener.results("gate")]
            assert seqs == sorted(set(seqs))
            assert seqs[-1] == FRAMES - 1
            assert listener.state("gate") == "finished"
            worker.send_signal(signal.SIGTERM)
            assert await worker.ended() == 0, worker.stderr
    finally:
        await asyncio.to_thread(broker.stop)


async def test_an_edge_without_a_broker_is_refused_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "edge.yaml").write_text("cameras: [{name: gate, source: 'synthetic:'}]\n")
    async with product(tmp_path, "edge", "-c", tmp_path / "edge.yaml") as edge:
        assert await edge.ended() == 2
        assert edge.stderr == (
            "foveate: an edge agent needs a broker: name it with --broker mqtt://host:port or broker.url.\n"
        )
