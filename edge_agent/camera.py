"""One camera: the stages intake, analysis and output, joined by bounded channels; the cloud's answers in between.

Decisions live elsewhere and are pure; the stages carry values from one to the next and start CPU work on the pools.
"""

import asyncio
import logging
from dataclasses import replace

from edge_agent.analysis import Analysis
from edge_agent.answers import all_seen, with_answer
from edge_agent.arm_trials import ArmTrials
from edge_agent.arms import CropArms
from edge_agent.board import Board
from edge_agent.capture.base import Ended, VideoSource
from edge_agent.catch_up import CatchUp
from edge_agent.context import Context, Tools, Work, new_tracker
from edge_agent.fusion import fuse
from edge_agent.gain_lessons import GainLessons
from edge_agent.gate import Gate
from edge_agent.intake import Intake
from edge_agent.lanes import AskerSettings
from edge_agent.lessons.stages import lesson_stages
from edge_agent.lessons.taking import Taught, new_taking
from edge_agent.levers import Levers
from edge_agent.memory import Memory
from edge_agent.output import Output
from edge_agent.questions import Answer, Question
from edge_agent.releases.rollouts import new_rollout
from edge_agent.releases.shadow import Shadow
from edge_agent.releases.sights import Sights
from edge_agent.releases.slot import ModelSlot, Staged
from edge_agent.resolve import Pending, Phase, Resolver
from edge_agent.reuse import new_reuse
from edge_agent.router import Router
from edge_agent.settings import CameraSettings
from edge_agent.steer import Steer
from edge_agent.tracking.history import analysed_answer
from pipeline.channels import Channel, Overflow
from pipeline.detections import Detections
from pipeline.frames import FrameKey
from pipeline.geometry import Size
from pipeline.mosaic import Layout, regions_xyxy
from pipeline.policies.fallback import wait
from pipeline.policies.route import RouteSettings
from pipeline.results import CameraState, DropReason, Origin, Timings
from pipeline.timing import wall_time

_log = logging.getLogger(__name__)


