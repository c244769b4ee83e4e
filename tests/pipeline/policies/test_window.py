"""The send window: it learns what a way delivers, keeps the way busy and little more, and never closes it."""

from collections import deque
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.policies.window import LEAST_MESSAGES, RATE_MEMORY_S, Departure, SendWindow


@dataclass
class Way:
    """A link with a fixed delay, and a sender that always has something to send and keeps to its window."""

    rate_bytes_s: float
    delay_s: float
    window: SendWindow = field(default_factory=SendWindow)
    now_s: float = 0.0
    free_at_s: float = 0.0
    sent: deque[tuple[float, int, Departure]] = field(default_factory=deque)
    waited_s: float = 0.0

    def send(self, size_bytes: int) -> None:
        departure = self.window.departs(size_bytes, sum(size for _, size, _ in self.sent), self.now_s)
        self.waited_s = max(0.0, self.free_at_s - self.now_s)
        self.free_at_s = max(self.now_s, self.free_at_s) + size_bytes / self.rate_bytes_s
        self.sent.append((self.free_at_s + self.delay_s, size_bytes, departure))

    def answer(self) -> int:
        self.now_s, size_bytes, departure = self.sent.popleft()
        self.window = self.window.arrived(size_bytes, departure, self.now_s)
        return size_bytes

    def run(self, for_s: float, size_bytes: int = 5000, most: int = 16) -> float:
        """Send as much as may be sent; the bytes delivered per second."""
        until_s, begun_s, delivered_bytes = self.now_s + for_s, self.now_s, 0
        while self.now_s < until_s:
            while len(self.sent) < most and self.window.has_room(
                size_bytes, sum(size for _, size, _ in self.sent), len(self.sent)
            ):
                self.send(size_bytes)
            delivered_bytes += self.answer()
        return delivered_bytes / (self.now_s - begun_s)


def test_while_nothing_is_known_a_little_may_go() -> None:
    window = SendWindow()
    assert window.has_room(4000, 60_000, 15)
    assert not window.has_room(4001, 60_000, 15)
    assert window.rate_bytes_s is None
    assert window.queued_s(10**9) == 0.0


@settings(max_examples=30, deadline=None)
@given(st.floats(2e4, 1e6), st.floats(0.005, 0.3), st.sampled_from([3000, 8000, 20_000]))
def test_it_learns_the_rate_keeps_the_link_busy_and_its_queue_short(
    rate_bytes_s: float, delay_s: float, size_bytes: int
) -> None:
    way = Way(rate_bytes_s, delay_s)
    way.run(5.0, size_bytes, most=100)
    delivered_bytes_s = way.run(3.0, size_bytes, most=100)
    own_s = size_bytes / rate_bytes_s
    # The share that two messages under way can use at least; a window of many messages uses all of the link.
    assert delivered_bytes_s >= 0.9 * rate_bytes_s * min(1.0, LEAST_MESSAGES * own_s / (own_s + delay_s))
    assert way.window.rate_bytes_s is not None
    assert 0.85 * delivered_bytes_s <= way.window.rate_bytes_s <= 1.1 * rate_bytes_s
    assert way.waited_s <= max(way.window.spare_s, (LEAST_MESSAGES - 1) * own_s) + 2 * own_s


def test_a_link_that_becomes_slower_is_noticed_within_the_memory_of_rates() -> None:
    way = Way(1.25e6, 0.05)
    way.run(5.0)
    way.rate_bytes_s /= 10
    way.run(RATE_MEMORY_S + 2.0)
    assert way.window.rate_bytes_s == pytest.approx(1.25e5, rel=0.2)
    way.run(3.0)
    assert way.waited_s < 0.15


def test_a_link_that_becomes_faster_is_found_out() -> None:
    way = Way(1e5, 0.05)
    way.run(5.0)
    way.rate_bytes_s *= 10
    assert way.run(5.0, most=100) > 5e5


def test_a_sender_with_little_to_send_does_not_forget_what_the_way_can_do() -> None:
    way = Way(1e6, 0.05)
    way.run(5.0)
    known = way.window.most_bytes
    for _ in range(50):  # one at a time, with pauses
        way.now_s += 0.5
        way.send(5000)
        way.answer()
    assert way.window.most_bytes >= 0.9 * known


def test_two_may_always_be_on_the_way_and_no_third_beyond_the_window() -> None:
    way = Way(2e4, 0.05)
    way.run(3.0, most=2)
    window = way.window
    assert window.has_room(10**6, 10**6, 0)
    assert window.has_room(10**6, 10**6, 1)
    assert not window.has_room(10**6, 0, 2)
    assert window.queued_s(2e4) == pytest.approx(1.0, abs=0.35)


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 10**6), st.floats(0, 5)), max_size=200))
def test_it_stays_bounded_and_positive_whatever_comes(steps: list[tuple[bool, int, float]]) -> None:
    window, on_the_way, now_s = SendWindow(), list[tuple[int, Departure]](), 0.0
    for sends, size_bytes, gap_s in steps:
        now_s += gap_s
        if sends:
            on_the_way.append((size_bytes, window.departs(size_bytes, sum(s for s, _ in on_the_way), now_s)))
        elif on_the_way:
            size_bytes, departure = on_the_way.pop(size_bytes % len(on_the_way))
            window = window.arrived(size_bytes, departure, now_s)
            assert window.rate_bytes_s is not None
            assert 0 < window.most_bytes < float("inf")
        assert len(window.rates) <= 64
        assert len(window.round_trips) <= 64
