"""A source that a reader process reads: states, watch over the pictures, and coming back."""

import asyncio
import functools
import logging
import os
import random
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from edge_agent.capture.address import Address, Redactor, SourceKind
from edge_agent.capture.base import Captured, CaptureEvent, Ended, StateChange
from edge_agent.capture.picture import Glance, PictureWatch, glance
from edge_agent.capture.pixels import SharedPicture, create_shared_file
from edge_agent.capture.process import ReaderProcess
from edge_agent.capture.protocol import Idle, Opened, Opening, Order, Over, Picture
from edge_agent.capture.reconnect import Backoff, NoiseMeter
from edge_agent.capture.settings import CaptureSettings
from pipeline.frames import Image
from pipeline.results import CameraState
from pipeline.timing import Clock

log = logging.getLogger(__name__)


class ProcessSource:
    """A camera, stream, file or folder behind a reader process of its own. Implements ``VideoSource``."""

    def __init__(self, settings: CaptureSettings, address: Address, clock: Clock, jitter: random.Random) -> None:
        self._settings = settings
        self._address = address
        self._clock = clock
        self._camera = address.kind is not SourceKind.PATH
        self._redactor = Redactor(settings)
        self._backoff = Backoff(settings.reconnect_first_s, settings.reconnect_most_s, jitter)
        self._noise = NoiseMeter()
        self._total_frames: int | None = None
        self._closing = False
        self._changing_reader = asyncio.Lock()
        self._reader: ReaderProcess | None = None
        self._desk: _Desk | None = None
        self._watch = PictureWatch(live=self.live)
        self._shown: tuple[CameraState, str] | None = None
        self._pictures = 0
        self._lost = self._unusable = 0
        self._wait_s = 0.0
        self._probe = False
        self._session_from_s: float | None = None

    @property
    def live(self) -> bool:
        return self._camera or self._settings.realtime

    @property
    def stills(self) -> bool:
        return not self.live and self._is_folder

    @property
    def total_frames(self) -> int | None:
        return self._total_frames

    @property
    def process_ids(self) -> tuple[int, ...]:
        return () if self._reader is None else (self._reader.pid,)

    @functools.cached_property
    def _is_folder(self) -> bool:
        return Path(self._address.target).is_dir()

    @property
    def noise_lines(self) -> int:
        """Lines that decoders wrote to their error output."""
        return self._noise.lines

    async def events(self) -> AsyncIterator[CaptureEvent]:
        try:
            if not self._closing:
                self._desk = desk = _Desk.open()
                yield self._show(CameraState.CONNECTING, f"opening {self._redactor.clean(self._settings.source)}")
            while not self._closing:
                answer = await self._answer(desk)
                if self._closing:
                    return
                if isinstance(answer, _Taken):
                    for event in self._hand_over(answer):
                        yield event
                elif isinstance(answer, Over):
                    ending = await self._session_over(answer)
                    if ending is not None:
                        yield ending
                    if isinstance(ending, Ended):
                        return
                else:
                    self._note(answer)
        finally:
            await self.close()

    async def close(self) -> None:
        self._closing = True
        async with self._changing_reader:
            if self._reader is not None:
                await self._reader.close()
        desk, self._desk = self._desk, None
        if desk is not None:
            desk.close()

    async def _answer(self, desk: "_Desk") -> "Opening | Opened | Idle | Over | _Taken":
        async with self._changing_reader:
            if self._closing:
                return Idle()
            if self._reader is None:
                started = await ReaderProcess.start(self._order(desk.shared_file), self._hear)
                if isinstance(started, Over):
                    return started
                self._reader = started
            reader = self._reader
        answer = await reader.ask()
        if not isinstance(answer, Picture):
            return answer
        if self._closing:
            return Idle()
        return await asyncio.get_running_loop().run_in_executor(desk.copier, _take, desk.shared, answer)

    def _hear(self, lines: list[str]) -> None:
        report = self._noise.see(len(lines), self._redactor.clean(lines[0]), self._clock.now_s())
        if report is not None:
            log.warning("%s: the decoder says: %s", self._redactor.clean(self._settings.source), report)

    def _order(self, shared_file: int) -> Order:
        settings = self._settings
        return Order(
            kind=self._address.kind,
            target=self._address.target,
            realtime=settings.realtime,
            username=settings.username,
            password=settings.password,
            rtsp_transport=settings.rtsp_transport,
            open_timeout_s=settings.open_timeout_s,
            read_timeout_s=settings.read_timeout_s,
            pixel_limit=settings.pixel_limit,
            wait_s=self._wait_s,
            probe=self._probe,
            shared_file=shared_file,
        )

    def _hand_over(self, taken: "_Taken") -> list[CaptureEvent]:
        picture = taken.picture
        if self._session_from_s is None:
            self._session_from_s = picture.captured_at_s
            self._watch = PictureWatch(live=self.live)
        media_s = None if picture.media_ms is None or self.live else picture.media_ms / 1000
        state, reason = self._watch.see(taken.look, picture.captured_at_s if media_s is None else media_s)
        events: list[CaptureEvent] = []
        if (state, reason) != self._shown:
            events.append(self._show(state, reason))
        lost, unusable = self._lost + picture.lost, self._unusable + picture.unusable
        self._lost = self._unusable = 0
        seq = self._pictures + lost + unusable
        self._pictures = seq + 1
        events.append(Captured(taken.image, seq, picture.captured_at_s, picture.media_ms, lost, unusable))
        return events

    async def _session_over(self, over: Over) -> StateChange | Ended | None:
        reader, self._reader = self._reader, None
        if reader is not None:
            await reader.close()
        self._lost += over.lost
        self._unusable += over.unusable
        reason = self._redactor.clean(over.reason)
        if over.final or not self._camera:
            fault_of_file = over.state in (CameraState.STALE, CameraState.OFFLINE)
            state = CameraState.INVALID_INPUT if fault_of_file else over.state
            return Ended(state, reason, self._lost, self._unusable)
        session_s = 0.0 if self._session_from_s is None else self._clock.now_s() - self._session_from_s
        self._session_from_s = None
        delay_s = self._backoff.next_delay_s(session_s)
        refused = over.state is CameraState.AUTH_FAILED
        self._wait_s = self._backoff.auth_delay_s() if refused else delay_s
        self._probe = not refused
        return None if (over.state, reason) == self._shown else self._show(over.state, reason)

    def _show(self, state: CameraState, reason: str) -> StateChange:
        self._shown = (state, reason)
        return StateChange(state, reason)

    def _note(self, answer: Opening | Opened | Idle) -> None:
        if isinstance(answer, Opened):
            self._total_frames = answer.total_frames
        elif isinstance(answer, Opening):
            source = self._redactor.clean(self._settings.source)
            log.debug("%s: opening with OpenCV %s, libavcodec %s", source, answer.opencv, answer.ffmpeg)


@dataclass(frozen=True, slots=True)
class _Desk:
    """What one iteration of events holds: the shared file, its mapping, and the thread that copies out of it."""

    shared_file: int
    shared: SharedPicture
    copier: ThreadPoolExecutor

    @classmethod
    def open(cls) -> "_Desk":
        descriptor = create_shared_file()
        return cls(descriptor, SharedPicture(descriptor), ThreadPoolExecutor(1, thread_name_prefix="capture"))

    def close(self) -> None:
        self.copier.submit(os.close, self.shared_file)  # after a copy that is still under way
        self.copier.shutdown(wait=False)


@dataclass(frozen=True, slots=True, eq=False)
class _Taken:
    """A picture out of the shared file."""

    picture: Picture
    image: Image
    look: Glance


def _take(shared: SharedPicture, picture: Picture) -> _Taken | Over:
    try:
        image = shared.copy(picture.height, picture.width)
    except (OSError, ValueError) as error:
        return Over(CameraState.STALE, f"the reader process handed over no picture: {error}", final=False)
    return _Taken(picture, image, glance(image))
