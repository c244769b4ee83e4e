"""Bad input: one clear sentence, the right exit code or camera state, and nothing else harmed."""

import json
import shutil
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.brokers import HOST, free_port
from tests.support.processes import Arguments, command, cut_clip, free_port_pair, listening, product, read_record, until
from tests.support.rtsp import StubRtsp
from tests.support.scripts import REPOSITORY
from tests.support.video_clips import scene, write_audio, write_clip

Words = pytest.CaptureFixture[str]


@contextmanager
def taken_port() -> Iterator[int]:
    with socket.socket() as holder:
        holder.bind((HOST, 0))
        holder.listen()
        yield int(holder.getsockname()[1])


def bad_files(folder: Path) -> dict[str, tuple[Path, str]]:
    """Files that are no video, by camera name, and a word of what is to be said of each."""
    (folder / "empty.mp4").touch()
    (folder / "text.mp4").write_text("no video at all\n" * 50)
    whole = write_clip(folder / "whole.mp4", [scene(n) for n in range(30)])
    (folder / "truncated.mp4").write_bytes(whole.read_bytes()[: whole.stat().st_size // 2])
    (folder / "folder").mkdir()
    return {
        "missing": (folder / "missing.mp4", "does not exist"),
        "empty": (folder / "empty.mp4", "is empty"),
        "text": (folder / "text.mp4", "text"),
        "audio": (write_audio(folder / "audio.m4a"), "pictures"),
        "truncated": (folder / "truncated.mp4", "incomplete"),
        "folder": (folder / "folder", "pictures"),
    }


async def test_each_bad_file_is_an_invalid_input_with_its_own_reason_and_harms_no_other(tmp_path: Path) -> None:
    files = bad_files(tmp_path)
    good = write_clip(tmp_path / "good.mp4", [scene(n) for n in range(10)])
    sources = [path for path, _ in files.values()] + [good]
    options = ["--no-web", "--port", str(free_port_pair()), "--mode", "edge_only"]
    outputs: Arguments = ["--summary", tmp_path / "s.json", "--record", tmp_path / "r.jsonl"]
    async with product(tmp_path, "run", *sources, *options, *outputs) as run:
        assert await run.ended() == 3, run.stderr
        summary = json.loads((tmp_path / "s.json").read_text())
        assert "Traceback" not in run.stderr
        for name, (path, word) in files.items():
            camera = summary["cameras"][name]
            assert camera["state"] == "invalid_input", (name, camera)
            assert word in camera["reason"]
            assert str(path) in camera["reason"]
            [sentence] = [line for line in run.stderr.splitlines() if f"camera {name} is" in line]
            assert sentence.endswith(camera["reason"])
    assert summary["cameras"]["good"]["state"] == "finished"
    assert len(read_record(tmp_path / "r.jsonl")) == summary["cameras"]["good"]["captured"] == 10


async def test_a_region_outside_the_frame_is_an_invalid_input_and_exit_code_3(tmp_path: Path) -> None:
    clip = write_clip(tmp_path / "gate.mp4", [scene(n) for n in range(5)])
    config = tmp_path / "foveate.yaml"
    config.write_text(f"cameras: [{{name: gate, source: {clip}, mode: edge_only, roi: [2000, 100, 2300, 400]}}]\n")
    summary_file = tmp_path / "s.json"
    arguments: Arguments = ["-c", config, "--no-web", "--port", str(free_port_pair()), "--summary", summary_file]
    async with product(tmp_path, "run", *arguments) as run:
        assert await run.ended() == 3
        [line] = run.stderr.splitlines()
        assert "camera gate is invalid_input: the region of interest" in line
        assert "the frame of 320x240" in line
    summary = json.loads(summary_file.read_text())
    assert summary["drops"] == {"unusable": 5}
    assert summary["invariant_ok"] is True


async def test_cameras_out_of_reach_and_a_wrong_password_are_states_and_the_run_goes_on(tmp_path: Path) -> None:
    config, port = tmp_path / "foveate.yaml", free_port_pair()
    async with StubRtsp().serving() as stub, listening(port) as listener:
        config.write_text(
            "web: {enabled: false}\n"
            "cameras:\n"
            f"  - {{name: away, source: 'rtsp://{HOST}:{free_port()}/x', username: u, password: s3cret/Ü}}\n"
            f"  - {{name: locked, source: 'rtsp://{HOST}:{stub.port}/x', username: u, password: s3cret/Ü}}\n"
            "  - {name: good, source: 'synthetic:plaza?seconds=0&width=320&height=240', realtime: true}\n"
        )
        async with product(tmp_path, "run", "-c", config, "--port", str(port)) as run:
            await until(lambda: listener.state("away") == "offline", f"the state offline; {run.stderr}")
            await until(lambda: listener.state("locked") == "auth_failed", f"the state auth_failed; {run.stderr}")
            before = len(listener.results("good"))
            await until(lambda: len(listener.results("good")) > before, "results of the good camera")
            assert run.running
            run.send_signal(signal.SIGTERM)
            assert await run.ended(within_s=20) == 0
            for name in ("away", "locked"):
                assert listener.states(name)[-1]["reason"]
                assert [line for line in run.stderr.splitlines() if f"camera {name} is" in line]
            assert "Traceback" not in run.stderr
            assert "s3cret" not in run.stderr + run.stdout
            assert not [message.topic for message in listener.messages if b"s3cret" in message.payload]


def test_a_broker_port_in_use_is_exit_code_4(monkeypatch: pytest.MonkeyPatch, capfd: Words) -> None:
    with taken_port() as port:
        assert command(monkeypatch, "run", "synthetic:", "--no-web", "--port", str(port)) == 4
    said = capfd.readouterr().err
    assert said.startswith(f"foveate: The broker cannot listen on {HOST}:{port}: Address already in use; ")
    assert said.count("\n") == 1


async def test_a_page_port_in_use_is_exit_code_4_and_nothing_is_left_running(tmp_path: Path) -> None:
    with taken_port() as port:
        arguments = ["synthetic:plaza?seconds=0", "--web-port", str(port), "--port", str(free_port_pair())]
        async with product(tmp_path, "run", *arguments) as run:
            assert await run.ended() == 4
            [line] = run.stderr.splitlines()
    assert line.startswith(f"foveate: port {port} on {HOST} for the status page is in use")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "there is no source"),
        (["x.mp4", "--mode", "both"], "choose one of adaptive, edge_only, cloud_only"),
        (["ftp://camera/x"], "unknown scheme ftp"),
        (["synthetic:plaza?colour=red"], "no option colour"),
        (["x.mp4", "--deadline-ms", "-5"], "deadline_ms"),
        (["x.mp4", "--broker", "http://there"], "there"),
        (["x.mp4", "--object", "persn"], "person"),
        (["x.mp4", "--port", "99999"], "99999"),
    ],
)
def test_wrong_use_is_one_sentence_and_exit_code_2(
    monkeypatch: pytest.MonkeyPatch, capfd: Words, arguments: list[str], words: str
) -> None:
    assert command(monkeypatch, "run", *arguments) == 2
    said = capfd.readouterr().err
    assert said.startswith("foveate: ")
    assert words in said
    assert said.count("\n") == 1, said


