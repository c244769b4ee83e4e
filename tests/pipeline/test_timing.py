"""Clocks, and time that passes only in name."""

import asyncio
import threading
from datetime import UTC, datetime, timedelta, timezone

import pytest

from pipeline.timing import LoopClock, ManualClock, MonotonicClock, cpu_s, rfc3339, run_virtual, wall_time


def test_a_manual_clock_moves_only_when_told_and_never_back() -> None:
    clock = ManualClock(5.0)
    assert clock.now_s() == clock.now_s() == 5.0
    clock.advance(0.25)
    assert clock.now_s() == 5.25
    with pytest.raises(ValueError, match="cannot go back"):
        clock.advance(-0.1)


def test_the_monotonic_clock_never_goes_back_and_is_the_event_loops_own() -> None:
    clock = MonotonicClock()
    first = clock.now_s()

    async def main() -> float:
        return LoopClock().now_s()

    assert first <= asyncio.run(main()) <= clock.now_s()


def test_a_day_of_virtual_time_passes_in_order() -> None:
    async def main() -> list[tuple[float, str]]:
        seen, clock = list[tuple[float, str]](), LoopClock()

        async def tick(name: str, after_s: float) -> None:
            await asyncio.sleep(after_s)
            seen.append((clock.now_s(), name))

        async with asyncio.TaskGroup() as tasks:
            for name, after_s in (("day", 86_400.0), ("hour", 3600.0), ("now", 0.0)):
                tasks.create_task(tick(name, after_s))
        return seen

    assert run_virtual(main()) == [(0.0, "now"), (3600.0, "hour"), (86_400.0, "day")]


def test_a_time_limit_ends_on_virtual_time() -> None:
    async def main() -> float:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.Event().wait(), 60)
        return asyncio.get_running_loop().time()

    assert run_virtual(main()) == pytest.approx(60)


def test_virtual_time_waits_for_a_thread_that_works() -> None:
    async def main() -> str:
        return await asyncio.to_thread(lambda: threading.current_thread().name)

    assert run_virtual(main()).startswith("asyncio")


def test_an_error_comes_out_as_it_is() -> None:
    async def main() -> None:
        raise LookupError("as it is")

    with pytest.raises(LookupError, match="as it is"):
        run_virtual(main())


def test_moments_are_written_in_utc_with_milliseconds() -> None:
    moment = datetime(2026, 3, 1, 13, 0, 0, 123_999, tzinfo=timezone(timedelta(hours=1)))
    assert rfc3339(moment) == "2026-03-01T12:00:00.123Z"
    assert wall_time().tzinfo is UTC


def test_cpu_time_rises_with_work() -> None:
    before = cpu_s()
    while cpu_s() == before:
        sum(range(1000))
    assert cpu_s() > before
