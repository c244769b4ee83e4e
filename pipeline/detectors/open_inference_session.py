"""What the clients of the Open Inference Protocol, version 2, have in common: a model elsewhere, as a ``Session``."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from pipeline.detectors.backend import ModelMeta
from pipeline.detectors.open_inference_codec import DATATYPES, InferenceServerError
from pipeline.errors import ModelError

MOST_REPLY_BYTES = 256 * 1024 * 1024
ADDRESSES = (
    "give http://HOST:PORT/v2/models/NAME or grpc://HOST:PORT/NAME, "
    "with /versions/VERSION behind it to stay at one version"
)


@dataclass(frozen=True, slots=True)
class RemoteTensor:
    """An input or output as the server describes it; a side that is free is ``"?"``."""

    name: str
    type: str
    shape: tuple[int | str, ...]

    @classmethod
    def described(cls, name: str, datatype: str, shape: Sequence[int]) -> "RemoteTensor":
        """From the protocol's own words."""
        kind = DATATYPES[datatype][0] if datatype in DATATYPES else f"tensor({datatype})"
        return cls(name, kind, tuple(side if side >= 0 else "?" for side in shape))


@dataclass(frozen=True, slots=True)
class RemoteMeta:
    """A server says nothing about a model's labels."""

    custom_metadata_map: Mapping[str, str] = field(default_factory=dict)


Described = tuple[list[RemoteTensor], list[RemoteTensor]]
"""Inputs and outputs."""


class RemoteSession(ABC):
    """One model on a server. ``connect`` asks the server about it; nothing is done before.

    One connection, kept open, for one thread at a time.
    """

    def __init__(self, where: str) -> None:
        """``where`` is the address, for messages."""
        self._where = where
        self._inputs: list[RemoteTensor] = []
        self._outputs: list[RemoteTensor] = []
        self._version: str | None = None

    def connect(self) -> None:
        """Ask whether the model is ready, and what it takes and gives. Raises ModelError."""
        try:
            self._inputs, self._outputs = self._describe()
        except InferenceServerError as error:
            raise ModelError(f"Cannot use the model at {self._where}: {error}.") from error
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ModelError(
                f"Cannot use the model at {self._where}: its description is not that of the Open Inference "
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
        outputs, version = self._infer(output_names, feeds)
        if self._version is not None and version != self._version:
            raise InferenceServerError(
                f"{self._where} now serves version {version} instead of {self._version}; "
                "name one version in the address, or start the worker again"
            )
        self._version = version
        return outputs

    @abstractmethod
    def close(self) -> None:
        """Close the connection; a later call opens another."""

    @abstractmethod
    def _describe(self) -> Described:
        """Raises InferenceServerError where the model is not ready."""

    @abstractmethod
    def _infer(
        self, output_names: Sequence[str], feeds: Mapping[str, NDArray[Any]]
    ) -> tuple[list[NDArray[Any]], str | None]:
        """The outputs in the order of their names, and the version that gave them. Raises InferenceServerError."""


def one_line(told: str) -> str:
    """A server's own words, short."""
    return " ".join(told.split())[:200] or "nothing more"
