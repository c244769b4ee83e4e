"""One edge node of a simulated fleet: its cameras, and one small model for all of them."""

from bisect import bisect_left
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from edge_agent.analysis import LATE_SEARCH_S
from edge_agent.questions import NO_WAY
from edge_agent.settings import CameraSettings, UplinkSettings
from foveate.simulation.agent_decisions import AgentDecisions, CameraDecisions
from foveate.simulation.events import EventLoop
from foveate.simulation.outcome import Tally
from foveate.simulation.questions import Question
from foveate.simulation.roads import Road
from foveate.simulation.scene import Look, Scene
from foveate.simulation.uplink import SimulatedUplink
from pipeline.policies.fallback import Bound
from pipeline.policies.offload import OffloadDecision
from pipeline.results import Origin


@dataclass(frozen=True, slots=True, eq=False)
class NodeCamera:
    """A camera to be simulated; ``offset`` in [0, 1) is where in its scene it begins."""

    name: str
    settings: CameraSettings
    scene: Scene
    offset: float


class SimulatedCamera:
    """A camera that replays a scene again and again, and its frames that are not answered yet."""

    __slots__ = (
        "_begin_s", "_loop", "_margin_s", "_next", "_number", "_scene", "_tally", "busy", "decisions", "free_at_s",
        "pending", "settled_at_s", "slot",
    )  # fmt: skip

    def __init__(self, camera: NodeCamera, agent: str, margin_s: float, loop: EventLoop, tally: Tally) -> None:
        # Cameras that run already do not all search for what was missed in the same moment.
        searched_at_s = -camera.offset * camera.settings.offload.full_frame_s if camera.offset else None
        self.decisions = CameraDecisions(agent, camera.name, camera.settings, searched_at_s)
        self._scene, self._margin_s, self._loop, self._tally = camera.scene, margin_s, loop, tally
        began_s = camera.offset * camera.scene.workload.duration_s
        self._begin_s, self._number = -began_s, 0
        self._next = bisect_left(camera.scene.frames, began_s, key=lambda scene: scene.frame.at_s)
        self.busy = False
        self.free_at_s = self.settled_at_s = 0.0
        self.slot: Look | None = None
        self.pending: deque[Look] = deque()

    def next_look(self) -> Look:
        """The next frame that the gate keeps; those in between, which it drops, cost the simulator nothing."""
        frames = self._scene.frames
        if self._next == len(frames):
            self._next = 0
            self._begin_s += self._scene.workload.duration_s
        scene = frames[self._next]
        self._next += 1
        self._number += 1
        captured_s = self._begin_s + scene.frame.at_s
        settle_at_s = captured_s + self.decisions.settings.deadline_ms / 1000 - self._margin_s
        return Look(self._number, scene, captured_s, settle_at_s)

    def settle(self, look: Look, origin: Origin, reason: str, ready_at_s: float | None = None) -> None:
        """Nothing better will come for a frame."""
        if look.ready_at_s is None:
            look.ready_at_s = self._loop.now_s if ready_at_s is None else ready_at_s
            look.origin, look.reason = origin, reason
            self.publish()

    def publish(self) -> None:
        """Answer the frames whose turn it is, in the order of capture, as ``edge_agent/resolve.py`` does.

        One whose wait for the cloud is over goes out too, but not while another one before it holds it back.
        """
        pending, now_s = self.pending, self._loop.now_s
        while pending:
            first = pending[0]
            if first.ready_at_s is None:
                if now_s < first.waits_until_s:
                    return
                first.ready_at_s, first.origin, first.reason = now_s, Origin.EDGE_TIMEOUT, Bound.OVERDUE.value
            pending.popleft()
            self.settled_at_s = min(max(first.ready_at_s, self.settled_at_s), first.settle_at_s)
            deadline_s = self.decisions.settings.deadline_ms / 1000
            self._tally.answered(first.origin, first.reason, self.settled_at_s - first.captured_s, deadline_s)


