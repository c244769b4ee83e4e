"""What came lately, remembered by name."""

from collections import OrderedDict
from collections.abc import Hashable

MOST_KEYS = 10_000


class RecentKeys:
    """Names of what came within the last ``window_s`` seconds, of the newest ``capacity``."""

    def __init__(self, window_s: float, capacity: int = MOST_KEYS) -> None:
        self._window_s = window_s
        self._capacity = capacity
        self._seen: OrderedDict[Hashable, float] = OrderedDict()

    def __len__(self) -> int:
        return len(self._seen)

    def first(self, key: Hashable, now_s: float) -> bool:
        """Whether this key is new within the window; it is remembered from now on."""
        self._tidy(now_s)
        if key in self._seen:
            return False
        if len(self._seen) >= self._capacity:
            self._seen.popitem(last=False)
        self._seen[key] = now_s
        return True

    def forget(self, key: Hashable, now_s: float) -> bool:
        """Whether this key came within the window; it is new again from now on."""
        self._tidy(now_s)
        return self._seen.pop(key, None) is not None

    def _tidy(self, now_s: float) -> None:
        while self._seen and next(iter(self._seen.values())) <= now_s - self._window_s:
            self._seen.popitem(last=False)