def test_an_unknown_option_is_named(monkeypatch: pytest.MonkeyPatch, capfd: Words) -> None:
    assert command(monkeypatch, "run", "x.mp4", "--modus", "adaptive") == 2
    assert "No such option: --modus" in capfd.readouterr().err


def test_an_unknown_key_is_named_with_its_line_and_the_nearest_one(
    monkeypatch: pytest.MonkeyPatch, capfd: Words, tmp_path: Path
) -> None:
    config = tmp_path / "foveate.yaml"
    config.write_text("cameras:\n  - source: 'synthetic:'\n    sample_fsp: 5\n")
    assert command(monkeypatch, "run", "-c", config) == 2
    said = capfd.readouterr().err
    assert said.count("sample_fsp") == 1
    assert "line 3" in said
    assert "did you mean 'sample_fps'?" in said


def test_sources_on_both_sides_are_refused(monkeypatch: pytest.MonkeyPatch, capfd: Words, tmp_path: Path) -> None:
    config = tmp_path / "foveate.yaml"
    config.write_text("cameras: [{source: 'synthetic:'}]\n")
    assert command(monkeypatch, "run", "x.mp4", "-c", config) == 2
    assert "not in both" in capfd.readouterr().err


@pytest.mark.parametrize("option", ["--record", "--summary"])
def test_an_output_that_cannot_be_written_is_said_before_anything_starts(
    monkeypatch: pytest.MonkeyPatch, capfd: Words, tmp_path: Path, option: str
) -> None:
    path = tmp_path / "no" / "such" / "folder"
    assert command(monkeypatch, "run", "synthetic:", "--no-web", option, path) == 2
    said = capfd.readouterr().err
    assert said == (
        f"foveate: the {option[2:]} file {path} cannot be written: No such file or directory; name another one.\n"
    )


