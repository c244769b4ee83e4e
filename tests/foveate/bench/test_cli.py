"""The commands under ``foveate bench``."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from foveate.bench import cli, full_report, main_job
from foveate.bench.main_job import Inputs
from foveate.bench.report import Report
from pipeline.errors import ConfigError
from tests.support.bench_records import write_evidence
from tests.support.records import Box, result, write_record, write_truth

LEFT: Box = (0, 0, 50, 100)
RIGHT: Box = (200, 0, 250, 100)
runner = CliRunner()


def test_accuracy_prints_f1_precision_recall_and_counts_by_origin(tmp_path: Path) -> None:
    record = write_record(
        tmp_path / "r.jsonl", [result(0, [LEFT], origin="fused"), result(1, [LEFT, RIGHT], origin="carried")]
    )
    truth = write_truth(tmp_path / "gt.txt", [(1, LEFT, 1), (2, LEFT, 1), (3, LEFT, 1)])
    done = runner.invoke(cli.app, ["accuracy", "--record", str(record), "--gt", str(truth)], catch_exceptions=False)
    assert done.exit_code == 0
    assert "F1 0.6667, precision 0.6667, recall 0.6667" in done.stdout
    assert "2 of 3 frames have a result; label person" in done.stdout
    rows = {line.split()[0]: line.split()[1:5] for line in done.stdout.splitlines() if line.strip()}
    assert rows["fused"] == ["1", "1", "0", "0"]
    assert rows["carried"] == ["1", "1", "1", "0"]
    assert rows["all"] == ["3", "2", "1", "1"]


def test_accuracy_takes_label_camera_and_number_of_frames(tmp_path: Path) -> None:
    lines = [result(0, [LEFT], label="dog", camera="yard"), result(0, camera="gate")]
    truth = write_truth(tmp_path / "gt.txt", [(1, LEFT, 1), (2, LEFT, 1)])
    files = ["--record", str(write_record(tmp_path / "r.jsonl", lines)), "--gt", str(truth)]
    choice = ["--label", "dog", "--camera", "yard", "--frames", "1"]
    done = runner.invoke(cli.app, ["accuracy", *files, *choice], catch_exceptions=False)
    assert "F1 1.0000" in done.stdout
    assert "1 of 1 frames have a result; label dog" in done.stdout


def test_accuracy_of_an_unreadable_file_is_wrong_use(tmp_path: Path) -> None:
    truth = write_truth(tmp_path / "gt.txt", [(1, LEFT, 1)])
    with pytest.raises(ConfigError) as caught:
        runner.invoke(
            cli.app, ["accuracy", "--record", str(tmp_path / "r"), "--gt", str(truth)], catch_exceptions=False
        )
    assert caught.value.exit_code == 2


def test_run_measures_the_group_and_writes_its_figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Inputs] = []

    def measure(inputs: Inputs, say: object) -> Report:
        asked.append(inputs)
        return Report({"f1": 0.91}, {"short": inputs.short}, ("the machine was busy",))

    monkeypatch.setattr(main_job, "measure", measure)
    file = tmp_path / "figures.json"
    options = ["--short", "--json", str(file), "--clip", "a.mp4", "--gt", "a.txt", "--h264-bytes-per-frame", "1000"]
    done = runner.invoke(cli.app, ["run", "main", *options], catch_exceptions=False)
    assert done.exit_code == 0
    assert asked == [Inputs(Path("a.mp4"), Path("a.txt"), 1000.0, short=True)]
    written = json.loads(file.read_text())
    assert written["figures"] == {"f1": 0.91}
    assert written["context"]["details"] == {"short": True}
    assert {"machine", "date", "command", "versions", "warnings"} <= set(written["context"])
    assert "0.9100" in done.stdout
    assert "doubtful: the machine was busy" in done.stdout


def test_an_unknown_group_names_the_known_ones(tmp_path: Path) -> None:
    known = "there is main, in-time, learn, worker; "
    for group, words in (("mian", known + "did you mean main"), ("x", known + "choose one")):
        with pytest.raises(ConfigError, match=words) as caught:
            runner.invoke(cli.app, ["run", group, "--json", str(tmp_path / "f.json")], catch_exceptions=False)
        assert caught.value.exit_code == 2
        assert not (tmp_path / "f.json").exists()


def test_main_can_be_run_over_a_modelled_network_and_no_other_group_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Inputs] = []

    def measure(inputs: Inputs, say: object) -> Report:
        asked.append(inputs)
        return Report({}, {})

    monkeypatch.setattr(main_job, "measure", measure)
    options = ["--json", str(tmp_path / "f.json"), "--network"]
    runner.invoke(cli.app, ["run", "main", *options, "lte"], catch_exceptions=False)
    assert asked[0].over == ["--network", "lte"]
    for group, network, words in (("main", "lto", "did you mean 'lte'"), ("in-time", "lte", "has its own networks")):
        with pytest.raises(ConfigError, match=words):
            runner.invoke(cli.app, ["run", group, *options, network], catch_exceptions=False)


def test_a_file_that_cannot_be_written_is_told_before_anything_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(main_job, "measure", lambda inputs, say: pytest.fail("it was measured"))
    with pytest.raises(ConfigError, match="Cannot write"):
        runner.invoke(cli.app, ["run", "main", "--json", str(tmp_path / "no" / "f.json")], catch_exceptions=False)


def test_all_without_matplotlib_says_what_to_install_before_anything_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setattr(full_report, "measure", lambda *_: pytest.fail("it was measured"))
    with pytest.raises(ConfigError, match=r"pip install 'foveate\[bench\]'") as caught:
        runner.invoke(cli.app, ["all", "--out", str(tmp_path / "r")], catch_exceptions=False)
    assert caught.value.exit_code == 2
    assert not (tmp_path / "r").exists()


def test_all_into_a_folder_that_cannot_be_made_is_told_before_anything_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(full_report, "measure", lambda *_: pytest.fail("it was measured"))
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=r"Cannot write to .*--out"):
        runner.invoke(cli.app, ["all", "--out", str(tmp_path / "file" / "r")], catch_exceptions=False)


@pytest.mark.parametrize(("options", "extent"), [(["--short"], full_report.SHORT), ([], full_report.OVERNIGHT)])
def test_all_measures_and_then_makes_the_report_of_the_records(
    options: list[str], extent: full_report.Extent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[full_report.Extent] = []

    def measure(raw: Path, asked_for: full_report.Extent, about: object, say: object) -> None:
        asked.append(asked_for)
        write_evidence(raw)

    monkeypatch.setattr(full_report, "measure", measure)
    done = runner.invoke(cli.app, ["all", "--out", str(tmp_path), *options], catch_exceptions=False)
    assert done.exit_code == 0
    assert asked == [extent]
    assert "Foveate, compared" in (tmp_path / "report.html").read_text()
    assert str(tmp_path / "report.md") in done.stdout.replace("\n", "")


def test_all_can_make_the_pages_anew_without_measuring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(full_report, "measure", lambda *_: pytest.fail("it was measured"))
    write_evidence(tmp_path / "raw")
    runner.invoke(cli.app, ["all", "--out", str(tmp_path), "--redraw"], catch_exceptions=False)
    assert (tmp_path / "report.md").is_file()
