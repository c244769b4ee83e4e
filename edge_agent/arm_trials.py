"""A stage beside the others: now and then, show places of a frame that went whole once more, as crops.

The answer tells how much of what the whole frame showed such crops show. It changes no result.
"""

from edge_agent.arms import Trial
from edge_agent.asking import has_tokens, question, undisturbed
from edge_agent.context import Context
from edge_agent.frame_work import draw
from pipeline.mosaic import Layout
from pipeline.policies.offload import OffloadDecision


class ArmTrials:
    """Asks about one trial after another, as the whole frames are answered, where nothing else needs the way."""

    def __init__(self, context: Context) -> None:
        self._context = context

    async def run(self) -> None:
        """Wait for a trial to become possible, again and again, until cancelled."""
        context = self._context
        while True:
            await context.trial_possible.wait()
            context.trial_possible.clear()
            trial, context.trial = context.trial, None
            if trial is not None and self._has_room():
                await self._ask(trial)

    def _has_room(self) -> bool:
        """Whether a trial is in nobody's way: nothing is held back or turned down, and no frame asks or may ask."""
        outlook = undisturbed(self._context)
        return outlook is not None and has_tokens(outlook) and not self._context.resolver.asking

    async def _ask(self, trial: Trial) -> None:
        context, arms, tools = self._context, self._context.arms, self._context.tools
        drawn, (_, usual) = await tools.pools.image.run(lambda: self._draw(trial))
        arms.shown(trial, len(drawn[1]) / len(usual))
        settle_at_s = tools.clock.now_s() + context.deadline_ms / 1000 - tools.settle_margin_s
        await tools.uplink.ask(question(context, trial.frame, "mosaic", drawn, settle_at_s, trial.key))

    def _draw(self, trial: Trial) -> tuple[tuple[Layout, bytes], tuple[Layout, bytes]]:
        """The places as the arm on trial and as the first arm draws them; only the former is sent."""
        decision, arms = OffloadDecision("mosaic", "trial", trial.places), self._context.arms
        on_trial = draw(trial.frame, decision, arms.of(trial.arm))
        first = arms.learned.first
        return on_trial, on_trial if trial.arm == first else draw(trial.frame, decision, arms.of(first))
