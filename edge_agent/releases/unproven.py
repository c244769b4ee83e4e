"""Looks of a model that is not proven: they may raise, hang or take long, and hold nothing up."""

import asyncio
from collections.abc import Callable

from edge_agent.pools import Runner
from edge_agent.releases.audits import Sight
from edge_agent.releases.slot import Staged
from pipeline.detections import Detections
from pipeline.timing import Clock


class Unproven:
    """One camera's candidate at work, one look at a time; ``fault`` says what was wrong with it, once it was."""

    def __init__(self, runner: Runner, clock: Clock, hang_s: float) -> None:
        self._runner, self._clock, self._hang_s = runner, clock, hang_s
        self._look: asyncio.Task[Detections] | None = None
        self._since_s = 0.0
        self._fault = ""

    @property
    def busy(self) -> bool:
        """Whether a look is under way."""
        return self._look is not None and not self._look.done()

    def begin(self) -> None:
        """Forget the candidate before: a look of it that hangs stays on its thread."""
        self._look, self._fault = None, ""

    def fault(self) -> str:
        """Why the candidate must go at once, in a sentence; empty where nothing speaks against it."""
        if not self._fault and self.busy and self._clock.now_s() - self._since_s >= self._hang_s:
            self._fault = f"a look of it hangs, for over {self._hang_s:g} s"
        return self._fault

    async def look(self, staged: Staged, look: Callable[[], Detections], patience_s: float) -> Sight | None:
        """What the candidate sees within ``patience_s``; None where it gave nothing in time or is at another frame."""
        if self.busy or self._fault or patience_s <= 0:
            return None
        suspect, self._since_s = _suspect_rows(staged), self._clock.now_s()
        task = self._look = asyncio.create_task(self._run(look), name="candidate")
        task.add_done_callback(self._ended)
        await asyncio.wait({task}, timeout=patience_s)
        took_ms = (self._clock.now_s() - self._since_s) * 1000
        if self._look is not task or not task.done() or self._fault:
            return None
        if _suspect_rows(staged) > suspect:
            self._fault = "it gave numbers that are no detections"
            return None
        return Sight(staged, task.result(), took_ms)

    async def _run(self, look: Callable[[], Detections]) -> Detections:
        return await self._runner.run(look)

    def _ended(self, look: asyncio.Task[Detections]) -> None:
        """Also where nobody waited for it any more."""
        error = None if look.cancelled() else look.exception()
        if error is not None and look is self._look:
            self._fault = f"a look of it raised {type(error).__name__}: {str(error)[:200]}"


def _suspect_rows(staged: Staged) -> int:
    """Not every detector has rows."""
    return int(getattr(staged.detector, "suspect_rows", 0))
