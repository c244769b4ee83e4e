"""Answers kept for a moment, for the very same question; and what that is worth.

As Clipper caches predictions (Crankshaw et al., NSDI 2017, section 4.2), with an age limit in addition.
"""

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

ENTRY_BYTES = 256
"""What an entry takes beside its value: key, times, and its place in the table."""


class ResultCache(Generic[K, V]):
    """Values by exact key, for ``ttl_s`` seconds from when they were put in, within ``most_bytes``.

    The one that was used longest ago makes room. ``ttl_s`` or ``most_bytes`` of 0 keeps nothing.
    """

    def __init__(self, ttl_s: float, most_bytes: int) -> None:
        self._ttl_s = ttl_s
        self._most_bytes = most_bytes
        self._entries: OrderedDict[K, tuple[float, int, V]] = OrderedDict()
        self._held_bytes = 0

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def held_bytes(self) -> int:
        return self._held_bytes

    @property
    def keeps(self) -> bool:
        """Whether it may keep anything."""
        return self._ttl_s > 0 and self._most_bytes > ENTRY_BYTES

    def get(self, key: K, now_s: float) -> V | None:
        """The value of a key, None where there is none that is young enough."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        put_at_s, _, value = entry
        if now_s - put_at_s >= self._ttl_s:
            self._remove(key)
            return None
        self._entries.move_to_end(key)
        return value

    def put(self, key: K, value: V, value_bytes: int, now_s: float) -> None:
        """Keep a value; one that would not fit even alone is not kept."""
        size_bytes = value_bytes + ENTRY_BYTES
        if key in self._entries:
            self._remove(key)
        if self._ttl_s <= 0 or size_bytes > self._most_bytes:
            return
        while self._held_bytes + size_bytes > self._most_bytes:
            self._remove(next(iter(self._entries)))
        self._entries[key] = now_s, size_bytes, value
        self._held_bytes += size_bytes

    def _remove(self, key: K) -> None:
        _, size_bytes, _ = self._entries.pop(key)
        self._held_bytes -= size_bytes


@dataclass(slots=True)
class CacheGain:
    """How often a cache hits, and what the answers take with it and without it, in seconds."""

    hits: int = 0
    misses: int = 0
    hit_s: float = 0.0
    miss_s: float = 0.0

    def hit(self, took_s: float) -> None:
        """An answer came from the cache."""
        self.hits += 1
        self.hit_s += took_s

    def miss(self, took_s: float) -> None:
        """An answer had to be worked out."""
        self.misses += 1
        self.miss_s += took_s

    @property
    def ratio(self) -> float | None:
        """The share h of answers that came from the cache; None before the first."""
        asked = self.hits + self.misses
        return self.hits / asked if asked else None

    @property
    def mean_hit_s(self) -> float | None:
        """T_hit."""
        return self.hit_s / self.hits if self.hits else None

    @property
    def mean_miss_s(self) -> float | None:
        """T_miss."""
        return self.miss_s / self.misses if self.misses else None

    @property
    def mean_s(self) -> float | None:
        """H * T_hit + (1 - h) * T_miss."""
        if (h := self.ratio) is None:
            return None
        return h * (self.mean_hit_s or 0.0) + (1 - h) * (self.mean_miss_s or 0.0)
