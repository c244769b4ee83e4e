"""A drawn load for a Triton server over gRPC: open loop, as the one for a worker over MQTT is."""

import asyncio
from collections.abc import Callable, Sequence

import grpc
import numpy as np
from numpy.typing import NDArray

from foveate.bench.triton_settings import Setting
from foveate.load.arrivals import Arrival
from foveate.load.generator import GRACE_S, LEAD_S, LEAST_BUDGET_MS
from foveate.load.outcomes import End, Outcome
from pipeline.detectors.contract import ModelEntry
from pipeline.detectors.open_inference_codec import InferenceServerError
from pipeline.detectors.open_inference_proto import MESSAGES, SERVICE, decode, decode_infer, encode_infer
from pipeline.detectors.preprocess import fill, place
from pipeline.frames import Image
from pipeline.geometry import Size
from pipeline.timing import Clock

_ROW = 6
"""Figures per detection; see ``triton_backend``."""
_OPTIONS = (("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1))


def encode_jpeg(model: str, jpeg: bytes) -> bytes:
    """A request to find what is in a JPEG."""
    tensor = MESSAGES["Tensor"](name="jpeg", datatype="BYTES", shape=[1, 1])
    raw = len(jpeg).to_bytes(4, "little") + jpeg
    request = MESSAGES["Request"](model_name=model, inputs=[tensor], raw_input_contents=[raw])
    encoded: bytes = request.SerializeToString()
    return encoded


def encode_tensor(model: str, image: Image, entry: ModelEntry) -> bytes:
    """A request for the model's own outputs for a picture, made ready here."""
    height, width = image.shape[:2]
    batch = np.empty((1, 3, height, width), np.float32)
    fill(image, place(Size(width, height), entry.input, (height, width)), entry.input, batch[0])
    return encode_infer((model, ""), entry.output.outputs, {entry.input.name: batch})


def decode_rows(data: bytes) -> NDArray[np.float32]:
    """Detections (n, 6) of a reply: x1, y1, x2, y2, score, index of the label. Raises InferenceServerError."""
    reply = decode("Reply", data)
    if len(reply.raw_output_contents) != 1 or len(reply.raw_output_contents[0]) % (4 * _ROW):
        raise InferenceServerError("the reply has no rows of detections")
    return np.frombuffer(reply.raw_output_contents[0], "<f4").reshape(-1, _ROW)


class TritonGenerator:
    """Offers load over one channel; to be made and closed in a running loop.

    ``jpeg`` gives the picture of a number.
    """

    def __init__(self, target: str, jpeg: Callable[[int], bytes], clock: Clock) -> None:
        self._channel = grpc.aio.insecure_channel(target, _OPTIONS)
        self._infer = self._channel.unary_unary(f"/{SERVICE}/ModelInfer")
        self._jpeg, self._clock = jpeg, clock
        self._ready: dict[str, tuple[Sequence[bytes], Sequence[str]]] = {}

    async def close(self) -> None:
        """Close the channel."""
        await self._channel.close()

    def prepare(self, setting: Setting, images: Sequence[Image], entry: ModelEntry) -> None:
        """Make requests for a setting that takes tensors, to be sent in turn."""
        encoded = [encode_tensor(setting.name, image, entry) for image in images]
        self._ready[setting.name] = encoded, entry.output.outputs

    async def offer(self, requests: Sequence[Arrival], setting: Setting) -> list[Outcome]:
        """Send each request at its moment, wait for what may still come, and say what became of all."""
        begun_s = self._clock.now_s() + LEAD_S
        calls = []
        async with asyncio.TaskGroup() as group:
            for arrival in requests:
                await asyncio.sleep(max(0.0, begun_s + arrival.at_s - self._clock.now_s()))
                calls.append(group.create_task(self._ask(arrival, setting, begun_s)))
        return [call.result() for call in calls]

    async def _ask(self, arrival: Arrival, setting: Setting, begun_s: float) -> Outcome:
        sent_s = self._clock.now_s() - begun_s
        left_s = arrival.at_s + arrival.deadline_s - sent_s
        if left_s * 1e3 <= LEAST_BUDGET_MS:
            return Outcome(arrival, End.NOT_SENT, reason="too_late_to_send")
        ready, outputs = self._ready.get(setting.name, ((), ()))
        if ready:
            request = ready[arrival.number % len(ready)]
        else:
            request = encode_jpeg(setting.name, self._jpeg(arrival.picture))
        try:
            data = await self._infer(request, timeout=left_s if setting.cancels else left_s + GRACE_S)
        except grpc.aio.AioRpcError as error:
            gone = error.code() is grpc.StatusCode.DEADLINE_EXCEEDED
            ended_s = self._clock.now_s() - begun_s
            end = End.UNANSWERED if gone else End.REFUSED
            return Outcome(arrival, end, sent_s, ended_s, error.code().name.lower())
        if ready:
            decode_infer(data, outputs)
        else:
            decode_rows(data)
        return Outcome(arrival, End.ANSWERED, sent_s, self._clock.now_s() - begun_s, replies=1)
