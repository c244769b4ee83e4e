"""The command line as such; what the commands do is tested end to end."""

import json
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from cloud_worker.settings import WorkerSettings
from foveate.plan import NetworkSettings, Plan
from pipeline.policies.budgets import SEGMENT_STAGES, STAGE_SEGMENTS
from pipeline.policies.restraint import Action
from pipeline.results import Origin
from tests.support.brokers import HOST, free_port
from tests.support.processes import command

Words = pytest.CaptureFixture[str]


@pytest.mark.parametrize("name", ["run", "edge", "worker", "broker", "watch", "schema", "model", "config", "bench"])
def test_every_command_explains_itself(monkeypatch: pytest.MonkeyPatch, capfd: Words, name: str) -> None:
    assert command(monkeypatch, name, "--help") == 0
    assert "Usage:" in capfd.readouterr().out


def test_without_a_command_the_help_is_shown(monkeypatch: pytest.MonkeyPatch, capfd: Words) -> None:
    command(monkeypatch)
    said = capfd.readouterr()
    assert "Usage:" in said.out + said.err


def test_the_schema_of_a_result_names_every_origin(monkeypatch: pytest.MonkeyPatch, capfd: Words) -> None:
    assert command(monkeypatch, "schema") == 0
    schema = json.loads(capfd.readouterr().out)
    assert set(schema["$defs"]["Result"]["properties"]["origin"]["enum"]) == {origin.value for origin in Origin}


def test_the_schema_of_an_alert_names_every_segment_and_action(monkeypatch: pytest.MonkeyPatch, capfd: Words) -> None:
    assert command(monkeypatch, "schema", "alert") == 0
    properties = json.loads(capfd.readouterr().out)["$defs"]["Alert"]["properties"]
    assert set(properties["segment"]["enum"]) == set(SEGMENT_STAGES)
    stages, actions = ({one for part in properties[name]["anyOf"] for one in part.get("enum", ())} for name in
                       ("stage", "action"))  # fmt: skip
    assert stages - {None} == set(STAGE_SEGMENTS)
    assert actions - {None} == {action.value for action in Action}


def test_a_schema_of_anything_else_is_refused(monkeypatch: pytest.MonkeyPatch, capfd: Words) -> None:
    assert command(monkeypatch, "schema", "event") == 2
    said = capfd.readouterr().err
    assert said == "foveate: there is no schema of 'event': there is one of result and one of alert.\n"


def test_a_seed_without_a_modelled_network_is_wrong_use(monkeypatch: pytest.MonkeyPatch, capfd: Words) -> None:
    assert command(monkeypatch, "run", "synthetic:", "--network-seed", "3") == 2
    assert "name one with --network" in capfd.readouterr().err


def test_a_typed_trace_is_relative_to_where_it_is_typed(
    monkeypatch: pytest.MonkeyPatch, capfd: Words, tmp_path: Path
) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "up").write_text("1\n")
    file = tmp_path / "elsewhere" / "foveate.yaml"
    file.write_text("cameras: [{source: 'synthetic:'}]")
    monkeypatch.chdir(tmp_path)
    plans: list[Plan] = []
    monkeypatch.setattr("foveate.cli._go", lambda made, *_: plans.append(made))
    assert command(monkeypatch, "run", "-c", str(file), "--network", "mahimahi:up") == 0, capfd.readouterr().err
    assert [made.network for made in plans] == [NetworkSettings(f"mahimahi:{tmp_path}/up")]


def test_a_calibration_that_could_not_be_kept_is_refused_before_the_work(
    monkeypatch: pytest.MonkeyPatch, capfd: Words, tmp_path: Path
) -> None:
    clip = tmp_path / "clip.mp4"
    clip.write_bytes(b"moving")
    for output, fault in ((tmp_path, "cannot be written"), (clip, "would be overwritten")):
        assert command(monkeypatch, "calibrate", str(clip), "-o", str(output)) == 2
        said = capfd.readouterr().err
        assert fault in said
        assert said.count("\n") == 1
    assert clip.read_bytes() == b"moving"


