"""Decodes queued pictures while the model runs, most urgent first."""

import asyncio
from collections.abc import Callable
from functools import partial

from cloud_worker.jobs import Job
from cloud_worker.model_runner import decode_jpeg
from cloud_worker.queue import RequestQueue
from cloud_worker.threads import BlockingRunner


class Decoder:
    """Calls ``ready`` after each picture that was put into the queue, ``spoilt`` for a job whose picture is damaged: it
    is still queued, unless it has left meanwhile. ``tidy`` is called before each choice, so that nothing is decoded
    that nobody waits for any more.
    """

    def __init__(
        self,
        queue: RequestQueue,
        runner: BlockingRunner,
        ready: Callable[[], None],
        spoilt: Callable[[Job], None],
        tidy: Callable[[], None],
    ) -> None:
        self._queue = queue
        self._runner = runner
        self._ready = ready
        self._spoilt = spoilt
        self._tidy = tidy
        self._changed = asyncio.Event()

    def wake(self) -> None:
        """Something was queued."""
        self._changed.set()

    async def run(self) -> None:
        """Decode until cancelled."""
        while True:
            self._changed.clear()
            self._tidy()
            job = self._queue.next_encoded()
            if job is None:
                await self._changed.wait()
                continue
            image = await self._runner.run(partial(decode_jpeg, job.jpeg, job.size))
            if image is not None:
                self._queue.decoded(job, image)
                self._ready()
            else:
                self._spoilt(job)
