"""The uplink's waiting room: one queue over all cameras, that the link's room and the deadlines drain."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_agent.questions import Question
from edge_agent.waiting import WaitingRoom, Way
from pipeline.frames import FrameKey
from pipeline.policies.path import PathEstimate, RoundTrip
from pipeline.policies.window import SendWindow

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


def known_window(now_s: float = 0.0) -> SendWindow:
    """The window of that link: 100 kB/s, and 110 ms for 5 kB."""
    window = SendWindow()
    departure = window.departs(5000, 0, now_s - 0.11)
    window = window.arrived(5000, departure, now_s)
    return replace(window, rates=((now_s, 1e6 / MS_PER_KB),))


def known_way(*unanswered: int, now_s: float = 0.0) -> Way:
    return Way(known_path(now_s), known_window(now_s), unanswered)


UNKNOWN = Way(PathEstimate.holding(1.0), SendWindow())


def take(room: WaitingRoom, way: Way = UNKNOWN, now_s: float = 0.0, *, but: str = "") -> str | None:
    found = room.first(way, lambda camera: camera != but)
    if found is None:
        return None
    assert room.withdraw(found.key.camera, now_s) is found
    return found.key.camera


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


def test_a_question_about_an_older_frame_does_not_displace_a_newer_one() -> None:
    room = WaitingRoom()
    newer, older = question("hall", seq=2), question("hall", seq=1, due_s=2.0)
    room.put(newer, 0.0)
    assert room.put(older, 0.0) is older
    assert room.first(UNKNOWN, lambda _camera: True) is newer
    assert len(room) == 1


def test_a_camera_that_may_not_send_lets_others_pass() -> None:
    room = WaitingRoom()
    room.put(question("hall", due_s=0.1), 0.0)
    room.put(question("yard", due_s=0.2), 0.0)
    assert take(room, but="hall") == "yard"
    assert take(room, but="hall") is None
    assert len(room) == 1


def test_among_cameras_that_are_due_together_the_one_goes_first_that_has_had_least() -> None:
    room = WaitingRoom()
    room.sent("hall", 9000, UNKNOWN, 0.0)
    room.put(question("hall", due_s=0.201), 0.0)
    room.put(question("yard", due_s=0.202), 0.0)
    assert take(room) == "yard"


def test_the_first_question_waits_for_room_and_nobody_overtakes_it() -> None:
    room = WaitingRoom()
    room.put(question("hall", due_s=0.3, size_bytes=9000), 0.0)
    room.put(question("yard", due_s=0.4, size_bytes=500), 0.0)
    full = known_way(4000, 6000)  # 16 kB are a round trip and the spare time
    assert take(room, full) is None
    assert take(room, known_way(4000, 2000)) == "hall"


def test_the_room_says_when_a_question_becomes_hopeless_and_else_leaves_it_to_the_answers() -> None:
    room, way = WaitingRoom(), known_way(9000, 9000)
    assert room.look_again_at_s(way, 0.0) == float("inf")
    room.put(question("hall", due_s=0.5), 0.0)
    needs_s = way.service(0.0).alone_s(("mosaic", 5000))
    assert needs_s is not None
    assert room.look_again_at_s(way, 0.0) == pytest.approx(0.5 - needs_s)


def test_what_can_no_longer_be_answered_in_time_is_given_up_then_and_not_before() -> None:
    room, way = WaitingRoom(), known_way()
    needs_s = way.service(0.0).alone_s(("mosaic", 5000))
    assert needs_s is not None
    assert needs_s >= 0.11  # 40 ms, 50 ms for the bytes, 20 ms at the worker
    room.put(question("hall", due_s=0.3), 0.0)
    assert room.drop_late(way, 0.3 - needs_s - 0.001) == []
    [dropped] = room.drop_late(way, 0.3 - needs_s + 0.001)
    assert dropped.key.camera == "hall"
    assert len(room) == 0


def test_on_a_way_of_which_nothing_is_known_only_what_is_past_its_time_is_given_up() -> None:
    room = WaitingRoom()
    room.put(question("hall", due_s=0.3), 0.0)
    assert room.drop_late(UNKNOWN, 0.299) == []
    assert len(room.drop_late(UNKNOWN, 0.3)) == 1


def test_where_the_link_cannot_carry_all_in_time_the_heavier_camera_is_kept() -> None:
    room, way = WaitingRoom(), known_way()
    for camera, weight in (("light", 1.0), ("heavy", 4.0)):
        room.sent(camera, 20_000, way, 0.0)
        room.put(question(camera, due_s=0.15, weight=weight), 0.0)
    assert [each.key.camera for each in room.drop_late(way, 0.0)] == ["light"]


steps = st.lists(
    st.tuples(st.sampled_from(["put", "next", "drop", "withdraw"]), st.sampled_from("abc"), st.floats(0.01, 0.5)),
    max_size=40,
)


@given(steps)
def test_every_question_leaves_once_and_each_camera_has_at_most_one(plan: list[tuple[str, str, float]]) -> None:
    room, way = WaitingRoom(), known_way()
    left: list[int] = []
    put = 0
    for turn, (step, camera, budget_s) in enumerate(plan):
        now_s = turn * 0.02
        gone: list[Question | None] = []
        if step == "put":
            gone, put = [room.put(question(camera, seq=put, due_s=now_s + budget_s), now_s)], put + 1
        elif step == "next":
            first = room.first(way, lambda _camera: True)
            gone = [] if first is None else [room.withdraw(first.key.camera, now_s)]
        elif step == "drop":
            gone = [*room.drop_late(way, now_s)]
        else:
            gone = [room.withdraw(camera, now_s)]
        left += [each.key.seq for each in gone if each is not None]
        assert len(room) == put - len(left) <= 3
        assert room.flow(now_s).length == len(room)
    rest = [room.withdraw(camera, 99.0) for camera in "abc"]
    assert sorted(left + [each.key.seq for each in rest if each is not None]) == list(range(put))
