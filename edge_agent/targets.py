"""The targets that an agent knows: those of whose workers it has heard, each with its link and how it stands."""

from collections.abc import Iterable, Iterator, Set

from edge_agent.lanes import AskerSettings
from edge_agent.office import Office
from edge_agent.questions import Target
from edge_agent.settings import UplinkSettings
from edge_agent.target_figures import TargetFigures
from edge_agent.target_link import TargetLink
from edge_agent.target_watch import TargetWatch
from edge_agent.workers import WorkerDirectory
from pipeline.policies.tier_cost import NEAREST_FIRST, Tier
from pipeline.policies.tier_offers import Offer
from pipeline.timing import Clock
from pipeline.transport.base import Transport
from pipeline.wire import topics
from pipeline.wire.messages import WorkerState

MOST_TARGETS = 32
"""Locations come from announcements, and each target costs a probe a second. One whose workers are gone gives way."""


class Targets:
    """The known targets. Before any is, there is the farthest tier: what it is asked waits for no announcement.

    Raises ConfigError on names that cannot be part of a topic.
    """

    def __init__(self, agent: str, settings: UplinkSettings, bulk: Transport, clock: Clock, office: Office) -> None:
        self._agent, self._settings, self._bulk, self._clock, self._office = agent, settings, bulk, clock, office
        self._patience: dict[str, bool] = {}
        self._known: dict[str, TargetWatch] = {}
        self.latest = ""
        """The target that was asked last."""
        self.workers = WorkerDirectory()
        farthest = max(settings.tiers, key=NEAREST_FIRST.index)
        self._first = self._watch(Target(farthest.value, farthest, "", settings.model_of(farthest)))

    def _watch(self, target: Target) -> TargetWatch:
        link = TargetLink(self._agent, target, self._settings, self._bulk, self._clock, self._office)
        for camera, patient in self._patience.items():
            link.open_lane(camera, patient=patient)
        same = target.model == self._settings.model
        return TargetWatch(link, 0.0 if same else self._settings.edge_shortfall)

    def register(self, camera: str, settings: AskerSettings) -> None:
        """Open a camera's lanes."""
        self._patience[camera] = settings.patient
        for watch in self.all():
            watch.link.open_lane(camera, patient=settings.patient)

    @property
    def several(self) -> bool:
        """Whether there is anything to choose from."""
        return len(self._known) > 1

    def all(self) -> Iterator[TargetWatch]:
        """The known targets, or what is asked before any is known."""
        return iter(self._known.values() if self._known else (self._first,))

    @property
    def main(self) -> TargetWatch:
        """The target that was asked last, or that will be asked first."""
        return self._known[self.latest] if self.latest in self._known else next(self.all())

    def __getitem__(self, name: str) -> TargetWatch:
        return self._known.get(name, self._first)

    def heard(self, state: WorkerState) -> bool:
        """Take in an announcement. Returns False where there are too many targets for another one."""
        now_s, tier = self._clock.now_s(), Tier(state.tier)
        self.workers.heard(state, now_s)
        name = topics.target(tier.value, state.location)
        serves = any(model.name == self._settings.model_of(tier) for model in state.models)
        room = True
        if state.online and serves and tier in self._settings.tiers and name not in self._known:
            room = len(self._known) < MOST_TARGETS or self._forget_one(now_s)
            if room:
                self._know(Target(name, tier, state.location, self._settings.model_of(tier)))
        self.look(now_s)
        return room

    def _forget_one(self, now_s: float) -> bool:
        """Make room for another target in the place of one whose workers are gone. False where none is."""
        self.look(now_s)
        gone = (name for name, watch in self._known.items() if not watch.workers and watch.link.idle)
        name = next(gone, None)
        if name is not None:
            del self._known[name]
        return name is not None

    def _know(self, target: Target) -> None:
        first = target == self._first.link.target
        self._known[target.name] = self._first if first else self._watch(target)
        for watch in self._known.values() if self.several else ():
            watch.link.one_of_several()

    def look(self, now_s: float) -> None:
        """See which workers are online, and which targets keep up."""
        for watch in self.all():
            target = watch.link.target
            watch.look(self.workers.at(target.name, target.tier, target.model, now_s), now_s)

    def offers(
        self,
        camera: str,
        request: tuple[str, float],
        now_s: float,
        without: Set[str] = frozenset(),
        *,
        in_need: bool = False,
    ) -> list[Offer]:
        """What each target, but for some, would take to answer a camera's request of a kind and size in bytes.

        ``in_need``: nobody else can, so that one is asked too that has failed lately, as long as its circuit is closed.
        """
        connected = self._bulk.state.connected
        self.look(now_s)
        asked = (watch for watch in self.all() if watch.link.target.name not in without)
        return [watch.offer(camera, request, now_s, connected=connected, in_need=in_need) for watch in asked]

    def hindrance(self, watch: TargetWatch, now_s: float) -> str:
        """Why nothing can be sent to a target; empty where something can."""
        target = watch.link.target
        watch.workers = self.workers.at(target.name, target.tier, target.model, now_s)
        return watch.hindrance(connected=self._bulk.state.connected)

    def figures(self) -> Iterable[TargetFigures]:
        """What is shown of each."""
        now_s = self._clock.now_s()
        for watch in self.all():
            closed = self.hindrance(watch, now_s) or (watch.health.closed(now_s) if self.several else "")
            yield watch.figures(closed, now_s)
