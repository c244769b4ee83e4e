"""Workers count as online while their heartbeat moves."""

from collections import Counter

import msgspec
import pytest

from edge_agent.workers import WorkerDirectory
from pipeline.wire.messages import WorkerModel, WorkerState


def state(beat: int, *, worker: str = "w", online: bool = True, model: str = "m") -> WorkerState:
    models = [WorkerModel(name=model, version="1", label_set="0" * 12)]
    return WorkerState(worker=worker, online=online, models=models, beat=beat, heartbeat_s=5.0)


def serving(directory: WorkerDirectory, now_s: float, tier: str = "cloud", model: str = "m") -> list[str]:
    return [known.state.worker for known in directory.serving(tier, model, now_s)]


def test_a_worker_that_beats_is_online_and_one_that_falls_silent_is_not() -> None:
    directory = WorkerDirectory()
    directory.heard(state(1), 0.0)
    assert serving(directory, 15.0) == ["w"]
    assert serving(directory, 15.1) == []
    directory.heard(state(2), 16.0)
    assert serving(directory, 31.0) == ["w"]


def test_a_heartbeat_that_stands_still_is_no_sign_of_life() -> None:
    directory = WorkerDirectory()
    for now_s in (0.0, 5.0, 10.0, 15.0):
        directory.heard(state(7), now_s)
    assert serving(directory, 15.1) == []
    assert directory.all()[0].fault(15.1) == "no heartbeat"


def test_a_worker_that_starts_again_is_alive_although_its_count_is_lower() -> None:
    directory = WorkerDirectory()
    directory.heard(state(900), 0.0)
    directory.heard(state(0), 100.0)
    assert serving(directory, 101.0) == ["w"]


def test_a_will_takes_it_off_at_once_and_its_return_brings_it_back() -> None:
    directory = WorkerDirectory()
    directory.heard(state(3), 0.0)
    directory.heard(state(3, online=False), 1.0)
    assert directory.all()[0].fault(1.0) == "offline"
    directory.heard(state(4), 2.0)
    assert serving(directory, 2.0) == ["w"]


def test_only_workers_of_the_tier_and_the_model_count() -> None:
    directory = WorkerDirectory()
    directory.heard(state(1), 0.0)
    directory.heard(state(1, worker="other", model="n"), 0.0)
    assert serving(directory, 1.0, model="n") == ["other"]
    assert serving(directory, 1.0, tier="edge") == []


def test_its_memory_is_bounded_and_forgets_the_longest_silent() -> None:
    directory = WorkerDirectory(most=3)
    for n in range(3):
        directory.heard(state(1, worker=f"w{n}"), float(n))
    directory.heard(state(2, worker="w0"), 3.0)
    directory.heard(state(1, worker="w3"), 4.0)
    assert sorted(known.state.worker for known in directory.all()) == ["w0", "w2", "w3"]


def test_a_worker_with_another_label_set_still_serves_and_is_remarked_logged_and_counted_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    directory, counters = WorkerDirectory(), Counter[str]()
    directory.expect("m", "1" * 12, counters)
    for beat in range(3):
        directory.heard(msgspec.structs.replace(state(beat), online=False, models=[]), float(beat))  # as a will says it
        directory.heard(state(beat), float(beat))
        directory.heard(state(beat, worker="other", model="n"), float(beat))
    assert serving(directory, 3.0) == ["w"]
    assert {known.state.worker: known.remark(3.0) for known in directory.all()} == {
        "w": "another label set",
        "other": "",
    }
    assert counters == {"other_label_set": 1}
    assert len(caplog.records) == 1
    assert "worker w has another label set" in caplog.text
    assert directory.all()[0].remark(100.0) == "no heartbeat"


def test_a_worker_with_the_expected_label_set_is_not_remarked() -> None:
    directory, counters = WorkerDirectory(), Counter[str]()
    directory.expect("m", "0" * 12, counters)
    directory.heard(state(1), 0.0)
    assert (directory.all()[0].remark(1.0), counters) == ("", {})


def test_workers_are_found_by_their_target_and_a_will_does_not_forget_where_they_were() -> None:
    directory = WorkerDirectory()
    directory.heard(msgspec.structs.replace(state(1, worker="a"), tier="edge", location="hall"), 0.0)
    directory.heard(msgspec.structs.replace(state(1, worker="b"), tier="edge"), 0.0)
    directory.heard(state(1, worker="c"), 0.0)
    found = {name: directory.at(name, tier, "m", 1.0) for name, tier in (("edge@hall", "edge"), ("edge", "edge"))}
    assert {name: [one.state.worker for one in known] for name, known in found.items()} == {
        "edge@hall": ["a"],
        "edge": ["b"],
    }
    directory.heard(WorkerState(worker="a", online=False), 2.0)
    [gone] = [known.state for known in directory.all() if known.state.worker == "a"]
    assert (gone.tier, gone.location, gone.online) == ("edge", "hall", False)
