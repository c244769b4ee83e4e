"""The configuration of the worker and of the models that it serves."""

import re
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator

from cloud_worker.settings import ServedModel, WorkerSettings
from edge_agent.settings import UplinkSettings
from foveate.config.fields import InputSize, IpAddress, Keys, Level, key, one_of
from pipeline.detectors.execution import PROVIDERS
from pipeline.policies.admission import ADMISSION_KINDS
from pipeline.policies.batch import BATCH_KINDS
from pipeline.policies.schedule import SCHEDULING_KINDS

_CLOUD_MODEL = ServedModel(UplinkSettings().model)
_SERVER_URL = re.compile(r"(https?://[^/]+/([^/]+/)*v2/models/|grpcs?://[^/]+:[0-9]+/).+")
_WORKER = WorkerSettings((_CLOUD_MODEL,), worker="")


def _server_url(text: str) -> str:
    try:
        fits = _SERVER_URL.match(text) is not None and urlsplit(text).port != 0
    except ValueError:  # no port, or none that there is
        fits = False
    if not fits:
        raise ValueError("it must be http://HOST:PORT/v2/models/NAME or grpc://HOST:PORT/NAME")
    return text


class CloudModelKeys(Keys):
    """The larger model, in the worker."""

    name: Level = key(_CLOUD_MODEL.name, "Name in the models folder's manifest")
    input_size: InputSize | None = key(
        _CLOUD_MODEL.input_size,
        "[height, width] in pixels; null: each picture at its own size, up to the model's limit",
    )
    url: Annotated[str, AfterValidator(_server_url)] | None = key(
        _CLOUD_MODEL.url,
        "Where it runs on an inference server: http://HOST:PORT/v2/models/NAME, or grpc://HOST:PORT/NAME "
        "with the extra `grpc`; null: in the worker itself",
        max_length=2048,
    )


class WorkerKeys(Keys):
    """The worker that runs the larger model."""

    name: Level | None = key(None, "Name in MQTT topics, another for each process; made up where it is left out")
    models: tuple[CloudModelKeys, ...] | None = key(
        None, "Models to serve; the one of `models.cloud` where left out", min_length=1, max_length=32
    )
    group: Level = key(_WORKER.group, "Workers of one group share the load")
    tier: Literal["edge", "cloud"] = key(_WORKER.tier, "Tier it serves")
    location: str = key(_WORKER.location, "Where it is; announced", max_length=64)
    energy_j: float | None = key(_WORKER.energy_j, "What a request takes in joules; announced", ge=0, le=1e6)
    transfer_cost: float | None = key(
        _WORKER.transfer_cost, "What a byte to it counts, 1 on a budgeted uplink, 0 on site; announced", ge=0, le=1e6
    )
    queue_capacity: int = key(_WORKER.queue_capacity, "Requests that may wait", ge=1)
    queue_capacity_bytes: int = key(_WORKER.queue_capacity_bytes, "What waiting requests may hold", ge=1)
    request_limit_bytes: int = key(_WORKER.request_limit_bytes, "Larger requests are refused", ge=1)
    pixel_limit: int = key(_WORKER.pixel_limit, "Pictures with more pixels are refused", ge=1)
    max_batch: int = key(_WORKER.max_batch, "Pictures per run of the model", ge=1, le=1024)
    batch: one_of(BATCH_KINDS) = key(_WORKER.batch, "When a batch closes")  # type: ignore[valid-type] # made from a table
    batch_window_ms: float = key(_WORKER.batch_window_ms, "The longest that a request waits for company", ge=0)
    most_padding: float = key(
        _WORKER.most_padding,
        "So much larger, as a share of its pixels, a picture may be made to share an input size with others",
        ge=0,
        le=1,
    )
    coalesce: bool = key(_WORKER.coalesce, "Identical requests under way are run once and answered to all")
    cache_ttl_s: float = key(
        _WORKER.cache_ttl_s, "So long an answer is given again to the very same question; 0 for never", ge=0, le=3600
    )
    cache_bytes: int = key(_WORKER.cache_bytes, "What answers that are kept may hold", ge=0)
    admission: one_of(ADMISSION_KINDS) = key(_WORKER.admission, "What is let in")  # type: ignore[valid-type] # the same
    scheduling: one_of(SCHEDULING_KINDS) = key(  # type: ignore[valid-type] # the same
        _WORKER.scheduling, "What goes first; only `edf_weighted` gives up in time what would be late"
    )
    reply_margin_ms: float = key(_WORKER.reply_margin_ms, "Kept back from each budget for the way down", ge=0)
    duplicate_window_s: float = key(_WORKER.duplicate_window_s, "A request that comes again is known this long", gt=0)
    heartbeat_s: float = key(_WORKER.heartbeat_s, "How often the worker announces itself", gt=0, le=3600)
    stop_limit_s: float = key(
        _WORKER.stop_limit_s, "How long it may take to finish its work and leave when it is stopped", gt=0, le=600
    )
    threads: int | None = key(
        None, "Inference threads; where left out 1, or for `foveate worker` all CPUs that it may use", ge=1, le=256
    )
    metrics_host: IpAddress = key(_WORKER.metrics_host, "IP address on which figures for Prometheus are served")
    metrics_port: int | None = key(
        _WORKER.metrics_port,
        "Port for them as /metrics, and for the health checks /healthz and /readyz; null for none",
        ge=1,
        le=65_535,
    )
    providers: tuple[one_of(PROVIDERS), ...] = key(  # type: ignore[valid-type] # the same
        _WORKER.providers,
        "What the models run on, best first; with `cpu` among them, it may stand in for one that cannot be used",
        min_length=1,
        max_length=8,
    )
