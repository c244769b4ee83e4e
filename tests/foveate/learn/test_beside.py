"""Learning beside an agent: what it sees of a camera, and how a model that was learned comes back to it."""

import asyncio
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from rich.console import Console

from edge_agent.releases.settings import ReleaseSettings
from foveate.config.settings import for_sources, plan
from foveate.learn.beside import CameraSubject, Learning, learning, trusting_itself
from foveate.learn.release import MOST_NAME_CHARS, Releaser, named, release_name, signing_key
from foveate.learn.values import LearnedModel, Outcome, Tried
from foveate.plan import Plan
from pipeline.errors import ModelError
from pipeline.releases.publisher import ReleasePublisher
from pipeline.releases.signing import TrustedKeys
from pipeline.timing import LoopClock, run_virtual
from pipeline.transport.memory import MemoryHub, MemoryTransport
from tests.support.agents import Pictures, camera, stage
from tests.support.lessons import BEGAN
from tests.support.onnx_models import entry
from tests.support.releases import edge, working


def learner(tmp_path: Path, *, enabled: bool = True) -> Plan:
    """The plan of an agent that learns, or does not."""
    return plan(
        for_sources(
            ["synthetic:"],
            {
                "agent.state_dir": tmp_path,
                "learn.enabled": enabled,
                "agent.name": "a1",
                "cameras.lessons.enabled": True,
            },
        )
    )


def outcome(tmp_path: Path, *, accepted: bool = True) -> Outcome:
    file = tmp_path / "model.onnx"
    file.write_bytes(b"weights" * 20_000)
    model = LearnedModel(file=file, entry=entry("trained"), labels=("person", "car", "dog"), input_size=(64, 64))
    figures = {"f1": 0.91, "median_ms": 1.4, "general_median_ms": 6.1}
    return Outcome(
        camera="yard",
        at="2026-03-01T09:10:00.000Z",
        lessons=300,
        judged=75,
        tried=(Tried(way="own", accepted=accepted, reasons=("why",), build="float", figures=figures),),
        learned_from="2026-03-01T08:00:00.000Z",
        learned_to="2026-03-01T08:50:00.000Z",
        teacher="larger@1",
        model=named(model, "a1", "yard", BEGAN) if accepted else None,
    )


async def test_a_learned_model_comes_back_to_its_own_agent_as_a_candidate(tmp_path: Path) -> None:
    hub, key = MemoryHub(), signing_key(tmp_path)
    settings = ReleaseSettings(trusting_itself(learner(tmp_path)).agent.releases.trusted_keys)
    control, session = MemoryTransport(hub, name="control"), MemoryTransport(hub, name="learn")
    publisher = ReleasePublisher(session, TrustedKeys([key.public]))
    made = edge(
        tmp_path, control, lambda: MemoryTransport(hub, name="file"), cameras=("yard", "gate"), settings=settings
    )
    async with working(made, control, session), asyncio.timeout(30):
        released = await Releaser(publisher, key, "general@1").release(outcome(tmp_path), BEGAN)
        while made.slots[0].candidate is None:  # noqa: ASYNC110 - nothing tells
            await asyncio.sleep(0.01)
    candidate = made.slots[0].candidate
    assert candidate.title == "a1-yard@20260301-090000"
    assert made.slots[1].candidate is None
    manifest = released.manifest
    assert candidate.manifest == manifest
    assert (manifest.parent, manifest.teacher, manifest.figures["median_ms"]) == ("general@1", "larger@1", 1.4)
    assert (manifest.data_from, manifest.data_to) == ("2026-03-01T08:00:00.000Z", "2026-03-01T08:50:00.000Z")


async def test_what_was_refused_or_is_gone_is_not_released(tmp_path: Path) -> None:
    session = MemoryTransport(MemoryHub(), name="learn")
    key = signing_key(tmp_path)
    releaser = Releaser(ReleasePublisher(session, TrustedKeys([key.public])), key, "general@1")
    with pytest.raises(ModelError, match="yard has no model to release: refused"):
        await releaser.release(outcome(tmp_path, accepted=False), BEGAN)
    gone = outcome(tmp_path)
    (tmp_path / "model.onnx").unlink()
    with pytest.raises(ModelError, match="cannot be read"):
        await releaser.release(gone, BEGAN)


