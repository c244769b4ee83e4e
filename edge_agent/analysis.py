"""Second stage: the small model, the tracker, and the decision whether the larger model is asked."""

from dataclasses import replace

from edge_agent.candidates import candidates
from edge_agent.context import Context, Work
from edge_agent.frame_work import draw, look
from edge_agent.questions import Question
from edge_agent.resolve import FrameTimings, Phase
from edge_agent.tracking.history import Entry
from pipeline.channels import Channel, Closed
from pipeline.mosaic import Layout
from pipeline.policies.latency import FreshEstimate
from pipeline.policies.offload import Adaptive, Always, Never, OffloadDecision, OffloadPolicy, OffloadView
from pipeline.results import Origin

NO_WAY = frozenset({"broker_down", "no_worker", "circuit_open"})
"""Reasons for which the cloud could not be asked at all."""
_NO_SECOND_LOOK = NO_WAY | {"edge_only", "nothing_uncertain"}
"""Reasons for which the edge's answer is simply the answer; for others a second look was held back for want of room or
time, and the answer says so.
"""

ESTIMATE_HOLDS_S = 1.0


def policy_for(mode: str, adaptive: Adaptive) -> OffloadPolicy:
    """The offload policy of a camera's mode."""
    policies: dict[str, OffloadPolicy] = {"adaptive": adaptive, "edge_only": Never(), "cloud_only": Always()}
    return policies[mode]


class Analysis:
    """Carries a camera's frames from the small model's door to a settled answer or a question to the cloud."""

    def __init__(self, context: Context, work: Channel[Work]) -> None:
        self._context, self._work = context, work
        settings = context.settings
        self._policy = policy_for(settings.mode, Adaptive(settings.offload))
        self._edge_ms = FreshEstimate(ESTIMATE_HOLDS_S)
        self._expected_bytes: dict[str, float] = {}
        self._full_frame_at_s: float | None = None

    async def run(self) -> None:
        """Analyse frames until the channel is closed and empty."""
        while True:
            try:
                work = await self._work.receive()
            except Closed:
                return
            await self._analyse(work)

    async def _analyse(self, work: Work) -> None:
        context = self._context
        key, clock = work.frame.key, context.tools.clock
        pending = context.resolver.get(key)
        if pending is None:
            return  # settled by the clock while it waited
        started_s = clock.now_s()
        if (
            started_s + (self._edge_ms.mean_ms(started_s) or 0.0) / 1000
            > pending.deadline_s - context.tools.settle_margin_s
        ):
            context.settle(key, Origin.CARRIED, "edge_late")
            return
        context.offer(work.frame)
        detector, edge_model = context.small_model()
        found = await context.tools.pools.model.run(lambda: look(detector, work.frame, context.settings, work.region))
        entry = context.tracker.observe(key.seq, work.scene_s, found)
        context.gate.tracks(entry)
        now_s = clock.now_s()
        edge_ms = (now_s - started_s) * 1000
        self._edge_ms = self._edge_ms.add(edge_ms, now_s)
        wait_ms = (started_s - work.frame.captured_at_s) * 1000 - (pending.timings.gate_ms or 0.0)
        timings = replace(pending.timings, edge_ms=edge_ms, wait_ms=max(0.0, wait_ms))
        if context.resolver.update(key, phase=Phase.LOOKED, timings=timings, edge_model=edge_model):
            settle_at_s = pending.deadline_s - context.tools.settle_margin_s
            await self._second_look(self._decide(entry, work, settle_at_s), work, timings, settle_at_s)

    async def ask_late(self, work: Work, settle_at_s: float) -> None:
        """Ask about a frame that was left to the edge: its answer is to be here at ``settle_at_s``, for the tracks."""
        entry = self._context.tracker.entry(work.frame.key.seq)
        decision = None if entry is None else self._decide(entry, work, settle_at_s)
        if decision is not None and decision.kind != "none":
            await self._ask(decision, work, await self._draw(decision, work), settle_at_s)

    def _decide(self, entry: Entry, work: Work, settle_at_s: float) -> OffloadDecision:
        context = self._context
        outlook = context.tools.uplink.outlook(
            context.name, context.settings.offload.tail_deviations, self._expected_bytes
        )
        now_s = context.tools.clock.now_s()
        remaining_ms = (settle_at_s - now_s) * 1000
        steering = context.steer.at(now_s, outlook, remaining_ms, context.levers)
        places = candidates(entry, work.gated.motion, context.settings.candidates)
        context.steer.offered([place.gain for place in places])
        return self._policy.decide(
            OffloadView(
                candidates=places,
                remaining_ms=remaining_ms,
                round_trip_ms=outlook.round_trip_ms,
                expected_bytes=self._expected_bytes,
                tokens_bytes=outlook.tokens_bytes,
                since_full_frame_s=self._since_full_frame_s(work.scene_s),
                reachable=outlook.reachable and not steering.hindrance,
                unreachable_reason=outlook.reason or steering.hindrance,
                price_per_kb=steering.price_per_kb,
            )
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
        if decision.kind == "none":
            shed = decision.wanted and decision.reason not in _NO_SECOND_LOOK
            context.left_alone = work if decision.reason in NO_WAY else None
            context.settle(frame.key, Origin.EDGE_SHED if shed else Origin.EDGE, decision.reason)
            return
        context.left_alone = None
        started_s = context.tools.clock.now_s()
        drawn = await self._draw(decision, work)
        timings = replace(timings, encode_ms=(context.tools.clock.now_s() - started_s) * 1000)
        if context.resolver.update(frame.key, reason=decision.reason, timings=timings):
            await self._ask(decision, work, drawn, settle_at_s)

    async def _draw(self, decision: OffloadDecision, work: Work) -> tuple[Layout, bytes]:
        context = self._context
        layout, data = await context.tools.pools.image.run(lambda: draw(work.frame, decision, context.settings))
        before = self._expected_bytes.get(decision.kind, len(data))
        self._expected_bytes[decision.kind] = 0.7 * before + 0.3 * len(data)
        return layout, data

    async def _ask(
        self, decision: OffloadDecision, work: Work, drawn: tuple[Layout, bytes], settle_at_s: float
    ) -> None:
        context, (layout, data) = self._context, drawn
        if decision.kind == "frame":
            self._full_frame_at_s = work.scene_s
        context.steer.asked(len(decision.places), len(data))
        question = Question(
            key=work.frame.key,
            kind=decision.kind,
            frame_width=work.frame.size.width,
            frame_height=work.frame.size.height,
            crops=layout.crops,
            jpeg=data,
            settle_at_s=settle_at_s,
            weight=context.settings.weight,
        )
        await context.tools.uplink.ask(question)
