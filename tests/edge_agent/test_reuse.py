"""What the cloud said of a place is said again where the place is now, and only of the place that it was said of."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_agent.questions import Answer, Question
from edge_agent.reuse import (
    MOST_OPEN,
    AnswerReuse,
    Box,
    Place,
    Said,
    looks,
    models_served,
    new_reuse,
    said_again,
    said_of,
)
from edge_agent.reuse_counts import ReuseCounts
from edge_agent.tracking.history import Entry, Tracker
from edge_agent.tracking.tracks import Observations, TrackerSettings, Verdict
from edge_agent.workers import WorkerDirectory
from pipeline.detections import Detections, Source
from pipeline.frames import FrameKey, Image
from pipeline.policies.near_duplicate import NearDuplicateSettings
from pipeline.policies.offload import Candidate, Why
from pipeline.wire.messages import Reply, WorkerModel, WorkerState

HERE: Box = (50.0, 100.0, 80.0, 180.0)
NEAR: Box = (56.0, 104.0, 86.0, 184.0)
THERE: Box = (300.0, 100.0, 330.0, 180.0)
SETTINGS = NearDuplicateSettings(enabled=True, bypass_share=0.0)
SERVED = frozenset({"m@1"})


def found(*boxes: Box, score: float = 0.7) -> Detections:
    return Detections.of(boxes, [score] * len(boxes), ["person"] * len(boxes))


def candidate(box: Box, score: float = 0.7, why: Why = Why.UNVERIFIED) -> Candidate:
    return Candidate(box, why, 0.5, score)


def observed(detections: Detections, *verdicts: Verdict, looked_at: tuple[Box, ...] = ()) -> Observations:
    return Observations(detections, np.array(verdicts, np.int8), np.array(looked_at, np.float32).reshape(-1, 4))


def place(box: Box = HERE, *, row: int | None = 0, label: str = "person", tracked: bool = True) -> Place:
    return Place("key", box, box, label, row, 0.7, tracked)


def seen(tracker: Tracker, seq: int, *boxes: Box, score: float = 0.7) -> Entry:
    return tracker.observe(seq, seq / 5, found(*boxes, score=score))


def scene(seed: int = 1) -> Image:
    return np.random.default_rng(seed).integers(0, 256, (240, 400, 3), dtype=np.uint8)


def key(seq: int) -> FrameKey:
    return FrameKey("gate", 1, seq)


def answer(seq: int, model: str = "m") -> Answer:
    question = Question(key(seq), "mosaic", 400, 240, (), b"", 0.0, 1.0)
    reply = Reply(
        agent="a", camera="gate", epoch=1, seq=seq, worker="w", model=model, model_version="1",
        detections=[], queue_ms=0.0, batch_wait_ms=0.0, infer_ms=0.0, total_ms=0.0,
    )  # fmt: skip
    return Answer(question, reply, 0.0, 0.0)


def test_a_place_of_a_track_keeps_its_key_while_it_moves() -> None:
    tracker, reuse = Tracker(TrackerSettings()), AnswerReuse(SETTINGS, ReuseCounts())
    [before] = reuse.places(seen(tracker, 1, HERE), [candidate(HERE)])
    [after] = reuse.places(seen(tracker, 2, NEAR), [candidate(NEAR)])
    assert before.key == after.key
    assert (after.row, after.label, after.tracked, after.box) == (0, "person", True, NEAR)


def test_a_track_that_the_small_model_has_missed_is_a_place_without_a_box_of_its_own() -> None:
    tracker, reuse = Tracker(TrackerSettings()), AnswerReuse(SETTINGS, ReuseCounts())
    [before] = reuse.places(seen(tracker, 1, HERE), [candidate(HERE)])
    entry = seen(tracker, 2)
    x1, y1, x2, y2 = entry.after.tracks.boxes.xyxy[0].tolist()
    [missed] = reuse.places(entry, [candidate((x1, y1, x2, y2), 0.7, Why.MISSED)])
    assert (missed.key, missed.row, missed.score, missed.tracked) == (before.key, None, 0.0, True)


def test_a_place_without_a_track_is_known_by_where_it_is() -> None:
    tracker, reuse = Tracker(TrackerSettings()), AnswerReuse(SETTINGS, ReuseCounts())
    entry = seen(tracker, 1)
    first, again, other = (
        reuse.places(entry, [candidate(box, 0.0, Why.MOTION)])[0] for box in (HERE, (51.0, 101.0, 81.0, 181.0), THERE)
    )
    assert first.key == again.key != other.key
    assert again.shown == HERE, "the same part of the picture is compared"
    assert not first.tracked


@pytest.mark.parametrize(
    ("seen_there", "said"),
    [
        (observed(found(HERE, score=0.75), Verdict.CONFIRMED, looked_at=(HERE,)), Said("person", 0.75, (0, 0, 1, 1))),
        (observed(found(HERE), Verdict.DENIED, looked_at=(HERE,)), Said()),
        (observed(found(HERE), Verdict.UNSEEN), None),
        (observed(found(), looked_at=(HERE,)), Said()),
        (observed(found(), looked_at=(THERE,)), None),
        (observed(found(THERE), Verdict.CONFIRMED, looked_at=(HERE, THERE)), Said()),
    ],
    ids=["found", "denied", "left out", "nothing", "elsewhere", "something else"],
)
def test_what_an_answer_says_of_a_place(seen_there: Observations, said: Said | None) -> None:
    assert said_of(place(), seen_there) == said


def test_an_object_in_a_part_of_what_moves_is_no_empty_place() -> None:
    moving = place((0.0, 0.0, 400.0, 240.0), row=None, label="", tracked=False)
    said = said_of(moving, observed(found(HERE), Verdict.CONFIRMED, looked_at=((0.0, 0.0, 400.0, 240.0),)))
    assert said is not None
    assert said.label == "person"


def test_a_box_moves_and_grows_with_the_small_models() -> None:
    said = said_of(place(HERE), observed(found((47.0, 92.0, 83.0, 180.0)), Verdict.CONFIRMED, looked_at=(HERE,)))
    assert said is not None
    larger: Box = (200.0, 50.0, 260.0, 210.0)
    again = said_again(Observations.unseen(found(larger, score=0.4)), [place(larger)], [said])
    assert again.detections.xyxy[0].tolist() == pytest.approx([194.0, 34.0, 266.0, 210.0], abs=0.01)
    assert again.verdict.tolist() == [Verdict.CONFIRMED]
    assert again.detections.score[0] == pytest.approx(0.7), "the score that was said"
    assert again.detections.source.tolist() == [Source.TRACK]


def test_what_was_denied_is_denied_again_and_its_neighbour_is_left_as_it_is() -> None:
    again = said_again(Observations.unseen(found(THERE, HERE)), [place(HERE, row=1)], [Said()])
    assert again.verdict.tolist() == [Verdict.UNSEEN, Verdict.DENIED]
    assert again.detections.xyxy.tolist() == [list(THERE), list(HERE)]
    assert again.looked_at.tolist() == [list(HERE)]


def test_a_missed_track_that_was_confirmed_is_seen_where_it_is_and_not_moved_once_more() -> None:
    shifted = Said("person", 0.8, (0.2, 0.0, 1.2, 1.0))
    again = said_again(Observations.unseen(found()), [place(HERE, row=None)], [shifted])
    assert again.detections.xyxy.tolist() == [list(HERE)]
    assert again.verdict.tolist() == [Verdict.CONFIRMED]


def test_answers_agree_on_the_same_object_in_the_same_place() -> None:
    here = Said("person", 0.7, (0.0, 0.0, 1.0, 1.0))
    assert here.agrees(Said("person", 0.3, (0.1, 0.1, 1.1, 1.1)))
    assert not here.agrees(Said("person", 0.7, (0.6, 0.0, 1.6, 1.0)))
    assert not here.agrees(Said("car", 0.7, (0.0, 0.0, 1.0, 1.0)))
    assert not here.agrees(Said())
    assert Said().agrees(Said())


def test_the_small_model_backs_what_it_sees_too() -> None:
    sure = Said("person", 0.8)
    assert sure.backed(0.5)
    assert not sure.backed(0.3)
    assert Said().backed(0.3), "both see nothing much"
    assert not Said().backed(0.5)


def ask(reuse: AnswerReuse, tracker: Tracker, seq: int, image: Image, *boxes: Box) -> tuple[Said, ...] | None:
    """One frame that is about to be asked about; what is said again of it, or None where it goes out."""
    entry = seen(tracker, seq, *boxes)
    places = reuse.places(entry, [candidate(box) for box in boxes])
    shown = looks(image, places)
    said = reuse.decide(key(seq), shown, SERVED, seq / 5)
    if said is None:
        reuse.asked(key(seq), places, shown, seq / 5, seq / 5)
    return said


def test_what_looks_the_same_is_asked_about_once() -> None:
    tracker, counts, image = Tracker(TrackerSettings()), ReuseCounts(), scene()
    reuse = AnswerReuse(SETTINGS, counts)
    assert ask(reuse, tracker, 1, image, HERE) is None
    reuse.answered(answer(1), observed(found(HERE), Verdict.CONFIRMED, looked_at=(HERE,)), now_s=0.25)
    said = ask(reuse, tracker, 2, image, HERE)
    assert said is not None
    assert said[0].label == "person"
    assert ask(reuse, tracker, 3, scene(2), HERE) is None, "it looks different"
    assert counts.answered == 1
    assert counts.answered_ms == pytest.approx(50.0)


def test_an_answer_to_a_question_that_was_not_asked_teaches_nothing() -> None:
    tracker, counts, image = Tracker(TrackerSettings()), ReuseCounts(), scene()
    reuse = AnswerReuse(SETTINGS, counts)
    reuse.answered(answer(1), observed(found(HERE), Verdict.CONFIRMED, looked_at=(HERE,)), now_s=0.0)
    assert ask(reuse, tracker, 2, image, HERE) is None
    assert counts.answered == 0


def test_an_answer_of_a_model_that_is_not_served_is_not_said_again() -> None:
    tracker, image, reuse = Tracker(TrackerSettings()), scene(), AnswerReuse(SETTINGS, ReuseCounts())
    ask(reuse, tracker, 1, image, HERE)
    reuse.answered(answer(1, "gone"), observed(found(HERE), Verdict.CONFIRMED, looked_at=(HERE,)), now_s=0.0)
    assert ask(reuse, tracker, 2, image, HERE) is None


def test_of_a_place_without_a_track_only_nothing_is_said_again() -> None:
    for confirmed in (False, True):
        tracker, image, reuse = Tracker(TrackerSettings()), scene(), AnswerReuse(SETTINGS, ReuseCounts())
        places = reuse.places(seen(tracker, 1), [candidate(HERE, 0.0, Why.MOTION)])
        shown = looks(image, places)
        reuse.asked(key(1), places, shown, 0.2, 0.2)
        there = found(HERE) if confirmed else found()
        verdicts = [Verdict.CONFIRMED] * len(there)
        reuse.answered(answer(1), observed(there, *verdicts, looked_at=(HERE,)), now_s=0.3)
        assert reuse.decide(key(2), shown, SERVED, 0.4) == (None if confirmed else (Said(),))


def test_questions_without_an_answer_that_are_remembered_are_bounded() -> None:
    tracker, counts, image = Tracker(TrackerSettings()), ReuseCounts(), scene()
    reuse = AnswerReuse(SETTINGS, counts)
    for seq in range(MOST_OPEN + 1):
        ask(reuse, tracker, seq, image, HERE)
    for seq in (0, 1):
        reuse.answered(answer(seq), observed(found(HERE), Verdict.CONFIRMED, looked_at=(HERE,)), now_s=0.0)
    assert counts.answered == 1


def test_every_question_of_a_full_bypass_is_asked() -> None:
    tracker, image = Tracker(TrackerSettings()), scene()
    reuse = AnswerReuse(NearDuplicateSettings(enabled=True, bypass_share=1.0), ReuseCounts())
    ask(reuse, tracker, 1, image, HERE)
    reuse.answered(answer(1), observed(found(HERE), Verdict.CONFIRMED, looked_at=(HERE,)), now_s=0.3)
    assert ask(reuse, tracker, 2, image, HERE) is None


def test_a_place_outside_the_picture_or_too_small_to_tell_has_no_look() -> None:
    outside, tiny = place((500.0, 10.0, 560.0, 90.0)), place((10.0, 10.0, 14.0, 90.0))
    assert [look.bits for look in looks(scene(), [outside, tiny])] == [None, None]


def test_only_workers_that_are_online_serve_a_model() -> None:
    workers = WorkerDirectory()
    for name, version, online in (("w1", "1", True), ("w2", "2", False)):
        model = WorkerModel(name="m", version=version, label_set="x")
        workers.heard(WorkerState(worker=name, online=online, models=[model]), 0.0)
    assert models_served(workers, 1.0) == {"m@1"}
    assert models_served(workers, 100.0) == frozenset(), "its heartbeat is missing"


def test_it_is_off_by_default_and_among_stills() -> None:
    assert new_reuse(NearDuplicateSettings(), ReuseCounts(), stills=False) is None
    assert new_reuse(SETTINGS, ReuseCounts(), stills=True) is None
    assert new_reuse(SETTINGS, ReuseCounts(), stills=False) is not None


side = st.floats(2.0, 200.0, width=32)
corner = st.floats(-50.0, 400.0, width=32)
boxes = st.builds(lambda x, y, w, h: (x, y, x + w, y + h), corner, corner, side, side)


@given(box=boxes, moved=boxes)
def test_said_of_the_place_itself_an_answer_is_what_it_was_and_elsewhere_it_is_over_that_place(
    box: Box, moved: Box
) -> None:
    said = Said("person", 0.7, (0.0, 0.0, 1.0, 1.0))
    again = said_again(Observations.unseen(found(box, moved)), [place(box), place(moved, row=1)], [said, said])
    assert again.detections.xyxy.tolist() == [pytest.approx(box, abs=0.01), pytest.approx(moved, abs=0.01)]


@given(st.lists(st.tuples(st.booleans(), st.floats(0, 1000)), max_size=20))
def test_the_mean_latency_is_that_of_hits_and_misses_by_their_share(took: list[tuple[bool, float]]) -> None:
    counts = ReuseCounts()
    for spared, ms in took:
        (counts.spare if spared else counts.answer)(ms)
    if not took:
        assert (counts.hit_ratio, counts.mean_ms) == (None, None)
        return
    h = counts.hit_ratio
    assert h is not None
    hit_ms = counts.spared_ms / counts.spared if counts.spared else 0.0
    miss_ms = counts.answered_ms / counts.answered if counts.answered else 0.0
    assert counts.mean_ms == pytest.approx(h * hit_ms + (1 - h) * miss_ms)
    twice = ReuseCounts.together([counts, counts])
    assert twice.hit_ratio == pytest.approx(h)
    assert twice.mean_ms == pytest.approx(counts.mean_ms)


def test_an_object_in_a_place_that_was_empty_contradicts_what_would_have_been_said_of_it() -> None:
    tracker, counts, image = Tracker(TrackerSettings()), ReuseCounts(), scene()
    reuse = AnswerReuse(NearDuplicateSettings(enabled=True, bypass_share=1.0), counts)
    for seq, there in ((1, found()), (2, found(HERE))):
        places = reuse.places(seen(tracker, seq), [candidate(HERE, 0.0, Why.MOTION)])
        shown = looks(image, places)
        assert reuse.decide(key(seq), shown, SERVED, seq / 5) is None
        reuse.asked(key(seq), places, shown, seq / 5, seq / 5)
        verdicts = [Verdict.CONFIRMED] * len(there)
        reuse.answered(answer(seq), observed(there, *verdicts, looked_at=(HERE,)), now_s=seq / 5 + 0.1)
    reuse.decide(key(3), (), SERVED, 0.6)
    assert counts.disagreement == 1.0
