"""The queue keeps the order of urgency and loses nothing."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloud_worker.jobs import Job, ReplyAddress
from cloud_worker.queue import Prospect, RequestQueue
from pipeline.geometry import Size
from pipeline.policies.admission import AdmissionBounds
from pipeline.policies.schedule import Service
from tests.support.workers import make_request

PICTURE = np.zeros((64, 64, 3), np.uint8)


def job(
    seq: int,
    deadline_s: float = 1.0,
    weight: float = 1.0,
    size: Size = Size(64, 64),  # noqa: B008 - frozen
    model: str = "m",
    camera: str = "plaza",
) -> Job:
    request = make_request(seq, weight=weight, model=model, camera=camera)
    return Job(request, memoryview(b"12345"), size, ReplyAddress("foveate/v1/rep/a1", b"c"), 0.0, deadline_s)


def decode_all(queue: RequestQueue) -> list[int]:
    order = []
    while (encoded := queue.next_encoded()) is not None:
        order.append(encoded.request.seq)
        assert queue.decoded(encoded, PICTURE)
    return order


def test_the_earliest_deadline_comes_first_then_the_higher_weight_then_the_earlier_arrival() -> None:
    queue = RequestQueue()
    for each in (job(1, 2.0), job(2, 1.0, weight=1.0), job(3, 1.0, weight=5.0), job(4, 1.0, weight=5.0)):
        queue.add(each)
    assert decode_all(queue) == [3, 4, 2, 1]
    group = queue.ready_group()
    assert group is not None
    assert [each.request.seq for each in group.jobs] == [3, 4, 2, 1]


def test_only_jobs_of_one_model_and_one_size_bucket_form_a_group() -> None:
    queue = RequestQueue()
    for each in (
        job(1, 1.0, size=Size(61, 40)),
        job(2, 2.0, size=Size(64, 64)),
        job(3, 3.0, size=Size(65, 64)),
        job(4, 4.0, model="other"),
    ):
        queue.add(each)
    decode_all(queue)
    group = queue.ready_group()
    assert group is not None
    assert [each.request.seq for each in group.jobs] == [1, 2]
    assert group.others_wait


def test_a_job_that_is_not_decoded_yet_is_in_no_group_and_cannot_be_taken() -> None:
    queue = RequestQueue()
    waiting = job(1)
    queue.add(waiting)
    assert queue.ready_group() is None
    with pytest.raises(KeyError):
        queue.take((waiting,), 0.0)
    assert len(queue) == 1


def test_a_picture_that_comes_after_its_job_has_left_is_turned_away() -> None:
    queue = RequestQueue()
    queue.add(job(1))
    leaving = queue.next_encoded()
    assert leaving is not None
    assert queue.remove(leaving, 0.0)
    assert not queue.remove(leaving, 0.0)
    assert not queue.decoded(leaving, PICTURE)
    queue.add(job(1))
    assert not queue.decoded(leaving, PICTURE), "another job with the same key is not the one that left"


def test_a_key_is_queued_once() -> None:
    queue = RequestQueue()
    queue.add(job(1))
    with pytest.raises(ValueError, match="already queued"):
        queue.add(job(1))


def test_the_bytes_held_are_those_of_the_jpeg_and_of_the_picture_to_come() -> None:
    queue = RequestQueue()
    one = job(1, size=Size(10, 20))
    queue.add(one)
    assert queue.held_bytes == 5 + 600
    queue.remove(one, 0.0)
    assert queue.held_bytes == 0


def service(free_s: float = 0.0, each_s: float = 0.1) -> Service:
    return Service(free_s, lambda _kind, count: count * each_s, lambda _kind: each_s)


def test_only_what_is_more_urgent_and_the_rest_of_the_run_are_ahead_of_a_newcomer() -> None:
    queue = RequestQueue()
    for each in (job(1, 1.0), job(2, 2.0), job(3, 3.0, size=Size(96, 64))):
        queue.add(each)
    prospect = queue.prospect(job(4, 2.5), service(0.05), 0.0)
    assert prospect.ahead_s == pytest.approx(0.25)
    assert prospect.drops == ()
    assert queue.prospect(job(5, 0.1), service(0.0), 0.0) == Prospect(0.0, ())


def test_a_newcomer_of_a_camera_that_has_had_little_makes_another_give_way() -> None:
    queue = RequestQueue()
    waiting = [job(seq, 0.25) for seq in (1, 2)]
    for each in waiting:
        queue.add(each)
    queue.served(waiting[0], 0.1, 0.0)
    prospect = queue.prospect(job(3, 0.28, camera="yard"), service(), 0.0)
    assert [each.request.seq for each, _ in prospect.drops] == [2]
    own = queue.prospect(job(3, 0.28), service(), 0.0)
    assert own.ahead_s == pytest.approx(0.2), "the camera's own newcomer finds no time: it would take 300 of 280 ms"
    assert own.drops == ()
    assert len(queue) == 2


def test_the_meter_sees_what_comes_and_how_long_it_stays() -> None:
    queue = RequestQueue()
    waiting = job(1)
    queue.add(waiting)
    queue.remove(waiting, 2.0)
    flow = queue.flow(4.0)
    assert (flow.length, flow.wait_s, flow.arrivals_per_s, flow.mean_length) == (0, 2.0, 0.25, 0.5)


def _take_group(queue: RequestQueue, size: int) -> list[Job]:
    group = queue.ready_group()
    if group is None:
        return []
    taken = group.jobs[: 1 + size % 4]
    assert len(queue.take(taken, 0.0)) == len(taken)
    assert len({each.kind for each in taken}) == 1
    ranks = [(each.deadline_s, -each.request.weight, each.request.seq) for each in taken]
    assert ranks == sorted(ranks)
    return list(taken)


def _decode_next(queue: RequestQueue, _: int) -> list[Job]:
    encoded = queue.next_encoded()
    if encoded is not None:
        assert queue.decoded(encoded, PICTURE)
    return []


def _remove_some(queue: RequestQueue, number: int) -> list[Job]:
    return queue.remove_where(lambda each: each.deadline_s <= number, 0.0)


STEPS: list[Callable[[RequestQueue, int], list[Job]]] = [_take_group, _decode_next, _remove_some]


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 7), st.integers(0, 2), st.sampled_from([64, 96]))))
def test_every_job_leaves_exactly_once_whatever_the_order_of_events(steps: list[tuple[int, int, int, int]]) -> None:
    queue = RequestQueue()
    added: list[int] = []
    left: list[int] = []
    for seq, (step, number, weight, width) in enumerate(steps):
        if step < len(STEPS):
            left += [each.request.seq for each in STEPS[step](queue, number)]
        else:
            queue.add(job(seq, float(number), float(weight), Size(width, 64)))
            added.append(seq)
        assert len(queue) == len(added) - len(left)
    left += [each.request.seq for each in queue.remove_where(lambda _each: True, 0.0)]
    assert sorted(left) == added
    assert (len(queue), queue.held_bytes, queue.earliest_deadline_s) == (0, 0, None)


def test_whoever_takes_the_place_of_another_has_its_picture_and_its_own_deadline() -> None:
    queue = RequestQueue()
    lax, between, urgent = job(1, 3.0), job(2, 2.0), job(3, 1.0)
    for each in (lax, between):
        queue.add(each)
    decode_all(queue)
    queue.replace(lax, urgent, now_s=0.5)
    assert not queue.holds(lax)
    assert queue.next_encoded() is None, "its picture is decoded already"
    group = queue.ready_group()
    assert group is not None
    assert group.jobs == (urgent, between)
    assert queue.held_bytes == urgent.held_bytes + between.held_bytes


def test_whoever_takes_the_place_of_one_that_is_being_decoded_is_decoded_itself() -> None:
    queue = RequestQueue()
    old, new = job(1, 3.0), job(2, 1.0)
    queue.add(old)
    assert queue.next_encoded() is old
    queue.replace(old, new, now_s=0.5)
    assert not queue.decoded(old, PICTURE)
    assert queue.next_encoded() is new
    assert queue.decoded(new, PICTURE)


def test_a_full_queue_names_who_gives_way_by_agent() -> None:
    queue = RequestQueue()
    held = [job(seq, 1.0 + seq) for seq in range(3)]
    for each in held:
        queue.add(each)
    other = Job(make_request(9, agent="a2"), memoryview(b""), Size(64, 64), ReplyAddress("t", b"c"), 0.0, 1.0)
    assert queue.room_for(other, AdmissionBounds(3, 10**9)) == [held[2]]
    assert queue.room_for(job(9), AdmissionBounds(3, 10**9)) == []
    assert queue.room_for(other, AdmissionBounds(4, 10**9)) == []
