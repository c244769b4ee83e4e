"""Progress on a terminal and elsewhere, on virtual time."""

import asyncio
import io
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

from rich.console import Console

from edge_agent.board import Board
from foveate.progress import LINE_EVERY_S, Progress
from pipeline.frames import FrameKey
from pipeline.results import CameraState, Origin
from pipeline.timing import run_virtual


def camera(name: str, answered: int, total: int | None) -> Any:
    board = Board(datetime(2026, 1, 1, tzinfo=UTC))
    for seq in range(answered):
        board.ledger.capture(FrameKey(name, 1, seq))
        board.ledger.final(FrameKey(name, 1, seq), Origin.FUSED)
    board.went(CameraState.LIVE, "pictures arrive", datetime(2026, 1, 1, tzinfo=UTC))
    return SimpleNamespace(name=name, board=board, source=SimpleNamespace(total_frames=total))


def shown(console: Console, cameras: list[Any], for_s: float) -> None:
    async def main() -> None:
        try:
            async with asyncio.timeout(for_s):
                await Progress(console, cameras).run()
        except TimeoutError:
            pass

    run_virtual(main())


def test_without_a_terminal_a_line_per_camera_comes_now_and_then() -> None:
    out = io.StringIO()
    shown(Console(file=out, width=120), [camera("gate", 30, 795), camera("yard", 0, None)], 2.5 * LINE_EVERY_S)
    assert (
        out.getvalue().splitlines()
        == [
            "gate  live  30 of 795 frames  30 fused",
            "yard  live  0 frames  pictures arrive",
        ]
        * 2
    )


def test_on_a_terminal_there_is_a_bar_per_camera_that_leaves_nothing_behind() -> None:
    out = io.StringIO()
    console = Console(file=out, width=120, force_terminal=True, color_system=None)
    shown(console, [camera("gate", 30, 795), camera("yard", 7, None)], 1.0)
    text = out.getvalue()
    assert "gate" in text
    assert "30/795" in text
    assert "7/?" in text
    assert "30 fused" in text
    assert text.endswith("\x1b[?25h") or "\x1b[?25h" in text[-60:]  # the cursor is back
