"""A fleet from its settings to its account: cameras on edge nodes, each node with a link of its own, and workers."""

import itertools
import random
from dataclasses import dataclass

from foveate.plan import Plan
from foveate.simulation.cloud import SimulatedWorker
from foveate.simulation.edge import EdgeNode, NodeCamera
from foveate.simulation.events import EventLoop
from foveate.simulation.outcome import Outcome, Tally, outcome
from foveate.simulation.questions import Question
from foveate.simulation.roads import Hop
from foveate.simulation.scene import Scene
from pipeline.errors import ConfigError
from pipeline.network.profiles import profile


@dataclass(frozen=True, slots=True)
class Fleet:
    """What is simulated. Camera ``i`` has the settings of the plan's ``i``-th camera and the ``i``-th scene, both in
    turn, and is on node ``i % nodes``.

    ``network`` is a profile's name, None for a link without limits; ``hop_ms`` is what broker and sessions take on
    each way. ``together`` is what a further picture in a worker's batch takes of its own time.
    """

    product: Plan
    scenes: tuple[Scene, ...]
    cameras: int = 1
    nodes: int = 1
    workers: int = 1
    network: str | None = None
    hop_ms: float = 2.0
    together: float = 1.0
    duration_s: float = 60.0
    seed: int = 0


def simulate(fleet: Fleet) -> Outcome:
    """Run a fleet on virtual time. Raises ConfigError where it has no camera, node, worker or scene."""
    for name in ("cameras", "nodes", "workers"):
        if getattr(fleet, name) < 1:
            raise ConfigError(f"a fleet with {getattr(fleet, name)} {name} cannot be simulated: there must be one.")
    if fleet.product.worker is None or not fleet.scenes:
        raise ConfigError("a fleet cannot be simulated without a worker's settings and a recorded scene.")
    loop, tally = EventLoop(), Tally()
    workers = [SimulatedWorker(loop, fleet.product.worker, fleet.together, tally) for _ in range(fleet.workers)]
    turns = itertools.cycle(workers)

    def share(question: Question) -> None:
        """A shared subscription hands requests to the workers in turn."""
        next(turns).receive(question)

    nodes = [_node(fleet, number, loop, tally) for number in range(fleet.nodes)]
    for node in nodes:
        node.open(share)
    loop.run(fleet.duration_s)
    return outcome(tally, fleet.duration_s, fleet.nodes, fleet.workers, loop.scheduled)


def _node(fleet: Fleet, number: int, loop: EventLoop, tally: Tally) -> EdgeNode:
    agent, hop_s = fleet.product.agent, fleet.hop_ms / 1000
    up, down = Hop(hop_s), Hop(hop_s)
    if fleet.network is not None:
        up_link, down_link = profile(fleet.network, fleet.seed * fleet.nodes + number).links(0.0)
        up, down = Hop(hop_s, up_link), Hop(hop_s, down_link)
    cameras = [_camera(fleet, i) for i in range(number, fleet.cameras, fleet.nodes)]
    return EdgeNode(loop, agent.uplink, agent.settle_margin_ms / 1000, (up, down), tally, f"node-{number}", cameras)


def _camera(fleet: Fleet, number: int) -> NodeCamera:
    settings = fleet.product.agent.cameras[number % len(fleet.product.agent.cameras)]
    scene = fleet.scenes[number % len(fleet.scenes)]
    offset = random.Random(f"{fleet.seed}/{number}").random()
    return NodeCamera(f"camera-{number}", settings, scene, offset if fleet.cameras > 1 else 0.0)
