"""A full queue makes room for whoever holds less of it, at the cost of whoever holds most."""

from hypothesis import given
from hypothesis import strategies as st

from pipeline.policies.admission import AdmissionBounds
from pipeline.policies.room import Held, makes_room

BOUNDS = AdmissionBounds(4, 1000)


def test_where_there_is_room_nothing_gives_way() -> None:
    assert makes_room([Held("a", 10)] * 3, Held("b", 10), BOUNDS) == []


def test_the_last_of_whoever_holds_most_gives_way() -> None:
    held = [Held("a", 10), Held("b", 10), Held("a", 10), Held("a", 10)]
    assert makes_room(held, Held("c", 10), BOUNDS) == [3]
    assert makes_room(held, Held("b", 10), BOUNDS) == [3]


def test_whoever_holds_most_gets_no_more() -> None:
    assert makes_room([Held("a", 10)] * 4, Held("a", 10), BOUNDS) is None
    assert makes_room([Held("a", 10), Held("b", 10)] * 2, Held("a", 10), BOUNDS) is None


def test_bytes_count_as_requests_do() -> None:
    held = [Held("small", 10), Held("large", 900)]
    assert makes_room(held, Held("small", 200), BOUNDS) == [1]
    assert makes_room(held, Held("large", 200), BOUNDS) is None


items = st.builds(Held, st.sampled_from("abcd"), st.integers(1, 400))


@given(
    held=st.lists(items, max_size=12), newcomer=items, capacity=st.integers(1, 12), most_bytes=st.integers(400, 2000)
)
def test_room_is_taken_only_from_those_who_hold_more_and_is_enough(
    held: list[Held], newcomer: Held, capacity: int, most_bytes: int
) -> None:
    gone = makes_room(held, newcomer, AdmissionBounds(capacity, most_bytes))
    if gone is None:
        return
    kept = [each for place, each in enumerate(held) if place not in gone] + [newcomer]
    assert len(gone) == len(set(gone))
    assert len(kept) <= capacity
    assert sum(each.size_bytes for each in kept) <= most_bytes

    def share(owner: object, among: list[Held]) -> float:
        own = [each.size_bytes for each in among if each.owner == owner]
        return max(len(own) / capacity, sum(own) / most_bytes)

    assert newcomer.owner not in {held[place].owner for place in gone}
    for place in gone:
        assert share(held[place].owner, [*held, newcomer]) > share(newcomer.owner, kept)
        assert share(held[place].owner, [*held, newcomer]) > 1 / len({each.owner for each in (*held, newcomer)})


@given(held=st.lists(items, max_size=8), newcomer=items)
def test_an_agent_within_its_equal_share_keeps_everything(held: list[Held], newcomer: Held) -> None:
    gone = makes_room(held, newcomer, AdmissionBounds(8, 10**9)) or []
    owners = {each.owner for each in (*held, newcomer)}
    for owner in owners:
        if sum(each.owner == owner for each in held) <= 8 // len(owners):
            assert not any(held[place].owner == owner for place in gone)
