"""Scenes made by rule, with known truth: for tests, and for people without a camera.

``synthetic:plaza?width=640&height=480&fps=10&seconds=20&seed=1&objects=3``: people walk over a paved square. Every
picture follows from the parameters and its number alone.
"""

import asyncio
import math
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
from urllib.parse import parse_qsl

import cv2
import numpy as np
from numpy.typing import NDArray

from edge_agent.capture.base import Captured, CaptureEvent, Ended, StateChange
from pipeline.errors import ConfigError
from pipeline.frames import Image
from pipeline.geometry import BoxArray, Size, clip
from pipeline.results import CameraState
from pipeline.timing import Clock

SCENES = ("plaza",)
LEAST_SIDE_PX = 32
NOISE_SIGMA = 2.0
NOISE_PICTURES = 4
_CLOTHES_BGR = ((60, 50, 160), (140, 90, 40), (50, 50, 50), (60, 130, 70), (40, 140, 200), (150, 60, 120))
_LEGS_BGR = ((70, 50, 40), (45, 45, 50), (90, 80, 70))
_SKIN_BGR = (140, 170, 210)


@dataclass(frozen=True, slots=True)
class Scene:
    """Parameters of a scene; ``seconds`` 0 means without end."""

    width: int = 640
    height: int = 480
    fps: float = 10.0
    seconds: float = 20.0
    seed: int = 1
    objects: int = 3

    @property
    def total_frames(self) -> int | None:
        """The number of pictures, None for a scene without end."""
        return max(1, round(self.seconds * self.fps)) if self.seconds else None


_LIMITS = {
    "width": (LEAST_SIDE_PX, 7680),
    "height": (LEAST_SIDE_PX, 4320),
    "fps": (0.1, 240),
    "seconds": (0, 1e6),
    "seed": (0, 2**32 - 1),
    "objects": (0, 100),
}


def parse_scene(target: str) -> Scene:
    """Read ``plaza?width=640&...``. Raises ConfigError on an unknown scene, option or value."""
    name, _, query = target.partition("?")
    if name not in ("", *SCENES):
        raise ConfigError(f"The synthetic scene is {name}; known: {', '.join(SCENES)}.")
    options: dict[str, float] = {}
    for key, text in parse_qsl(query, keep_blank_values=True):
        if key not in _LIMITS:
            raise ConfigError(f"The synthetic scene has no option {key}; it has {', '.join(_LIMITS)}.")
        whole = next(field.type for field in fields(Scene) if field.name == key) is int
        try:
            value = int(text) if whole else float(text)
        except ValueError as error:
            raise ConfigError(f"The option {key} of the synthetic scene is {text!r}; it must be a number.") from error
        low, high = _LIMITS[key]
        if not low <= value <= high:
            raise ConfigError(f"The option {key} of the synthetic scene is {text}; it must be {low} to {high}.")
        options[key] = value
    return Scene(**options)  # type: ignore[arg-type]  # whole numbers were made int above


