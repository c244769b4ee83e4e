"""The keys of a camera's latency budgets, and the settings that they become."""

from dataclasses import fields
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, WithJsonSchema

from foveate.config.fields import Keys, key
from pipeline.policies.budgets import BudgetSettings, SegmentActions, SegmentBudgets, SlaSettings, StageBudgets
from pipeline.policies.restraint import Action

_BUDGET = BudgetSettings()
ActionName = Literal["lower_sample_rate", "shrink_crops", "raise_lambda", "light_model"]
_ACTION_SCHEMA = {"enum": [action.value for action in Action], "type": "string"}


def _listed(value: object) -> object:
    """One action may be written without a list, and none as nothing."""
    return (value,) if isinstance(value, str) else () if value is None else value


Actions = Annotated[
    tuple[ActionName, ...],
    BeforeValidator(_listed),
    WithJsonSchema({"anyOf": [_ACTION_SCHEMA, {"type": "array", "items": _ACTION_SCHEMA}, {"type": "null"}]}),
]


class SegmentBudgetKeys(Keys):
    """Milliseconds for each of the four segments of latency."""

    network: float | None = key(None, "Both ways between edge and worker; 30 % of deadline_ms where left out", gt=0)
    queue: float | None = key(None, "Waiting at the worker; 10 % of deadline_ms where left out", gt=0)
    edge: float | None = key(None, "Gate, small model and JPEG; 20 % of deadline_ms where left out", gt=0)
    cloud: float | None = key(None, "The larger model; 40 % of deadline_ms where left out", gt=0)


class StageBudgetKeys(Keys):
    """Milliseconds for single stages, named as in `timings_ms` of a result; no budget where left out."""

    wait: float | None = key(None, "Before the stages take the frame", gt=0)
    gate: float | None = key(None, "Change detection", gt=0)
    edge: float | None = key(None, "Small model and tracker", gt=0)
    encode: float | None = key(None, "Crops and JPEG", gt=0)
    network: float | None = key(None, "Both ways between edge and worker", gt=0)
    cloud_queue: float | None = key(None, "Waiting at the worker", gt=0)
    cloud_infer: float | None = key(None, "The larger model", gt=0)
    resolve: float | None = key(None, "From the last word to the publishing", gt=0)


class ActionKeys(Keys):
    """What is turned down while a segment's budget is breached, first to last: one action or a list."""

    network: Actions = key((), "For example `shrink_crops`")
    queue: Actions = key((), "For example `raise_lambda`")
    edge: Actions = key((), "For example `[lower_sample_rate, light_model]`; the latter needs `models.edge_light`")
    cloud: Actions = key((), "For example `raise_lambda`")


class SlaKeys(Keys):
    """The promise that attainment is held against."""

    share: float = key(_BUDGET.sla.share, "Share of the accepted frames that are answered in time", gt=0, le=1)
    within_ms: float | None = key(None, "What in time means, from capture; deadline_ms where left out", gt=0)


class BudgetKeys(Keys):
    """Latency budgets: P99 per segment. A breach raises an alert, and triggers what `actions` names."""

    enabled: bool = key(
        _BUDGET.enabled, "Whether budgets are watched; never for a file that is not played in real time"
    )
    segments_ms: SegmentBudgetKeys = key(SegmentBudgetKeys(), "Budgets of the four segments")
    stages_ms: StageBudgetKeys = key(StageBudgetKeys(), "Budgets of single stages")
    actions: ActionKeys = key(ActionKeys(), "What a breach triggers; nothing unless it is named here")
    sla: SlaKeys = key(SlaKeys(), "The end-to-end target")
    window_s: float = key(_BUDGET.window_s, "What the P99 is taken over, at most", ge=5, le=60)
    least_samples: int = key(_BUDGET.least_samples, "Fewer frames in the window give no verdict", ge=1)
    sustained_s: float = key(_BUDGET.sustained_s, "Slow frames must be so far apart to be a breach", ge=0, le=60)
    clear_share: float = key(_BUDGET.clear_share, "A breach clears below this share of the budget", gt=0, le=1)
    dwell_s: float = key(_BUDGET.dwell_s, "Least time between two changes", ge=1, le=600)
    least_sample_fps: float = key(_BUDGET.least_sample_fps, "`lower_sample_rate` goes no further", gt=0)


def budget_settings(keys: BudgetKeys) -> BudgetSettings:
    """The settings of a camera's budgets."""
    actions = {name: tuple(Action(action) for action in named) for name, named in keys.actions}
    groups: dict[str, Any] = {
        "segments_ms": SegmentBudgets(**dict(keys.segments_ms)),
        "stages_ms": StageBudgets(**dict(keys.stages_ms)),
        "actions": SegmentActions(**actions),
        "sla": SlaSettings(**dict(keys.sla)),
    }
    names = {field.name for field in fields(BudgetSettings)} - groups.keys()
    return BudgetSettings(**groups, **{name: getattr(keys, name) for name in names})