async def test_what_an_edge_would_refuse_is_a_fault_of_the_model(tmp_path: Path) -> None:
    hub = MemoryHub()
    session, key = MemoryTransport(hub, name="learn"), signing_key(tmp_path)
    releaser = Releaser(ReleasePublisher(session, TrustedKeys([key.public])), key, "general@1")
    found = outcome(tmp_path)
    assert found.model is not None
    twice = msgspec.structs.replace(found, model=msgspec.structs.replace(found.model, labels=("person", "person")))
    connected = asyncio.create_task(session.run())
    with pytest.raises(ModelError, match="labels are not one for each"):
        await releaser.release(twice, BEGAN)
    connected.cancel()
    await asyncio.gather(connected, return_exceptions=True)


def test_an_agent_that_learns_trusts_the_key_of_its_own_folder_and_no_other_agent_does(tmp_path: Path) -> None:
    own = signing_key(tmp_path).public
    assert trusting_itself(learner(tmp_path)).agent.releases.trusted_keys == (own,)
    assert trusting_itself(trusting_itself(learner(tmp_path))).agent.releases.trusted_keys == (own,)
    assert trusting_itself(learner(tmp_path, enabled=False)).agent.releases.trusted_keys == ()
    assert (tmp_path / "keys" / "release.key").stat().st_mode & 0o077 == 0


def test_a_name_is_a_topic_level_and_an_8_bit_build_is_told_by_its_version() -> None:
    assert release_name("edge/7", "yard+1") == "edge_7-yard_1"
    long = [release_name("an-agent-with-a-very-long-name-indeed", f"entrance-{side}") for side in ("north", "south")]
    assert long[0] != long[1]
    assert max(map(len, long)) <= MOST_NAME_CHARS
    twin = LearnedModel(
        file=Path("m-int8.onnx"),
        entry=msgspec.structs.replace(entry("t"), version="1.0.0-int8"),
        labels=("person",),
        input_size=(64, 64),
    )
    assert named(twin, "a1", "yard", BEGAN).entry.version == "20260301-090000-int8"


class Breaks:
    """A part of the learning that breaks down, or one that goes on for ever."""

    def __init__(self, *, breaks: bool) -> None:
        self._breaks = breaks
        self.ended = False

    async def run(self) -> None:
        try:
            if self._breaks:
                raise RuntimeError("a fault of ours")
            await asyncio.Event().wait()
        finally:
            self.ended = True


async def test_a_fault_of_learning_ends_it_and_reaches_nobody(caplog: pytest.LogCaptureFixture) -> None:
    parts, ready = (Breaks(breaks=False), Breaks(breaks=False), Breaks(breaks=True)), asyncio.Event()
    ready.set()
    await Learning(parts[2], parts[0], parts[1], ready).run()  # type: ignore[arg-type] # they are asked to run alone
    assert "learning has broken down" in caplog.text
    assert all(part.ended for part in parts)


def test_nothing_is_concluded_from_cameras_before_they_are_as_they_were(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage([Pictures(3)], cameras=(camera(),)) as made:
            parts = Breaks(breaks=True), Breaks(breaks=True), Breaks(breaks=True)
            ready = made.agent.recalled
            waits = Learning(parts[0], parts[1], parts[2], ready)  # type: ignore[arg-type] # they are asked to run alone
            waiting = asyncio.create_task(waits.run())
            await asyncio.sleep(5.0)
            assert not any(part.ended for part in parts)
            await made.agent.run(1.0)
            await waiting
            assert any(part.ended for part in parts)

    run_virtual(main())


def test_a_camera_tells_which_model_looks_how_well_and_how_fast(tmp_path: Path) -> None:
    async def main() -> None:
        cameras = (replace(camera(), objects=frozenset({"person", "car"})),)
        async with stage([Pictures(30)], cameras=cameras) as made:
            await made.agent.run(1.0)
            subject = CameraSubject(made.agent, made.agent.cameras[0], LoopClock())
            look = subject.look()
            assert (subject.name, subject.objects, subject.threshold) == ("gate", ("car", "person"), 0.4)
            assert look.current == f"{made.agent.detector.name}@{made.agent.detector.version}"
            assert not look.own
            assert look.candidate is None
            assert not look.drifted
            assert look.look_ms is not None
            assert subject.overview().summary.lessons == 0
            beside = learning(trusting_itself(learner(tmp_path)), made.agent, made.agent.links, LoopClock(), Console())
            assert beside is None  # no further session is to be had

    run_virtual(main())
