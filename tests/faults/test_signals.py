"""How a run ends when it is told to, or killed."""

import asyncio
import signal
from pathlib import Path

from tests.support.processes import Arguments, Product, free_port_pair, gone, listening, product, until

SOURCE = "synthetic:plaza?seconds=0&fps=5&width=320&height=240"


def arguments(folder: Path, port: int) -> Arguments:
    return ["run", SOURCE, "--realtime", "--no-web", "--port", str(port), "--record", folder / "r.jsonl"]


async def at_work(run: Product, folder: Path) -> None:
    record = folder / "r.jsonl"
    await until(lambda: record.exists() and record.stat().st_size, f"results in the record; {run.stderr}")


async def test_ctrl_c_on_a_terminal_ends_it_properly_and_the_broker_still_hears_the_goodbye(tmp_path: Path) -> None:
    port = free_port_pair()
    async with listening(port) as listener, product(tmp_path, *arguments(tmp_path, port)) as run:
        await at_work(run, tmp_path)
        children = run.children()
        run.send_signal_to_group(signal.SIGINT)
        assert await run.ended(within_s=10) == 0, run.stderr
        assert listener.availability()[-2:] == ["online", "offline"]
        assert run.stderr == ""
    assert gone(children)


async def test_a_second_signal_ends_it_at_once(tmp_path: Path) -> None:
    async with product(tmp_path, *arguments(tmp_path, free_port_pair())) as run:
        await at_work(run, tmp_path)
        children = run.children()
        worker = run.child("foveate.worker_child")
        assert worker is not None
        worker.send_signal(signal.SIGSTOP)  # so that a proper end would take seconds
        run.send_signal(signal.SIGINT)
        run.send_signal(signal.SIGTERM)  # at the same moment: the same wish, as from timeout(1)
        await asyncio.sleep(0.5)
        assert run.running
        run.send_signal(signal.SIGTERM)
        assert await run.ended() == 128 + signal.SIGTERM
        worker.send_signal(signal.SIGCONT)
        await until(lambda: gone(children), "the children's end")


async def test_its_children_end_when_it_is_killed(tmp_path: Path) -> None:
    async with product(tmp_path, *arguments(tmp_path, free_port_pair())) as run:
        await at_work(run, tmp_path)
        children = run.children()
        assert len(children) >= 2  # broker and worker
        run.send_signal(signal.SIGKILL)
        await until(lambda: gone(children), "the children's end")


async def test_sigterm_while_it_starts_ends_it_properly(tmp_path: Path) -> None:
    async with product(tmp_path, *arguments(tmp_path, free_port_pair())) as run:
        await until(lambda: run.child("foveate.broker"), "the broker's process")
        children = run.children()
        run.send_signal(signal.SIGTERM)
        assert await run.ended(within_s=20) == 0, run.stderr
        assert run.stderr == ""
    assert gone(children)
