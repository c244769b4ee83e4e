"""``foveate run`` on a file in real time, with its own broker and worker: what it answers, says and leaves behind."""

import asyncio
import json
import subprocess
import urllib.request
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jsonschema
import psutil
import pytest
import pytest_asyncio

from pipeline.results import Result, decode_result
from tests.support.brokers import HOST
from tests.support.processes import (
    Arguments,
    Product,
    cut_clip,
    free_port_pair,
    gone,
    listening,
    product,
    read_record,
    until,
)

FRAMES = 60


@dataclass
class Finished:
    """A run that has ended, and what was seen of it from outside."""

    code: int
    stdout: str
    stderr: str
    summary: dict[str, Any]
    record_lines: list[bytes]
    record: list[Result]
    heard: list[Result]
    states: list[str]
    availability: list[str]
    children: list[psutil.Process]
    page: dict[str, Any]
    mosquitto_sub: dict[str, str] = field(default_factory=dict)
    watched: str = ""


def _subscribe(version: str, port: int) -> "subprocess.Popen[str] | None":
    try:
        return subprocess.Popen(
            ["mosquitto_sub", "-V", version, "-h", HOST, "-p", str(port), "-t", "foveate/gate/result", "-W", "20"],
            stdout=subprocess.PIPE,
            text=True,
        )
    except FileNotFoundError:
        return None


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def finished(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Finished]:
    folder = tmp_path_factory.mktemp("run")
    config = folder / "foveate.yaml"
    clip = cut_clip(folder / "gate.mp4", FRAMES)
    config.write_text(f"cameras:\n  - {{name: gate, source: {clip}, realtime: true, deadline_ms: 1000}}\n")
    port = free_port_pair()
    outputs: Arguments = ["--summary", folder / "s.json", "--record", folder / "r.jsonl"]
    arguments: Arguments = ["-c", config, "--port", str(port), "--web-port", "0", *outputs]
    async with listening(port) as listener, product(folder, "run", *arguments) as run:
        await until(lambda: "status page" in run.stdout, f"the page's address in {run.stdout} {run.stderr}")
        subscribers = {"mqttv5": _subscribe("mqttv5", port), "mqttv311": _subscribe("mqttv311", port + 1)}
        async with product(folder, "watch", "--broker", f"mqtt://{HOST}:{port}", "--camera", "gate") as watch:
            await until(lambda: len(listener.results("gate")) > 3, "results over MQTT")
            page = await asyncio.to_thread(_status, run)
            children = run.children()
            code = await run.ended()
            watched = watch.stdout
        heard = {}
        for version, subscriber in subscribers.items():
            if subscriber is not None:
                subscriber.terminate()
                heard[version] = (await asyncio.to_thread(subscriber.communicate))[0]
        yield Finished(
            code=code,
            stdout=run.stdout,
            stderr=run.stderr,
            summary=json.loads((folder / "s.json").read_text()),
            record_lines=(folder / "r.jsonl").read_bytes().splitlines(),
            record=read_record(folder / "r.jsonl"),
            heard=listener.results("gate"),
            states=[state["state"] for state in listener.states("gate")],
            availability=listener.availability(),
            children=children,
            page=page,
            mosquitto_sub=heard,
            watched=watched,
        )


def _status(run: Product) -> dict[str, Any]:
    address = next(word for word in run.stdout.split() if word.startswith("http://"))
    with urllib.request.urlopen(f"{address}api/status", timeout=10) as answer:
        return dict(json.load(answer))


pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_it_ends_by_itself_with_code_0_and_without_a_complaint(finished: Finished) -> None:
    assert finished.code == 0, finished.stderr
    assert finished.stderr == ""


async def test_every_captured_frame_ends_exactly_once(finished: Finished) -> None:
    summary = finished.summary
    assert summary["invariant_ok"] is True
    assert summary["in_flight"] == 0
    assert summary["captured"] == FRAMES
    assert sum(summary["finals"].values()) + sum(summary["drops"].values()) == FRAMES
    assert len(finished.record) == sum(summary["finals"].values())
    assert Counter(result.origin for result in finished.record) == summary["finals"]


