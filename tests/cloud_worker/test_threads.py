"""Blocking work runs off the event loop, one call at a time, and never holds the process."""

import asyncio
import queue
import subprocess
import sys
import threading
from collections.abc import Sequence

import numpy as np
import pytest

from cloud_worker.model_runner import ModelRunner, decode_jpeg
from cloud_worker.threads import ThreadRunner
from pipeline.detections import Detections
from pipeline.frames import Image
from pipeline.geometry import Size
from tests.support.detectors import ScriptedDetector, VirtualRunner, grey_picture, jpeg_of

LEAVES = """
import asyncio, atexit, sys
import cv2, numpy as np
from cloud_worker.threads import ThreadRunner, leave

def native():
    picture = np.zeros((720, 1280, 3), np.uint8)
    while True:
        cv2.GaussianBlur(picture, (9, 9), 2.0)

async def main():
    runner = ThreadRunner("loader")
    call = asyncio.ensure_future(runner.run(native if sys.argv[1] == "busy" else int))
    await asyncio.wait([call], timeout=0.3)
    call.cancel()
    if sys.argv[1] != "open":
        runner.close()

atexit.register(print, "the interpreter's own end")
asyncio.run(main())
print("last words", file=sys.stderr, end="")
leave(3)
"""
OWN_END = "the interpreter's own end\n"


@pytest.mark.parametrize(("call", "told"), [("busy", ""), ("done", OWN_END), ("open", OWN_END)])
def test_a_process_ends_with_its_exit_code_also_while_native_code_runs_in_a_call(call: str, told: str) -> None:
    ended = subprocess.run([sys.executable, "-c", LEAVES, call], capture_output=True, text=True, timeout=30)
    assert (ended.returncode, ended.stderr, ended.stdout) == (3, "last words", told)


async def test_calls_run_in_one_other_thread_that_does_not_keep_the_interpreter() -> None:
    runner = ThreadRunner("model")
    threads = [await runner.run(threading.current_thread) for _ in range(3)]
    assert threads[0] is not threading.current_thread()
    assert len(set(threads)) == 1
    assert (threads[0].name, threads[0].daemon) == ("model", True)
    runner.close()
    await asyncio.to_thread(threads[0].join, 10)
    assert not threads[0].is_alive()


async def test_what_a_call_raises_is_raised_where_it_is_awaited() -> None:
    runner = ThreadRunner("model")
    with pytest.raises(ZeroDivisionError):
        await runner.run(lambda: 1 / 0)
    assert await runner.run(lambda: 5) == 5
    runner.close()


async def test_a_caller_that_gave_up_does_not_disturb_the_next_call() -> None:
    runner = ThreadRunner("model")
    release = threading.Event()
    given_up = asyncio.ensure_future(runner.run(release.wait))
    await asyncio.sleep(0)
    given_up.cancel()
    following = asyncio.ensure_future(runner.run(lambda: 5))
    await asyncio.sleep(0)
    release.set()
    assert await following == 5
    assert given_up.cancelled()
    runner.close()


async def test_the_calls_that_may_wait_are_bounded() -> None:
    runner = ThreadRunner("model")
    release = threading.Event()
    calls = [asyncio.ensure_future(runner.run(release.wait)) for _ in range(20)]
    release_later = asyncio.ensure_future(asyncio.sleep(0))
    await release_later
    release.set()
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    assert any(isinstance(outcome, queue.Full) for outcome in outcomes)
    assert any(outcome is True for outcome in outcomes)
    runner.close()


async def test_a_model_that_raises_or_miscounts_gives_a_sentence_instead_of_detections() -> None:
    detector = ScriptedDetector(fails=lambda greys: 8 in greys)
    models = ModelRunner({"m": detector}, VirtualRunner())
    assert await models.detect("m", [grey_picture(8)], 0.5) == "m raised RuntimeError: cannot run [8]"
    detector.detect = lambda images, min_score: [Detections.none()]  # type: ignore[method-assign]  # one answer for all
    assert await models.detect("m", [grey_picture(80)] * 2, 0.5) == "m gave 1 answers for 2 pictures"


async def test_the_models_of_a_worker_take_turns_so_that_together_they_use_the_threads_of_one() -> None:
    """Case C11: each has a session of its own, on as many threads as the worker may use in all."""
    running, most = 0, 0

    class Counted(ScriptedDetector):
        def detect(self, images: Sequence[Image], min_score: float) -> list[Detections]:
            nonlocal running, most
            running += 1
            most = max(most, running)
            found = super().detect(images, min_score)
            threading.Event().wait(0.002)
            running -= 1
            return found

    runner = ThreadRunner("model")
    models = ModelRunner({name: Counted(name) for name in ("a", "b")}, runner)
    answers = await asyncio.gather(*(models.detect(name, [grey_picture(80)], 0.5) for name in ("a", "b", "a", "b")))
    assert [len(found) for found in answers] == [1, 1, 1, 1]
    assert most == 1
    runner.close()


def test_a_jpeg_is_decoded_to_a_read_only_bgr_picture() -> None:
    blue = np.zeros((48, 64, 3), np.uint8)
    blue[..., 0] = 255
    image = decode_jpeg(memoryview(jpeg_of(blue)), Size(64, 48))
    assert image is not None
    assert image.shape == (48, 64, 3)
    assert image.dtype == np.uint8
    assert not image.flags.writeable
    assert image[..., 0].min() > 240
    assert image[..., 2].max() < 15


@pytest.mark.parametrize("data", [b"", b"no picture", bytes.fromhex("ffd8ffc0000b080040004001011100ffd9")])
def test_what_cannot_be_decoded_is_no_picture(data: bytes) -> None:
    assert decode_jpeg(memoryview(data), Size(64, 64)) is None


def test_a_picture_of_another_size_than_its_header_said_is_refused() -> None:
    assert decode_jpeg(memoryview(jpeg_of(grey_picture(80, 64, 48))), Size(48, 64)) is None


def test_an_orientation_tag_does_not_turn_the_picture_that_crops_are_placed_in() -> None:
    plain = jpeg_of(grey_picture(80, 64, 48))
    tiff = b"II*\x00\x08\x00\x00\x00\x01\x00\x12\x01\x03\x00\x01\x00\x00\x00\x06\x00\x00\x00\x00\x00\x00\x00"
    exif = b"Exif\x00\x00" + tiff
    turned = plain[:2] + b"\xff\xe1" + (len(exif) + 2).to_bytes(2, "big") + exif + plain[2:]
    image = decode_jpeg(memoryview(turned), Size(64, 48))
    assert image is not None
    assert image.shape == (48, 64, 3)