def models_folder(folder: Path, damaged: str) -> Path:
    copy = folder / "models"
    shutil.copytree(REPOSITORY / "models", copy, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    with (copy / damaged).open("ab") as file:
        file.write(b"x")
    return copy


@pytest.mark.parametrize("which", ["edge", "cloud"])
def test_an_unknown_model_is_exit_code_5(
    monkeypatch: pytest.MonkeyPatch, capfd: Words, tmp_path: Path, which: str
) -> None:
    config = tmp_path / "foveate.yaml"
    config.write_text(f"models: {{{which}: {{name: nanodet-h}}}}\ncameras: [{{source: 'synthetic:'}}]\n")
    assert command(monkeypatch, "run", "-c", config, "--no-web", "--port", str(free_port_pair())) == 5
    said = capfd.readouterr().err
    assert "Unknown model 'nanodet-h'" in said
    assert "Traceback" not in said


@pytest.mark.parametrize("damaged", ["nanodet-g-int8.onnx", "nanodet-g.onnx"])
def test_a_model_whose_hash_does_not_match_is_exit_code_5(
    monkeypatch: pytest.MonkeyPatch, capfd: Words, tmp_path: Path, damaged: str
) -> None:
    config = tmp_path / "foveate.yaml"
    config.write_text(
        f"models: {{dir: '{models_folder(tmp_path, damaged)}'}}\n"
        "cameras: [{source: 'synthetic:plaza?seconds=0', realtime: true}]\n"
    )
    assert command(monkeypatch, "run", "-c", config, "--no-web", "--port", str(free_port_pair())) == 5
    said = capfd.readouterr().err
    assert f"{damaged} has sha256" in said
    assert "Traceback" not in said


def test_a_broker_that_nobody_listens_at_leaves_the_answers_to_the_edge(
    monkeypatch: pytest.MonkeyPatch, capfd: Words, tmp_path: Path
) -> None:
    clip = cut_clip(tmp_path / "gate.mp4", 12)
    outputs: Arguments = ["--summary", tmp_path / "s.json", "--record", tmp_path / "r.jsonl"]
    broker = f"mqtt://{HOST}:{free_port()}"
    assert command(monkeypatch, "run", clip, "--broker", broker, "--no-web", *outputs) == 0
    summary = json.loads((tmp_path / "s.json").read_text())
    assert summary["captured"] == 12
    assert summary["finals"].keys() <= {"edge", "carried"}
    assert {r.reason for r in read_record(tmp_path / "r.jsonl") if r.origin == "edge"} == {"broker_down"}
    assert summary["lambda_edge"] == 1.0
