"""Requests that whoever asked has no use for any more."""

from collections.abc import Callable

from cloud_worker.intake import Rejected
from cloud_worker.jobs import Job
from cloud_worker.outcomes import Refused
from cloud_worker.recent import RecentKeys
from pipeline.timing import Clock
from pipeline.transport.base import Message
from pipeline.wire.codec import BadPayload, decode_cancel
from pipeline.wire.messages import Refusal

CANCELLED = Refused(Refusal.CANCELLED, "whoever asked has no use for the answer any more")


class Cancellations:
    """Takes in cancellations. ``withdraw`` refuses what waits; what has not arrived yet, or never will because another
    worker has it, is remembered for ``window_s`` seconds: a small message overtakes the pictures of a busy uplink.
    """

    def __init__(
        self, withdraw: Callable[[Callable[[Job], bool], Refused], None], window_s: float, clock: Clock
    ) -> None:
        self._withdraw = withdraw
        self._ahead = RecentKeys(window_s)
        self._clock = clock

    def on_message(self, message: Message) -> None:
        """The last level of the topic says whose requests they are. What cannot be read cancels nothing."""
        cancel = decode_cancel(message.payload)
        if message.retain or isinstance(cancel, BadPayload):
            return
        agent = message.topic.rsplit("/", 1)[-1]
        names = {(agent, correlation) for correlation in cancel.correlations}
        self._withdraw(lambda job: _name(job) in names, CANCELLED)
        now_s = self._clock.now_s()
        for name in names:
            self._ahead.first(name, now_s)

    def checked(self, arrival: Job | Rejected) -> Job | Rejected:
        """The same, unless its cancellation has come before it."""
        if isinstance(arrival, Job) and self._ahead.forget(_name(arrival), self._clock.now_s()):
            return Rejected(arrival.request, CANCELLED.refusal, CANCELLED.detail)
        return arrival


def _name(job: Job) -> tuple[str, bytes]:
    return job.address.agent, job.address.correlation
