"""A storm is told from a switch of light and from a passer-by by how long it goes on."""

from hypothesis import given
from hypothesis import strategies as st

from pipeline.policies.storm import StormSettings, StormWatch

LOOKS = StormSettings().looks


def test_a_switch_of_light_is_no_storm() -> None:
    watch = StormWatch()
    assert [watch.see(new_scene=True) for _ in range(LOOKS - 1)] == [False] * (LOOKS - 1)
    assert not watch.see()


def test_changes_from_everywhere_look_after_look_are_a_storm() -> None:
    watch = StormWatch()
    assert [watch.see(sudden=30) for _ in range(LOOKS)][-1]


def test_one_or_two_things_that_appear_are_never_a_storm() -> None:
    watch = StormWatch()
    assert not any(watch.see(sudden=StormSettings().sudden - 1) for _ in range(100))


def test_a_lull_does_not_end_a_storm() -> None:
    watch = StormWatch()
    for _ in range(LOOKS):
        watch.see(sudden=30)
    assert watch.see()
    assert watch.see(sudden=30)


@given(st.lists(st.booleans(), max_size=200))
def test_however_long_a_storm_was_it_ends_after_as_many_calm_looks_as_it_took_to_begin(wild: list[bool]) -> None:
    watch = StormWatch()
    for new_scene in wild:
        watch.see(new_scene=new_scene)
    assert not [watch.see() for _ in range(LOOKS)][-1]
