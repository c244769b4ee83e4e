"""Has an attempt carried out by a process of its own, beside a live agent."""

from collections.abc import Sequence

import msgspec

from foveate.learn.child import Ended, run_child
from foveate.learn.training_process import ATTEMPTS, GRACE_S
from foveate.learn.values import AttemptOrder, Outcome, decode, encode
from foveate.training.order import Progress, Say
from pipeline.errors import ConfigError, ModelError

COMMAND = ("-m", "foveate.learn.attempt_child")
JUDGING_S = 600.0
"""What splitting, judging and quantising may take beside the trainings before an attempt counts as hung."""


async def attempt(order: AttemptOrder, say: Say, command: Sequence[str] = COMMAND) -> Outcome:
    """Carry out an order; progress goes to ``say``. Raises FoveateError where nothing can come of it."""
    outcomes: list[Outcome] = []

    def said(line: bytes) -> None:
        try:
            say(decode(line, Progress))
        except msgspec.MsgspecError:
            _take(line, outcomes)

    one_s = ATTEMPTS * (order.time_limit_s + GRACE_S)
    threads = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    limit_s = len(order.ways) * one_s + JUDGING_S
    ended = await run_child(command, said, limit_s, order=encode(order), env=threads)
    if ended.code == 0 and outcomes:
        return outcomes[-1]
    raise _fault(ended, order)


def _take(line: bytes, outcomes: list[Outcome]) -> None:
    try:
        outcomes.append(decode(line, Outcome))
    except msgspec.MsgspecError:
        return  # a library's own words


def _fault(ended: Ended, order: AttemptOrder) -> ConfigError | ModelError:
    said = ended.words.splitlines()[-1] if ended.words else "it said nothing"
    if ended.code == ConfigError.exit_code:
        return ConfigError(said)
    if ended.code == ModelError.exit_code:
        return ModelError(said)
    how = "did not come to its end in time" if ended.out_of_time else f"ended with exit code {ended.code}"
    return ModelError(f"the attempt at a model for {order.camera} {how}: {said}")
