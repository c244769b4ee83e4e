"""Spare the cloud a question where the answer can be said again."""

from edge_agent.context import Context, Work
from edge_agent.reuse import looks, models_served, said_again
from edge_agent.tracking.history import Entry, analysed_answer
from edge_agent.tracking.tracks import Observations
from pipeline.policies.offload import OffloadDecision


async def spared(context: Context, decision: OffloadDecision, work: Work) -> OffloadDecision:
    """The decision; to ask nothing instead, where all that it is about looks as it did when it was last answered.

    A whole frame is searched for what nobody knows of yet, and what was drawn to be learned from is looked at: both
    are asked in any case.
    """
    reuse, key, clock = context.reuse, work.frame.key, context.tools.clock
    entry = context.tracker.entry(key.seq)
    if reuse is None or entry is None or decision.kind != "mosaic":
        return decision
    started_s = clock.now_s()
    places = reuse.places(entry, decision.places)
    shown = await context.tools.pools.image.run(lambda: looks(work.frame.image, places))
    served = models_served(context.tools.uplink.workers, clock.now_s())
    said = None if decision.drawn else reuse.decide(key, shown, served, work.scene_s)
    if said is None or not _say_again(context, entry, said_again(entry.seen, places, said), work):
        reuse.asked(key, places, shown, work.scene_s, started_s)
        return decision
    reuse.counts.spare((clock.now_s() - started_s) * 1000)
    return OffloadDecision("none", "reused")


def _say_again(context: Context, entry: Entry, seen: Observations, work: Work) -> bool:
    """Correct the tracks by what is said again of a frame; False where it is forgotten meanwhile.

    It is learned from as an answer is: otherwise places that stay as they are would be missing from the lessons.
    """
    key, size, tracking = work.frame.key, work.frame.size, context.settings.tracker
    used = context.tracker.correct(key.seq, seen)
    corrected = context.tracker.entry(key.seq)
    if used and corrected is not None:
        before, after = (analysed_answer(each, size, tracking) for each in (entry, corrected))
        context.gain_lessons.answered(key, before, after, seen.looked_at, whole=False)
    return used
