"""The worker as a whole: requests in, exactly one reply out for each."""

import asyncio
import logging
from collections import Counter
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any

from cloud_worker.announce import Announcer
from cloud_worker.answers import Answers, Reuse
from cloud_worker.batcher import Batcher, Policies
from cloud_worker.cancellations import Cancellations
from cloud_worker.decoder import Decoder
from cloud_worker.drain import STOPPING, Drain, DrainedParts
from cloud_worker.figures import WorkerStatistics, queue_figures
from cloud_worker.intake import Ignored, Rejected, address_of, read_request
from cloud_worker.jobs import UNKNOWN_INPUT, Job, ReplyAddress
from cloud_worker.model_runner import ModelRunner
from cloud_worker.outbox import Outbox
from cloud_worker.outcomes import Answered, Outcome, Refused
from cloud_worker.queue import RequestQueue
from cloud_worker.recent import RecentKeys
from cloud_worker.replies import Durations, ReplyWriter, Sealed
from cloud_worker.settings import WorkerSettings
from cloud_worker.shelf import Shelf
from cloud_worker.threads import BlockingRunner, ThreadRunner
from cloud_worker.warm_up import Prepared
from pipeline.detectors.base import Detector
from pipeline.errors import FoveateError
from pipeline.policies.result_cache import ResultCache
from pipeline.policies.schedule import SCHEDULING_KINDS
from pipeline.timing import Clock
from pipeline.transport.base import Message, Outgoing, Transport
from pipeline.wire import topics
from pipeline.wire.codec import decode_echo
from pipeline.wire.messages import Echo, Refusal, WorkerState

REPLY_EXPIRY_S = 5
"""A reply later than this helps nobody's tracks."""
LOOK_AT_MODEL_S = 1.0

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Runners:
    """Where the blocking work goes."""

    model: BlockingRunner = field(default_factory=lambda: ThreadRunner("model"))
    decode: BlockingRunner = field(default_factory=lambda: ThreadRunner("decode"))


