import asyncio
import contextlib
from pathlib import Path

import pytest

from edge_agent.releases.disk import Disk
from edge_agent.releases.files import Seen
from edge_agent.releases.kept import MOST_SEEN
from edge_agent.releases.settings import ReleaseSettings
from edge_agent.releases.slot import ModelSlot
from pipeline.releases.publisher import ReleasePublisher
from pipeline.releases.signing import ReleaseRefused, SigningKey, TrustedKeys
from pipeline.timing import run_virtual
from pipeline.transport.memory import MemoryHub, MemoryTransport
from tests.support.brokers import running, until
from tests.support.releases import KEY, Edge, at, edge, released, working

FILES = {version: f"model {version}".encode() * 10_000 for version in ("1", "2", "3")}


async def release(hub: MemoryHub, version: str) -> None:
    """Publish a version of ``own``."""
    session = MemoryTransport(hub)
    publisher = ReleasePublisher(session, TrustedKeys([KEY.public]))
    async with running(session):
        await publisher.publish(released(FILES[version], version, minutes=int(version)), FILES[version])


async def promote(hub: MemoryHub, made: Edge, version: str) -> None:
    """Bring a version of ``own`` into use."""
    await release(hub, version)
    slot = made.slots[0]
    await until(lambda: slot.candidate is not None and slot.candidate.version == version)
    slot.promote()
    await made.kept.save()


async def restarted(folder: Path, **changes: object) -> Edge:
    """An edge that comes up with no broker in reach."""
    made = edge(folder, MemoryTransport(MemoryHub()), None, **changes)  # type: ignore[arg-type] # passed on
    await made.kept.recall()
    return made


def held(slot: ModelSlot) -> list[str]:
    models = (slot.general, slot.current, slot.previous, slot.candidate)
    return [one.title if one is not None else "" for one in models]


def in_use(folder: Path) -> None:
    """Leave a folder with versions 1 and 2 in use and 3 to be proven."""

    async def main() -> None:
        hub = MemoryHub()
        async with at(hub, folder) as made:
            await promote(hub, made, "1")
            await promote(hub, made, "2")
            await release(hub, "3")
            await until(lambda: made.slots[0].candidate is not None)

    run_virtual(main())


def model_file(folder: Path, version: str) -> Path:
    return folder / "files" / f"{released(FILES[version], version).manifest.entry.sha256}.onnx"


def test_a_restart_goes_on_with_the_current_model_and_the_one_before_and_the_candidate(tmp_path: Path) -> None:
    in_use(tmp_path)
    made = asyncio.run(restarted(tmp_path))
    assert held(made.slots[0]) == ["general@1.0.0", "own@2", "own@1", "own@3"]
    made.slots[0].rollback("it is worse")
    assert made.slots[0].current.title == "own@1"


