"""The uplink's waiting room: one queue over all cameras, that the link's room and the deadlines drain."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_agent.questions import Question
from edge_agent.waiting import MOST_AHEAD_S, WaitingRoom, Way
from pipeline.frames import FrameKey
from pipeline.policies.path import PathEstimate, RoundTrip

BASE_MS, MS_PER_KB = 40.0, 10.0
"""A link of 100 kB/s."""


def question(camera: str, seq: int = 1, due_s: float = 1.0, size_bytes: int = 5000, weight: float = 1.0) -> Question:
    return Question(FrameKey(camera, 1, seq), "mosaic", 640, 480, (), b"x" * size_bytes, due_s, weight)


def known_path(now_s: float = 0.0) -> PathEstimate:
    """A path that has been measured until now."""
    path = PathEstimate.holding(1.0)
    for n in range(60):
        size_bytes = 2000 + 1000 * (n % 9)
        trip = RoundTrip("mosaic", size_bytes, 0.0, BASE_MS + MS_PER_KB * size_bytes / 1000 + 20.0, 0.0, 20.0)
        path = path.answered(trip, now_s - (60 - n) * 0.1)
    return path


UNKNOWN = Way(PathEstimate.holding(1.0), 0.0)


def take(room: WaitingRoom, way: Way = UNKNOWN, now_s: float = 0.0, *, but: str = "") -> str | None:
    found = room.next(way, lambda camera: camera != but, now_s)
    return None if found is None else found.key.camera


def test_the_earliest_deadline_of_all_cameras_goes_first() -> None:
    room = WaitingRoom()
    for camera, due_s in (("hall", 0.3), ("yard", 0.1), ("gate", 0.2)):
        assert room.put(question(camera, due_s=due_s), 0.0) is None
    assert [take(room), take(room), take(room), take(room)] == ["yard", "gate", "hall", None]


def test_the_newest_question_of_a_camera_takes_the_place_of_its_older_one() -> None:
    room = WaitingRoom()
    older = question("hall", seq=1)
    room.put(older, 0.0)
    assert room.put(question("yard"), 0.0) is None
    assert room.put(question("hall", seq=2), 0.0) is older
    assert len(room) == 2


def test_a_camera_that_may_not_send_lets_others_pass() -> None:
    room = WaitingRoom()
    room.put(question("hall", due_s=0.1), 0.0)
    room.put(question("yard", due_s=0.2), 0.0)
    assert take(room, but="hall") == "yard"
    assert take(room, but="hall") is None
    assert len(room) == 1


def test_among_cameras_that_are_due_together_the_one_goes_first_that_has_had_least() -> None:
    room = WaitingRoom()
    room.sent("hall", 9000, UNKNOWN.path, 0.0)
    room.put(question("hall", due_s=0.201), 0.0)
    room.put(question("yard", due_s=0.202), 0.0)
    assert take(room) == "yard"


def test_the_way_has_room_until_what_is_on_it_takes_longer_than_the_bound() -> None:
    path = known_path().sent(4000, 0.0)
    way = Way(path, 4000)
    assert way.free_s(0.0) == pytest.approx(0.04, rel=0.1)
    assert way.opens_s(500, 0.0) == 0.0
    assert way.opens_s(5000, 0.0) == pytest.approx(0.09 - MOST_AHEAD_S, rel=0.1)
    assert way.opens_s(50_000, 0.0) == way.free_s(0.0), "the largest waits until nothing is ahead, and no longer"
    assert way.opens_s(5000, 0.05) == 0.0
    assert Way(path, 0.0).opens_s(50_000, 0.0) == 0.0, "what has been answered has gone up"
    assert UNKNOWN.opens_s(10**6, 0.0) == 0.0


def test_what_has_no_room_waits_and_the_room_says_when_to_look_again() -> None:
    room, way = WaitingRoom(), Way(known_path().sent(4000, 0.0), 4000)
    room.put(question("hall"), 0.0)
    assert take(room, way) is None
    again_s = room.look_again_at_s(way, 0.0)
    assert again_s == pytest.approx(way.opens_s(5000, 0.0))
    assert take(room, way, again_s + 1e-6) == "hall"
    assert room.look_again_at_s(way, 1.0) == float("inf")


def test_what_can_no_longer_be_answered_in_time_is_given_up_then_and_not_before() -> None:
    room, path = WaitingRoom(), known_path()
    way = Way(path, 0.0)
    needs_s = way.service(0.0).alone_s(("mosaic", 5000))
    assert needs_s is not None
    assert needs_s >= 0.11  # 40 ms, 50 ms for the bytes, 20 ms at the worker
    room.put(question("hall", due_s=0.3), 0.0)
    assert room.drop_late(way, 0.3 - needs_s - 0.001) == []
    assert room.look_again_at_s(way, 0.0) == pytest.approx(0.3 - needs_s)
    [dropped] = room.drop_late(way, 0.3 - needs_s + 0.001)
    assert dropped.key.camera == "hall"
    assert len(room) == 0


def test_on_a_way_of_which_nothing_is_known_only_what_is_past_its_time_is_given_up() -> None:
    room = WaitingRoom()
    room.put(question("hall", due_s=0.3), 0.0)
    assert room.drop_late(UNKNOWN, 0.299) == []
    assert len(room.drop_late(UNKNOWN, 0.3)) == 1


def test_where_the_link_cannot_carry_all_in_time_the_heavier_camera_is_kept() -> None:
    room, way = WaitingRoom(), Way(known_path(), 0.0)
    for camera, weight in (("light", 1.0), ("heavy", 4.0)):
        room.sent(camera, 20_000, way.path, 0.0)
        room.put(question(camera, due_s=0.15, weight=weight), 0.0)
    assert [each.key.camera for each in room.drop_late(way, 0.0)] == ["light"]


steps = st.lists(
    st.tuples(st.sampled_from(["put", "next", "drop", "withdraw"]), st.sampled_from("abc"), st.floats(0.01, 0.5)),
    max_size=40,
)


@given(steps)
def test_every_question_leaves_once_and_each_camera_has_at_most_one(plan: list[tuple[str, str, float]]) -> None:
    room, way = WaitingRoom(), Way(known_path(), 0.0)
    left: list[int] = []
    put = 0
    for turn, (step, camera, budget_s) in enumerate(plan):
        now_s = turn * 0.02
        gone: list[Question | None] = []
        if step == "put":
            gone, put = [room.put(question(camera, seq=put, due_s=now_s + budget_s), now_s)], put + 1
        elif step == "next":
            gone = [room.next(way, lambda _camera: True, now_s)]
        elif step == "drop":
            gone = [*room.drop_late(way, now_s)]
        else:
            gone = [room.withdraw(camera, now_s)]
        left += [each.key.seq for each in gone if each is not None]
        assert len(room) == put - len(left) <= 3
        assert room.flow(now_s).length == len(room)
    rest = [room.withdraw(camera, 99.0) for camera in "abc"]
    assert sorted(left + [each.key.seq for each in rest if each is not None]) == list(range(put))
