"""Second stage: the small model, the tracker, and the decision whether the larger model is asked."""

import asyncio
from dataclasses import replace

from edge_agent.asking import device_shortfall, question
from edge_agent.candidates import Survey, as_candidates, survey
from edge_agent.context import Context, Work
from edge_agent.frame_work import draw, look
from edge_agent.gain_lessons import audited
from edge_agent.lessons.taking import Moment
from edge_agent.questions import NO_WAY
from edge_agent.resolve import FrameTimings, Pending, Phase
from edge_agent.sparing import spared
from edge_agent.tracking.history import Entry
from pipeline.channels import Channel, Closed
from pipeline.detections import Detections
from pipeline.mosaic import Layout, shown_px
from pipeline.policies.latency import FreshEstimate
from pipeline.policies.offload import (
    OFFLOAD_KINDS,
    Adaptive,
    OffloadDecision,
    OffloadPolicy,
    OffloadSettings,
    OffloadView,
)
from pipeline.policies.route import Route, first_look
from pipeline.results import Origin

_NO_SECOND_LOOK = NO_WAY | {"edge_only", "nothing_uncertain", "little_gain", "not_worth", "forbidden"}
"""Reasons for which the edge's answer is simply the answer; for others a second look was held back for want of room or
time, and the answer says so.
"""

ESTIMATE_HOLDS_S = 1.0
LATE_SEARCH_S = 1.0
"""So late may the answer for a whole frame come that nobody waits for."""

_KIND_OF_MODE = {"edge_only": "never", "cloud_only": "always"}
FIRST_BYTES_PER_PX = 0.06
"""Of the frame in a mosaic, until some have been drawn."""


def policy_for(mode: str, adaptive: OffloadPolicy) -> OffloadPolicy:
    """The offload policy of a camera's mode, ``adaptive`` the one that is configured."""
    kind = _KIND_OF_MODE.get(mode)
    return adaptive if kind is None else OFFLOAD_KINDS[kind](OffloadSettings())


