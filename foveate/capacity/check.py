"""What the formula says, held against a simulation of the same fleet."""

from dataclasses import dataclass, replace

from foveate.capacity.sizing import Demand, Load, Sizing, Way, size, with_counts
from foveate.plan import Plan
from foveate.simulation.fleet import Fleet, simulate
from foveate.simulation.outcome import Outcome
from foveate.simulation.scene import Scene
from foveate.simulation.workload import Workload, paced
from pipeline.network.profiles import profile

MOST_CAMERAS = 100
"""Of a larger fleet a part is simulated, with the same load on each node and each worker."""
SIMULATED_S = 15.0
ROUNDS = 4
HOP_MS = 2.0
"""What broker and sessions take on each way."""


@dataclass(frozen=True, slots=True)
class Checked:
    """A sizing for a measured load, and the outcome of its simulation, in which ``cameras`` took part.

    ``formula`` is what the formula alone said; where the simulator missed the target with it, ``sizing`` is the best of
    what was tried with more.
    ``met`` is the simulator's verdict; ``missed`` says what is short where it is not.
    """

    load: Load
    formula: Sizing
    sizing: Sizing
    outcome: Outcome | None
    cameras: int
    met: bool
    missed: str = ""


def way_of(network: str | None) -> Way:
    """The way to the workers over a network profile (None: none), and the broker on it. Raises ConfigError."""
    if network is None:
        return Way(2 * HOP_MS)
    known = profile(network)
    mbit_s = known.up.capacity.carried_bytes(60.0) / 60.0 * 8 / 1e6
    jitter_ms = (known.up.jitter_s**2 + known.down.jitter_s**2) ** 0.5 * 1000
    return Way(known.rtt_s * 1000 + 2 * HOP_MS, jitter_ms, mbit_s)


def check(demand: Demand, workload: Workload, network: str | None, product: Plan) -> Checked:
    """Size a fleet and simulate it; where the target is missed, take a quarter more of what is short, and again."""
    full_frame_s = product.agent.cameras[0].offload.full_frame_s
    load, way = Load.of(paced(workload, demand.fps), full_frame_s), way_of(network)
    formula = sizing = size(demand, load, way)
    if not sizing.nodes:
        return Checked(load, formula, sizing, None, 0, met=False, missed=sizing.too_slow)
    fleet = _fleet(demand, workload, network, product, sizing)
    outcome = simulate(fleet)
    more, of_more = sizing, outcome
    for _ in range(ROUNDS):
        if not _short(demand, sizing, outcome):
            break
        more = _more(demand, load, way, more, of_more)
        larger = _fleet(demand, workload, network, product, more)
        of_more = simulate(larger)
        if _shares(more, of_more) > _shares(sizing, outcome):
            sizing, fleet, outcome = more, larger, of_more
    missed = sizing.too_slow or _short(demand, sizing, outcome)
    return Checked(load, formula, sizing, outcome, fleet.cameras, not missed, missed)


def _fleet(demand: Demand, workload: Workload, network: str | None, product: Plan, sizing: Sizing) -> Fleet:
    """The fleet of a sizing at its peak, or as many whole nodes of it as have so many cameras, with their workers."""
    nodes = max(1, min(sizing.nodes, round(MOST_CAMERAS * sizing.nodes / demand.cameras)))
    agent = product.agent
    mode = agent.cameras[0].mode if sizing.workers else "edge_only"
    camera = replace(agent.cameras[0], deadline_ms=demand.deadline_ms, mode=mode)
    return Fleet(
        replace(product, agent=replace(agent, cameras=(camera,))),
        (Scene.of(paced(workload, demand.fps * demand.peak)),),
        cameras=max(1, round(demand.cameras * nodes / sizing.nodes)),
        nodes=nodes,
        workers=max(1, round(sizing.workers * nodes / sizing.nodes)),
        network=network if sizing.workers else None,
        hop_ms=HOP_MS,
        duration_s=SIMULATED_S,
    )


def _shares(sizing: Sizing, outcome: Outcome) -> tuple[float, float]:
    """Of the frames, the share analysed in time; of the looks that are worth it, the share answered in time."""
    wanted = 1 - sizing.lambda_edge
    return outcome.hit_ratio or 0.0, (1 - (outcome.lambda_edge or 0.0)) / wanted if wanted > 0 else 1.0


def _short(demand: Demand, sizing: Sizing, outcome: Outcome) -> str:
    """What misses the target in a simulation, and what mostly held it back; empty where nothing does."""
    analysed, answered = _shares(sizing, outcome)
    if analysed < demand.share:
        why = _mostly(outcome, "carried")
        return f"the edge nodes are too slow: {analysed:.1%} of the frames are analysed in time{why}."
    if answered < demand.share:
        why = _mostly(outcome, "edge_shed") or _mostly(outcome, "edge_timeout")
        return f"the cloud is too slow: {answered:.1%} of the looks that are worth it are answered in time{why}."
    return ""


def _mostly(outcome: Outcome, origin: str) -> str:
    reasons = outcome.reasons.get(origin, {})
    return f"; of the others most were {next(iter(reasons))}" if reasons else ""


def _more(demand: Demand, load: Load, way: Way, sizing: Sizing, outcome: Outcome) -> Sizing:
    nodes, workers = sizing.nodes, sizing.workers
    if (outcome.hit_ratio or 0.0) < demand.share:
        nodes = min(demand.cameras, nodes + max(1, nodes // 4))
    else:
        workers += max(1, workers // 4)
    return replace(with_counts(demand, load, way, nodes, workers), too_slow=sizing.too_slow)