class Camera:
    """One camera from its source to its results; listens to the answers of its own questions."""

    def __init__(self, settings: CameraSettings, source: VideoSource, tools: Tools, board: Board) -> None:
        if not settings.privacy.beyond_device:
            settings = replace(settings, mode="edge_only")
            _log.info("camera %s keeps its pictures on the device (tiers), as in the mode edge_only", settings.name)
        self.settings, self.source, self.board = settings, source, board
        self.ended: Ended | None = None
        self.slot = ModelSlot(settings.name, Staged(tools.detector), settings.objects)
        self.rollout = new_rollout(self.slot, settings, tools, patient=not source.live)
        self.taking = new_taking(settings, tools.lessons_dir, tools.sure_score, stills=source.stills)
        self._begin(tools)
        tools.uplink.register(settings.name, self, AskerSettings.of(settings, patient=not source.live))

    def _begin(self, tools: Tools) -> None:
        settings, source = self.settings, self.source
        # Who sends no whole frames must have the small model look: it finds what neither moves nor has a track.
        asks = settings.mode == "adaptive" and settings.privacy.whole_frames
        self._context = Context(
            settings=settings,
            tools=tools,
            slot=self.slot,
            board=self.board,
            gate=Gate(settings),
            tracker=new_tracker(settings, stills=source.stills),
            resolver=Resolver(tools.settle_margin_s),
            patient=not source.live,
            stills=source.stills,
            steer=Steer(settings.steering, settings.offload.tail_deviations),
            router=Router(RouteSettings(), auto=asks and source.live and settings.route == "auto"),
            gain_lessons=GainLessons(settings.gain, settings.offload.audit_share),
            arms=CropArms(settings),
            sights=Sights(self.rollout, tools.pools.model, settings, tools.clock),
            taking=self.taking,
            reuse=new_reuse(settings.reuse, self.board.reuse, stills=source.stills),
        )
        overflow = Overflow.DROP_OLDEST if source.live else Overflow.WAIT
        self.work: Channel[Work] = Channel(f"{settings.name}/detect", 1, overflow, tools.clock)

    def renew(self, source: VideoSource) -> None:
        """Begin again after a fault, with nothing left but the counts and what was learned; a new epoch tells the
        frames apart.
        """
        self.source = source
        tools, memory = self._context.tools, self.memory
        self._begin(replace(tools, epoch=max(tools.epoch + 1, int(wall_time().timestamp()))))
        self.recall(memory)

    @property
    def memory(self) -> Memory:
        """What it has learned."""
        context = self._context
        return Memory(self.name, context.gain_lessons.model, context.arms.learned, context.gate.memory)

    def recall(self, memory: Memory) -> None:
        """Go on from what was learned before; ahead of the first frame."""
        context = self._context
        context.gain_lessons.model, context.arms.learned = memory.gain, memory.arms
        if memory.gate is not None:
            context.gate.recall(memory.gate)

    async def failed(self, fault: str) -> None:
        """Show that a stage has broken down."""
        await self._context.went(CameraState.OFFLINE, fault)

    @property
    def name(self) -> str:
        return self.settings.name

    @property
    def deadline_ms(self) -> float:
        return self._context.deadline_ms

    @property
    def remark(self) -> str:
        """What keeps its frames from being analysed in time; empty where nothing does."""
        return self._context.remark

    @property
    def patient(self) -> bool:
        return self._context.patient

    @property
    def levers(self) -> Levers:
        """What is turned down for it; a new value after each ``renew``."""
        return self._context.levers

    @property
    def router(self) -> Router:
        """Who looks at its frames first; a new value after each ``renew``."""
        return self._context.router

    @property
    def arms(self) -> CropArms:
        """How it draws crops; a new value after each ``renew``."""
        return self._context.arms

    @property
    def steer(self) -> Steer:
        """What it holds to when it asks the cloud; a new value after each ``renew``."""
        return self._context.steer

    async def run(self) -> Ended | None:
        """Run until the source ends; returns how it ended. Cancelling stops at once and counts what was under way."""
        try:
            async with asyncio.TaskGroup() as stages:
                analysis = Analysis(self._context, self.work)
                stages.create_task(analysis.run(), name=f"{self.name}/analysis")
                catching_up = stages.create_task(CatchUp(self._context, analysis).run(), name=f"{self.name}/catch_up")
                trying = stages.create_task(ArmTrials(self._context).run(), name=f"{self.name}/arm_trials")
                proving = stages.create_task(Shadow(self._context).run(), name=f"{self.name}/shadow")
                teaching = [stages.create_task(stage) for stage in lesson_stages(self._context)]
                stages.create_task(Output(self._context).run(), name=f"{self.name}/output")
                ended = await Intake(self._context, self.source, self.work).run()
                self._context.captured_all = True
                catching_up.cancel()
                trying.cancel()
                proving.cancel()
                for stage in teaching:
                    stage.cancel()
                await self.work.close()
                self._context.changed.set()
        finally:
            self.board.ledger.drop_open(DropReason.STOPPED)
            await self.source.close()
        self.ended = ended
        return ended

    def sent(self, question: Question, size_bytes: int, p95_ms: float | None) -> None:
        """Note what a frame's question has cost, and how long its answer is waited for."""
        context = self._context
        self.board.bytes_up += size_bytes
        if question.trial:
            return
        # Whoever reads a file as fast as it goes would rather wait than do without the answer.
        likely_ms = None if context.patient else p95_ms
        until = wait(context.tools.clock.now_s(), question.settle_at_s, likely_ms, context.settings.wait)
        pending = context.resolver.get(question.key)
        if pending is None:
            return
        bytes_up = pending.bytes_up + size_bytes
        if pending.phase is Phase.SETTLED:
            context.resolver.update(question.key, bytes_up=bytes_up)  # asked for the tracks alone, or for better ones
            return
        if pending.wait is not None and pending.wait.until_s > until.until_s:
            until = pending.wait  # another target was asked before, and may take longer
        context.resolver.update(question.key, phase=Phase.ASKED, bytes_up=bytes_up, wait=until)
        context.changed.set()

    def answered(self, answer: Answer) -> None:
        """Take in an answer, in time or late: correct the tracks, and settle the frame if it still waits."""
        context, key = self._context, answer.question.key
        if answer.question.kind == "frame" and not answer.more and context.sights.waits_for(key):
            context.sights.heard(key, None if answer.lesser else self._seen(answer))
        if answer.question.trial:
            self._tried(answer)
            return
        self._teach(key, answer)
        pending = context.resolver.get(key)
        if pending is None:
            self._late(answer)
            return
        self._correct(answer, pending)
        known = with_answer(pending, answer)
        context.resolver.update(
            key, timings=known.timings, cloud_model=known.cloud_model, tier=known.tier, better_to_come=answer.more
        )
        context.settle(key, known.origin, pending.reason)

    def _tried(self, answer: Answer) -> None:
        """Take in an answer that no frame waits for: it is there to be learned from."""
        context, question = self._context, answer.question
        about = self.taking.about(question.key) if self.taking is not None else None
        if about is None:
            context.arms.answered(question.key, self._sure(self._seen(answer)))
            return
        self._teach(about, answer)
        published = context.recent.useful(about, context.tools.clock.now_s(), patient=context.patient)
        if published is not None:
            self._correct(replace(answer, question=replace(question, key=about)), published.pending)

    def _teach(self, key: FrameKey, answer: Answer) -> None:
        """Keep the larger model's answer to a whole frame for the frame's lesson."""
        if self.taking is not None and answer.question.kind == "frame" and not answer.lesser:
            self.taking.answered(key, Taught(all_seen(answer), answer.model))

    def _late(self, answer: Answer) -> None:
        """Correct the tracks, unless the answer is too old, and have the result revised where that is wanted."""
        context, reply, now_s = self._context, answer.reply, self._context.tools.clock.now_s()
        cloud = Timings(network=answer.network_ms, cloud_queue=reply.queue_ms, cloud_infer=reply.infer_ms)
        context.board.late_answer(cloud, now_s)
        published = context.recent.useful(answer.question.key, now_s, patient=context.patient)
        used = published is not None and self._correct(answer, published.pending)
        context.board.counters["late_answers_used" if used else "late_answers_dropped"] += 1
        if used and published is not None and context.settings.revisions:
            context.recent.revise(replace(with_answer(published.pending, answer), ready_at_s=now_s))
            context.changed.set()

    def _correct(self, answer: Answer, pending: Pending) -> bool:
        """Redo the frame's step of the tracker with what the cloud saw; replays the frames since. False where it has
        no effect.
        """
        context, question = self._context, answer.question
        if question.key.epoch != context.tools.epoch:
            return False  # asked before a fault: its number is now another frame's
        entry = context.tracker.entry(question.key.seq)
        if entry is None or (len(entry.seen.looked_at) and not answer.better):
            return False  # forgotten, or corrected before
        size = Size(question.frame_width, question.frame_height)
        looked_at, cloud = regions_xyxy(Layout(size, question.crops)), self._seen(answer)
        before, whole = analysed_answer(entry, size, context.settings.tracker), question.kind == "frame"
        if whole and pending.edge_model is not None and not answer.lesser:
            if not len(entry.seen.looked_at):  # else what the small model alone has seen is known no more
                context.steer.compared(before, self._sure(cloud))
            context.try_arm(context.arms.seen_whole(question.key, self._sure(cloud)))
        seen = fuse(entry.seen.detections, cloud, looked_at, context.tools.sure_score)
        if context.reuse is not None and not answer.more:
            context.reuse.answered(answer, seen, context.tools.clock.now_s())
        used = context.tracker.correct(question.key.seq, seen)
        corrected = context.tracker.entry(question.key.seq)
        if corrected is not None:
            after = analysed_answer(corrected, size, context.settings.tracker)
            if pending.edge_model is None:
                context.gate.tracks_of_cloud(corrected)
            else:
                context.gate.corrected(corrected.at_s, before, after)
            context.gain_lessons.answered(question.key, before, after, looked_at, whole=whole)
        return used

    def _seen(self, answer: Answer) -> Detections:
        """What the cloud saw of the camera's objects, in frame pixels."""
        return self._context.wanted(all_seen(answer))

    def _sure(self, cloud: Detections) -> Detections:
        return cloud.select(cloud.score >= self._context.tools.sure_score)

    def not_answered(self, key: FrameKey, reason: str, *, shed: bool) -> None:
        """The cloud will not answer: the edge's own answer is final."""
        self._context.arms.gave_up(key)
        self._context.sights.gave_up(key)
        pending = self._context.resolver.get(key)
        if pending is not None and pending.phase is not Phase.SETTLED:  # else it was asked for the tracks alone
            self._context.settle(key, Origin.EDGE_SHED if shed else Origin.EDGE, reason)

    def reopened(self) -> None:
        """The way to the cloud is open again: wake whoever catches up."""
        self._context.reopened.set()
