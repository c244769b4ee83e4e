"""The event loop of the simulator."""

from hypothesis import given
from hypothesis import strategies as st

from foveate.simulation.events import EventLoop


@given(st.lists(st.floats(0, 100), max_size=40))
def test_handlers_are_called_in_the_order_of_time_and_then_of_scheduling(times: list[float]) -> None:
    loop = EventLoop()
    called: list[tuple[float, int]] = []
    for number, at_s in enumerate(times):
        loop.at(at_s, lambda n: called.append((loop.now_s, n)), number)
    loop.run(100)
    assert called == sorted((at_s, number) for number, at_s in enumerate(times))


def test_what_is_due_later_than_the_end_stays_scheduled() -> None:
    loop = EventLoop()
    called: list[str] = []
    loop.at(2.0, called.append, "later")
    loop.run(1.0)
    assert (called, loop.now_s) == ([], 1.0)
    loop.run(3.0)
    assert (called, loop.now_s) == (["later"], 3.0)


def test_a_handler_may_schedule_more_and_never_in_the_past() -> None:
    loop = EventLoop()
    moments: list[float] = []

    def again(left: int) -> None:
        moments.append(loop.now_s)
        if left:
            loop.at(loop.now_s - 5.0, again, left - 1)

    loop.at(1.0, again, 2)
    loop.run(9.0)
    assert moments == [1.0, 1.0, 1.0]
