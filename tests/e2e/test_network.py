"""``foveate run --network``: the whole product over a modelled network."""

import asyncio
import json
import signal
import urllib.request
from pathlib import Path
from typing import Any

from tests.support.processes import Arguments, cut_clip, free_port_pair, gone, listening, product, until

FRAMES = 60


async def test_a_run_over_a_modelled_network_answers_every_frame_and_says_that_it_was_modelled(tmp_path: Path) -> None:
    clip, port = cut_clip(tmp_path / "gate.mp4", FRAMES), free_port_pair()
    options = ["--realtime", "--deadline-ms", "1000", "--port", str(port), "--web-port", "0"]
    network: Arguments = ["--network", "lte", "--network-seed", "7", "--summary", tmp_path / "s.json"]
    async with listening(port) as listener, product(tmp_path, "run", clip, *options, *network) as run:
        await until(lambda: len(listener.results("gate")) > 3, "results over MQTT")
        page = await asyncio.to_thread(_status, run.stdout)
        shaper = run.child("foveate.shaper_child")
        children = run.children()
        assert await run.ended() == 0, run.stderr
        assert run.stderr == ""
        assert listener.availability()[-1:] == ["offline"]
    assert shaper is not None
    assert gone(children)
    assert page["broker"] == f"127.0.0.1:{port} (embedded) over the modelled network lte"
    summary = json.loads((tmp_path / "s.json").read_text())
    assert summary["network"] == {"profile": "lte", "seed": 7}
    assert summary["cpu_s"]["network"] > 0
    assert (summary["captured"], summary["invariant_ok"], summary["in_flight"]) == (FRAMES, True, 0)
    assert summary["finals"].get("fused", 0) > 0
    assert "modelled: lte, seed 7" in run.stdout


async def test_a_killed_network_shaper_is_started_again_and_the_subscribers_hear_on(tmp_path: Path) -> None:
    port = free_port_pair()
    options = ["--realtime", "--no-web", "--port", str(port), "--network", "wifi"]
    async with listening(port) as listener, product(tmp_path, "run", "synthetic:?seconds=0", *options) as run:
        await until(lambda: listener.messages, "a first word over MQTT")
        shaper = run.child("foveate.shaper_child")
        assert shaper is not None
        shaper.kill()
        await until(lambda: run.child("foveate.shaper_child") not in (None, shaper), "a new network shaper")
        heard = len(listener.origins("synthetic"))
        await until(
            lambda: {"fused", "cloud"} & set(listener.origins("synthetic")[heard:]),
            f"answers of the cloud; {run.stderr}",
        )
        run.send_signal(signal.SIGTERM)
        assert await run.ended() == 0, run.stderr
    assert "the network shaper has ended; starting it again in 1 s" in run.stderr


def _status(said: str) -> dict[str, Any]:
    address = next(word for word in said.split() if word.startswith("http://"))
    with urllib.request.urlopen(f"{address}api/status", timeout=10) as answer:
        return dict(json.load(answer))


async def test_a_network_that_does_not_exist_is_told_before_anything_starts(tmp_path: Path) -> None:
    async with product(tmp_path, "run", "synthetic:", "--network", "lte-waek") as run:
        assert await run.ended() == 2
    assert run.stderr.startswith("foveate: network.profile (command line): There is no network 'lte-waek'")
    assert "did you mean 'lte-weak'?" in run.stderr
    assert run.stderr.count("\n") == 1
