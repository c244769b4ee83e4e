"""The cheapest way to draw crops that loses next to nothing."""

from hypothesis import given
from hypothesis import strategies as st

from pipeline.policies.crop_arms import ARMS, ArmRecord, CropArm, cheapest

DEFAULT = CropArm()
SMALL, LARGE = CropArm(0.1, 0.5, 40), CropArm(0.25, 1.0, 80)


def record(right: int, missed: int, size_bytes: int) -> ArmRecord:
    return ArmRecord().add(right, 0, missed, size_bytes)


def test_the_default_is_one_of_the_arms_and_stays_without_evidence() -> None:
    assert DEFAULT in ARMS
    assert cheapest({}, DEFAULT) == DEFAULT
    assert cheapest({SMALL: record(20, 0, 10), LARGE: record(20, 0, 99)}, DEFAULT) == DEFAULT


def test_of_those_that_lose_next_to_nothing_the_cheapest_is_taken() -> None:
    records = {SMALL: record(90, 10, 1000), DEFAULT: record(99, 1, 5000), LARGE: record(100, 0, 20_000)}
    assert cheapest(records, LARGE) == DEFAULT
    assert cheapest(records, LARGE, bound=0.2) == SMALL
    assert cheapest(records, DEFAULT, bound=0.0) == LARGE


def test_a_record_sums_up_its_looks() -> None:
    two = ArmRecord().add(8, 1, 1, 1000).add(0, 0, 0, 500)
    assert (two.looks, two.mean_bytes, two.agreement) == (2, 750, 16 / 18)
    assert ArmRecord().agreement == 1.0


@given(
    st.dictionaries(
        st.sampled_from(ARMS),
        st.builds(record, st.integers(0, 200), st.integers(0, 200), st.integers(1, 10_000)),
        max_size=12,
    )
)
def test_the_choice_is_never_worse_than_the_bound_and_never_dearer_than_the_best(
    records: dict[CropArm, ArmRecord],
) -> None:
    chosen = cheapest(records, DEFAULT, least_boxes=1)
    known = {arm: r for arm, r in records.items() if r.right + r.missed >= 1}
    if len(known) < 2:
        assert chosen == DEFAULT
        return
    best = max(known.values(), key=lambda r: r.agreement)
    assert known[chosen].agreement >= best.agreement - 0.01
    assert known[chosen].mean_bytes <= best.mean_bytes
