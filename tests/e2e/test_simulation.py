"""The simulator says what a real run will come to: the same scene, the same settings, the same shares.

The workload is recorded by itself; nothing of the run that it is held against goes into the simulation. The deadline is
wide and the small model looks first, so that a busy machine is not what is compared. A budget is spent in lumps, so
that a run with one has to be long enough for a share to mean something.
"""

import json
from pathlib import Path

import pytest

from foveate.bench.agreement import real, simulated
from foveate.config.settings import for_sources, plan
from foveate.simulation.record import record_clip
from tests.support.processes import cut_clip, free_port_pair, product

DEADLINE_MS = 1000.0
CLOSE = 0.05


@pytest.mark.timeout(120)
@pytest.mark.parametrize(("frames", "uplink_kbps", "least_lambda"), [(60, None, 0.0), (300, 100.0, 0.15)])
async def test_simulation_and_real_run_agree_on_hit_ratio_and_lambda(
    tmp_path: Path, frames: int, uplink_kbps: float | None, least_lambda: float
) -> None:
    clip = cut_clip(tmp_path / "plaza.mp4", frames)
    record, configuration = tmp_path / "r.jsonl", tmp_path / "run.yaml"
    camera = {"name": "plaza", "source": str(clip), "realtime": True, "deadline_ms": DEADLINE_MS, "route": "edge"}
    port = free_port_pair()
    broker = {"embedded": {"port": port, "port_v3": port + 1}}
    configuration.write_text(
        json.dumps({"cameras": [camera], "uplink": {"uplink_kbps": uplink_kbps}, "broker": broker})
    )
    async with product(tmp_path, "run", "-c", configuration, "--no-web", "--record", record) as run:
        assert await run.ended(within_s=90) == 0, run.stderr
    overrides = {"cameras.deadline_ms": DEADLINE_MS, "uplink.uplink_kbps": uplink_kbps}
    workload = record_clip(clip, plan(for_sources([str(clip)], overrides)))
    measured, expected = real(record), simulated(workload, overrides)
    assert measured.kept > 0.9 * expected.kept
    assert measured.hit_ratio == pytest.approx(expected.hit_ratio, abs=CLOSE)
    assert measured.lambda_edge == pytest.approx(expected.lambda_edge, abs=CLOSE)
    assert measured.lambda_edge >= least_lambda
