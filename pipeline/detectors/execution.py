"""What a model runs on."""

from dataclasses import dataclass

PROVIDERS = {
    "cpu": "CPUExecutionProvider",
    "cuda": "CUDAExecutionProvider",
    "tensorrt": "TensorrtExecutionProvider",
    "openvino": "OpenVINOExecutionProvider",
}
"""Execution providers by the name in configurations, with onnxruntime's own."""


@dataclass(frozen=True, slots=True)
class Execution:
    """How a model runs: on which ``providers``, best first, and how pictures of other sizes may join a run.

    Where ``cpu`` is among the providers, it stands in for one before it that cannot be used, which is logged; where it
    is not, that is an error. ``most_padding``: see ``SizeBuckets``. ``split_batches``: on the CPU alone, and with
    several threads, see ``SplitSession``; it takes the model's memory a second time.
    """

    providers: tuple[str, ...] = ("cpu",)
    most_padding: float = 0.0
    split_batches: bool = False


CPU = Execution()
