"""The worker as its clients see it: one reply per request, in time or with a reason."""

import asyncio

from pipeline.timing import run_virtual
from tests.support.detectors import ScriptedDetector
from tests.support.workers import bench, make_request


def test_a_request_is_answered_once_with_its_key_and_durations() -> None:
    async def scene() -> None:
        async with bench([ScriptedDetector(run_s=lambda _batch: 0.02)]) as made:
            sent = await made.requester.send(make_request(7), grey=80)
            await asyncio.sleep(1)
            reply = made.requester.reply_to(sent)
            assert reply.key == ("a1", "plaza", 1, 7)
            assert (reply.worker, reply.model, reply.model_version, reply.refused) == ("w0", "m", "1", None)
            [[found]] = reply.detections
            assert (found.label, found.box) == ("grey80", (8, 8, 24, 24))
            assert abs(reply.infer_ms - 20) < 0.01
            assert abs(reply.total_ms - 20) < 0.01

    run_virtual(scene())
