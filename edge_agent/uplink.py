"""The way to the workers: each question is asked of a target that can answer it in time, at the least cost.

Requests go out on their own session, so that a picture never stands before a result. A target (``target_link``) is
the workers of a tier, or of those of them at one location. Where only one is known it is asked; of several one is
chosen for each question (``tier_choice``), and what one of them owes moves to another when it fails. Whoever may still
answer is written down (``request_book``), so that a question ends once.
"""

import asyncio
import contextlib
import math
from collections import Counter
from collections.abc import Mapping, Set
from dataclasses import replace

from edge_agent.lanes import Asker, AskerSettings, Flight
from edge_agent.questions import Answer, AnswerListener, Question
from edge_agent.request_book import RequestBook
from edge_agent.settings import UplinkSettings
from edge_agent.steer import Outlook, paced
from edge_agent.target_figures import TargetFigures
from edge_agent.target_link import TargetLink
from edge_agent.targets import Targets
from edge_agent.tier_choice import NOBODYS_FAULT, TierChoice, Wish
from pipeline.policies.fallback import Bound, wait
from pipeline.policies.open_requests import Left, RequestCounts, Word
from pipeline.policies.tier_cost import Tier
from pipeline.policies.tiers import Plan
from pipeline.policies.tokens import SharedBudget
from pipeline.timing import Clock
from pipeline.transport.base import Message, Transport
from pipeline.wire import topics
from pipeline.wire.codec import BadPayload, decode_worker_state
from pipeline.wire.messages import Refusal

_LEAD_S = 0.005
"""So much before a frame would be settled without its answer, another target is asked."""


