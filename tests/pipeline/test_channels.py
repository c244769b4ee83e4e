"""Channels lose nothing, double nothing and never hold more than they may."""

import asyncio
import contextlib
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.channels import Channel, Closed, Overflow
from pipeline.timing import LoopClock, run_virtual


async def drained(channel: Channel[int]) -> list[int]:
    out = []
    with contextlib.suppress(Closed):
        while True:
            out.append(await channel.receive())
    return out


def test_items_come_out_in_the_order_in_which_they_went_in() -> None:
    async def main() -> list[int]:
        channel = Channel[int]("c", 3, Overflow.WAIT)
        for item in (1, 2, 3):
            assert await channel.send(item) is None
        await channel.close()
        return await drained(channel)

    assert run_virtual(main()) == [1, 2, 3]


def test_newest_wins_and_the_oldest_is_handed_back() -> None:
    async def main() -> tuple[list[int | None], list[int]]:
        channel = Channel[int]("c", 2, Overflow.DROP_OLDEST)
        back = [await channel.send(item) for item in (1, 2, 3, 4)]
        await channel.close()
        return back, await drained(channel)

    assert run_virtual(main()) == ([None, None, 1, 2], [3, 4])


def test_a_full_channel_that_refuses_hands_the_new_item_back() -> None:
    async def main() -> tuple[list[int | None], list[int]]:
        channel = Channel[int]("c", 2, Overflow.REFUSE)
        back = [await channel.send(item) for item in (1, 2, 3)]
        await channel.close()
        return back, await drained(channel)

    assert run_virtual(main()) == ([None, None, 3], [1, 2])


def test_a_sender_waits_for_room_and_goes_on_when_there_is_some() -> None:
    async def main() -> list[float]:
        loop, channel, sent_s = asyncio.get_running_loop(), Channel[int]("c", 1, Overflow.WAIT), list[float]()

        async def send() -> None:
            for item in range(3):
                await channel.send(item)
                sent_s.append(loop.time())

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(send())
            for _ in range(3):
                await asyncio.sleep(10)
                await channel.receive()
        return sent_s

    assert run_virtual(main()) == [0, 10, 20]


def test_closing_lets_the_rest_out_and_nothing_more_in() -> None:
    async def main() -> list[int]:
        channel = Channel[int]("c", 2, Overflow.WAIT)
        await channel.send(1)
        await channel.close()
        with pytest.raises(Closed):
            await channel.send(2)
        out = await drained(channel)
        with pytest.raises(Closed):
            await channel.receive()
        return out

    assert run_virtual(main()) == [1]


def test_closing_wakes_everybody_who_waits() -> None:
    async def main() -> list[str]:
        full, empty = Channel[int]("full", 1, Overflow.WAIT), Channel[int]("empty", 1, Overflow.WAIT)
        await full.send(1)
        woken = []

        async def wait(name: str, what: asyncio.Task[object]) -> None:
            with pytest.raises(Closed):
                await what
            woken.append(name)

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(wait("sender", asyncio.ensure_future(full.send(2))))
            tasks.create_task(wait("receiver", asyncio.ensure_future(empty.receive())))
            await asyncio.sleep(1)
            await full.close()
            await empty.close()
        return sorted(woken)

    assert run_virtual(main()) == ["receiver", "sender"]


def test_a_receiver_that_is_cancelled_takes_nothing_with_it() -> None:
    async def main() -> list[int]:
        channel = Channel[int]("c", 4, Overflow.WAIT)
        receivers = [asyncio.ensure_future(channel.receive()) for _ in range(3)]
        await asyncio.sleep(1)
        await channel.send(1)
        receivers[0].cancel()
        await channel.send(2)
        await channel.close()
        got = await asyncio.gather(*receivers, return_exceptions=True)
        return sorted([item for item in got if isinstance(item, int)] + await drained(channel))

    assert run_virtual(main()) == [1, 2]


def test_with_a_clock_the_channel_knows_its_rate_wait_and_length() -> None:
    async def main() -> None:
        channel = Channel[int]("c", 1, Overflow.DROP_OLDEST, LoopClock())
        await channel.send(1)
        await asyncio.sleep(2)
        await channel.send(2)  # displaces the first
        await asyncio.sleep(1)
        assert await channel.receive() == 2
        await asyncio.sleep(1)
        flow = channel.flow()
        assert flow is not None
        assert (flow.length, flow.arrivals_per_s, flow.wait_s) == (0, 2 / 4, 1.5)
        assert flow.mean_length == pytest.approx(3 / 4)

    run_virtual(main())
    assert Channel[int]("c", 1, Overflow.WAIT).flow() is None


def test_a_capacity_below_one_is_refused() -> None:
    with pytest.raises(ValueError, match="capacity 0"):
        Channel[int]("c", 0, Overflow.WAIT)


actions = st.lists(st.sampled_from(["send", "receive", "tick"]), max_size=60)


@given(actions, st.sampled_from(Overflow), st.integers(1, 4))
@settings(deadline=None)
def test_nothing_is_lost_or_doubled_and_the_capacity_is_never_exceeded(
    steps: list[str], overflow: Overflow, capacity: int
) -> None:
    async def main() -> None:
        channel = Channel[int]("c", capacity, overflow)
        handed_back, got, sent = list[int](), list[int](), 0

        async def send(item: int) -> None:
            with contextlib.suppress(Closed):
                if (back := await channel.send(item)) is not None:
                    handed_back.append(back)
                return
            handed_back.append(item)  # it still waited when the channel was closed

        async def receive() -> None:
            with contextlib.suppress(Closed):
                got.append(await channel.receive())

        async with asyncio.TaskGroup() as tasks:
            for step in steps:
                if step == "send":
                    tasks.create_task(send(sent))
                    sent += 1
                elif step == "receive":
                    tasks.create_task(receive())
                else:
                    await asyncio.sleep(1)
                assert len(channel) <= capacity
            await asyncio.sleep(1)
            statistics = channel.statistics()
            assert statistics.received == statistics.displaced + statistics.length + len(got)
            await channel.close()
            left = await drained(channel)
        assert Counter(got + left + handed_back) == Counter(range(sent))
        if overflow is not Overflow.WAIT:
            assert len(handed_back) == statistics.displaced

    run_virtual(main())
