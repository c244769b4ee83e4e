"""What several agents on one camera cost is counted from what went over the broker and by the worker's own word."""

from foveate.bench.coalescing import ALONE, Heard, _alike
from pipeline.wire.messages import BatchFigures, ReuseFigures, WorkerState


def heard() -> Heard:
    """Two agents asked about frames 1 and 2, about 2 in different pictures, and had an answer but for one; one alone
    asked about a frame of its own.
    """
    made = Heard()
    made.asked = {
        ("a", "clip", 0, 1): b"one",
        ("b", "clip", 0, 1): b"one",
        ("a", "clip", 0, 2): b"two",
        ("b", "clip", 0, 2): b"too",
        ("b", "clip", 0, 3): b"refused",
        (ALONE, "clip", 0, 9): b"nine",
    }
    made.answered = made.asked.keys() - {("b", "clip", 0, 3)}
    made.state = WorkerState(
        worker="w",
        online=True,
        batches=BatchFigures(sizes={"1": 2, "2": 1}),
        reuse=ReuseFigures(joined=1, hits=2),
    )
    return made


def test_pictures_are_those_that_were_answered_apart_from_the_one_that_shares_with_nobody() -> None:
    made = heard()
    assert (made.pictures(), made.pictures(alone=True)) == (3, 1)
    assert (made.inferences, made.reused) == (4, 3)


def test_before_the_worker_has_said_a_word_it_has_done_nothing() -> None:
    assert (Heard().inferences, Heard().reused, Heard().frames) == (0, 0, 0)


def test_whole_agents_are_told_by_picture_and_by_frame() -> None:
    made = heard()
    made.answered = {key for key in made.answered if key[0] != ALONE}
    assert _alike("adaptive", made) == {
        "coalesce_adaptive_inferences_per_picture": 4 / 3,
        "coalesce_adaptive_pictures_per_frame": 3 / 2,
        "coalesce_adaptive_requests_per_frame": 4 / 2,
        "coalesce_adaptive_inferences_per_frame": 4 / 2,
    }
    assert _alike("adaptive", Heard()) == {}
