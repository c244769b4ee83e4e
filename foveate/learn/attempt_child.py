"""The process of one attempt: its order comes as a line on standard input, and it ends when that closes.

Each line of standard output is the progress, the last one the outcome. A process of its own keeps the work of judging,
and whatever a broken model does to it, away from the agent.
"""

import asyncio
import logging
import os
import sys

from foveate.learn.attempt import Attempt
from foveate.learn.child import hold_to_parent
from foveate.learn.values import AttemptOrder, decode, encode
from foveate.training.order import Progress
from pipeline.errors import FoveateError


def main() -> int:
    """Carry out the order; returns the exit code."""
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    order = decode(_line(), AttemptOrder)
    hold_to_parent()
    try:
        outcome = asyncio.run(Attempt(order, _say).go())
    except FoveateError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    print(encode(outcome).decode(), flush=True)
    return 0


def _line() -> bytes:
    """The first line of standard input, and nothing after it: the rest is the lifeline's."""
    data = bytearray()
    while (byte := os.read(0, 1)) not in {b"", b"\n"}:
        data += byte
    return bytes(data)


def _say(progress: Progress) -> None:
    print(encode(progress).decode(), flush=True)


if __name__ == "__main__":
    sys.exit(main())