class Uplink:
    """See the module. ``bulk`` carries requests, ``control`` brings replies and announcements."""

    def __init__(self, agent: str, settings: UplinkSettings, bulk: Transport, control: Transport, clock: Clock) -> None:
        self._settings, self._clock = settings, clock
        self._askers: dict[str, Asker] = {}
        self._weights: dict[str, float] = {}
        self.counters: Counter[str] = Counter()
        self.kick = asyncio.Event()
        # Raises ConfigError on a bad name now, not at the first request.
        self._targets = Targets(agent, settings, bulk, clock, self)
        self.workers = self._targets.workers
        self._choice = TierChoice(settings, self._targets)
        self._book = RequestBook()
        self._moved: list[tuple[str, Question]] = []
        self._budget = self._full_budget()
        control.subscribe(topics.reply(agent), self._on_reply)
        control.subscribe(topics.ANY_WORKER, self._on_worker, qos=1)
        bulk.on_connect(self._connected)

    def register(self, camera: str, listener: AnswerListener, settings: AskerSettings | None = None) -> None:
        """Let a camera ask; once, before it does."""
        asker = Asker(listener, settings or AskerSettings())
        self._askers[camera], self._weights[camera] = asker, asker.settings.weight
        self._targets.register(camera, asker.settings)
        self._budget = self._full_budget()

    def _full_budget(self) -> SharedBudget:
        settings = self._settings
        return SharedBudget.full(settings.uplink_kbps, settings.burst_s, self._weights, self._clock.now_s())

    # What others look at.

    @property
    def main(self) -> TargetLink:
        """The link to the target that was asked last, or that will be asked first."""
        return self._targets.main.link

    def links(self) -> list[TargetLink]:
        """The links to the known targets."""
        return [watch.link for watch in self._targets.all()]

    def served(self, tiers: Set[Tier] = frozenset(Tier)) -> bool:
        """Whether something can be sent to some target of these tiers."""
        now_s, watches = self._clock.now_s(), (w for w in self._targets.all() if w.link.target.tier in tiers)
        return any(not self._targets.hindrance(watch, now_s) for watch in watches)

    def bytes_per_s(self, camera: str) -> float:
        """What the camera has sent up lately."""
        return self._askers[camera].rate.bytes_per_s(self._clock.now_s())

    def target_figures(self) -> list[TargetFigures]:
        """The known targets, as they stand."""
        return list(self._targets.figures())

    def requests(self) -> RequestCounts:
        """The account of all questions asked."""
        self._book.expire(self._clock.now_s())
        return self._book.counts()

    def plan(self, camera: str, kind: str = "mosaic") -> Plan:
        """Whom a camera's questions of a kind are asked of at present, where there is a choice."""
        return self._choice.held(camera, kind)

    # What a camera may expect.

    def outlook(
        self,
        camera: str,
        deviations: float,
        expected_bytes: Mapping[str, float] | None = None,
        remaining_ms: float | None = None,
        stands: float | None = None,
    ) -> Outlook:
        """What a camera may expect now, of the target that would be asked with ``remaining_ms`` left (None: all); a
        predicted round trip is the mean plus ``deviations`` deviations, for a request of the ``expected_bytes`` of its
        kind, or of the usual ones. Crops must be worth it where an answer ``stands``, as in ``Question``.
        """
        now_s, asker, sizes = self._clock.now_s(), self._askers[camera], expected_bytes or {}
        patient = asker.settings.patient
        if not patient:
            billed = max(self._targets.all(), key=lambda watch: watch.transfer_cost)
            self._budget = paced(self._budget, billed.link.path, self._settings, self._weights, now_s)
        size_bytes = sizes.get("mosaic", self.main.path.usual_bytes)
        left_ms = asker.settings.deadline_ms if remaining_ms is None else remaining_ms
        wish = Wish(camera, "mosaic", size_bytes, left_ms, self._tokens_bytes(camera), stands)
        likely = self._choice.likely(wish, asker.settings, now_s)
        link, cost, reason = likely.watch.link, likely.watch.transfer_cost, likely.reason
        if not reason and not patient:
            reason = link.lanes[camera].held(now_s)
        tokens_bytes, fill = wish.tokens_bytes, self._budget.fill(camera)
        if patient or not cost:  # it waits for bytes, or they are free
            tokens_bytes = fill = None
        return Outlook(
            reachable=not reason,
            reason=reason,
            round_trip_ms=link.path.tails_ms(sizes, now_s, deviations),
            tokens_bytes=tokens_bytes and tokens_bytes / cost,
            path=link.path,
            fill=fill,
            bucket_s=self._settings.burst_s,
            due_bytes_s=self._budget.due_bytes_s(camera),
            mosaic_hindrance=likely.mosaic_hindrance,
        )

    def _tokens_bytes(self, camera: str) -> float | None:
        return None if self._askers[camera].settings.patient else self._budget.available_bytes(camera)

    # What becomes of a question.

    async def ask(self, question: Question) -> None:
        """Ask a question, or let it wait for its turn. The listener hears of the outcome."""
        now_s, camera = self._clock.now_s(), question.key.camera
        asker = self._askers[camera]
        self._book.expire(now_s)
        if not self._book.open(question):
            self._tell_none(question, "busy", shed=True)
            return
        wish = Wish.of(question, self._tokens_bytes(camera), now_s)
        plan, hindrance = self._choice.plan(wish, asker.settings, now_s)
        if not plan:
            self._book.fall_back(question.key)
            self._tell_none(question, hindrance, shed=hindrance not in NOBODYS_FAULT)
            return
        self._targets.latest = plan[0]
        stages = [(target, replace(question, stage=stage)) for stage, target in enumerate(plan, 1)]
        for target, asked in stages:
            self._book.owes(asked, target)
        for target, asked in stages:
            await self._targets[target].link.ask(asked)

    def _tell_none(self, question: Question, reason: str, *, shed: bool) -> None:
        self.counters[reason] += 1
        self._askers[question.key.camera].listener.not_answered(question.key, reason, shed=shed)

    def is_owed(self, target: str, question: Question) -> bool:
        return self._book.is_owed(question.key, target)

    def bytes_wait_s(self, target: str, camera: str, size_bytes: int) -> float:
        self._budget = self._budget.at(self._clock.now_s())
        return self._budget.wait_s(camera, size_bytes * self._targets[target].transfer_cost)

    def sent(self, target: str, flight: Flight, p95_ms: float | None) -> None:
        now_s, question, watch = self._clock.now_s(), flight.question, self._targets[target]
        asker = self._askers[question.key.camera]
        billed_bytes = flight.size_bytes * watch.transfer_cost
        self._budget = self._budget.at(now_s).take(question.key.camera, billed_bytes)
        watch.sent(now_s)
        asker.rate.add(now_s, flight.size_bytes)
        until = wait(now_s, question.settle_at_s, p95_ms, asker.settings.wait)
        if until.bound is Bound.OVERDUE and not asker.settings.patient and not question.trial:
            flight.overdue_s = until.until_s - _LEAD_S
        asker.listener.sent(question, flight.size_bytes, p95_ms)
        self.counters["sent"] += 1

    def answered(self, target: str, flight: Flight, answer: Answer) -> None:
        question, watch, now_s = flight.question, self._targets[target], self._clock.now_s()
        watch.answered()
        if flight.surplus:
            self.counters["surplus"] += 1
            return
        word = self._book.answered(question.key, target, watch.shortfall, now_s)
        for other in self._targets.all():
            other.link.supersede(question)
        self.counters["late" if flight.missed else "answered"] += 1
        told = replace(answer, better=question.stage > 1, more=word is Word.FIRST)
        self._askers[question.key.camera].listener.answered(told)

    def refused(self, target: str, refusal: Refusal) -> None:
        self.counters[f"refused_{refusal.value}"] += 1
        self._targets[target].refused(refusal, self._clock.now_s())

    def gave_up(self, target: str, question: Question, reason: str, *, shed: bool) -> None:
        # A newer question took the place of a displaced one: nobody is asked about it any more.
        if reason != "displaced":
            self._elsewhere(target, question, reason)
        left = self._book.withdrawn(question.key, target)
        if left is Left.NOBODY or (left is None and not self._targets.several):
            self._askers[question.key.camera].listener.not_answered(question.key, reason, shed=shed)

    def overdue(self, target: str, flight: Flight) -> None:
        self._targets[target].overdue(self._clock.now_s())
        self._elsewhere(target, flight.question, "overdue")

    def turned(self, target: str) -> None:
        link = self._targets[target].link
        if link.circuit.closed:  # no camera need wait for its next frame
            for asker in self._askers.values():
                asker.listener.reopened()
        else:
            self._leave(link, "circuit_open")

    def _leave(self, link: TargetLink, reason: str) -> None:
        """Let others be asked what a target owes, and what waits to be sent there."""
        flying = [flight.question for flight in link.flights.values() if not flight.missed]
        for question in [*flying, *link.waiting.questions()]:
            self._elsewhere(link.target.name, question, reason)

    def _elsewhere(self, target: str, question: Question, reason: str) -> None:
        """Let another target owe what this one does, where one can be in time; it is asked in the next step."""
        if not self._book.is_owed(question.key, target):
            return
        now_s, camera, watch = self._clock.now_s(), question.key.camera, self._targets[target]
        wish = Wish.of(question, self._tokens_bytes(camera), now_s)
        wish = replace(wish, stands=self._book.stands(question.key))
        tried, asker = self._book.tried(question.key), self._askers[camera].settings
        for other in self._choice.elsewhere(wish, asker, watch.link.target.tier, tried, now_s):
            if self._book.owes(question, other):
                self._moved.append((other, question))
                watch.link.counters["moved"] += 1
                self.counters[f"moved_{reason}"] += 1
                self.kick.set()

    # What comes in, and what is to be done.

    async def _connected(self) -> None:
        for watch in self._targets.all():
            watch.link.circuit.connected()

    def _on_worker(self, message: Message) -> None:
        state = decode_worker_state(message.payload)
        if isinstance(state, BadPayload):
            self.counters["bad_worker_state"] += 1
            return
        if not self._targets.heard(state):
            self.counters["too_many_targets"] += 1
        its = topics.targets(state.tier, state.location)
        for watch in self._targets.all():
            if watch.link.target.name in its:
                watch.link.circuit.look_again()
            if not watch.workers:
                self._leave(watch.link, "gone")
        self.kick.set()

    def _on_reply(self, message: Message) -> None:
        """Take in a reply; one to no question of ours is counted, and so is a stored one, which is of the past."""
        if message.retain or not any(link.take(message) for link in self.links()):
            self.counters["unexpected_reply"] += 1

    async def run(self) -> None:
        """Watch over what is under way: miss what is late, forget what is useless, send what waits. Until cancelled."""
        async with asyncio.TaskGroup() as moving:  # a patient camera's question waits for its turn there too
            while True:
                self.kick.clear()
                now_s = self._clock.now_s()
                for watch in list(self._targets.all()):
                    await watch.link.step(now_s)
                self._book.expire(now_s)
                moved, self._moved = self._moved, []
                for target, question in moved:
                    if self.is_owed(target, question):  # else its answer has come after all
                        moving.create_task(self._targets[target].link.ask(question))
                await self._until_next(now_s)

    async def _until_next(self, now_s: float) -> None:
        wake_at_s = min(watch.link.next_s(now_s) for watch in self._targets.all())
        wait_s = None if wake_at_s == math.inf else max(0.001, wake_at_s - now_s)
        with contextlib.suppress(TimeoutError):
            # Not wait_for: before Python 3.12 it can swallow a cancellation that comes with the event.
            async with asyncio.timeout(wait_s):
                await self.kick.wait()
