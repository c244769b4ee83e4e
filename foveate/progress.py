"""How far a run has come: a bar per file on a terminal, a line now and then elsewhere."""

import asyncio
from collections.abc import Sequence

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars

from edge_agent.camera import Camera

LINE_EVERY_S = 10.0
REFRESH_S = 0.25


class Progress:
    """Shows the cameras of a run until it is cancelled."""

    def __init__(self, console: Console, cameras: Sequence[Camera]) -> None:
        self._console, self._cameras = console, cameras

    async def run(self) -> None:
        if self._console.is_terminal:
            await self._bars()
        else:
            await self._lines()

    async def _bars(self) -> None:
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[answers]}"),
        )
        with Bars(*columns, console=self._console, transient=True) as bars:
            rows = [bars.add_task(c.name, total=c.source.total_frames, answers="") for c in self._cameras]
            while True:
                for row, camera in zip(rows, self._cameras, strict=True):
                    _update(bars, row, camera)
                await asyncio.sleep(REFRESH_S)

    async def _lines(self) -> None:
        while True:
            await asyncio.sleep(LINE_EVERY_S)
            for camera in self._cameras:
                total = camera.source.total_frames
                done = camera.board.ledger.snapshot().captured
                of = f" of {total}" if total else ""
                self._console.print(f"{camera.name}  {camera.board.state.value}  {done}{of} frames  {_answers(camera)}")


def _update(bars: Bars, row: TaskID, camera: Camera) -> None:
    counts = camera.board.ledger.snapshot()
    bars.update(row, completed=counts.captured, total=camera.source.total_frames, answers=_answers(camera))


def _answers(camera: Camera) -> str:
    finals = camera.board.ledger.snapshot().finals
    shown = ", ".join(f"{n} {origin}" for origin, n in sorted(finals.items()))
    return shown or camera.board.reason