class EdgeNode:
    """See the module. ``road`` are the ways up to the workers and down from them."""

    def __init__(
        self,
        loop: EventLoop,
        settings: UplinkSettings,
        margin_s: float,
        road: tuple[Road, Road],
        tally: Tally,
        name: str,
        cameras: list[NodeCamera],
    ) -> None:
        self._loop, self._tally = loop, tally
        self._model_free_s = 0.0
        self._cameras = {c.name: SimulatedCamera(c, name, margin_s, loop, tally) for c in cameras}
        self._agent = AgentDecisions(settings, {c.name: c.settings.weight for c in cameras})
        self._uplink = SimulatedUplink(loop, settings, self._agent, road, tally, self._settle, self._overdue)

    def open(self, receive: Callable[[Question], None]) -> None:
        """Begin; ``receive`` takes the questions that have come up the link."""
        self._uplink.open(receive)
        for camera in self._cameras.values():
            self._schedule(camera)

    def _settle(self, question: Question, origin: Origin, reason: str) -> None:
        self._cameras[question.camera.name].settle(question.look, origin, reason)

    def _overdue(self, question: Question) -> None:
        self._cameras[question.camera.name].publish()

    def _schedule(self, camera: SimulatedCamera) -> None:
        look = camera.next_look()
        self._loop.at(look.captured_s + look.scene.frame.gate_ms / 1000, self._kept, (camera, look))

    def _kept(self, arrived: tuple[SimulatedCamera, Look]) -> None:
        """A frame is at the small model's door, where one of each camera waits and a newer one takes its place."""
        camera, look = arrived
        self._schedule(camera)
        camera.pending.append(look)
        if not camera.busy and self._loop.now_s >= camera.free_at_s:
            self._look(camera, look)
            return
        displaced, camera.slot = camera.slot, look
        if displaced is not None:
            camera.settle(displaced, Origin.CARRIED, "detector_busy")
        elif not camera.busy:
            self._loop.at(camera.free_at_s, self._next_of, camera)

    def _next_of(self, camera: SimulatedCamera) -> None:
        """The camera's analysis has come free."""
        camera.busy = False
        look, camera.slot = camera.slot, None
        if look is not None:
            self._look(camera, look)

    def _look(self, camera: SimulatedCamera, look: Look) -> None:
        """Give a frame to the small model, which takes one at a time, in the order in which they come."""
        decisions, now_s = camera.decisions, self._loop.now_s
        if now_s >= look.settle_at_s or decisions.too_late(now_s, look.settle_at_s):
            camera.settle(look, Origin.CARRIED, "edge_late")
            return
        run_s = look.scene.frame.edge_ms / 1000
        end_s = self._model_free_s = max(now_s, self._model_free_s) + run_s
        self._tally.edge_busy_s += run_s
        # In advance, which nobody notices: until then the camera's next frame waits.
        decisions.looked((end_s - now_s) * 1000, end_s)
        camera.free_at_s = end_s
        if end_s >= look.settle_at_s:
            camera.settle(look, Origin.CARRIED, "edge_late", look.settle_at_s)
        elif decisions.is_quiet(look.scene.frame, look.captured_s):
            camera.settle(look, Origin.EDGE, "nothing_uncertain", end_s)
        else:
            camera.busy = True
            self._loop.at(end_s, self._looked, (camera, look))

    def _looked(self, seen: tuple[SimulatedCamera, Look]) -> None:
        camera, look = seen
        now_s = self._loop.now_s
        decision = camera.decisions.decide(self._agent, look, now_s)
        if decision.kind == "none":
            shed = decision.wanted and decision.reason not in NO_WAY
            camera.settle(look, Origin.EDGE_SHED if shed else Origin.EDGE, decision.reason)
            self._next_of(camera)
            return
        settle_at_s = look.settle_at_s
        if decision.late:
            settle_at_s = now_s + LATE_SEARCH_S
            camera.settle(look, Origin.EDGE, decision.reason)
        shot = look.scene.shot(decision, camera.decisions.settings)
        question = Question(self._uplink, camera.decisions, look, decision.kind, shot, decision.reason, settle_at_s)
        self._loop.at(now_s + shot.encode_ms / 1000, self._drawn, (camera, decision, question))

    def _drawn(self, drawn: tuple[SimulatedCamera, OffloadDecision, Question]) -> None:
        camera, decision, question = drawn
        look = question.look
        camera.decisions.drawn(decision, question.shot)
        if self._loop.now_s >= question.settle_at_s:
            camera.settle(look, Origin.EDGE_SHED, "not_asked_in_time", look.settle_at_s)
        else:
            camera.decisions.asks(decision, question.shot, look.captured_s)
            self._uplink.ask(question)
        self._next_of(camera)
