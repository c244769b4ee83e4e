"""A client of the Open Inference Protocol, version 2, over HTTP: Triton, KServe, OpenVINO Model Server, MLServer.

Tensors go in binary where the server declares that it takes them so, else as JSON numbers.
"""

import http.client
import json
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import SplitResult, urlsplit

from numpy.typing import NDArray

from pipeline.detectors.open_inference_codec import (
    HEADER_LENGTH,
    InferenceServerError,
    decode_infer,
    encode_infer,
    json_object,
)
from pipeline.detectors.open_inference_session import (
    ADDRESSES,
    MOST_REPLY_BYTES,
    Described,
    RemoteSession,
    RemoteTensor,
    one_line,
)
from pipeline.errors import ModelError


class OpenInferenceSession(RemoteSession):
    """Over HTTP. Every call ends within ``timeout_s`` per piece of the reply."""

    def __init__(self, url: str, timeout_s: float = 8.0) -> None:
        """``url`` is that of the model: http://host:8000/v2/models/NAME, with /versions/VERSION to stay at one.

        Raises ModelError.
        """
        self._url = _checked(url)
        super().__init__(self._url.geturl())
        self._timeout_s = timeout_s
        self._connection: http.client.HTTPConnection | None = None
        self._binary = False

    def _describe(self) -> Described:
        base = self._url.path[: self._url.path.index("/v2/models/")]
        self._binary = "binary_tensor_data" in self._json("GET", f"{base}/v2").get("extensions", ())
        self._request("GET", f"{self._url.path}/ready")
        described = self._json("GET", self._url.path)
        return [_tensor(each) for each in described["inputs"]], [_tensor(each) for each in described["outputs"]]

    def _infer(
        self, output_names: Sequence[str], feeds: Mapping[str, NDArray[Any]]
    ) -> tuple[list[NDArray[Any]], str | None]:
        body, headers = encode_infer(output_names, feeds, binary=self._binary)
        data, header_bytes = self._request("POST", f"{self._url.path}/infer", body, headers)
        return decode_infer(data, header_bytes, output_names)

    def close(self) -> None:
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
    return RemoteTensor.described(described["name"], described["datatype"], described["shape"])


def _message(data: bytes) -> str:
    try:
        told = json.loads(data)["error"]
    except (ValueError, KeyError, TypeError, RecursionError):
        told = data.decode("utf-8", "replace")
    return one_line(str(told))


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
        raise ModelError(f"{url!r} is not the address of a model: {ADDRESSES}.")
    return parts
