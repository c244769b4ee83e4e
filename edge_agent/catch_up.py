"""A stage beside the others: when the way to the cloud opens again, ask at once instead of at the next frame."""

from edge_agent.analysis import Analysis
from edge_agent.context import Context
from pipeline.policies.fallback import worth_asking


class CatchUp:
    """Asks about the newest analysed frame that had to do without the cloud, while it is young.

    Its own result has gone out: the answer comes late, corrects the tracks, and so is seen in the next results.
    """

    def __init__(self, context: Context, analysis: Analysis) -> None:
        self._context, self._analysis = context, analysis

    async def run(self) -> None:
        """Wait for the way to open, again and again, until cancelled."""
        context = self._context
        while True:
            await context.reopened.wait()
            context.reopened.clear()
            work, context.left_alone = context.left_alone, None
            now_s = context.tools.clock.now_s()
            if work is not None and worth_asking(now_s - work.frame.captured_at_s):
                await self._analysis.ask_late(work, now_s + context.deadline_ms / 1000 - context.tools.settle_margin_s)
