"""What a run consists of: one value from which everything is started."""

from dataclasses import dataclass, field
from pathlib import Path

from cloud_worker.settings import WorkerSettings
from edge_agent.settings import AgentSettings
from edge_agent.status.access import AccessSettings
from foveate.learn.settings import LearnSettings
from pipeline.transport.settings import MqttSettings


@dataclass(frozen=True, slots=True)
class EmbeddedBrokerSettings:
    """Where the broker that comes with a run listens; ``port_v3`` is for MQTT 3.1.1 clients, None for none."""

    host: str = "127.0.0.1"
    port: int = 1883
    port_v3: int | None = 1884


@dataclass(frozen=True, slots=True)
class EdgeModel:
    """The small model; ``input_size`` is (height, width) in pixels."""

    name: str = "nanodet-g-int8"
    input_size: tuple[int, int] = (192, 256)
    threads: int = 1


LIGHT_SIZE = (128, 160)
"""(height, width) in pixels of a lighter small model that is named without a size."""


@dataclass(frozen=True, slots=True)
class WebSettings:
    """The status page; off when ``enabled`` is False."""

    enabled: bool = True
    port: int = 8080
    access: AccessSettings = field(default_factory=AccessSettings)


@dataclass(frozen=True, slots=True)
class NetworkSettings:
    """A modelled network between agent and broker: its name in ``pipeline/network/profiles.py``, and a seed."""

    profile: str
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Plan:
    """A run. ``embedded`` None: the broker of ``mqtt`` is somebody else's. ``worker`` None: so are the workers.

    ``network`` None: the one that there is.
    """

    agent: AgentSettings
    mqtt: MqttSettings
    embedded: EmbeddedBrokerSettings | None
    worker: WorkerSettings | None
    edge_model: EdgeModel = field(default_factory=EdgeModel)
    edge_light: EdgeModel | None = None
    web: WebSettings = field(default_factory=WebSettings)
    network: NetworkSettings | None = None
    models_dir: Path | None = None
    learn: LearnSettings = field(default_factory=LearnSettings)


@dataclass(frozen=True, slots=True)
class Outputs:
    """Where a run writes: the summary as JSON, the results as lines of JSON; and whether to open a browser."""

    summary: Path | None = None
    record: Path | None = None
    open_browser: bool = False
