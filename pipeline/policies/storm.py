"""Storms of change: the camera turns, it rains, insects fly before the lens.

While one lasts a difference says nothing, neither where something moves nor when. What tells a storm from a crowd is
that its changes have nothing to do with each other: they show up where nothing was a moment ago, look after look.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StormSettings:
    """A look is wild when so many changes, ``sudden``, come out of nowhere at once, or the whole picture changes.

    A storm begins when wild looks are ``looks`` ahead of calm ones, and ends when the calm ones have caught up. A
    switch of light or to infrared is over before that.
    """

    sudden: int = 3
    looks: int = 4


class StormWatch:
    """Weighs wild looks against calm ones as they come."""

    def __init__(self, settings: StormSettings = StormSettings()) -> None:
        self._settings = settings
        self._ahead = 0
        self.active = False

    def see(self, *, sudden: int = 0, new_scene: bool = False) -> bool:
        """Take in one look. Returns whether a storm is on."""
        wild = new_scene or sudden >= self._settings.sudden
        self._ahead = min(max(self._ahead + (1 if wild else -1), 0), self._settings.looks)
        self.active = self._ahead > 0 if self.active else self._ahead >= self._settings.looks
        return self.active
