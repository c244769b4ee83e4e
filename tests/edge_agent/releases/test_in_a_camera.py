"""A released model at a camera's frames, on virtual time."""

import asyncio
import itertools

import pytest

from edge_agent.releases.service import ReleaseService
from edge_agent.releases.settings import ReleaseSettings
from edge_agent.releases.slot import Staged
from pipeline.timing import ManualClock, run_virtual
from pipeline.transport.memory import MemoryHub, MemoryTransport
from tests.support.agents import UNSURE_PERSON, Pictures, SmallModel, Stage, stage
from tests.support.releases import KEY, manifest_of


def own(run_s: float = 0.001) -> SmallModel:
    model = SmallModel(UNSURE_PERSON, run_s=run_s)
    model.name, model.version = "own", "7"
    return model


async def promoted(made: Stage, after_s: float) -> None:
    """Put a camera's own model in the place of the general one after a while, and take it back as long after."""
    slot = made.agent.cameras[0].slot
    await asyncio.sleep(after_s)
    slot.offer(Staged(own(), manifest_of(b"file"), "digest"))
    slot.promote()
    await asyncio.sleep(after_s)
    slot.fall_back("the camera was turned")


def test_a_switch_is_between_two_frames_and_the_tracks_go_on() -> None:
    async def main() -> Stage:
        async with stage([Pictures(30)]) as made:
            switching = asyncio.create_task(promoted(made, 1.0))
            await made.agent.run()
            await switching
        return made

    made = run_virtual(main())
    models = [result.models.edge for result in made.results() if result.models.edge is not None]
    assert [model for model, _ in itertools.groupby(models)] == ["small@1", "own@7", "small@1"]
    assert {found.track_id for result in made.results() for found in result.detections} == {1}
    assert made.counts().invariant_ok
    assert made.drops() == {}


def test_the_lighter_model_stands_in_for_the_general_one_and_not_for_a_cameras_own() -> None:
    async def main() -> list[str]:
        async with stage([Pictures(1)], light=SmallModel(UNSURE_PERSON)) as made:
            (camera,) = made.agent.cameras
            camera.levers.light_model = True
            looks = [camera._context.small_model()[1]]
            camera.slot.offer(Staged(own(), manifest_of(b"file"), "digest"))
            looks.append(camera._context.small_model()[1])
            camera.slot.promote()
            return [*looks, camera._context.small_model()[1]]

    assert run_virtual(main()) == ["small@1+light", "small@1+light", "own@7"]


def test_a_trusted_key_without_a_folder_to_keep_models_in_is_told(caplog: pytest.LogCaptureFixture) -> None:
    settings, control = ReleaseSettings((KEY.public,)), MemoryTransport(MemoryHub())
    service = ReleaseService(settings, [], {}, None, control, None, ManualClock())
    assert control.subscriptions == ()
    assert service.counters == {}
    assert "agent.state_dir names no folder" in caplog.text


def test_without_a_trusted_key_no_release_is_listened_to() -> None:
    async def main() -> Stage:
        async with stage([Pictures(3)]) as made:
            await made.agent.run()
        return made

    made = run_virtual(main())
    filters = [one.topic_filter for one in made.control.subscriptions]
    assert "foveate/v1/model/+" not in filters
    assert made.agent.releases.counters == {}