async def test_the_summary_has_the_documented_keys(finished: Finished) -> None:
    keys = {
        *("captured", "finals", "drops", "in_flight", "invariant_ok", "latency_ms", "latency_analysed_ms"),
        *("deadline_ms", "deadline_hit_ratio", "bytes_up", "jpeg_all_bytes", "lambda_edge"),
    }
    assert keys | {"cpu_s", "rss_mb", "cameras"} <= finished.summary.keys()
    assert keys <= finished.summary["cameras"]["gate"].keys()
    for name in ("latency_ms", "latency_analysed_ms"):
        assert finished.summary[name].keys() == {"p50", "p95", "p99", "max"}
    for name in ("cpu_s", "rss_mb"):
        assert finished.summary[name].keys() == {"agent", "worker", "broker"}
        assert all(value > 0 for value in finished.summary[name].values())
    assert finished.summary["cameras"]["gate"]["state"] == "finished"


async def test_the_record_has_one_line_per_frame_in_order(finished: Finished) -> None:
    seqs = [result.seq for result in finished.record]
    assert seqs == sorted(set(seqs))
    assert seqs[-1] == FRAMES - 1
    assert {result.final for result in finished.record} == {True}


async def test_the_record_keeps_to_the_published_schema(finished: Finished, tmp_path: Path) -> None:
    async with product(tmp_path, "schema", "result") as printed:
        assert await printed.ended() == 0
        schema = json.loads(printed.stdout)
    validator = jsonschema.Draft202012Validator(schema)
    assert [list(validator.iter_errors(json.loads(line))) for line in finished.record_lines] == [[]] * len(
        finished.record
    )


async def test_the_larger_model_took_part(finished: Finished) -> None:
    assert finished.summary["finals"].keys() & {"fused", "cloud"}
    assert finished.summary["bytes_up"] == sum(result.bytes_up for result in finished.record) > 0
    assert "person" in {found.label for result in finished.record for found in result.detections}
    assert {"nanodet-g-int8@"} <= {(result.models.edge or "")[:15] for result in finished.record}


async def test_subscribers_hear_the_analysed_frames_as_they_are_recorded(finished: Finished) -> None:
    analysed = {result.seq: result for result in finished.record if result.origin != "carried"}
    assert finished.heard
    assert [result for result in finished.heard if result != analysed.get(result.seq)] == []
    assert finished.heard[-1].seq == max(analysed)


async def test_the_broker_is_told_states_and_the_goodbye(finished: Finished) -> None:
    assert finished.states[-2:] == ["live", "finished"]
    assert finished.availability[-2:] == ["online", "offline"]


@pytest.mark.mosquitto
@pytest.mark.parametrize("version", ["mqttv5", "mqttv311"])
@pytest.mark.usefixtures("mosquitto")
async def test_mosquitto_sub_reads_results_from_the_embedded_broker(finished: Finished, version: str) -> None:
    lines = finished.mosquitto_sub[version].splitlines()
    assert len(lines) > 3
    assert {decode_result(line).camera for line in lines} == {"gate"}


async def test_watch_prints_results(finished: Finished) -> None:
    lines = finished.watched.splitlines()
    assert lines
    assert all(" gate #" in line and " ms" in line for line in lines)
    assert any("person" in line for line in lines)


async def test_the_status_page_tells_of_the_running_camera(finished: Finished) -> None:
    [camera] = finished.page["cameras"]
    assert (camera["name"], camera["state"]) == ("gate", "live")
    assert finished.page["broker_connected"] is True
    assert [worker["online"] for worker in finished.page["workers"]] == [True]


async def test_no_process_is_left(finished: Finished) -> None:
    assert len(finished.children) >= 3  # broker, worker, reader
    assert gone(finished.children)


async def test_people_get_a_summary(finished: Finished) -> None:
    assert f"{FRAMES} captured" in finished.stdout
    assert "finished: the file ended" in finished.stdout
