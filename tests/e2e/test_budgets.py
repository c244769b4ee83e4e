"""``foveate run`` under a latency budget that nothing can keep: what subscribers hear, and what is turned down."""

import itertools
import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema

from pipeline.alerts import Alert, decode_alert
from pipeline.wire import topics
from tests.support.processes import Arguments, Listener, free_port_pair, listening, product, until

CONFIGURATION = """
web: {enabled: false}
models: {edge_light: {}}
cameras:
  - name: gate
    source: "synthetic:plaza?fps=25&seconds=0"
    realtime: true
    mode: edge_only
    change_detection: uniform
    sample_fps: 8
    deadline_ms: 2000
    publish: all
    budget:
      segments_ms: {edge: 0.01}
      actions: {edge: [lower_sample_rate, light_model]}
      sla: {share: 0.9, within_ms: 2000}
      window_s: 10
      least_samples: 5
      sustained_s: 1
      dwell_s: 1
      least_sample_fps: 3
"""


def alerts(listener: Listener) -> list[Alert]:
    heard = [decode_alert(m.payload) for m in listener.messages if m.topic == topics.alert("gate")]
    return [alert for alert in heard if isinstance(alert, Alert)]


def looked_by(listener: Listener) -> list[str]:
    return [result.models.edge or "" for result in listener.results("gate")]


async def test_a_budget_that_cannot_be_kept_raises_alerts_and_turns_the_camera_down(tmp_path: Path) -> None:
    config, summary = tmp_path / "foveate.yaml", tmp_path / "s.json"
    config.write_text(CONFIGURATION)
    port = free_port_pair()
    arguments: Arguments = ["-c", config, "--port", str(port), "--summary", summary]
    async with listening(port) as listener, product(tmp_path, "run", *arguments) as run:
        await until(lambda: len(alerts(listener)) >= 3, f"three alerts; {run.stderr}")
        heard = alerts(listener)
        await until(lambda: "+light" in " ".join(looked_by(listener)), "a result of the lighter model")
        run.send_signal(signal.SIGTERM)
        assert await run.ended() == 0, run.stderr
    assert_as_published(listener)
    assert [alert.action for alert in heard[:3]] == ["lower_sample_rate", "lower_sample_rate", "light_model"]
    assert {(alert.segment, alert.state, alert.budget_ms) for alert in heard} == {("edge", "breached", 0.01)}
    assert heard[0].detail.endswith("at most 4 frames per second are analysed")
    assert all((alert.p99_ms or 0.0) > 0.01 for alert in heard)
    found: dict[str, Any] = json.loads(summary.read_text())
    assert found["counters"]["budget_steps"] == 3
    assert {name: found["attainment"][name] for name in ("within_ms", "target", "hit_cloud")} == {
        "within_ms": 2000.0,
        "target": 0.9,
        "hit_cloud": 0.0,
    }
    assert analysed_gaps_s(listener)[-1] >= 1 / 4 - 1 / 25, "no more than the 4 per second that were left"


def assert_as_published(listener: Listener) -> None:
    """Every alert and result that was heard fits the schema that ``foveate schema`` prints."""
    for topic, kind in ((topics.alert("gate"), "alert"), (topics.result("gate"), "result")):
        said = subprocess.run([sys.executable, "-m", "foveate", "schema", kind], check=True, capture_output=True)
        validator = jsonschema.Draft202012Validator(json.loads(said.stdout))
        messages = [json.loads(m.payload) for m in listener.messages if m.topic == topic]
        assert messages
        for message in messages:
            validator.validate(message)


def analysed_gaps_s(listener: Listener) -> list[float]:
    """The time between analysed frames, by the frames' own numbers: the scene has 25 a second."""
    seqs = [result.seq for result in listener.results("gate") if result.origin != "carried"]
    return [(later - earlier) / 25 for earlier, later in itertools.pairwise(seqs)]
