"""When to connect again. One object may serve all sessions of a process, so that they come back together."""

import random


class Backoff:
    """Exponential back-off with jitter.

    The n-th delay is drawn evenly from ``d`` to ``(1 + spread) d`` with ``d = first_s * 2**n``, never above
    ``most_s``: wide, because a fleet that loses its broker loses it at the same moment. A session that ends before
    ``stable_s`` counts as a failed attempt; only a longer one makes the next delay short again.
    """

    def __init__(
        self,
        first_s: float = 1.0,
        most_s: float = 30.0,
        spread: float = 4.0,
        stable_s: float = 10.0,
        rng: random.Random | None = None,
    ) -> None:
        if not 0 < first_s <= most_s or spread < 0:
            raise ValueError(f"a back-off from {first_s} to {most_s} s with spread {spread}")
        self._first_s = first_s
        self._most_s = most_s
        self._spread = spread
        self._stable_s = stable_s
        self._rng = rng or random.Random()
        self._doublings = 0
        self._retry_at_s = float("-inf")

    def ended(self, now_s: float, connected_for_s: float = 0.0, hopeless: bool = False) -> float:
        """Seconds to wait after a session or an attempt ended.

        ``hopeless``: the cause needs a person (a wrong password, a wrong certificate), so the longest delay is taken.
        A session that ends while another already waits joins its wait.
        """
        if now_s < self._retry_at_s and not hopeless:
            return self._retry_at_s - now_s
        if connected_for_s >= self._stable_s:
            self._doublings = 0
        delay_s = self._most_s
        if not hopeless:
            delay_s = min(self._most_s, self._first_s * 2**self._doublings)
            delay_s = self._rng.uniform(delay_s, delay_s * (1 + self._spread))
            if delay_s >= self._most_s:  # keep the jitter at the cap
                delay_s = self._rng.uniform(self._most_s / 2, self._most_s)
            self._doublings = min(self._doublings + 1, 30)
            self._retry_at_s = now_s + delay_s
        return delay_s
