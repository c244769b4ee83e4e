"""A small server of the Open Inference Protocol v2 over gRPC, with a real model behind it.

It knows the messages as the client does: that they are those of the protocol is shown with real servers.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import grpc
import numpy as np
import onnxruntime as ort

from pipeline.detectors.open_inference_proto import MESSAGES, SERVICE
from tests.support.open_inference import FORMATS, TYPES, Behaviour

CONTENTS = {"FP32": "fp32_contents", "UINT8": "uint_contents"}


class _Handlers:
    def __init__(self, model: bytes, behaviour: Behaviour) -> None:
        self.session = ort.InferenceSession(model, providers=["CPUExecutionProvider"])
        self.behaviour = behaviour

    def ready(self, data: bytes, context: Any) -> bytes:
        self._known(data, context)
        return self._encoded("Ready", ready=self.behaviour.ready)

    def metadata(self, data: bytes, context: Any) -> bytes:
        self._known(data, context)

        def described(items: Sequence[Any]) -> list[Any]:
            return [
                MESSAGES["Tensor"](
                    name=item.name,
                    datatype=TYPES[item.type],
                    shape=[side if isinstance(side, int) else -1 for side in item.shape],
                )
                for item in items
            ]

        inputs, outputs = described(self.session.get_inputs()), described(self.session.get_outputs())
        return self._encoded("Description", name="fake", inputs=inputs, outputs=outputs)

    def infer(self, data: bytes, context: Any) -> bytes:
        behaviour = self.behaviour
        behaviour.infers += 1
        behaviour.connections.add(context.peer())
        if behaviour.hangs is not None:
            behaviour.hangs.wait(20)
        if behaviour.fails:
            context.abort(grpc.StatusCode.INTERNAL, behaviour.fails)
        if behaviour.garbage is not None:
            return behaviour.garbage
        request = MESSAGES["Request"].FromString(data)
        [described], [raw] = request.inputs, request.raw_input_contents
        tensor = np.frombuffer(raw, f"<{FORMATS[described.datatype]}").reshape(tuple(described.shape))
        names = [output.name for output in request.outputs]
        try:
            found = self.session.run(names, {described.name: tensor})
        except Exception as error:  # noqa: BLE001 - whatever the model says is the reply
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        return self._reply(names, found)

    def _reply(self, names: Sequence[str], found: Sequence[Any]) -> bytes:
        reply = MESSAGES["Reply"](model_name="fake", model_version=self.behaviour.version)
        for name, array in zip(names, found, strict=True):
            kind = {np.dtype(np.float32): "FP32", np.dtype(np.float16): "FP16"}[array.dtype]
            output = reply.outputs.add(name=name, datatype=kind, shape=array.shape)
            if self.behaviour.binary:
                reply.raw_output_contents.append(array.astype(f"<{FORMATS[kind]}").tobytes())
            else:
                getattr(output.contents, CONTENTS[kind]).extend(array.ravel().tolist())
        encoded: bytes = reply.SerializeToString()
        return encoded

    def _known(self, data: bytes, context: Any) -> None:
        asked = MESSAGES["Model"].FromString(data)
        if asked.name != "fake" or asked.version not in ("", "1"):
            context.abort(grpc.StatusCode.NOT_FOUND, "Request for unknown model")

    def _encoded(self, message: str, **fields: Any) -> bytes:
        encoded: bytes = MESSAGES[message](**fields).SerializeToString()
        return encoded


@contextmanager
def open_inference_grpc_server(
    model: bytes, behaviour: Behaviour | None = None, *, port: int = 0, credentials: Any = None
) -> Iterator[str]:
    """Serve an ONNX model as "fake"; its address. ``credentials``: with TLS, as localhost."""
    handlers = _Handlers(model, behaviour or Behaviour())
    pool = ThreadPoolExecutor(4)
    # Without reuse, so that two servers never share a port and the kernel the connections between them.
    server = grpc.server(pool, options=(("grpc.so_reuseport", 0), ("grpc.max_receive_message_length", -1)))
    methods = {"ModelReady": handlers.ready, "ModelMetadata": handlers.metadata, "ModelInfer": handlers.infer}
    unary = {name: grpc.unary_unary_rpc_method_handler(method) for name, method in methods.items()}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, unary),))
    if credentials is None:
        bound = server.add_insecure_port(f"127.0.0.1:{port}")
        address = f"grpc://127.0.0.1:{bound}/fake"
    else:
        bound = server.add_secure_port(f"127.0.0.1:{port}", credentials)
        address = f"grpcs://localhost:{bound}/fake"
    server.start()
    try:
        yield address
    finally:
        server.stop(0).wait(5)
        pool.shutdown()
