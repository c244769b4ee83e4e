"""A small server of the Open Inference Protocol v2 over HTTP, with a real model behind it.

It shares no code with the client: what the two understand of each other is the protocol.
"""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np
import onnxruntime as ort

TYPES = {"tensor(float)": "FP32", "tensor(float16)": "FP16", "tensor(uint8)": "UINT8"}
FORMATS = {"FP32": "f4", "FP16": "f2", "UINT8": "u1"}


@dataclass
class Behaviour:
    """How the server behaves; may be changed while it runs."""

    binary: bool = True
    ready: bool = True
    version: str = "1"
    fails: str = ""
    """What an inference is answered with instead, as an error."""
    garbage: bytes | None = None
    """What an inference is answered with instead, with status 200."""
    hangs: threading.Event | None = None
    closes_after_each: bool = False
    infers: int = 0
    connections: set[tuple[str, int]] = field(default_factory=set)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: "_Server"

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is that of the base class
        pass

    def do_GET(self) -> None:
        self.server.behaviour.connections.add(self.client_address)
        base = "/v2/models/fake"
        path = self.path.replace("/versions/1", "")
        if path == "/v2":
            extensions = ["binary_tensor_data"] if self.server.behaviour.binary else []
            self._reply(200, {"name": "small", "version": "0", "extensions": extensions})
        elif path == f"{base}/ready":
            self._reply(200 if self.server.behaviour.ready else 503, {} if self.server.behaviour.ready else NOT_READY)
        elif path == base:
            self._reply(200, {"name": "fake", "versions": ["1"], "platform": "onnx", **self._tensors()})
        else:
            self._reply(404, {"error": "Request for unknown model"})

    def do_POST(self) -> None:
        behaviour = self.server.behaviour
        behaviour.infers += 1
        behaviour.connections.add(self.client_address)
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if behaviour.hangs is not None:
            behaviour.hangs.wait(20)
        if behaviour.fails:
            self._reply(500, {"error": behaviour.fails})
        elif behaviour.garbage is not None:
            self._send(200, behaviour.garbage, {})
        else:
            self._infer(body)

    def _infer(self, body: bytes) -> None:
        split = self.headers.get("Inference-Header-Content-Length")
        header = json.loads(body[: int(split)] if split else body)
        [described] = header["inputs"]
        shape, kind = described["shape"], FORMATS[described["datatype"]]
        if split:
            raw = body[int(split) :]
            assert len(raw) == described["parameters"]["binary_data_size"]
            values = np.frombuffer(raw, f"<{kind}")
        else:
            values = described["data"]
        tensor = np.array(values, kind).reshape(shape)
        names = [output["name"] for output in header["outputs"]]
        try:
            found = self.server.session.run(names, {described["name"]: tensor})
        except Exception as error:  # noqa: BLE001 - whatever the model says is the reply
            self._reply(400, {"error": str(error)})
            return
        as_binary = [output.get("parameters", {}).get("binary_data", False) for output in header["outputs"]]
        outputs: list[dict[str, Any]] = []
        parts = []
        for name, array, binary in zip(names, found, as_binary, strict=True):
            kind = {np.dtype(np.float32): "FP32", np.dtype(np.float16): "FP16"}[array.dtype]
            output: dict[str, Any] = {"name": name, "datatype": kind, "shape": list(array.shape)}
            if binary:
                parts.append(array.astype(f"<{FORMATS[kind]}").tobytes())
                output["parameters"] = {"binary_data_size": len(parts[-1])}
            else:
                output["data"] = array.ravel().tolist()
            outputs.append(output)
        reply = json.dumps(
            {"model_name": "fake", "model_version": self.server.behaviour.version, "outputs": outputs}
        ).encode()
        extra = {"Inference-Header-Content-Length": str(len(reply))} if parts else {}
        self._send(200, reply + b"".join(parts), extra)

    def _tensors(self) -> dict[str, Any]:
        def described(item: Any) -> dict[str, Any]:
            shape = [side if isinstance(side, int) else -1 for side in item.shape]
            return {"name": item.name, "datatype": TYPES[item.type], "shape": shape}

        session = self.server.session
        return {
            "inputs": [described(item) for item in session.get_inputs()],
            "outputs": [described(item) for item in session.get_outputs()],
        }

    def _reply(self, status: int, message: dict[str, Any]) -> None:
        self._send(status, json.dumps(message).encode(), {"Content-Type": "application/json"})

    def _send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in (headers | {"Content-Length": str(len(body))}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)
        if self.server.behaviour.closes_after_each:
            self.close_connection = True


NOT_READY = {"error": "the model is loading"}


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, model: bytes, behaviour: Behaviour) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.session = ort.InferenceSession(model, providers=["CPUExecutionProvider"])
        self.behaviour = behaviour

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is none of the server's business."""


@contextmanager
def open_inference_server(model: bytes, behaviour: Behaviour | None = None) -> Iterator[str]:
    """Serve an ONNX model as "fake"; its address."""
    server = _Server(model, behaviour or Behaviour())
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v2/models/fake"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)
