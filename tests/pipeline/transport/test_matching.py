"""Topic filters and topics."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.transport.matching import filter_fault, matches, split_share, topic_fault

LEVELS = st.lists(st.text("ab$ü ", max_size=3), min_size=1, max_size=5)


@pytest.mark.parametrize(
    ("topic_filter", "topic", "expected"),
    [
        ("a/b", "a/b", True),
        ("a/b", "a", False),
        ("a", "a/b", False),
        ("a/+", "a/b", True),
        ("a/+", "a", False),
        ("a/+", "a/", True),
        ("+/+", "/a", True),
        ("a/#", "a", True),
        ("a/#", "a/b/c", True),
        ("a/+/#", "a", False),
        ("#", "a/b", True),
        ("#", "$SYS/x", False),
        ("+/x", "$SYS/x", False),
        ("$SYS/#", "$SYS/x", True),
        ("A", "a", False),
    ],
)
def test_filters_match_as_the_mqtt_specification_says(topic_filter: str, topic: str, expected: bool) -> None:
    assert matches(topic_filter, topic) is expected


@given(LEVELS, st.data())
def test_replacing_levels_by_wildcards_keeps_the_match(levels: list[str], data: st.DataObject) -> None:
    topic = "/".join(levels)
    wild = [
        data.draw(st.sampled_from([level, "+"])) if i or level[:1] != "$" else level for i, level in enumerate(levels)
    ]
    assert matches("/".join(wild), topic)
    cut = data.draw(st.integers(1, len(wild)))
    assert matches("/".join([*wild[:cut], "#"]), topic)


@given(LEVELS, LEVELS)
def test_a_filter_without_wildcards_matches_only_itself(a: list[str], b: list[str]) -> None:
    assert matches("/".join(a), "/".join(b)) is (a == b)


@pytest.mark.parametrize("topic", ["a", "/", "a//b", "ü b", "$SYS/x"])
def test_valid_topics_have_no_fault(topic: str) -> None:
    assert topic_fault(topic) is None


@pytest.mark.parametrize("topic", ["", "+", "a/#", "a\0", "x" * 65_536, "ü" * 32_768, "\udc80"])
def test_invalid_topics_have_one(topic: str) -> None:
    assert topic_fault(topic)


@pytest.mark.parametrize("topic_filter", ["#", "+/a", "a/+/b/#", "$share/g/a/+", "$share/g/#"])
def test_valid_filters_have_no_fault(topic_filter: str) -> None:
    assert filter_fault(topic_filter) is None


@pytest.mark.parametrize("topic_filter", ["", "a#", "#/a", "a/b+", "$share/g", "$share//a", "$share/#/a", "$share/g/"])
def test_invalid_filters_have_one(topic_filter: str) -> None:
    assert filter_fault(topic_filter)


def test_a_shared_filter_is_split_into_group_and_filter() -> None:
    assert split_share("$share/g/a/+/b") == ("g", "a/+/b")
    assert split_share("a/b") == (None, "a/b")
