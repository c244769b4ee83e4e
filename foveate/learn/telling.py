"""How a camera's learning stands, in a value for the page and in words. Pure."""

from edge_agent.status.snapshot import LearningStatus
from foveate.learn.memory import LearnerMemory
from foveate.learn.subject import Look
from foveate.training.order import Progress, Way
from pipeline.policies.enough import Enough

TAKEN_BACK = frozenset({"withdrawn", "rolled_back", "fallen_back"})
"""Stages of a release that has come to its end."""


def status_of(
    look: Look, lessons: int, found: Enough, memory: LearnerMemory, training: Progress | None, waits_for: str
) -> LearningStatus:
    """The status; ``waits_for`` says why no training is under way."""
    stage, words = _stage(look, found, memory, training, waits_for)
    return LearningStatus(
        stage=stage,
        in_words=words,
        lessons=lessons,
        way=_way(found, memory),
        progress=None if training is None else training.done,
        left_s=None if training is None else training.left_s,
        current=look.current,
        candidate=look.candidate,
        agreement=look.agreement,
        last=memory.in_words,
    )


def parting(status: LearningStatus, camera: str, *, left_off: bool) -> str:
    """What to say at the end of a run of a camera that is not done; empty of one that is."""
    if left_off:
        return f"{camera}: its training is left off; the next run with --learn goes on with it"
    if status.stage != "collecting":
        return ""
    return (
        f"{camera}: there is no model of its own yet ({status.in_words.rstrip('.')}); its lessons are kept, the "
        f"next run with --learn goes on with them; 'foveate learn lessons --camera {camera}' tells what they hold"
    )


def _stage(
    look: Look, found: Enough, memory: LearnerMemory, training: Progress | None, waits_for: str
) -> tuple[str, str]:
    if training is not None:
        return "training", training.doing
    if look.candidate is not None:
        return "proving", f"{look.stage}: {look.reason}" if look.reason else look.stage
    if found.way == "wait" or (memory.last is None and not look.own):
        return "collecting", waits_for or found.reason
    if look.own:
        return "learned", waits_for
    return "general", f"{look.reason}; {waits_for}" if look.stage in TAKEN_BACK and look.reason else waits_for


def _way(found: Enough, memory: LearnerMemory) -> Way | None:
    if memory.way is not None:
        return memory.way
    return None if found.way == "wait" else found.way
