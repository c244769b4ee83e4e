"""What came lately is known for a while, and no more of it than there is room for."""

from hypothesis import given
from hypothesis import strategies as st

from cloud_worker.recent import RecentKeys


def test_a_key_is_new_once_within_the_window() -> None:
    seen = RecentKeys(window_s=30.0)
    assert seen.first(("a", "c", 1, 1), 0.0)
    assert not seen.first(("a", "c", 1, 1), 29.9)
    assert seen.first(("a", "c", 1, 2), 29.9)
    assert seen.first(("a", "c", 1, 1), 30.0)


def test_the_memory_of_seen_keys_is_bounded() -> None:
    seen = RecentKeys(window_s=30.0, capacity=100)
    for seq in range(1000):
        assert seen.first(("a", "c", 1, seq), 0.0)
        assert len(seen) <= 100
    assert not seen.first(("a", "c", 1, 999), 0.0)


def test_what_is_forgotten_is_new_again() -> None:
    seen = RecentKeys(window_s=30.0)
    assert not seen.forget("a", 0.0)
    seen.first("a", 0.0)
    assert seen.forget("a", 29.9)
    assert seen.first("a", 29.9)
    assert not seen.forget("a", 59.9)


@given(st.lists(st.tuples(st.floats(0, 20), st.integers(0, 5), st.booleans()), max_size=60), st.integers(1, 4))
def test_it_knows_just_the_newest_keys_of_the_window(deeds: list[tuple[float, int, bool]], capacity: int) -> None:
    seen, known, now_s = RecentKeys(window_s=10.0, capacity=capacity), dict[int, float](), 0.0
    for wait_s, key, forgets in deeds:
        now_s += wait_s
        known = {each: at_s for each, at_s in known.items() if at_s > now_s - 10.0}
        if forgets:
            assert seen.forget(key, now_s) == (known.pop(key, None) is not None)
            continue
        assert seen.first(key, now_s) == (key not in known)
        known.setdefault(key, now_s)
        if len(known) > capacity:
            del known[min(known, key=known.__getitem__)]
        assert len(seen) == len(known)
