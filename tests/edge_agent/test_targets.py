"""The targets that are known: no more than a number of them, and those that are gone give way."""

from edge_agent.settings import UplinkSettings
from edge_agent.targets import MOST_TARGETS, Targets
from edge_agent.uplink import Uplink
from pipeline.timing import LoopClock, run_virtual
from pipeline.transport.memory import MemoryHub, MemoryTransport
from pipeline.wire.messages import WorkerModel, WorkerState


def at(location: int, *, online: bool = True) -> WorkerState:
    models = [WorkerModel(name="m", version="1", label_set="x")]
    return WorkerState(
        worker=f"w{location}", online=online, tier="edge", location=str(location), models=models, heartbeat_s=1e6
    )


async def many() -> Targets:
    """As many targets as may be known, each with a worker."""
    bulk, settings = MemoryTransport(MemoryHub()), UplinkSettings(model="m")
    office = Uplink("a1", settings, bulk, MemoryTransport(MemoryHub()), LoopClock())
    targets = Targets("a1", settings, bulk, LoopClock(), office)
    assert all(targets.heard(at(location)) for location in range(MOST_TARGETS))
    return targets


def names(targets: Targets) -> set[str]:
    return {watch.link.target.name for watch in targets.all()}


def test_of_too_many_targets_that_are_all_there_the_newest_is_turned_away() -> None:
    async def main() -> None:
        targets = await many()
        assert not targets.heard(at(MOST_TARGETS))
        assert names(targets) == {f"edge@{location}" for location in range(MOST_TARGETS)}

    run_virtual(main())


def test_one_whose_workers_are_gone_gives_way_to_a_new_one() -> None:
    async def main() -> None:
        targets = await many()
        targets.heard(at(5, online=False))
        assert targets.heard(at(MOST_TARGETS))
        assert names(targets) == {f"edge@{location}" for location in range(MOST_TARGETS + 1) if location != 5}
        assert not targets.heard(at(5)), "there is no more room for it when it comes back"

    run_virtual(main())
