"""Ways to set up Triton for the comparison: what a user gets without a thought, and what a careful one would try."""

from collections.abc import Sequence
from dataclasses import dataclass

from foveate.bench.triton_server import TritonModel
from pipeline.detectors.contract import ModelEntry

HeightWidth = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Setting:
    """One set-up: ``batching`` is protobuf text of the model's configuration. ``takes``: JPEGs as the worker does, or
    tensors that are ready for the model. ``cancels``: senders give up at the deadline, and the server is told.
    """

    name: str
    batching: str
    max_batch: int = 8
    takes: str = "jpeg"
    cancels: bool = False


def _rejecting(timeout_ms: int, most_queued: int = 0, more: str = "") -> str:
    policy = f"timeout_action: REJECT default_timeout_microseconds: {timeout_ms * 1000} max_queue_size: {most_queued}"
    return f"dynamic_batching {{ max_queue_delay_microseconds: 0 {more} default_queue_policy {{ {policy} }} }}"


DEFAULT = Setting("default", "dynamic_batching { }")
"""Dynamic batching switched on, all else as it comes: no delay, no limit of the queue, no timeout."""

CANDIDATES: Sequence[Setting] = (
    Setting("cancels", "dynamic_batching { }", cancels=True),
    Setting("rejects_40", _rejecting(40)),
    Setting("rejects_60", _rejecting(60)),
    Setting("rejects_75", _rejecting(75)),
    Setting("rejects_40_cancels", _rejecting(40), cancels=True),
    Setting("rejects_40_cancels_singly", _rejecting(40), max_batch=1, cancels=True),
    Setting("rejects_40_cancels_pairs", _rejecting(40, more="preferred_batch_size: [ 2 ]"), max_batch=2, cancels=True),
    Setting("rejects_75_cancels_pairs", _rejecting(75, more="preferred_batch_size: [ 2 ]"), max_batch=2, cancels=True),
    Setting("rejects_75_eight_queued", _rejecting(75, 8)),
    Setting("rejects_40_cancels_tensors", _rejecting(40), takes="tensor", cancels=True),
)
"""They differ in what a request may wait, for how many at once the model runs, how many may wait, whether senders take
their requests back, and what they send. A delay in hope of company is in none: one thread gains next to nothing by
a batch.
"""

FEW: Sequence[Setting] = tuple(each for each in CANDIDATES if each.name in ("rejects_40", "rejects_40_cancels_pairs"))
"""Those that did best when all were tried, for a short run."""


def triton_model(setting: Setting, entry: ModelEntry, size: HeightWidth) -> TritonModel:
    """The model of the manifest as Triton serves it under a setting, named after it, on one CPU instance."""
    if setting.takes == "jpeg":
        tensors = (
            'input [{ name: "jpeg" data_type: TYPE_STRING dims: [ 1 ] }]\n'
            'output [{ name: "detections" data_type: TYPE_FP32 dims: [ -1, 6 ] }]\n'
        )
    else:
        outputs = ", ".join(
            f'{{ name: "{name}" data_type: TYPE_FP32 dims: [ -1, -1 ] }}' for name in entry.output.outputs
        )
        tensors = (
            f'input [{{ name: "{entry.input.name}" data_type: TYPE_FP32 dims: [ 3, {size[0]}, {size[1]} ] }}]\n'
            f"output [{outputs}]\n"
        )
    told = {"model": entry.name, "height": size[0], "width": size[1], "takes": setting.takes}
    parameters = "\n".join(
        f'parameters {{ key: "{key}" value: {{ string_value: "{value}" }} }}' for key, value in told.items()
    )
    alone = "instance_group [{ kind: KIND_CPU count: 1 }]"
    config = f"max_batch_size: {setting.max_batch}\n{tensors}{setting.batching}\n{alone}\n{parameters}"
    return TritonModel(setting.name, config)