class Painter:
    """Draws the pictures of a scene and knows where its people are."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        generator = np.random.default_rng(scene.seed)
        ground = _pavement(scene, generator)
        # A sensor's noise, so that no two pictures in a row are the same, made once.
        self._backgrounds = [_with_noise(ground, generator) for _ in range(NOISE_PICTURES)]
        count = scene.objects
        # Nearer people are larger and lower in the picture; each walks along a horizontal line, back and forth.
        depth = generator.uniform(0, 1, count)
        self._tall_px = scene.height * (0.16 + 0.16 * depth)
        self._feet_y_px = scene.height * (0.55 + 0.4 * depth)
        self._start = generator.uniform(0, 2, count)
        self._speed = generator.uniform(0.06, 0.12, count) * generator.choice([-1, 1], count)
        self._look = generator.integers(0, len(_CLOTHES_BGR) * len(_LEGS_BGR), count)
        self._order = np.argsort(depth, kind="stable")

    def _boxes(self, seq: int) -> BoxArray:
        """Boxes (n, 4) ``xyxy`` of all people in drawing order, not cut to the picture."""
        at_s = seq / self._scene.fps
        swing = np.abs((self._start + self._speed * at_s) % 2 - 1)  # a triangle wave in [0, 1]
        centre_x = swing * self._scene.width
        half = 0.19 * self._tall_px
        boxes = np.stack([centre_x - half, self._feet_y_px - self._tall_px, centre_x + half, self._feet_y_px], axis=1)
        return boxes[self._order].round().astype(np.float32)

    def truth(self, seq: int) -> BoxArray:
        """Where the people of picture ``seq`` are: (n, 4) float32 ``xyxy``, cut to the picture."""
        return clip(self._boxes(seq), Size(self._scene.width, self._scene.height))

    def paint(self, seq: int) -> Image:
        """Picture ``seq`` as (h, w, 3) uint8 BGR, read-only."""
        image = self._backgrounds[seq % NOISE_PICTURES].copy()
        for person, box in zip(self._order, self._boxes(seq), strict=True):
            _draw_person(image, box, int(self._look[person]), seq / self._scene.fps)
        image.setflags(write=False)
        return image


def _pavement(scene: Scene, generator: np.random.Generator) -> Image:
    rows = np.linspace(165, 120, scene.height, dtype=np.float32)[:, None]
    ground = np.broadcast_to(rows, (scene.height, scene.width)).copy()
    coarse = generator.normal(0, 10, (max(2, scene.height // 24), max(2, scene.width // 24))).astype(np.float32)
    ground += cv2.resize(coarse, (scene.width, scene.height), interpolation=cv2.INTER_CUBIC)
    step_px = max(8, scene.height // 12)
    ground[::step_px] -= 18
    ground[:, ::step_px] -= 18
    grey = np.clip(ground, 0, 255).astype(np.uint8)
    return np.asarray(cv2.merge([grey, cv2.add(grey, 4), cv2.add(grey, 8)]), dtype=np.uint8)


def _with_noise(image: Image, generator: np.random.Generator) -> Image:
    noisy = image + generator.normal(0, NOISE_SIGMA, image.shape)
    return np.clip(noisy.round(), 0, 255).astype(np.uint8)


def _draw_person(image: Image, box: NDArray[np.float32], look: int, at_s: float) -> None:
    x1, y1, x2, y2 = (int(value) for value in box)
    tall, wide, middle = y2 - y1, x2 - x1, (x1 + x2) // 2
    clothes, legs = _CLOTHES_BGR[look % len(_CLOTHES_BGR)], _LEGS_BGR[look % len(_LEGS_BGR)]
    head_r = max(1, round(0.075 * tall))
    neck_y, hip_y = y1 + 2 * head_r, y1 + round(0.55 * tall)
    limb = max(1, round(0.085 * tall))
    stride = math.sin(2 * math.pi * 0.9 * at_s + look) * (wide / 2 - limb / 2)
    for side in (-1, 1):
        foot = (middle + round(side * stride), y2 - limb // 2 - 1)
        cv2.line(image, (middle + side * limb // 2, hip_y), foot, legs, limb, cv2.LINE_AA)
        hand = (middle - round(side * stride * 0.8), hip_y)
        cv2.line(image, (middle + side * round(0.2 * wide), neck_y + limb), hand, clothes, limb, cv2.LINE_AA)
    centre, axes = (middle, (neck_y + hip_y) // 2), (max(1, round(0.28 * wide)), max(1, (hip_y - neck_y) // 2 + limb))
    cv2.ellipse(image, centre, axes, 0, 0, 360, clothes, -1, cv2.LINE_AA)
    cv2.circle(image, (middle, y1 + head_r), head_r, _SKIN_BGR, -1, cv2.LINE_AA)
    cv2.ellipse(image, (middle, y1 + head_r), (head_r, head_r), 0, 180, 360, (30, 35, 45), -1, cv2.LINE_AA)


class SyntheticSource:
    """A scene as a source. Implements ``VideoSource``; in real time it is paced, and the newest picture wins."""

    def __init__(self, scene: Scene, *, realtime: bool, clock: Clock) -> None:
        self._scene = scene
        self._realtime = realtime
        self._clock = clock
        self._closing = asyncio.Event()
        self._painter: Painter | None = None

    @property
    def live(self) -> bool:
        return self._realtime

    @property
    def stills(self) -> bool:
        return False

    @property
    def process_ids(self) -> tuple[int, ...]:
        return ()

    @property
    def total_frames(self) -> int | None:
        return self._scene.total_frames

    def truth(self, seq: int) -> BoxArray:
        """Where the people of picture ``seq`` are: (n, 4) float32 ``xyxy`` in frame pixels."""
        return self._painted().truth(seq)

    async def events(self) -> AsyncIterator[CaptureEvent]:
        loop = asyncio.get_running_loop()
        pool = ThreadPoolExecutor(1, thread_name_prefix="synthetic")
        try:
            painter = await loop.run_in_executor(pool, self._painted)
            yield StateChange(CameraState.LIVE, "pictures arrive")
            seq, zero_s = 0, self._clock.now_s()
            total = self._scene.total_frames
            while (total is None or seq < total) and not self._closing.is_set():
                lost = 0
                captured_at_s = self._clock.now_s()
                if self._realtime:
                    newest = int((captured_at_s - zero_s) * self._scene.fps)
                    newest = newest if total is None else min(newest, total - 1)
                    lost = max(0, newest - seq)
                    seq += lost
                    captured_at_s = zero_s + seq / self._scene.fps
                    if await self._closed_by(captured_at_s):
                        return
                image = await loop.run_in_executor(pool, painter.paint, seq)
                yield Captured(image, seq, captured_at_s, seq * 1000 / self._scene.fps, lost)
                seq += 1
            if not self._closing.is_set():
                yield Ended(CameraState.FINISHED, f"the scene ended after {seq} pictures")
        finally:
            pool.shutdown(wait=False, cancel_futures=True)  # the event loop does not wait for a picture

    async def close(self) -> None:
        self._closing.set()

    async def _closed_by(self, moment_s: float) -> bool:
        delay_s = moment_s - self._clock.now_s()
        if delay_s > 0:
            try:
                async with asyncio.timeout(delay_s):
                    await self._closing.wait()
            except TimeoutError:
                pass
        return self._closing.is_set()

    def _painted(self) -> Painter:
        if self._painter is None:
            self._painter = Painter(self._scene)
        return self._painter
