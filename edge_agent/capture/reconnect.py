"""When to try again, and how much of the decoder's noise to repeat. Pure: time is handed in."""

import random

AUTH_RETRY_S = 60.0
NOISE_EVERY_S = 60.0


class Backoff:
    """Delays that double from first to most, each with jitter.

    A session that lasted at least as long as the delay due now starts the sequence again; a shorter one, pictures or
    not, counts as one more failure, so that a camera that comes and goes is not hammered.
    """

    def __init__(self, first_s: float, most_s: float, jitter: random.Random) -> None:
        self._first_s = first_s
        self._most_s = most_s
        self._jitter = jitter
        self._delay_s = first_s

    def next_delay_s(self, session_s: float) -> float:
        """Seconds to wait after a session that gave pictures for ``session_s`` seconds (0: none)."""
        if session_s >= self._delay_s:
            self._delay_s = self._first_s
        delay_s = self._delay_s
        self._delay_s = min(self._most_s, 2 * delay_s)
        return min(delay_s * self._jitter.uniform(0.75, 1.25), self._most_s)

    def auth_delay_s(self) -> float:
        """Seconds to wait after a refused password: cameras lock out who tries often."""
        return AUTH_RETRY_S * self._jitter.uniform(1.0, 1.25)


class NoiseMeter:
    """Counts a decoder's lines and lets one sentence through a minute."""

    def __init__(self) -> None:
        self.lines = 0
        self._reported = 0
        self._due_s = float("-inf")

    def see(self, lines: int, sample: str, now_s: float) -> str | None:
        """Count ``lines`` more, of which ``sample`` is one; returns what to log, if anything."""
        self.lines += lines
        if now_s < self._due_s:
            return None
        fresh, self._reported = self.lines - self._reported, self.lines
        self._due_s = now_s + NOISE_EVERY_S
        return f"{sample} ({fresh} such lines)" if fresh > 1 else sample