class Analysis:
    """Carries a camera's frames from the small model's door to a settled answer or a question to the cloud."""

    def __init__(self, context: Context, work: Channel[Work]) -> None:
        self._context, self._work = context, work
        settings = context.settings
        self._policy = policy_for(settings.mode, OFFLOAD_KINDS[settings.offload.policy](settings.offload))
        self._tries_arms = isinstance(self._policy, Adaptive) and not context.patient
        self._edge_ms = FreshEstimate(ESTIMATE_HOLDS_S)
        self._expected_bytes: dict[str, float] = {}
        self._bytes_per_px, self._sending = FIRST_BYTES_PER_PX, True
        self._full_frame_at_s: float | None = None
        self._aside: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Analyse frames until the channel is closed and empty."""
        try:
            while True:
                await self._analyse(await self._work.receive())
        except Closed:
            return
        finally:
            if self._aside is not None:
                self._aside.cancel()

    async def _analyse(self, work: Work) -> None:
        context = self._context
        key, clock = work.frame.key, context.tools.clock
        pending = context.resolver.get(key)
        if pending is None:
            return  # settled by the clock while it waited
        started_s = clock.now_s()
        if self._first(pending, started_s) is Route.CLOUD:
            await self._cloud_first(work, pending, started_s)
            return
        settle_at_s = pending.deadline_s - context.tools.settle_margin_s
        spare_s = settle_at_s - started_s - (self._edge_ms.mean_ms(started_s) or 0.0) / 1000
        if spare_s < 0:
            context.settle(key, Origin.CARRIED, "edge_late")
            return
        context.offer(work.frame)
        tracker, light = context.tracker, context.light
        sight = await context.sights.first(work.frame, work.region, light, spare_s)
        if tracker is not context.tracker:
            return  # pictures of another size have come meanwhile, and this frame has its answer
        entry = tracker.observe(key.seq, work.scene_s, sight.found)
        context.gate.tracks(entry)
        now_s = clock.now_s()
        edge_ms = (now_s - started_s) * 1000
        self._edge_ms = self._edge_ms.add(edge_ms, now_s)
        context.router.looked(edge_ms, now_s)
        context.board.looks.took(edge_ms)
        timings = replace(pending.timings, edge_ms=edge_ms, wait_ms=_wait_ms(work, pending, started_s))
        edge_model = sight.staged.title if light is None else f"{light.title}+light"
        if context.resolver.update(key, phase=Phase.LOOKED, timings=timings, edge_model=edge_model):
            decision = await spared(context, self._decide(entry, work, settle_at_s), work)
            await self._second_look(decision, work, timings, settle_at_s)

    def _first(self, pending: Pending, now_s: float) -> Route:
        """Who looks first. A route that has just become the cloud's begins with a whole frame."""
        context = self._context
        before = context.router.routing.route
        outlook = context.tools.uplink.outlook(context.name, context.settings.offload.tail_deviations)
        remaining_ms = (pending.deadline_s - context.tools.settle_margin_s - now_s) * 1000
        size_bytes, tokens_bytes = self._expected_bytes.get("mosaic"), outlook.tokens_bytes
        no_bytes = tokens_bytes is not None and tokens_bytes < (size_bytes or 0.0)
        held_back = no_bytes or context.steer.spares(context.levers)
        route = context.router.first(outlook, size_bytes, remaining_ms, now_s, held_back=held_back)
        if context.router.routing.route is Route.CLOUD and before is Route.EDGE:
            self._full_frame_at_s = float("-inf")
        return route

    async def _cloud_first(self, work: Work, pending: Pending, started_s: float) -> None:
        """Let the larger model look at once, at what moves and where the tracks are; else the frame is carried."""
        context, frame = self._context, work.frame
        context.offer(frame)
        if context.router.refresh_due(started_s):
            self._look_aside(work)
        entry = context.tracker.observe(frame.key.seq, work.scene_s, Detections.none(), looked=False)
        settle_at_s = pending.deadline_s - context.tools.settle_margin_s
        timings = replace(pending.timings, wait_ms=_wait_ms(work, pending, started_s))
        if not context.resolver.update(frame.key, phase=Phase.LOOKED, timings=timings):
            return
        view = replace(self._view(self._survey(entry, work), work, settle_at_s), mosaic_hindrance="")
        decision = first_look(view, context.router.settings)
        if decision.kind == "none":
            context.settle(frame.key, Origin.CARRIED, decision.reason)
        else:
            await self._second_look(decision, work, timings, settle_at_s)

    def _look_aside(self, work: Work) -> None:
        """Have the small model look too, for what it takes and not for what it sees; one look at a time."""
        if self._aside is not None and not self._aside.done():
            return
        if self._aside is not None:
            self._aside.result()  # raises what went wrong there
        self._aside = asyncio.create_task(self._time_look(work), name=f"{self._context.name}/aside")

    async def _time_look(self, work: Work) -> None:
        context, clock = self._context, self._context.tools.clock
        started_s, (detector, _) = clock.now_s(), context.small_model()
        await context.tools.pools.model.run(lambda: look(detector, work.frame, context.settings, work.region))
        context.router.looked((clock.now_s() - started_s) * 1000, clock.now_s())

    async def ask_late(self, work: Work, settle_at_s: float) -> None:
        """Ask about a frame that was left to the edge: its answer is to be here at ``settle_at_s``, for the tracks.

        A search of the whole frame, which takes longest, is left to the next one.
        """
        entry = self._context.tracker.entry(work.frame.key.seq)
        decision = None if entry is None else self._decide(entry, work, settle_at_s, search=False)
        if decision is not None and decision.kind != "none":
            await self._ask(decision, work, await self._draw(decision, work), settle_at_s)

    def _decide(self, entry: Entry, work: Work, settle_at_s: float, *, search: bool = True) -> OffloadDecision:
        """Decide about a frame; what was surveyed is learned from when the answer comes."""
        lessons, key = self._context.gain_lessons, work.frame.key
        seen = self._survey(entry, work)
        view = self._view(seen, work, settle_at_s)
        decision = self._policy.decide(view if search else replace(view, since_full_frame_s=0.0))
        if decision.kind != "none":
            lessons.asked(key, seen, decision)
        if decision.kind == "frame" and self._tries_arms:
            self._context.arms.asked_whole(work.frame, view.candidates)
        if seen.gain.size or decision.kind != "none":
            self._sending = decision.kind != "none"
        return decision

    def _survey(self, entry: Entry, work: Work) -> Survey:
        settings, model = self._context.settings, self._context.gain_lessons.model
        return survey(entry, work.gated.motion, work.frame.size, model, settings.candidates, settings.tracker)

    def _view(self, seen: Survey, work: Work, settle_at_s: float) -> OffloadView:
        context, settings = self._context, self._context.settings
        now_s = context.tools.clock.now_s()
        remaining_ms = (settle_at_s - now_s) * 1000
        deviations, stands = settings.offload.tail_deviations, device_shortfall(context)
        outlook = context.tools.uplink.outlook(context.name, deviations, self._expected_bytes, remaining_ms, stands)
        steering = context.steer.at(now_s, outlook, remaining_ms, context.levers)
        places = as_candidates(seen.places, seen.gain, settings.candidates, due_only=True)
        context.steer.offered([place.gain for place in places])
        audit = audited(work.frame.key, settings.offload.audit_share)
        return OffloadView(
            candidates=places,
            remaining_ms=remaining_ms,
            round_trip_ms=outlook.round_trip_ms,
            expected_bytes=self._expected_bytes,
            tokens_bytes=outlook.tokens_bytes,
            since_full_frame_s=self._since_full_frame_s(work.scene_s),
            reachable=outlook.reachable and not steering.hindrance,
            unreachable_reason=outlook.reason or steering.hindrance,
            price_per_kb=steering.price_per_kb,
            bytes_per_px=self._bytes_per_px,
            sending=self._sending,
            least_score=seen.places.least_published_score,
            audited=as_candidates(seen.places, seen.gain, settings.candidates, due_only=False) if audit else (),
            most_bytes=outlook.path.most_bytes(remaining_ms, now_s, deviations=deviations),
            own_model=not context.slot.current.general,
            mosaic_hindrance=outlook.mosaic_hindrance,
            whole_frames=context.whole_frames,
        )

    def _since_full_frame_s(self, scene_s: float) -> float:
        """Counted from the first frame where there has been none; a scene time that falls starts anew."""
        if self._full_frame_at_s is None or scene_s < self._full_frame_at_s:
            self._full_frame_at_s = scene_s
        return scene_s - self._full_frame_at_s

    async def _second_look(
        self, decision: OffloadDecision, work: Work, timings: FrameTimings, settle_at_s: float
    ) -> None:
        """Act on the decision: the edge's answer is final, or the cloud is asked."""
        context, frame = self._context, work.frame
        self._teach(decision, work)
        if decision.kind == "none":
            shed = decision.wanted and decision.reason not in _NO_SECOND_LOOK
            context.left_alone = work if decision.reason in NO_WAY else None
            context.settle(frame.key, Origin.EDGE_SHED if shed else Origin.EDGE, decision.reason)
            return
        context.left_alone = None
        started_s = context.tools.clock.now_s()
        if decision.late:
            context.settle(frame.key, Origin.EDGE, decision.reason)
            await self._ask(decision, work, await self._draw(decision, work), started_s + LATE_SEARCH_S)
            return
        drawn = await self._draw(decision, work)
        timings = replace(timings, encode_ms=(context.tools.clock.now_s() - started_s) * 1000)
        if context.resolver.update(frame.key, reason=decision.reason, timings=timings):
            await self._ask(decision, work, drawn, settle_at_s)

    def _teach(self, decision: OffloadDecision, work: Work) -> None:
        """Let a camera that learns take the frame in."""
        context, frame = self._context, work.frame
        if context.taking is not None:
            pending = context.resolver.get(frame.key)
            edge = (pending.edge_model if pending is not None else None) or context.small_model()[1]
            moment = Moment(frame, work.region, work.gated.motion, work.scene_s, edge)
            context.taking.decided(moment, decision.kind)

    async def _draw(self, decision: OffloadDecision, work: Work) -> tuple[Layout, bytes]:
        context = self._context
        settings, factor = context.arms.drawing, context.levers.crop_scale_factor
        layout, data = await context.tools.pools.image.run(lambda: draw(work.frame, decision, settings, factor))
        before = self._expected_bytes.get(decision.kind, len(data))
        self._expected_bytes[decision.kind] = 0.7 * before + 0.3 * len(data)
        if decision.kind == "mosaic":
            self._bytes_per_px = 0.7 * self._bytes_per_px + 0.3 * len(data) / shown_px(layout)
        return layout, data

    async def _ask(
        self, decision: OffloadDecision, work: Work, drawn: tuple[Layout, bytes], settle_at_s: float
    ) -> None:
        context = self._context
        if decision.kind == "frame":
            self._full_frame_at_s = work.scene_s
            context.sights.asked_whole(work.frame.key)
        context.steer.asked(len(decision.places), len(drawn[1]))
        await context.tools.uplink.ask(question(context, work.frame, decision.kind, drawn, settle_at_s))


def _wait_ms(work: Work, pending: Pending, started_s: float) -> float:
    """What the frame has waited until its turn, the gate's work left out."""
    return max(0.0, (started_s - work.frame.captured_at_s) * 1000 - (pending.timings.gate_ms or 0.0))
