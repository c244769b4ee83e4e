"""What can be set about a worker."""

import os
import re
import secrets
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from pipeline.detectors.execution import PROVIDERS
from pipeline.errors import ConfigError
from pipeline.policies.admission import ADMISSION_KINDS
from pipeline.policies.batch import BATCH_KINDS
from pipeline.policies.schedule import SCHEDULING_KINDS


def default_worker_id() -> str:
    """A name that no other process has: host, process id and a random part; a valid topic level."""
    host = re.sub(r"[^A-Za-z0-9_-]", "-", socket.gethostname())[:32] or "host"
    return f"{host}-{os.getpid()}-{secrets.token_hex(3)}"


@dataclass(frozen=True, slots=True)
class ServedModel:
    """A model to serve; ``input_size`` is (height, width) in pixels, None for the size that the model chooses.

    ``url``: it runs on a server of the Open Inference Protocol v2, at this address; see ``remote_session``.
    """

    name: str
    input_size: tuple[int, int] | None = None
    url: str | None = None


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """Settings of one worker process.

    ``queue_capacity_bytes`` bounds what queued requests hold, payload and decoded picture together. ``reply_margin_ms``
    is kept back from each budget for the way down. ``threads`` are those of the model. ``most_padding`` is the share of
    its pixels that a picture may be padded by so that others run with it. ``location``, ``energy_j`` (joules per
    request) and ``transfer_cost`` (of a byte, 1 on a budgeted uplink) are announced; empty or None where not known.
    Raises ConfigError.
    """

    models: tuple[ServedModel, ...]
    worker: str = field(default_factory=default_worker_id)
    group: str = "workers"
    tier: Literal["edge", "cloud"] = "cloud"
    location: str = ""
    energy_j: float | None = None
    transfer_cost: float | None = None
    queue_capacity: int = 64
    queue_capacity_bytes: int = 256 * 1024 * 1024
    request_limit_bytes: int = 8 * 1024 * 1024
    pixel_limit: int = 3840 * 2160
    max_batch: int = 8
    batch: str = "deadline"
    batch_window_ms: float = 5.0
    most_padding: float = 0.0
    coalesce: bool = True
    cache_ttl_s: float = 10.0
    cache_bytes: int = 16 * 1024 * 1024
    admission: str = "deadline"
    scheduling: str = "edf_weighted"
    reply_margin_ms: float = 5.0
    duplicate_window_s: float = 30.0
    heartbeat_s: float = 5.0
    stop_limit_s: float = 4.0
    threads: int = 1
    providers: tuple[str, ...] = ("cpu",)
    metrics_host: str = "127.0.0.1"
    metrics_port: int | None = None

    def __post_init__(self) -> None:
        if not self.models:
            raise ConfigError("worker: no model to serve is named; name at least one under models")
        names = [model.name for model in self.models]
        if len(set(names)) < len(names):
            raise ConfigError(f"worker: models names a model twice: {', '.join(names)}; name each once")
        for name in (
            "queue_capacity", "queue_capacity_bytes", "request_limit_bytes", "pixel_limit", "max_batch",
            "duplicate_window_s", "heartbeat_s", "stop_limit_s", "threads",
        ):  # fmt: skip
            if not getattr(self, name) > 0:
                raise ConfigError(f"worker: {name} is {getattr(self, name)}; it must be above 0")
        for name in (
            "batch_window_ms", "reply_margin_ms", "most_padding", "cache_ttl_s", "cache_bytes",
            "energy_j", "transfer_cost",
        ):  # fmt: skip
            if not (getattr(self, name) or 0) >= 0:
                raise ConfigError(f"worker: {name} is {getattr(self, name)}; it must not be negative")
        _one_of("batch", self.batch, BATCH_KINDS)
        _one_of("admission", self.admission, ADMISSION_KINDS)
        if not self.providers:
            raise ConfigError(f"worker: providers is empty; name at least one of {', '.join(PROVIDERS)}")
        for provider in self.providers:
            _one_of("providers", provider, PROVIDERS)
        _one_of("scheduling", self.scheduling, SCHEDULING_KINDS)


def _one_of(name: str, value: str, known: Mapping[str, object]) -> None:
    if value not in known:
        raise ConfigError(f"worker: {name} is {value!r}; choose one of {', '.join(known)}")