class WorkerService:
    """Serves detectors over one transport. ``run`` returns after ``stop``, within ``settings.stop_limit_s``.

    The transport's will should be ``announce.offline(settings.worker)``. Raises ConfigError on names that cannot be
    part of a topic.
    """

    def __init__(
        self,
        settings: WorkerSettings,
        detectors: Mapping[str, Detector],
        transport: Transport,
        clock: Clock,
        runners: Runners | None = None,
        prepared: Prepared | None = None,
    ) -> None:
        self._settings = settings
        self._transport = transport
        self._clock = clock
        self._runners = runners or Runners()
        self._shelf = Shelf(settings)
        self._writer = ReplyWriter(settings.worker, self._shelf.versions)
        self._seen = RecentKeys(settings.duplicate_window_s)
        self._queue = RequestQueue(SCHEDULING_KINDS[settings.scheduling]())
        self._outbox = Outbox(transport)
        models = ModelRunner(self._shelf.detectors, self._runners.model)
        self._answers = Answers(self._reuse(), self._queue, self._enqueue, clock, self._deliver)
        self._cancellations = Cancellations(self._answers.withdraw, settings.duplicate_window_s, clock)
        self._batcher = Batcher(Policies.chosen(settings), self._queue, models, clock, self._answers.settle)
        self.add(detectors, prepared or Prepared())
        self._decoder = Decoder(
            self._queue, self._runners.decode, self._batcher.wake, self._spoilt, self._batcher.refuse_overdue
        )
        self._announcer = Announcer(transport, self.worker_state, settings.heartbeat_s, clock)
        drained = DrainedParts(self._announcer, self._answers, self._batcher, self._outbox)
        self._drain = Drain(settings.stop_limit_s, drained, clock)
        self._stop = asyncio.Event()
        self._hung = False
        self._received = 0
        self._answered = 0
        self._echoed = 0
        self._refused: Counter[str] = Counter()
        self._ignored: Counter[str] = Counter()

    def add(self, detectors: Mapping[str, Detector], prepared: Prepared) -> None:
        """Serve further models, which the settings name; they are announced within a second.

        While the worker runs, ``listen`` on a session of their own brings their requests.
        """
        for name, detector in detectors.items():
            self._shelf.put(name, detector, prepared.input_of.get(name, UNKNOWN_INPUT.of))
        self._batcher.warmed(prepared.run_times)

    def listen(self, session: Transport, model: str) -> None:
        """Take requests for a model from a session that does not run yet."""
        for target in topics.targets(self._settings.tier, self._settings.location):
            share = topics.request_share(self._settings.group, target, model)
            session.subscribe(share, self._on_message)
            self._drain.share(session, share)

    def _reuse(self) -> Reuse:
        settings = self._settings
        followers = settings.queue_capacity if settings.coalesce else 0
        return Reuse(self._shelf.contracts, followers, ResultCache(settings.cache_ttl_s, settings.cache_bytes))

    def worker_state(self) -> WorkerState:
        """The state as announced; the announcer adds the heartbeat."""
        p95_s = {name: p95 for name in self._shelf.detectors if (p95 := self._batcher.infer_p95_s(name)) is not None}
        return WorkerState(
            worker=self._settings.worker,
            online=not self._stop.is_set(),
            tier=self._settings.tier,
            models=self._shelf.announced,
            queue_length=len(self._queue),
            queue_capacity=self._settings.queue_capacity,
            infer_ms_p95=max(p95_s.values()) * 1e3 if p95_s else None,
            served=self._answered,
            refused=dict(self._refused),
            queue=queue_figures(self._queue.flow(self._clock.now_s())),
            batches=self._batcher.tally.figures(),
            reuse=self._answers.figures(),
            wait_ms=self._batcher.wait_s() * 1e3,
            run_ms_p95={name: p95 * 1e3 for name, p95 in p95_s.items()},
            location=self._settings.location,
            energy_j=self._settings.energy_j,
            transfer_cost=self._settings.transfer_cost,
        )

    @property
    def stopping(self) -> bool:
        """Whether it has been told to stop."""
        return self._stop.is_set()

    def fault(self) -> str:
        """Why nobody should count on this worker now; empty while it serves."""
        if self.stopping:
            return "the worker is stopping"
        session = self._transport.state
        return "" if session.connected else f"no connection to the broker: {session.reason}"

    def statistics(self) -> WorkerStatistics:
        """Counters at this moment."""
        batches, reuse = self._batcher.tally.figures(), self._answers.figures()
        return WorkerStatistics(
            self._received,
            self._answered,
            self._echoed,
            dict(self._refused),
            dict(self._ignored),
            self._outbox.lost,
            batches.reasons,
            len(self._queue),
            batches.sizes,
            batches.padded_share,
            reuse.joined,
            reuse.hits,
            reuse.hit_ratio,
            reuse.mean_ms,
        )

    def stop(self) -> None:
        """Say goodbye, take no more, finish or refuse what there is, and let ``run`` return; see ``Drain``."""
        self._stop.set()

    async def run(self, *beside: Coroutine[Any, Any, None]) -> None:
        """Serve until ``stop``. A fault of any part ends the whole: FoveateError as it is, others in a group.

        ``beside``: further parts, which are cancelled with the others.
        A model that hangs is such a fault: the worker says goodbye and ends, for its supervisor to start it again.
        """
        for model in self._shelf.detectors:
            self.listen(self._transport, model)
        for target in topics.targets(self._settings.tier, self._settings.location):
            self._transport.subscribe(topics.cancels(target), self._cancellations.on_message)
        self._transport.on_connect(self._announcer.birth)
        parts = (self._transport, self._outbox, self._batcher, self._decoder, self._announcer)
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(part.run(), name=type(part).__name__) for part in parts]
                tasks.append(group.create_task(self._watch_model(), name="watch"))
                tasks += [group.create_task(each) for each in beside]
                await self._stop.wait()
                await self._drain.run(hung=self._hung)
                for task in tasks:
                    task.cancel()
        except BaseExceptionGroup as faults:
            known = faults.subgroup(FoveateError)
            first: BaseException | None = known
            while isinstance(first, BaseExceptionGroup):
                first = first.exceptions[0]
            if first is not None:
                raise first from None
            raise
        finally:
            self._runners.model.close()
            self._runners.decode.close()
        if self._hung:
            raise FoveateError("the model hangs in a run that should have ended long ago; start the worker again.")

    async def _watch_model(self) -> None:
        while not self._hung:
            await asyncio.sleep(LOOK_AT_MODEL_S)
            self._hung = self._batcher.hangs
        logger.error("the model hangs; the worker gives up")
        self.stop()

    def _on_message(self, message: Message) -> None:
        self._received += 1
        address = address_of(message)
        if isinstance(address, Ignored):
            self._ignored[address.value] += 1
            return
        echo = decode_echo(message.payload)
        if echo is not None:
            self._echo(address, echo)
            return
        now_s = self._clock.now_s()
        arrival = read_request(message, address, self._settings, self._shelf.input_of, now_s)
        arrival = self._cancellations.checked(arrival)
        if isinstance(arrival, Rejected):
            # A header that is not sound is not worth remembering: nothing in it is bounded.
            key = None if arrival.refusal is Refusal.BAD_PAYLOAD or arrival.request is None else arrival.request.key
        else:
            key = arrival.key
        if key is not None and (self._answers.holds(key) or not self._seen.first(key, now_s)):
            self._ignored[Ignored.DUPLICATE.value] += 1
        elif isinstance(arrival, Rejected):
            self._send(
                address, self._writer.refusal(address, arrival.request, arrival.refusal, arrival.detail, Durations())
            )
        else:
            self._answers.admit(arrival)

    def _echo(self, address: ReplyAddress, echo: Echo) -> None:
        """Return a probe at once, past the queue; a worker that stops is silent, so that nobody counts on it."""
        if self._stop.is_set():
            self._ignored[Ignored.STOPPING.value] += 1
            return
        self._echoed += 1
        self._post(address, self._writer.echo(address, echo))
        if echo.give_up:
            given_up = Refused(Refusal.EXPIRED, "a probe came after it: the way was closed meanwhile")
            self._answers.withdraw(lambda job: job.address.agent == address.agent, given_up)

    def _enqueue(self, job: Job, in_place_of: Job | None) -> Refused | None:
        if self._drain.over:
            return STOPPING
        refused = self._batcher.admit(job, in_place_of)
        if refused is None:
            self._decoder.wake()
        return refused

    def _spoilt(self, job: Job) -> None:
        if self._queue.remove(job, self._clock.now_s()):
            bad = Refused(Refusal.BAD_PAYLOAD, "the JPEG cannot be decoded")
            self._answers.settle(job, bad, self._answers.waited(job))

    def _deliver(self, job: Job, outcome: Outcome, spent: Durations) -> None:
        if isinstance(outcome, Answered):
            sealed = self._writer.answer(job, outcome.found, spent, outcome.batch_size, outcome.source)
        else:
            if outcome.refusal is Refusal.FAILED and self._refused[Refusal.FAILED.value] % 100 == 0:
                logger.warning("request %s failed: %s", job.key, outcome.detail)
            sealed = self._writer.refusal(job.address, job.request, outcome.refusal, outcome.detail, spent)
        self._send(job.address, sealed)

    def _send(self, address: ReplyAddress, sealed: Sealed) -> None:
        if sealed.refused is None:
            self._answered += 1
        else:
            self._refused[sealed.refused.value] += 1
        self._post(address, sealed.payload)

    def _post(self, address: ReplyAddress, payload: bytes) -> None:
        properties = {} if address.traceparent is None else {"traceparent": address.traceparent}
        self._outbox.put(
            Outgoing(
                address.topic,
                payload,
                correlation=address.correlation,
                expiry_s=REPLY_EXPIRY_S,
                properties=properties,
            )
        )
