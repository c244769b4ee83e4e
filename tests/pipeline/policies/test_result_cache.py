"""A cache answers the very same question while its answer is young, and stays within its bytes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.policies.result_cache import ENTRY_BYTES, CacheGain, ResultCache


def cache(ttl_s: float = 10.0, entries: int = 3, value_bytes: int = 100) -> ResultCache[str, int]:
    return ResultCache(ttl_s, entries * (value_bytes + ENTRY_BYTES))


def test_a_value_is_found_until_it_is_too_old_however_often_it_is_used() -> None:
    kept = cache()
    kept.put("a", 1, 100, now_s=0.0)
    assert [kept.get("a", now_s) for now_s in (0.0, 5.0, 9.9, 10.0)] == [1, 1, 1, None]
    assert (len(kept), kept.held_bytes) == (0, 0)


def test_what_was_used_longest_ago_makes_room() -> None:
    kept = cache()
    for i, key in enumerate("abc"):
        kept.put(key, i, 100, now_s=0.0)
    kept.get("a", now_s=1.0)
    kept.put("d", 3, 100, now_s=2.0)
    assert [kept.get(key, now_s=2.0) for key in "abcd"] == [0, None, 2, 3]


def test_a_value_that_alone_is_too_large_is_not_kept_and_costs_no_other_its_place() -> None:
    kept = cache()
    kept.put("a", 1, 100, now_s=0.0)
    kept.put("b", 2, 10_000, now_s=0.0)
    assert (kept.get("a", now_s=0.0), kept.get("b", now_s=0.0)) == (1, None)


def test_a_new_value_takes_the_place_of_the_old_one() -> None:
    kept = cache()
    kept.put("a", 1, 100, now_s=0.0)
    kept.put("a", 2, 50, now_s=5.0)
    assert (kept.get("a", now_s=12.0), kept.held_bytes) == (2, 50 + ENTRY_BYTES)


@pytest.mark.parametrize(("ttl_s", "most_bytes"), [(0.0, 10_000), (10.0, 0)])
def test_a_cache_that_may_keep_nothing_keeps_nothing(ttl_s: float, most_bytes: int) -> None:
    kept: ResultCache[str, int] = ResultCache(ttl_s, most_bytes)
    kept.put("a", 1, 1, now_s=0.0)
    assert (kept.get("a", now_s=0.0), len(kept)) == (None, 0)


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.booleans(), st.integers(0, 900), st.floats(0, 3)), max_size=80))
def test_it_gives_back_what_was_put_in_last_and_never_holds_more_than_it_may(
    steps: list[tuple[str, bool, int, float]],
) -> None:
    kept: ResultCache[str, int] = ResultCache(5.0, 2000)
    newest: dict[str, tuple[int, float]] = {}
    now_s = 0.0
    for i, (key, puts, size, gap_s) in enumerate(steps):
        now_s += gap_s
        if puts:
            kept.put(key, i, size, now_s)
            newest[key] = i, now_s
        elif (found := kept.get(key, now_s)) is not None:
            assert found == newest[key][0]
            assert now_s - newest[key][1] < 5.0
        assert 0 <= kept.held_bytes <= 2000
        assert (kept.held_bytes == 0) == (len(kept) == 0)


def test_the_mean_latency_is_that_of_hits_and_misses_by_their_shares() -> None:
    gain = CacheGain()
    assert (gain.ratio, gain.mean_s) == (None, None)
    for _ in range(3):
        gain.hit(0.001)
    gain.miss(0.081)
    assert gain.ratio == 0.75
    assert gain.mean_hit_s == pytest.approx(0.001)
    assert gain.mean_miss_s == pytest.approx(0.081)
    assert gain.mean_s == pytest.approx(0.75 * 0.001 + 0.25 * 0.081)
