"""Workers on virtual time batch as they are told, and every request has its end."""

import pytest

from foveate.bench.batch_stand import CAMERAS, CAPACITY_PER_S, MAX_BATCH, USUAL_PX, Way, run_s, serve
from foveate.load.arrivals import Arrival, Mix, arrivals
from pipeline.policies.batch import BATCH_KINDS

MIX = Mix((0.025, 0.15), (USUAL_PX, (32, 64)), CAMERAS)


def at_once(count: int, deadline_s: float = 0.05) -> list[Arrival]:
    return [Arrival(number, 0.0, deadline_s, USUAL_PX, 0, number) for number in range(count)]


def test_a_run_takes_five_ms_and_twelve_tenths_for_each_picture_of_the_usual_size() -> None:
    assert run_s(1) == pytest.approx(0.0062)
    assert run_s(8) == pytest.approx(0.0146) == pytest.approx(MAX_BATCH / CAPACITY_PER_S)
    assert run_s(2, (32, 64)) == run_s(4)


@pytest.mark.parametrize("batch", sorted(BATCH_KINDS))
@pytest.mark.parametrize("workers", [1, 2])
def test_each_request_is_in_time_late_or_refused(batch: str, workers: int) -> None:
    offered = arrivals("bursty", CAPACITY_PER_S, 1.0, 3, MIX)
    done = serve(Way(batch), offered, workers=workers, spread=0.1)
    assert done.offered == len(offered) == done.in_time + done.missed
    assert done.missed == done.late + done.refused.total()
    assert sum(size * count for size, count in done.sizes.items()) == done.in_time + done.late


def test_what_comes_at_once_runs_together_and_one_at_a_time_without_batching() -> None:
    assert serve(Way("fixed_window", window_s=0.001), at_once(8)).sizes == {8: 1}
    assert serve(Way("none"), at_once(8)).sizes == {1: 8}


def test_workers_are_given_requests_in_turn() -> None:
    assert serve(Way("none"), at_once(16)).in_time == 8  # eight runs fit into 50 ms
    assert serve(Way("none"), at_once(16), workers=2).in_time == 16


def test_a_run_ends_early_when_more_are_missed_than_may() -> None:
    offered = arrivals("poisson", CAPACITY_PER_S, 2.0, 1, MIX)
    done = serve(Way("none"), offered, most_missed=5)
    assert 5 < done.missed <= 5 + MAX_BATCH
    assert done.offered < len(offered)


def test_the_same_seed_brings_the_same() -> None:
    offered = arrivals("bursty", CAPACITY_PER_S, 0.5, 3, MIX)
    first, again, other = (serve(Way("deadline"), offered, spread=0.3, seed=seed) for seed in (1, 1, 2))
    assert first == again != other
