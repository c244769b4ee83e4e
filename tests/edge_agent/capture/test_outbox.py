import threading

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from edge_agent.capture.outbox import READ_AHEAD_PICTURES, Held, Outbox, Pacer
from edge_agent.capture.protocol import Over
from pipeline.results import CameraState
from pipeline.timing import ManualClock

IMAGE = np.zeros((2, 2, 3), np.uint8)
END = Over(CameraState.FINISHED, "end", final=True)


@settings(deadline=None)
@given(steps=st.lists(st.sampled_from(["put", "unusable", "take"]), max_size=60))
def test_every_picture_of_a_live_source_is_taken_lost_or_unusable(steps: list[str]) -> None:
    outbox, taken, lost, unusable = Outbox(newest_wins=True), 0, 0, 0
    for number, step in enumerate(steps):
        if step == "put":
            outbox.put(IMAGE, float(number), None)
        elif step == "unusable":
            outbox.unusable()
        elif isinstance(held := outbox.take(0), Held):
            taken, lost, unusable = taken + 1, lost + held.lost, unusable + held.unusable
    outbox.finish(END)
    if isinstance(held := outbox.take(0), Held):
        taken, lost, unusable = taken + 1, lost + held.lost, unusable + held.unusable
    over = outbox.take(0)
    assert isinstance(over, Over)
    assert taken + lost + over.lost == steps.count("put")
    assert unusable + over.unusable == steps.count("unusable")


def test_a_live_source_hands_over_its_newest() -> None:
    outbox = Outbox(newest_wins=True)
    for number in range(5):
        outbox.put(IMAGE, float(number), None)
    held = outbox.take(0)
    assert isinstance(held, Held)
    assert (held.captured_at_s, held.lost) == (4.0, 4)
    assert outbox.take(0) is None


def test_a_file_waits_for_its_reader_and_loses_nothing() -> None:
    outbox, count = Outbox(newest_wins=False), 20
    writer = threading.Thread(target=lambda: [outbox.put(IMAGE, float(n), None) for n in range(count)])
    writer.start()
    times = []
    for _ in range(count):
        held = outbox.take(5)
        assert isinstance(held, Held)
        times.append(held.captured_at_s)
    writer.join(5)
    assert times == [float(n) for n in range(count)]


def test_a_waiting_writer_is_let_go_when_stopped() -> None:
    outbox = Outbox(newest_wins=False)
    for number in range(READ_AHEAD_PICTURES):
        outbox.put(IMAGE, float(number), None)
    kept: list[bool] = []
    writer = threading.Thread(target=lambda: kept.append(outbox.put(IMAGE, 9.0, None)))
    writer.start()
    outbox.stop()
    writer.join(5)
    assert kept == [False]


def test_pacing_follows_the_time_stamps() -> None:
    clock = ManualClock(50.0)
    pacer = Pacer(10.0, clock)
    assert pacer.delay_s(500.0) == 0
    assert round(pacer.delay_s(540.0), 6) == 0.04
    clock.advance(1.0)
    assert pacer.delay_s(1000.0) == 0
    assert round(pacer.delay_s(5500.0), 6) == 4.0


def test_pacing_without_time_stamps_follows_the_declared_rate() -> None:
    pacer = Pacer(10.0, ManualClock())
    assert [round(pacer.delay_s(None), 6) for _ in range(4)] == [0, 0.1, 0.2, 0.3]