def test_a_run_does_not_load_what_only_measures() -> None:
    script = "import sys, foveate.cli; print(*(name for name in sys.modules if name.startswith('foveate.')))"
    loaded = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout.split()
    assert "foveate.run" in loaded
    for part in (
        "foveate.bench.full_report",
        "foveate.bench.virtual",
        "foveate.bench.report_page",
        "foveate.calibrate",
    ):
        assert part not in loaded, part


def test_a_last_port_leaves_the_second_listener_where_it_was(monkeypatch: pytest.MonkeyPatch, capfd: Words) -> None:
    assert command(monkeypatch, "run", "x.mp4", "--port", "65536") == 2
    said = capfd.readouterr().err
    assert said.count("\n") == 1
    assert "port_v3" not in said


def test_a_worker_of_its_own_has_a_thread_for_each_cpu_that_it_may_use(monkeypatch: pytest.MonkeyPatch) -> None:
    served: list[int] = []

    async def serve(settings: WorkerSettings, *_others: object) -> None:
        served.append(settings.threads)

    monkeypatch.setattr("foveate.cli.serve", serve)
    monkeypatch.setattr("foveate.cli.default_threads", lambda: 7)
    assert command(monkeypatch, "worker", "--broker", "mqtt://127.0.0.1:1") == 0
    assert command(monkeypatch, "worker", "--broker", "mqtt://127.0.0.1:1", "--threads", "2") == 0
    assert served == [7, 2]


def test_a_worker_whose_configuration_is_wrong_says_so(monkeypatch: pytest.MonkeyPatch, capfd: Words) -> None:
    assert command(monkeypatch, "worker", "--broker", f"ftp://{HOST}:{free_port()}") == 2
    assert capfd.readouterr().err.startswith("foveate: ")


def test_the_command_is_installed_under_its_name() -> None:
    [script] = [s for s in metadata.entry_points(group="console_scripts") if s.name == "foveate"]
    assert script.value == "foveate.__main__:main"


def planned(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> Plan:
    """The plan that a run would be started from."""
    plans: list[Plan] = []
    monkeypatch.setattr("foveate.cli._go", lambda made, *_: plans.append(made))
    assert command(monkeypatch, "run", *arguments) == 0
    return plans[0]


def test_a_run_that_learns_keeps_lessons_in_the_users_own_folder_and_says_which(
    monkeypatch: pytest.MonkeyPatch, capfd: Words, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    made = planned(monkeypatch, "synthetic:", "--learn")
    assert made.learn.enabled
    assert made.agent.cameras[0].lessons.enabled
    assert made.agent.state_dir == tmp_path / "foveate"
    assert f"what is learned is kept in {tmp_path / 'foveate'}" in capfd.readouterr().out
    usual = planned(monkeypatch, "synthetic:")
    assert (usual.learn.enabled, usual.agent.cameras[0].lessons.enabled, usual.agent.state_dir) == (False, False, None)


def test_a_run_that_learns_keeps_to_the_folder_of_its_configuration(
    monkeypatch: pytest.MonkeyPatch, capfd: Words, tmp_path: Path
) -> None:
    file = tmp_path / "foveate.yaml"
    file.write_text("agent: {state_dir: here}\ncameras: [{source: 'synthetic:'}]\n")
    made = planned(monkeypatch, "-c", str(file), "--learn")
    assert made.agent.state_dir == tmp_path / "here"
    assert "what is learned" not in capfd.readouterr().out


def test_learning_without_a_folder_is_a_fault_of_the_configuration(
    monkeypatch: pytest.MonkeyPatch, capfd: Words, tmp_path: Path
) -> None:
    file = tmp_path / "foveate.yaml"
    file.write_text("learn: {enabled: true}\ncameras: [{source: 'synthetic:'}]\n")
    assert command(monkeypatch, "run", "-c", str(file)) == 2
    folder, lessons = capfd.readouterr().err.splitlines()
    assert folder.startswith("foveate: learn.enabled is true, but there is no folder for what is learned")
    assert folder.endswith("add agent.state_dir")
    assert "no camera keeps lessons" in lessons
