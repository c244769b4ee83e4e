"""The seam between a detector and whatever runs its model: onnxruntime in this process, or a server elsewhere."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from numpy.typing import NDArray


class TensorInfo(Protocol):
    """An input or output: its type as onnxruntime names it; its shape, with no whole number where a side is free."""

    @property
    def name(self) -> str: ...

    @property
    def type(self) -> str: ...

    @property
    def shape(self) -> Sequence[Any]: ...


class ModelMeta(Protocol):
    """What a model says about itself."""

    @property
    def custom_metadata_map(self) -> Mapping[str, str]: ...


class Session(Protocol):
    """A model that can be run, here or elsewhere: the part of onnxruntime's session that a detector uses."""

    def get_inputs(self) -> Sequence[TensorInfo]: ...

    def get_outputs(self) -> Sequence[TensorInfo]: ...

    def get_modelmeta(self) -> ModelMeta: ...

    def run(self, output_names: Sequence[str], feeds: Mapping[str, NDArray[Any]]) -> list[NDArray[Any]]:
        """The outputs in the order of their names. Raises one of ``session.ORT_ERRORS``. Blocks."""
        ...
