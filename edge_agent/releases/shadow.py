"""A stage beside the others: models look at frames that have their answer, and the larger model is asked about a few.

It changes no result. What it learns decides whether a candidate takes over, and whether a camera's own model still may.
"""

import asyncio
import contextlib
from dataclasses import replace

from edge_agent.asking import has_tokens, question, undisturbed
from edge_agent.context import Context
from edge_agent.frame_work import draw
from edge_agent.releases.audits import AUDIT_EPOCH, Audit
from pipeline.frames import FrameKey
from pipeline.policies.offload import OffloadDecision

RETRY_S = 0.03
WITHIN_S = 1.0
"""So late may the answer to an audit come: nobody waits for it, and everything else goes first."""
_WHOLE = OffloadDecision("frame", "audit")


class Shadow:
    """Works off one camera's audits, where nothing else needs the way or the processor."""

    def __init__(self, context: Context) -> None:
        self._context, self._sights = context, context.sights
        self._asked = 0

    async def run(self) -> None:
        """Look and ask as frames come, until cancelled."""
        sights = self._sights
        while True:
            await self._woken()
            wanted = sights.to_ask
            if wanted is not None and not self._has_room():
                sights.to_ask = None
            elif wanted is not None and not self._context.resolver.asking:
                sights.to_ask = None
                await self._ask(wanted)
            while (unseen := sights.rollout.audits.unseen(sights.rollout.wanted)) is not None:
                await sights.aside(*unseen)

    async def _woken(self) -> None:
        """Wait for work. A frame that is to be asked about waits until no other asks or may ask."""
        sights = self._sights
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(None if sights.to_ask is None else RETRY_S):
                await sights.wake.wait()
        sights.wake.clear()

    def _has_room(self) -> bool:
        """Whether an audit is in nobody's way: nothing is held back or turned down."""
        context = self._context
        if context.settings.mode == "edge_only" or context.patient or not context.whole_frames:
            return False
        outlook = undisturbed(context)
        return outlook is not None and has_tokens(outlook)

    async def _ask(self, wanted: Audit) -> None:
        """Ask about a frame once more, under a key of its own: its answer must not wait for this one."""
        context, tools, frame = self._context, self._context.tools, wanted.frame
        drawn = await tools.pools.image.run(lambda: draw(frame, _WHOLE, context.settings))
        self._asked += 1
        self._sights.gave_up(wanted.key)  # one frame is to count once
        # Epochs count seconds and audits come more rarely, so that no later run uses the number again.
        key = FrameKey(frame.key.camera, AUDIT_EPOCH, frame.key.epoch + self._asked)
        self._sights.asked(replace(wanted, key=key, asked=True))
        settle_at_s = tools.clock.now_s() + max(WITHIN_S, context.deadline_ms / 1000)
        await tools.uplink.ask(question(context, frame, "frame", drawn, settle_at_s, key))
