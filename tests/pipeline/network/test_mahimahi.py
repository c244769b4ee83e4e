"""Traces in Mahimahi's format."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.errors import ConfigError
from pipeline.network.link import Epoch, Link, LinkSettings
from pipeline.network.mahimahi import DeliveryTrace, parse_trace, read_trace

moments = st.lists(st.integers(0, 5000), min_size=1, max_size=60).map(sorted).filter(lambda given: given[-1] > 0)


def test_a_trace_delivers_a_packet_at_each_moment_and_begins_again_at_its_end() -> None:
    trace = parse_trace("10\n10\n40\n100\n", "t")
    link = Link(LinkSettings(trace, 0.0, burst_bytes=0), 0, Epoch(0.0))
    arrivals = [link.transmit(1460, 0.0) for _ in range(6)]
    assert arrivals == pytest.approx([0.01, 0.01, 0.04, 0.1, 0.11, 0.11])


def test_small_packets_share_a_moment_and_one_that_nothing_waits_for_is_lost() -> None:
    link = Link(LinkSettings(parse_trace("10\n20\n1000\n", "t"), 0.0, burst_bytes=0), 0, Epoch(0.0))
    assert [link.transmit(100, 0.015) for _ in range(2)] == pytest.approx([0.02, 0.02])
    assert link.transmit(100, 0.5) == pytest.approx(1.0)


@given(moments)
def test_over_time_it_carries_its_packets_per_round(given_ms: list[int]) -> None:
    trace = DeliveryTrace(given_ms)
    rounds = 50
    assert trace.carried_bytes(rounds * trace.period_s + 1e-4) >= 1500 * len(given_ms) * rounds
    assert trace.reached_s(1500.0 * len(given_ms) * rounds) == pytest.approx(rounds * trace.period_s)


@given(moments, st.integers(1, 500))
def test_a_position_is_reached_when_the_curve_is_there_and_not_before(given_ms: list[int], chance: int) -> None:
    trace = DeliveryTrace(given_ms)
    at_s = trace.reached_s(1500.0 * chance - 700)
    assert trace.carried_bytes(at_s) >= 1500 * chance
    assert trace.carried_bytes(at_s - 1e-4) < 1500 * chance
    assert trace.open_s(at_s) == pytest.approx(at_s, abs=1e-9)


@given(moments, st.floats(0, 20))
def test_the_next_chance_is_one_and_none_is_passed_over(given_ms: list[int], at_s: float) -> None:
    trace = DeliveryTrace(given_ms)
    open_s = trace.open_s(at_s)
    assert open_s >= at_s
    assert trace.carried_bytes(open_s) > trace.carried_bytes(open_s - 1e-4)
    assert trace.carried_bytes(open_s - 1e-4) <= trace.carried_bytes(at_s)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "it has no moment after 0 ms"),
        ("0\n0\n", "it has no moment after 0 ms"),
        ("5\nsix\n", "line 2 is 'six', not a whole number of milliseconds"),
        ("5\n\n6\n", "line 2 is '', not a whole number"),
        ("5\n-6\n", "line 2 is '-6', not"),
        ("5\n6.5\n", "line 2 is '6.5', not"),
        ("5\n٣\n", "line 2 is '٣', not"),
        ("5\n7\n6\n", "line 3 goes back from 7 to 6 ms"),
    ],
)
def test_what_is_no_trace_is_one_sentence_with_its_line(text: str, fault: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_trace(text, "up.trace")
    said = str(caught.value)
    assert said.startswith(f"The network trace up.trace cannot be used: {fault}")
    assert said.endswith(
        "name a file in Mahimahi's format, with the moment of one delivery of 1,500 bytes in ms on each line."
    )


def test_a_file_is_read_and_one_that_cannot_be_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "up"
    file.write_bytes(b"1\r\n2\r\n")
    assert read_trace(file).period_s == 0.002
    with pytest.raises(ConfigError, match=r"absent cannot be used: it cannot be read \(No such file"):
        read_trace(tmp_path / "absent")
    monkeypatch.setattr("pipeline.network.mahimahi.MOST_FILE_BYTES", 4)
    with pytest.raises(ConfigError, match="it has more than 4 bytes"):
        read_trace(file)
    file.write_bytes(b"\xff\n1\n")
    with pytest.raises(ConfigError, match="line 1 is"):
        read_trace(file)


@pytest.mark.parametrize("wrong", [[], [0], [-1, 5], [5, 4]])
def test_moments_that_make_no_trace_are_refused(wrong: list[int]) -> None:
    with pytest.raises(ValueError, match="trace"):
        DeliveryTrace(wrong)
