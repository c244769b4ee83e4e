"""The worker of an all-in-one run: its order comes on standard input, and it ends when that closes."""

import asyncio
import logging
import os
import signal
import sys
import threading

import msgspec

from cloud_worker.main import serve
from cloud_worker.threads import leave
from foveate.children import WorkerOrder
from pipeline.errors import FoveateError

NICENESS = 5
"""The edge's answers come first where both share a machine."""


def main() -> int:
    """Run a worker; returns the exit code."""
    logging.basicConfig(level=logging.WARNING, format="worker: %(message)s")
    os.nice(NICENESS)
    order = msgspec.json.decode(sys.stdin.buffer.readline(), type=WorkerOrder, dec_hook=lambda kind, value: kind(value))
    threading.Thread(target=_end_with_parent, daemon=True, name="lifeline").start()
    try:
        asyncio.run(serve(order.worker, order.mqtt, order.models_dir))
    except FoveateError as error:
        print(f"worker: {error}", file=sys.stderr)
        return error.exit_code
    return 0


def _end_with_parent() -> None:
    """Ask for a proper stop when the parent is gone or closes the line."""
    # Not through sys.stdin: a thread that holds its lock would hinder the interpreter's end.
    while os.read(sys.stdin.fileno(), 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    leave(main())
