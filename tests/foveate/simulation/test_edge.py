"""The order of a simulated camera's answers is that of the real resolver."""

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from edge_agent.resolve import Pending, Phase, Resolver
from foveate.simulation.edge import NodeCamera, SimulatedCamera
from foveate.simulation.events import EventLoop
from foveate.simulation.outcome import Tally
from foveate.simulation.scene import Look, Scene
from pipeline.frames import FrameKey
from pipeline.geometry import Size
from pipeline.policies.fallback import Bound, Wait
from pipeline.results import Origin
from tests.support.workloads import product, workload

MARGIN_S, PERIOD_S = 0.02, 0.1


@dataclass(frozen=True)
class Fate:
    """When a frame's answer is ready after its capture, and how long the cloud is waited for; None: never, no limit."""

    ready_s: float | None
    waits_s: float | None


# Moments that are milliseconds apart from each other and from the deadline, whichever frames they belong to.
fates = st.lists(
    st.builds(
        Fate,
        st.one_of(st.none(), st.integers(0, 20).map(lambda n: n * 0.02 + 0.004)),
        st.one_of(st.none(), st.integers(1, 8).map(lambda n: n * 0.02 + 0.012)),
    ),
    min_size=1,
    max_size=12,
)


def really(shown: list[Fate], deadline_s: float) -> list[tuple[str, float]]:
    """Origin and moment of each answer by the real resolver, looked at every millisecond."""
    resolver, out = Resolver(MARGIN_S), []
    keys = [FrameKey("c", 0, n) for n in range(len(shown))]
    for millisecond in range(int(1000 * (PERIOD_S * len(shown) + 1))):
        now_s = millisecond / 1000
        for n, fate in enumerate(shown):
            captured_s = n * PERIOD_S
            if abs(now_s - captured_s) < 5e-4:
                wait = None if fate.waits_s is None else Wait(captured_s + fate.waits_s, Bound.OVERDUE)
                deadline = captured_s + deadline_s
                resolver.admit(
                    Pending(
                        keys[n],
                        Size(1, 1),
                        captured_s,
                        captured_s,
                        None,
                        deadline,
                        Phase.ASKED,
                        wait=wait,
                        edge_model="m",
                    )
                )
            if fate.ready_s is not None and abs(now_s - captured_s - fate.ready_s) < 5e-4:
                resolver.update(keys[n], phase=Phase.SETTLED, origin=Origin.FUSED)
        out += [(s.pending.origin.value, now_s - s.pending.captured_at_s) for s in resolver.due(now_s)]
    return out


def simulated(shown: list[Fate], deadline_s: float) -> list[tuple[str, float]]:
    """The same by the simulator's camera."""
    loop, out = EventLoop(), []

    class Heard(Tally):
        def answered(self, origin: Origin, reason: str, latency_s: float, deadline_s: float) -> None:
            out.append((origin.value, latency_s))

    settings = product().agent.cameras[0]
    camera = SimulatedCamera(
        NodeCamera("c", settings, Scene.of(workload(frames=len(shown))), 0.0), "n", MARGIN_S, loop, Heard()
    )
    for n, fate in enumerate(shown):
        captured_s = n * PERIOD_S
        look = Look(n, Scene.of(workload()).frames[0], captured_s, captured_s + deadline_s - MARGIN_S)
        loop.at(captured_s, camera.pending.append, look)
        if fate.waits_s is not None:
            look.waits_until_s = min(look.settle_at_s, captured_s + fate.waits_s)
            loop.at(look.waits_until_s, lambda _: camera.publish())
        if fate.ready_s is not None:
            loop.at(captured_s + fate.ready_s, lambda a: camera.settle(a, Origin.FUSED, ""), look)
        loop.at(look.settle_at_s, lambda a: camera.settle(a, Origin.EDGE_TIMEOUT, ""), look)
    loop.run(PERIOD_S * len(shown) + 1)
    return out


@given(fates)
def test_a_simulated_camera_answers_in_the_order_and_at_the_time_of_the_real_resolver(shown: list[Fate]) -> None:
    real, sim = really(shown, 0.2), simulated(shown, 0.2)
    assert [origin for origin, _ in sim] == [origin for origin, _ in real]
    assert all(abs(a - b) < 0.003 for (_, a), (_, b) in zip(sim, real, strict=True))
