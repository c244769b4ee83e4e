"""A client of the Open Inference Protocol, version 2, over gRPC; it needs the extra ``grpc``."""

import ssl
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit

import grpc
from numpy.typing import NDArray

from pipeline.detectors.open_inference_codec import InferenceServerError
from pipeline.detectors.open_inference_proto import SERVICE, decode, decode_infer, encode_infer, encode_model
from pipeline.detectors.open_inference_session import (
    ADDRESSES,
    MOST_REPLY_BYTES,
    Described,
    RemoteSession,
    RemoteTensor,
    one_line,
)
from pipeline.errors import ModelError

_OPTIONS = (
    ("grpc.max_receive_message_length", MOST_REPLY_BYTES),
    ("grpc.max_send_message_length", -1),
    ("grpc.use_local_subchannel_pool", 1),  # a connection that failed is not waited for by the next one
    ("grpc.enable_http_proxy", 0),  # as over HTTP
)


class OpenInferenceGrpcSession(RemoteSession):
    """Over gRPC. Every call ends within ``timeout_s``."""

    def __init__(self, url: str, timeout_s: float = 8.0) -> None:
        """``url`` is grpc://host:8001/NAME, with /versions/VERSION to stay at one; with grpcs it goes through TLS.

        Raises ModelError.
        """
        self._url = _checked(url)
        super().__init__(self._url.geturl())
        name, _, version = self._url.path.removeprefix("/").partition("/versions/")
        self._model = unquote(name), unquote(version)
        self._timeout_s = timeout_s
        self._channel: grpc.Channel | None = None

    def close(self) -> None:
        if self._channel is not None:
            self._channel.close()
            self._channel = None

    def _describe(self) -> Described:
        asked = encode_model(*self._model)
        if not decode("Ready", self._call("ModelReady", asked)).ready:
            raise InferenceServerError("the server says that the model is not ready")
        described = decode("Description", self._call("ModelMetadata", asked))
        if not described.inputs or not described.outputs:
            raise ValueError("no inputs or no outputs")
        return [_tensor(each) for each in described.inputs], [_tensor(each) for each in described.outputs]

    def _infer(
        self, output_names: Sequence[str], feeds: Mapping[str, NDArray[Any]]
    ) -> tuple[list[NDArray[Any]], str | None]:
        reply = self._call("ModelInfer", encode_infer(self._model, output_names, feeds))
        return decode_infer(reply, output_names)

    def _call(self, method: str, request: bytes) -> bytes:
        if self._channel is None:
            self._channel = self._opened()
        try:
            reply: bytes = self._channel.unary_unary(f"/{SERVICE}/{method}")(request, timeout=self._timeout_s)
        except grpc.RpcError as error:
            raise InferenceServerError(self._why(method, error)) from error
        return reply

    def _opened(self) -> grpc.Channel:
        target = f"{self._url.hostname}:{self._url.port}"
        if ":" in (self._url.hostname or ""):
            target = f"[{self._url.hostname}]:{self._url.port}"
        if self._url.scheme == "grpc":
            return grpc.insecure_channel(target, _OPTIONS)
        return grpc.secure_channel(target, grpc.ssl_channel_credentials(_trusted()), _OPTIONS)

    def _why(self, method: str, error: grpc.RpcError) -> str:
        code, told = error.code(), one_line(error.details() or "")
        if code == grpc.StatusCode.DEADLINE_EXCEEDED:
            self.close()
            return f"the server did not answer within {self._timeout_s:g} s"
        if code == grpc.StatusCode.UNAVAILABLE:  # no connection, or a server that has no room
            self.close()
            return f"the server cannot be reached or takes nothing ({told})"
        return f"{method} is answered {code.name}: {told}"


def _tensor(described: Any) -> RemoteTensor:
    return RemoteTensor.described(described.name, described.datatype, described.shape)


def _trusted() -> bytes | None:
    """The machine's authorities, as for https; those that come with gRPC where it has none."""
    path = ssl.get_default_verify_paths().cafile
    return Path(path).read_bytes() if path is not None else None


def _checked(url: str) -> SplitResult:
    try:
        parts = urlsplit(url.rstrip("/"))
        sound = parts.scheme in ("grpc", "grpcs") and bool(parts.hostname) and bool(parts.port)
    except ValueError:
        sound = False
    if not sound or not parts.path.strip("/"):
        raise ModelError(f"{url!r} is not the address of a model: {ADDRESSES}.")
    return parts
