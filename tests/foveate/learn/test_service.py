"""The service that has cameras learn, on virtual time: when it trains, what follows, what a restart goes on with."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from edge_agent.lessons.store import Overview
from edge_agent.status.snapshot import LearningStatus
from foveate.learn.folders import CameraFolders
from foveate.learn.pupils import Terms
from foveate.learn.service import LearnService
from foveate.learn.settings import LearnSettings
from foveate.learn.subject import Look
from foveate.learn.values import AttemptOrder, GeneralModel, LearnedModel, Outcome, Tried
from foveate.learn.world import World
from foveate.training.order import Progress, Say
from pipeline.errors import BrokerError, ConfigError, ModelError
from pipeline.policies.enough import LessonSummary, Seen
from pipeline.timing import run_virtual
from tests.support import onnx_models
from tests.support.lessons import BEGAN

GENERAL = GeneralModel(name="general", input_size=(192, 256))
TRAINING_S = 200.0
PLENTY = Seen(objects=900, tracks=80, places=20, seen_s=900.0)
LITTLE = Seen(objects=9, tracks=1, places=1, seen_s=2.0)


@dataclass(eq=False)
class Yard:
    """A camera whose lessons and look the test sets."""

    name: str = "yard"
    objects: tuple[str, ...] = ("person",)
    threshold: float = 0.4
    lessons: int = 300
    seen: Seen = PLENTY
    since: int = 0
    now: Look = field(default_factory=lambda: Look("general@1", own=False, analysed_fps=5.0, agreement=0.8))

    def overview(self) -> Overview:
        summary = LessonSummary(lessons=self.lessons, watched_s=900.0, hours=(9,), labels={"person": self.seen})
        return Overview(summary, (1e12,) * self.since)

    def look(self) -> Look:
        return self.now


class Scene:
    """Cameras, a trainer that takes its time, and a broker; all that is said and done is noted."""

    def __init__(self, state_dir: Path, *cameras: Yard, **settings: object) -> None:
        self.state_dir, self.cameras = state_dir, cameras or (Yard(),)
        self.settings = replace(LearnSettings(enabled=True), **settings)  # type: ignore[arg-type] # by name
        self.said: list[str] = []
        self.orders: list[AttemptOrder] = []
        self.released: list[str] = []
        self.at_once = self.most_at_once = 0
        self.ends: list[Callable[[AttemptOrder], Outcome]] = []
        self.broker_down = 0
        self.began = BEGAN
        self.unusable = ""

    def service(self) -> LearnService:
        world = World(self._attempt, self._release, self.said.append, self._now, here)
        terms = Terms("edge-7", self.settings, GENERAL)
        return LearnService(self.cameras, self.state_dir, terms, world, self.unusable)

    async def _attempt(self, order: AttemptOrder, say: Say) -> Outcome:
        self.orders.append(order)
        parted = next(camera.lessons for camera in self.cameras if camera.name == order.camera)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            for step in range(10):
                say(Progress(doing=f"step {step} of 10", done=step / 10, left_s=TRAINING_S * (1 - step / 10)))
                await asyncio.sleep(TRAINING_S / 10)
        finally:
            self.at_once -= 1
        outcome = (self.ends.pop(0) if self.ends else accepted)(order)
        return msgspec.structs.replace(outcome, lessons=parted)

    async def _release(self, outcome: Outcome) -> str:
        if self.broker_down:
            self.broker_down -= 1
            raise BrokerError("the broker does not answer.")
        assert outcome.model is not None
        assert outcome.model.file.exists()
        title = f"{outcome.model.entry.name}@{outcome.model.entry.version}"
        self.released.append(title)
        return title

    def _now(self) -> datetime:
        return self.began + timedelta(seconds=asyncio.get_running_loop().time())

    def run_for(self, seconds: float, then: Callable[[LearnService], None] = lambda _: None) -> None:
        """Let the service run on virtual time, look at it, and end it as a restart would."""

        async def main() -> None:
            service = self.service()
            running = asyncio.create_task(service.run())
            await asyncio.sleep(seconds)
            then(service)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

        run_virtual(main())


async def here(call: Callable[..., Any], *arguments: Any) -> Any:
    """A blocking call at once: no thread, which virtual time would not wait for."""
    return call(*arguments)


def accepted(order: AttemptOrder) -> Outcome:
    order.folder.mkdir(parents=True, exist_ok=True)
    file = order.folder / "model.onnx"
    file.write_bytes(b"weights of " + order.camera.encode())
    (order.folder / "weights.pt").write_bytes(b"all of them")
    model = LearnedModel(file=file, entry=onnx_models.entry("trained"), labels=("person",), input_size=(192, 256))
    tried = Tried(way=order.ways[0], accepted=True, reasons=("F1 0.9 against 0.8",), build="float", figures={"f1": 0.9})
    return Outcome(
        camera=order.camera, at="2026-03-01T09:10:00.000Z", lessons=300, judged=75, tried=(tried,), model=model
    )


def refused(order: AttemptOrder) -> Outcome:
    tried = tuple(Tried(way=way, accepted=False, reasons=("it is worse",), build="float") for way in order.ways)
    return Outcome(camera=order.camera, at="2026-03-01T09:10:00.000Z", lessons=300, judged=75, tried=tried)


def breaks(order: AttemptOrder) -> Outcome:
    raise ModelError(f"the training for {order.camera} ended with exit code 137: it said nothing")


def lacks_torch(order: AttemptOrder) -> Outcome:
    raise ConfigError("training needs PyTorch, which is not installed here.")


def status(service: LearnService, camera: str = "yard") -> LearningStatus:
    found = service.status(camera)
    assert found is not None
    return found


def test_enough_lessons_are_learned_from_judged_and_released(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.run_for(300)
    assert len(scene.orders) == 1
    assert (scene.orders[0].ways, scene.orders[0].objects) == (("own", "adapt"), ("person",))
    assert scene.released == ["edge-7-yard@20260301-090320"]
    assert scene.said[0] == "yard learns: its 300 lessons are enough for a first model"
    assert scene.said[-1].endswith("is released, to be proven beside the model that looks now")
    assert not CameraFolders(tmp_path, "yard").attempt.exists()


def test_too_little_is_told_instead_of_trained_on(tmp_path: Path) -> None:
    scene = Scene(tmp_path, Yard(seen=LITTLE, lessons=9))

    def look(service: LearnService) -> None:
        found = status(service)
        assert (found.stage, found.lessons) == ("collecting", 9)
        assert "1 distinct tracks of person of 3" in found.in_words

    scene.run_for(300, look)
    assert scene.orders == []


def test_a_training_shows_how_far_it_is(tmp_path: Path) -> None:
    def look(service: LearnService) -> None:
        found = status(service)
        assert (found.stage, found.in_words, found.progress, found.left_s) == ("training", "step 5 of 10", 0.5, 100.0)

    Scene(tmp_path).run_for(110, look)


def test_one_camera_learns_at_a_time_and_the_one_with_most_to_win_first(tmp_path: Path) -> None:
    poor = Look("general@1", own=False, analysed_fps=5.0, agreement=0.5)
    scene = Scene(tmp_path, Yard("gate"), Yard("yard", now=poor))

    def look(service: LearnService) -> None:
        assert status(service, "gate").in_words == "yard learns first"

    scene.run_for(50, look)
    scene = Scene(tmp_path / "again", Yard("gate"), Yard("yard", now=poor))
    scene.run_for(1000)
    assert [order.camera for order in scene.orders] == ["yard", "gate"]
    assert scene.most_at_once == 1


def test_a_refused_model_is_never_released_and_more_lessons_are_waited_for(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.ends = [refused]

    def look(service: LearnService) -> None:
        found = status(service)
        assert found.stage == "general"
        assert "600 lessons" in found.in_words
        assert found.last == "refused: own: it is worse; adapt: it is worse"

    scene.run_for(3000, look)
    assert (len(scene.orders), scene.released) == (1, [])
    scene.cameras[0].lessons = 600
    scene.run_for(300)
    assert len(scene.orders) == 2
    assert scene.orders[1].seed == 1


def test_lessons_that_came_during_a_training_count_as_new(tmp_path: Path) -> None:
    scene = Scene(tmp_path)

    def more(order: AttemptOrder) -> Outcome:
        scene.cameras[0].lessons = 700
        return refused(order)

    scene.ends = [more]
    scene.run_for(2 * TRAINING_S)
    assert len(scene.orders) == 2
    assert "yard learns: its lessons have grown from 300 to 700" in scene.said


def test_a_breakdown_is_tried_again_after_a_pause(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.ends = [breaks]
    scene.run_for(TRAINING_S + 850)
    assert len(scene.orders) == 1
    assert "exit code 137" in scene.said[-1]
    scene = Scene(tmp_path / "longer")
    scene.ends = [breaks]
    scene.run_for(2 * TRAINING_S + 950)
    assert len(scene.released) == 1


def test_without_pytorch_it_says_so_and_tries_no_more(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.ends = [lacks_torch]

    def look(service: LearnService) -> None:
        assert status(service).in_words == "training needs PyTorch, which is not installed here."

    scene.run_for(5_000, look)
    assert len(scene.orders) == 1


def test_without_pytorch_that_is_said_at_once_and_a_training_that_was_left_off_stays(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.run_for(TRAINING_S / 2)
    scene.unusable = "training needs PyTorch, which is not installed here."
    scene.said.clear()
    scene.run_for(1)
    assert scene.said == ["lessons are taken, but training needs PyTorch, which is not installed here."]
    assert CameraFolders(tmp_path, "yard").attempt.is_dir()
    scene.run_for(5_000)
    assert len(scene.orders) == 1


def test_the_end_of_a_run_says_what_the_next_one_goes_on_with(tmp_path: Path) -> None:
    few, scene = Scene(tmp_path / "few", Yard(seen=LITTLE, lessons=9)), Scene(tmp_path)
    few.run_for(60, LearnService.part)
    assert few.said[-1].startswith("yard: there is no model of its own yet (")
    assert "'foveate learn lessons --camera yard'" in few.said[-1]
    scene.run_for(TRAINING_S / 2, LearnService.part)
    assert scene.said[-1] == "yard: its training is left off; the next run with --learn goes on with it"
    scene.run_for(TRAINING_S + 60)
    said = len(scene.said)
    scene.run_for(1, LearnService.part)
    assert len(scene.said) == said


def test_a_camera_does_not_learn_again_while_its_new_model_is_on_its_way_to_it(tmp_path: Path) -> None:
    yard = Yard()
    scene = Scene(tmp_path, yard)

    async def release(outcome: Outcome) -> str:
        asyncio.get_running_loop().call_later(5.0, arrive)
        return "edge-7-yard@2"

    def arrive() -> None:
        yard.now = replace(yard.now, candidate="edge-7-yard@2", stage="shadow")

    def more(order: AttemptOrder) -> Outcome:
        yard.lessons *= 4  # taken while it learned
        return accepted(order)

    scene._release = release  # type: ignore[method-assign] # one that takes a moment to arrive
    scene.ends = [more]
    scene.run_for(TRAINING_S + 100)
    assert len(scene.orders) == 1


def test_a_broker_that_is_down_delays_a_release_and_costs_no_training(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.broker_down = 3
    scene.run_for(TRAINING_S + 60)
    assert (len(scene.orders), len(scene.released)) == (1, 1)


def test_no_training_while_a_model_is_being_proven_and_the_stage_says_so(tmp_path: Path) -> None:
    proving = Look("general@1", own=False, candidate="edge-7-yard@1", stage="shadow", reason="12 of 30 comparisons")
    scene = Scene(tmp_path, Yard(now=proving))

    def look(service: LearnService) -> None:
        found = status(service)
        assert (found.stage, found.in_words) == ("proving", "shadow: 12 of 30 comparisons")
        assert found.candidate == "edge-7-yard@1"

    scene.run_for(300, look)
    assert scene.orders == []


def test_a_model_that_was_taken_back_is_not_told_as_one_in_use(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.run_for(300)
    yard = scene.cameras[0]
    yard.now = replace(yard.now, stage="withdrawn", reason="a1-yard@1: it is slower than promised")

    def look(service: LearnService) -> None:
        found = status(service)
        assert found.stage == "general"
        assert found.in_words.startswith(
            "a1-yard@1: it is slower than promised; its last model was taken back; it learns"
        )

    scene.run_for(60, look)


def test_a_model_that_stops_being_right_is_learned_anew_from_what_is_seen_since(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.run_for(300)
    yard = scene.cameras[0]
    yard.now = replace(yard.now, drifted=True, reason="its agreement fell to 0.4")
    scene.run_for(60)
    assert len(scene.orders) == 1
    assert scene.said[-1] == "yard is to learn again: its agreement fell to 0.4"
    yard.since = 80
    scene.run_for(300)
    assert len(scene.orders) == 2
    scene.run_for(3000)
    assert len(scene.orders) == 2  # the wish is met, though the agent holds it until the new model is proven


def test_a_model_in_use_is_a_rival_of_the_next_one(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.run_for(300)
    yard = scene.cameras[0]
    yard.now, yard.lessons = replace(yard.now, current=scene.released[0], own=True), 700
    scene.run_for(300)
    current = scene.orders[1].current
    assert scene.orders[0].current is None
    assert current is not None
    assert current.entry.name == "edge-7-yard"


def test_a_model_in_use_stays_a_rival_when_later_ones_are_taken_back(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    yard = scene.cameras[0]
    for hour, lessons in enumerate((300, 700, 1500, 3100)):
        yard.lessons = lessons
        scene.began = BEGAN + timedelta(hours=hour)
        scene.run_for(300)
        yard.now = replace(yard.now, current=scene.released[0], own=True)
    assert len(set(scene.released)) == 4
    for order in scene.orders[1:]:
        assert order.current is not None
        assert order.current.title == scene.released[0]
        assert order.current.file.exists()
    assert len(list(CameraFolders(tmp_path, "yard").learn.glob("*.onnx"))) == 3


def test_lessons_from_before_a_drift_never_judge_again(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.run_for(300)
    yard = scene.cameras[0]
    yard.now, yard.since = replace(yard.now, drifted=True, reason="its agreement fell to 0.4"), 80
    scene.run_for(300)
    yard.now, yard.lessons = replace(yard.now, drifted=False), 700
    scene.run_for(300)
    first, second, third = (order.changed_at_s for order in scene.orders)
    assert first is None
    assert second is not None
    assert BEGAN.timestamp() <= second <= BEGAN.timestamp() + 300
    assert third == second


def test_a_drift_during_a_training_is_met_by_the_next_one(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    yard = scene.cameras[0]

    def moves(_service: LearnService) -> None:
        yard.now, yard.since = replace(yard.now, drifted=True, reason="its agreement fell to 0.4"), 80

    scene.run_for(100, moves)
    scene.run_for(500)
    assert [order.changed_at_s is None for order in scene.orders] == [True, True, False]
    assert scene.orders[0] == scene.orders[1]  # the first was gone on with after a restart


def test_where_a_drift_came_to_nothing_more_of_the_new_scene_is_waited_for(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    yard = scene.cameras[0]
    scene.run_for(300)
    yard.now, yard.since = replace(yard.now, drifted=True, reason="its agreement fell to 0.4"), 80
    scene.ends = [refused]
    scene.run_for(1000)
    assert len(scene.orders) == 2
    yard.since = 160
    scene.run_for(300)
    assert len(scene.orders) == 3
    assert len(scene.released) == 2


def test_an_attempt_begins_with_nothing_of_another_one(tmp_path: Path) -> None:
    scene, attempt = Scene(tmp_path), CameraFolders(tmp_path, "yard").attempt
    attempt.mkdir(parents=True)
    (attempt / "parts.json").write_text("the lessons of last week")
    found: list[bool] = []

    def looks(order: AttemptOrder) -> Outcome:
        found.append((order.folder / "parts.json").exists())
        return refused(order)

    scene.ends = [looks]
    scene.run_for(300)
    assert found == [False]


def test_a_model_that_cannot_be_released_is_told_once_and_given_up(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.ends = [accepted, accepted]

    async def faulty(outcome: Outcome) -> str:
        raise ModelError(f"{outcome.camera}: its hash is none.")

    scene._release = faulty  # type: ignore[method-assign] # what an edge would refuse
    scene.run_for(600)
    assert [said for said in scene.said if "its hash is none" in said] == ["yard: yard: its hash is none."]
    assert len(scene.orders) == 1


def test_a_network_starts_from_the_last_one_or_from_that_of_another_camera(tmp_path: Path) -> None:
    scene = Scene(tmp_path, Yard("gate"), Yard("yard"))
    scene.run_for(500)
    scene.cameras[0].lessons = 700
    scene.run_for(300)
    first, second, third = (order.start_from for order in scene.orders)
    assert first is None
    assert second == third == CameraFolders(tmp_path, "gate").student
    assert (CameraFolders(tmp_path, "yard").student / "weights.pt").read_bytes() == b"all of them"


def test_a_restart_in_the_middle_of_a_training_goes_on_with_it(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.run_for(60)
    scene.cameras[0].lessons = 310
    scene.run_for(300)
    assert scene.orders[1] == scene.orders[0]
    assert "yard goes on with what it was learning" in scene.said
    assert len(scene.released) == 1


def test_an_attempt_at_another_general_model_is_not_gone_on_with(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.run_for(60)
    other = Scene(tmp_path, Yard(seen=LITTLE))
    terms = Terms("edge-7", other.settings, GeneralModel(name="another", input_size=(192, 256)))

    async def main() -> None:
        world = World(other._attempt, other._release, other.said.append, other._now, here)
        running = asyncio.create_task(LearnService(other.cameras, tmp_path, terms, world).run())
        await asyncio.sleep(60)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    run_virtual(main())
    assert other.orders == []


def test_the_curve_has_a_point_a_minute_and_outlives_a_restart(tmp_path: Path) -> None:
    scene = Scene(tmp_path, Yard(seen=LITTLE))
    scene.run_for(305)

    def look(service: LearnService) -> None:
        points = service.curve("yard")
        assert len(points) == 7
        assert points[0].model == "general@1"
        assert points[0].agreement == 0.8

    scene.run_for(125, look)


@pytest.mark.parametrize("camera", ["nobody"])
def test_a_camera_that_does_not_learn_has_no_status(tmp_path: Path, camera: str) -> None:
    service = Scene(tmp_path).service()
    assert service.status(camera) is None
    assert list(service.curve(camera)) == []


def test_a_state_folder_that_cannot_be_written_is_told_and_ends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_path: Path, _data: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("foveate.learn.pupils.replace_file", full)
    monkeypatch.setattr("foveate.learn.memory.replace_file", full)
    scene = Scene(tmp_path)
    scene.run_for(300)
    assert scene.orders == []
    assert "No space left on device" in scene.said[-1]