@pytest.mark.parametrize(
    ("damaged", "left"),
    [
        (["2"], ["general@1.0.0", "own@1", "", "own@3"]),
        (["1", "2"], ["general@1.0.0", "general@1.0.0", "", "own@3"]),
        (["3"], ["general@1.0.0", "own@2", "own@1", ""]),
    ],
)
def test_a_file_that_was_damaged_is_told_and_what_is_whole_goes_on(
    damaged: list[str], left: list[str], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    in_use(tmp_path)
    for version in damaged:
        model_file(tmp_path, version).write_bytes(b"\0" * len(FILES[version]))
    made = asyncio.run(restarted(tmp_path))
    assert held(made.slots[0]) == left
    assert made.kept.faults["releases_unread"] == len(damaged)
    assert f"the file of own@{damaged[-1]} is missing or damaged" in caplog.text


@pytest.mark.parametrize("data", [b"", b"{", b'{"version": 2}', b"x" * 100_000])
def test_a_state_that_cannot_be_read_is_told_and_the_general_model_serves(
    data: bytes, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    in_use(tmp_path)
    (tmp_path / "cameras" / "yard.json").write_bytes(data)
    made = asyncio.run(restarted(tmp_path))
    assert made.slots[0].current.title == "general@1.0.0"
    assert "camera yard begins with general@1.0.0" in caplog.text


def test_a_key_that_is_not_trusted_any_more_takes_its_models_along(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    in_use(tmp_path)
    made = asyncio.run(restarted(tmp_path, settings=ReleaseSettings((SigningKey.new().public,))))
    assert held(made.slots[0]) == ["general@1.0.0", "general@1.0.0", "", ""]
    assert "models.trusted_keys does not have" in caplog.text


def test_a_model_that_does_not_know_a_newly_wanted_object_is_left_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    in_use(tmp_path)
    made = asyncio.run(restarted(tmp_path, objects=frozenset({"cat"})))
    assert held(made.slots[0]) == ["general@1.0.0", "general@1.0.0", "", ""]
    assert "own@2 does not know the camera's objects cat" in caplog.text


def test_the_names_that_are_remembered_are_bounded(tmp_path: Path) -> None:
    async def main() -> None:
        made = await restarted(tmp_path)
        made.kept.seen = {f"model-{number}": Seen(1, "") for number in range(MOST_SEEN)}
        await made.kept.note_seen("model-7", Seen(2, ""))
        with pytest.raises(ReleaseRefused, match="1000 models"):
            await made.kept.note_seen("one more", Seen(1, ""))

    asyncio.run(main())


def test_a_replay_is_refused_after_a_restart_too(tmp_path: Path) -> None:
    in_use(tmp_path)

    async def main() -> None:
        hub = MemoryHub()
        async with at(hub, tmp_path) as made:
            await release(hub, "2")
            await until(lambda: bool(made.refusals))
            assert "is not above" in made.refusals[0]

    run_virtual(main())


def test_what_was_taken_back_stays_so_after_a_restart(tmp_path: Path) -> None:
    async def main() -> None:
        hub = MemoryHub()
        async with at(hub, tmp_path) as made:
            await promote(hub, made, "1")
            made.slots[0].rollback("it is worse")
        async with at(hub, tmp_path) as again:
            await asyncio.sleep(3600)
            assert held(again.slots[0]) == ["general@1.0.0", "general@1.0.0", "", ""]

    run_virtual(main())


def test_only_what_is_in_use_stays_on_the_disk(tmp_path: Path) -> None:
    in_use(tmp_path)

    async def main() -> None:
        made = await restarted(tmp_path)
        made.slots[0].promote()
        await made.kept.save()

    asyncio.run(main())
    kept = {path.name for path in (tmp_path / "files").iterdir()}
    assert kept == {model_file(tmp_path, version).name for version in ("2", "3")}
    assert len(list((tmp_path / "releases").iterdir())) == 2


class PowerCut(BaseException):
    """The machine stops here: nothing catches it."""


class CutDisk(Disk):
    """A disk whose power goes after some steps; a write that it goes in leaves half of the file."""

    def __init__(self, steps: int) -> None:
        self.steps = steps

    def write(self, path: Path, data: bytes) -> None:
        if self.steps == 0:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data[: len(data) // 2])
        self._step()
        super().write(path, data)

    def replace(self, source: Path, target: Path) -> None:
        self._step()
        super().replace(source, target)

    def sync_folder(self, folder: Path) -> None:
        self._step()
        super().sync_folder(folder)

    def _step(self) -> None:
        if self.steps == 0:
            raise PowerCut
        self.steps -= 1


STEPS_OF_A_RELEASE = 15
"""Seen, release, file, state as candidate, state as current: three steps each."""


@pytest.mark.parametrize("steps", range(STEPS_OF_A_RELEASE + 1))
def test_a_power_cut_at_any_step_leaves_a_model_that_serves_and_the_release_is_finished_afterwards(
    steps: int, tmp_path: Path
) -> None:
    async def cut_short() -> None:
        hub = MemoryHub()
        control = MemoryTransport(hub)
        made = edge(tmp_path, control, lambda: MemoryTransport(hub), disk=CutDisk(steps))
        async with working(made, control):
            await promote(hub, made, "1")

    async def afterwards() -> None:
        hub = MemoryHub()
        await release(hub, "1")
        async with at(hub, tmp_path) as made:
            slot = made.slots[0]
            assert made.kept.faults["releases_unread"] == 0
            assert slot.current.title == ("own@1" if steps >= STEPS_OF_A_RELEASE - 1 else "general@1.0.0")
            await until(lambda: "own@1" in held(slot))
            slot.promote()
        assert not [path for path in tmp_path.rglob("*") if path.name.endswith((".new", ".part"))]
        assert held((await restarted(tmp_path)).slots[0])[1] == "own@1"

    with contextlib.suppress(PowerCut):
        run_virtual(cut_short())
    run_virtual(afterwards())
