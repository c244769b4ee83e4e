"""A client of the Open Inference Protocol, version 2, over HTTP: Triton, KServe, OpenVINO Model Server, MLServer.

Tensors go in binary where the server declares that it takes them so, else as JSON numbers.
"""

import http.client
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import SplitResult, urlsplit

from numpy.typing import NDArray

from pipeline.detectors.backend import ModelMeta
from pipeline.detectors.open_inference_codec import (
    DATATYPES,
    HEADER_LENGTH,
    InferenceServerError,
    decode_infer,
    encode_infer,
    json_object,
)
from pipeline.errors import ModelError

MOST_REPLY_BYTES = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class RemoteTensor:
    """An input or output as the server describes it; a side that is free is ``"?"``."""

    name: str
    type: str
    shape: tuple[int | str, ...]


@dataclass(frozen=True, slots=True)
class RemoteMeta:
    """A server says nothing about a model's labels."""

    custom_metadata_map: Mapping[str, str] = field(default_factory=dict)


class OpenInferenceSession:
    """One model on a server, as a ``Session``. ``connect`` asks the server about it; nothing is done before.

    One connection, kept open, for one thread at a time. Every call ends within ``timeout_s`` per piece of the reply.
    """

    def __init__(self, url: str, timeout_s: float = 8.0) -> None:
        """``url`` is that of the model: http://host:8000/v2/models/NAME, with /versions/VERSION to stay at one.

        Raises ModelError.
        """
        self._url = _checked(url)
        self._timeout_s = timeout_s
        self._connection: http.client.HTTPConnection | None = None
        self._inputs: list[RemoteTensor] = []
        self._outputs: list[RemoteTensor] = []
        self._binary = False
        self._version: str | None = None

    def connect(self) -> None:
        """Ask whether the model is ready, and what it takes and gives. Raises ModelError."""
        base = self._url.path[: self._url.path.index("/v2/models/")]
        try:
            self._binary = "binary_tensor_data" in self._json("GET", f"{base}/v2").get("extensions", ())
            self._request("GET", f"{self._url.path}/ready")
            described = self._json("GET", self._url.path)
            self._inputs = [_tensor(each) for each in described["inputs"]]
            self._outputs = [_tensor(each) for each in described["outputs"]]
        except InferenceServerError as error:
            raise ModelError(f"Cannot use the model at {self._url.geturl()}: {error}.") from error
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ModelError(
                f"Cannot use the model at {self._url.geturl()}: its description is not that of the Open Inference "
                f"Protocol v2 ({type(error).__name__}: {error}); check the address."
            ) from error

    def get_inputs(self) -> Sequence[RemoteTensor]:
        return self._inputs

    def get_outputs(self) -> Sequence[RemoteTensor]:
        return self._outputs

    def get_modelmeta(self) -> ModelMeta:
        return RemoteMeta()

    def run(self, output_names: Sequence[str], feeds: Mapping[str, NDArray[Any]]) -> list[NDArray[Any]]:
        """Raises InferenceServerError, also where the server has gone over to another version of the model."""
        body, headers = encode_infer(output_names, feeds, binary=self._binary)
        data, header_bytes = self._request("POST", f"{self._url.path}/infer", body, headers)
        outputs, version = decode_infer(data, header_bytes, output_names)
        if self._version is not None and version != self._version:
            raise InferenceServerError(
                f"{self._url.geturl()} now serves version {version} instead of {self._version}; "
                "name one version in the address, or start the worker again"
            )
        self._version = version
        return outputs

    def close(self) -> None:
        """Close the connection; a later call opens another."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _json(self, method: str, path: str) -> dict[str, Any]:
        data, _ = self._request(method, path)
        found: dict[str, Any] = json_object(data)
        return found

    def _request(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> tuple[bytes, int | None]:
        """The reply's body, and the length of its JSON part where the rest is binary."""
        kept_open = self._connection is not None
        try:
            return self._exchange(method, path, body, headers or {})
        except (http.client.HTTPException, OSError) as error:
            self.close()
            if not kept_open or isinstance(error, TimeoutError):
                raise InferenceServerError(_why(error, self._timeout_s)) from error
        try:  # the server may have closed what was kept open: that is no fault, and seen only now
            return self._exchange(method, path, body, headers or {})
        except (http.client.HTTPException, OSError) as error:
            self.close()
            raise InferenceServerError(_why(error, self._timeout_s)) from error

    def _exchange(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]
    ) -> tuple[bytes, int | None]:
        if self._connection is None:
            kind = http.client.HTTPSConnection if self._url.scheme == "https" else http.client.HTTPConnection
            self._connection = kind(self._url.hostname or "", self._url.port, timeout=self._timeout_s)
        self._connection.request(method, path, body, dict(headers))
        response = self._connection.getresponse()
        data = response.read(MOST_REPLY_BYTES + 1)
        if len(data) > MOST_REPLY_BYTES:
            self.close()
            raise InferenceServerError(f"the reply to {method} {path} is over {MOST_REPLY_BYTES} bytes")
        if response.status != http.HTTPStatus.OK:
            raise InferenceServerError(f"{method} {path} is answered {response.status}: {_message(data)}")
        length = response.headers.get(HEADER_LENGTH)
        return data, int(length) if length is not None and length.isdecimal() else None


def _tensor(described: Mapping[str, Any]) -> RemoteTensor:
    datatype = described["datatype"]
    kind = DATATYPES[datatype][0] if datatype in DATATYPES else f"tensor({datatype})"
    return RemoteTensor(described["name"], kind, tuple(side if side >= 0 else "?" for side in described["shape"]))


def _message(data: bytes) -> str:
    try:
        told = json.loads(data)["error"]
    except (ValueError, KeyError, TypeError, RecursionError):
        told = data.decode("utf-8", "replace")
    return " ".join(str(told).split())[:200] or "nothing more"


def _why(error: Exception, timeout_s: float) -> str:
    if isinstance(error, TimeoutError):
        return f"the server did not answer within {timeout_s:g} s"
    return f"the server cannot be reached ({str(error) or type(error).__name__})"


def _checked(url: str) -> SplitResult:
    try:
        parts = urlsplit(url.rstrip("/"))
        sound = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        sound = False
    if not sound or not parts.path.partition("/v2/models/")[2]:
        raise ModelError(
            f"{url!r} is not the address of a model: give http://HOST:PORT/v2/models/NAME, "
            "with /versions/VERSION behind it to stay at one version."
        )
    return parts
