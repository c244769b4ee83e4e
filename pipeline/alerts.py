"""What a subscriber hears when something needs attention: ``foveate/{camera}/alert``; ``foveate schema alert``."""

from typing import Literal

import msgspec

from pipeline.policies.budgets import Segment, Stage
from pipeline.results import Number

ALERT_SCHEMA_VERSION: Literal[1] = 1


class Alert(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="latency_budget"):
    """A latency budget was breached, or has cleared; sent again with every further step taken while it is breached.

    ``stage`` is null where the budget is that of the whole segment. ``p99_ms`` is null where too few frames pass to
    tell. ``action`` is what was turned down at this moment, null for nothing; ``detail`` says it all for people.
    """

    schema: Literal[1] = ALERT_SCHEMA_VERSION
    camera: str
    segment: Segment
    stage: Stage | None = None
    state: Literal["breached", "cleared"]
    p99_ms: Number | None
    budget_ms: Number
    since: str
    action: Literal["lower_sample_rate", "shrink_crops", "raise_lambda", "light_model"] | None = None
    detail: str
    at: str


class ModelAlert(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="model"):
    """A released model was given up: as a candidate (``withdrawn``), by command or for a fault (``rolled_back``), or as
    it has stopped being right (``fallen_back``).

    ``given_up`` is that model, ``current`` the one that answers from now on, both name@version; ``detail`` says why.
    """

    schema: Literal[1] = ALERT_SCHEMA_VERSION
    camera: str
    state: Literal["withdrawn", "rolled_back", "fallen_back"]
    given_up: str
    current: str
    detail: str
    at: str


AnyAlert = Alert | ModelAlert


def encode_alert(alert: AnyAlert) -> bytes:
    """The alert as one line of JSON."""
    return msgspec.json.encode(alert)


def decode_alert(data: bytes | str) -> AnyAlert:
    """Parse one alert. Raises msgspec.ValidationError with the path of what is wrong."""
    return msgspec.json.decode(data, type=AnyAlert)
