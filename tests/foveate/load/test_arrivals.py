"""Arrivals are open loop: drawn beforehand, the same for the same seed, at the rate that was asked for."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foveate.load.arrivals import PROCESSES, Mix, arrivals
from pipeline.errors import ConfigError

MIXES = st.builds(
    Mix,
    deadlines_s=st.lists(st.sampled_from([0.06, 0.15, 0.4]), min_size=1, max_size=3).map(tuple),
    sizes_px=st.lists(st.sampled_from([(192, 256), (320, 416)]), min_size=1, max_size=2).map(tuple),
    agents=st.integers(1, 5),
    repeat_share=st.floats(0, 1),
)


@given(st.sampled_from(sorted(PROCESSES)), st.floats(1, 200), st.integers(0, 1000), MIXES)
def test_requests_come_in_order_within_the_run_and_are_of_the_mix(
    process: str, rate: float, seed: int, mix: Mix
) -> None:
    drawn = arrivals(process, rate, 2.0, seed, mix)
    moments = [each.at_s for each in drawn]
    assert moments == sorted(moments)
    assert all(0 <= moment < 2.0 for moment in moments)
    assert [each.number for each in drawn] == list(range(len(drawn)))
    assert {each.deadline_s for each in drawn} <= set(mix.deadlines_s)
    assert {each.size_px for each in drawn} <= set(mix.sizes_px)
    assert all(0 <= each.agent < mix.agents for each in drawn)
    assert drawn == arrivals(process, rate, 2.0, seed, mix)


@pytest.mark.parametrize("process", sorted(PROCESSES))
def test_the_mean_rate_is_the_one_asked_for(process: str) -> None:
    # 600 s of a rate of 50: a Poisson number has a deviation of 173, the bursts make that about three times as much.
    assert len(arrivals(process, 50.0, 600.0, seed=1)) == pytest.approx(30_000, rel=0.04)


def test_bursts_make_the_number_per_second_vary_more_than_by_chance() -> None:
    def dispersion(process: str) -> float:
        counts = [0] * 300
        for each in arrivals(process, 50.0, 300.0, seed=2):
            counts[int(each.at_s)] += 1
        mean = sum(counts) / len(counts)
        return sum((count - mean) ** 2 for count in counts) / len(counts) / mean

    assert dispersion("poisson") == pytest.approx(1.0, abs=0.25)
    assert dispersion("bursty") > 4.0


def test_another_mix_leaves_the_moments_as_they_are() -> None:
    plain = arrivals("bursty", 40.0, 10.0, seed=3)
    mixed = arrivals("bursty", 40.0, 10.0, seed=3, mix=Mix((0.1, 0.2), ((32, 32), (64, 64)), 3, 0.5))
    assert [each.at_s for each in plain] == [each.at_s for each in mixed]


def test_every_picture_is_another_one_unless_repeats_are_asked_for() -> None:
    fresh = arrivals("poisson", 50.0, 20.0, seed=4)
    assert len({each.picture for each in fresh}) == len(fresh)
    drawn = arrivals("poisson", 50.0, 20.0, seed=4, mix=Mix(sizes_px=((32, 32), (64, 64)), repeat_share=0.3))
    pictures = {(each.picture, each.size_px) for each in drawn}
    assert 1 - len(pictures) / len(drawn) == pytest.approx(0.3, abs=0.05)
    assert len({picture for picture, _ in pictures}) == len(pictures), "a picture has one size"


@pytest.mark.parametrize("faulty", [("steady", 1.0, 1.0), ("poisson", 0.0, 1.0), ("poisson", 1.0, -1.0)])
def test_what_cannot_be_drawn_is_refused_in_a_sentence(faulty: tuple[str, float, float]) -> None:
    with pytest.raises(ConfigError, match="load"):
        arrivals(*faulty, seed=0)


@pytest.mark.parametrize(
    "faulty", [{"deadlines_s": ()}, {"deadlines_s": (0.0,)}, {"sizes_px": ()}, {"agents": 0}, {"repeat_share": 1.5}]
)
def test_a_mix_that_makes_no_sense_is_refused(faulty: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match="load"):
        Mix(**faulty)  # type: ignore[arg-type] # fields of Mix, by name
