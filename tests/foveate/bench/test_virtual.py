"""The real agent and worker on virtual time: every frame is answered, and a run depends on its seed alone."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from foveate.bench import network_runs
from foveate.bench.network_runs import BACK_S, p99_ms, recovery_ms, run_details, run_over, streaming_f1
from foveate.bench.playlist import Clip, Part, Playlist, shown
from foveate.bench.virtual import Models, Scenario, VirtualRun, default_camera, play
from foveate.bench.virtual_parts import Remembering
from pipeline.network.profiles import profile
from pipeline.results import Models as ResultModels
from pipeline.results import Origin, Timings
from tests.support.agents import SmallModel
from tests.support.bench_work import constant_times, walking
from tests.support.detectors import grey_picture
from tests.support.records import result

UNSURE = ("person", 0.45, (60.0, 40.0, 100.0, 140.0))


class LargeModel(SmallModel):
    """A larger model that is sure of one person in every picture."""

    def __init__(self) -> None:
        super().__init__(("person", 0.9, (10.0, 5.0, 40.0, 60.0)))


@pytest.fixture
def playlist(plaza: Path) -> Playlist:
    clip = Clip("plaza", plaza, "person", 10.0)
    return Playlist("twice", (Part(clip, 10), Part(clip, 8, 2)))


@pytest.fixture
def models() -> Models:
    return Models(SmallModel(UNSURE), LargeModel(), constant_times())


def run(playlist: Playlist, models: Models, network: str | None, seed: int = 0) -> VirtualRun:
    way = None if network is None else profile(network, seed)
    return play(Scenario(playlist, default_camera(playlist, 200.0), way, seed), models)


def test_a_playlist_runs_on_without_a_gap(playlist: Playlist) -> None:
    assert [at_s for at_s, _ in shown(playlist)] == pytest.approx([i / 10 for i in range(18)])


def test_every_frame_is_answered_once_in_time_and_in_order(playlist: Playlist, models: Models) -> None:
    made = run(playlist, models, None)
    assert [r.seq for r in made.results] == list(range(18))
    assert all(r.deadline_met for r in made.results)
    assert {Origin.FUSED.value, Origin.CARRIED.value} <= {r.origin for r in made.results}
    assert made.uplink_bytes > sum(r.bytes_up for r in made.results) > 0
    assert run_details(made)["hit_ratio"] == 1.0


def test_a_network_takes_its_time_and_its_seed_decides(playlist: Playlist, models: Models) -> None:
    near, far, same, other = (run(playlist, models, *way) for way in ((None,), ("lte",), ("lte",), ("lte", 1)))
    assert p99_ms(far.results) > p99_ms(near.results) + 40
    assert [r.timings_ms for r in far.results] == [r.timings_ms for r in same.results]
    assert [r.timings_ms for r in far.results] != [r.timings_ms for r in other.results]


def test_work_takes_what_was_measured(playlist: Playlist, models: Models) -> None:
    slow = replace(models, times=constant_times(edge_s=0.05))
    looked = [r.timings_ms.edge for r in run(playlist, slow, None).results if r.origin != Origin.CARRIED.value]
    assert looked == pytest.approx([50.0] * len(looked), abs=0.1)


def test_a_picture_that_was_seen_is_not_looked_at_again() -> None:
    model = SmallModel(UNSURE)
    remembering = Remembering(model)
    first = remembering.detect([grey_picture(90), grey_picture(91), grey_picture(90)], 0.2)
    assert model.runs == 2
    assert np.array_equal(first[0].xyxy, first[2].xyxy)
    remembering.detect([grey_picture(90)], 0.3)
    assert model.runs == 3  # what is asked for is part of it


def run_with(*cloud_at_s: tuple[int, float], captured_s: dict[int, float]) -> VirtualRun:
    results = []
    for seq, at_s in cloud_at_s:
        timings = Timings(total=(at_s - captured_s[seq]) * 1000)
        results.append(result(seq, origin="fused", timings_ms=timings, models=ResultModels("small@1", "large@1")))
    return VirtualRun(tuple(results), captured_s, 0, {}, None, 60.0, ())  # type: ignore[arg-type] # not looked at


def test_recovery_counts_from_the_links_return_and_no_answer_of_before_the_outage_counts() -> None:
    captured_s = {0: BACK_S - 9.0, 1: BACK_S - 0.2, 2: BACK_S + 0.4}
    stale, fresh = (0, BACK_S + 0.05), (1, BACK_S + 0.16)
    assert recovery_ms(run_with(stale, fresh, (2, BACK_S + 0.5), captured_s=captured_s)) == pytest.approx(160.0)
    assert recovery_ms(run_with(stale, captured_s=captured_s)) == float("inf")


def test_one_run_is_played_per_seed(playlist: Playlist, models: Models) -> None:
    said: list[str] = []
    runs = run_over(playlist, "wifi", default_camera(playlist, 150.0), models, 2, said.append)
    assert len(runs) == len(said) == 2
    frames = walking(18).shown
    assert 0.0 <= streaming_f1(runs[0], frames, network_runs.SLO_MS) <= 1.0
