"""From a configuration to the settings of the parts."""

import re
import socket
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

from pydantic import SecretStr

from cloud_worker.settings import ServedModel, WorkerSettings, default_worker_id
from edge_agent.candidates import CandidateSettings
from edge_agent.capture.settings import CaptureSettings
from edge_agent.lessons.settings import LessonSettings
from edge_agent.releases.judging import JudgingSettings
from edge_agent.releases.settings import ReleaseSettings
from edge_agent.settings import AgentSettings, CameraSettings, ImageSettings, UplinkSettings
from edge_agent.status.access import AccessSettings
from edge_agent.tracking.kalman import Noise
from edge_agent.tracking.tracks import TrackerSettings
from foveate.config.budget import budget_settings
from foveate.config.calibration import calibrated, read_calibration
from foveate.config.camera import CameraEntry, privacy
from foveate.config.document import Document
from foveate.config.fields import Keys, read_secret
from foveate.config.load import Overrides, configure
from foveate.config.models import Configuration
from foveate.config.worker import CloudModelKeys
from foveate.learn.settings import LearnSettings
from foveate.plan import EdgeModel, EmbeddedBrokerSettings, NetworkSettings, Plan, WebSettings
from pipeline.errors import ConfigError
from pipeline.mosaic import MosaicSettings
from pipeline.policies.calibration import Calibration
from pipeline.policies.change import ChangeSettings
from pipeline.policies.evidence import RolloutSettings
from pipeline.policies.fallback import WaitSettings
from pipeline.policies.near_duplicate import NearDuplicateSettings
from pipeline.policies.offload import OffloadSettings
from pipeline.policies.steering import SteeringSettings
from pipeline.policies.tier_cost import Tier, Weights
from pipeline.transport.settings import MqttSettings, TlsSettings
from pipeline.transport.url import BrokerUrl, parse_broker_url

T = TypeVar("T")
_REACHED_AT = {"0.0.0.0": "127.0.0.1", "::": "::1"}


def for_sources(sources: Sequence[str], overrides: Overrides | None = None) -> Configuration:
    """The configuration for sources given on the command line, each with a name made from it.

    Raises ConfigError that names every fault.
    """
    document = Document("command line")
    document.values["cameras"] = [{"source": source} for source in sources]
    return configure(document, None, overrides or {})


def plan(configuration: Configuration) -> Plan:
    """All that an agent's process is started from.

    With the embedded broker comes a worker of its own; at another broker the workers are somebody else's. Reads the
    files that hold secrets. Raises ConfigError.
    """
    embedded = embedded_settings(configuration)
    return Plan(
        agent=agent_settings(configuration),
        mqtt=mqtt_settings(configuration),
        embedded=embedded,
        worker=worker_settings(configuration) if embedded else None,
        edge_model=_settings(EdgeModel, configuration.models.edge),
        edge_light=_settings(EdgeModel, light) if (light := configuration.models.edge_light) else None,
        web=web_settings(configuration),
        network=network_settings(configuration),
        learn=_settings(LearnSettings, configuration.learn),
        models_dir=configuration.models.dir,
    )


def agent_settings(configuration: Configuration) -> AgentSettings:
    """The agent's settings. Reads the files that hold passwords. Raises ConfigError."""
    agent = configuration.agent
    return _settings(
        AgentSettings,
        agent,
        agent=agent.name or default_agent_name(),
        cameras=tuple(_camera(camera) for camera in configuration.cameras),
        uplink=_uplink(configuration),
        rollout=_settings(JudgingSettings, agent.rollout, gate=_settings(RolloutSettings, agent.rollout)),
        releases=ReleaseSettings(
            trusted_keys=configuration.models.trusted_keys,
            site=agent.site,
            most_bytes=configuration.models.release_limit_bytes,
            threads=configuration.models.edge.threads,
        ),
    )


def _uplink(configuration: Configuration) -> UplinkSettings:
    uplink = configuration.uplink
    return _settings(
        UplinkSettings,
        uplink,
        tiers=frozenset(map(Tier, uplink.tiers)),
        model=uplink.model or configuration.models.cloud.name,
        weights=_settings(Weights, uplink.weights),
    )


def worker_settings(configuration: Configuration, threads: int = 1) -> WorkerSettings:
    """The worker's settings; ``threads`` where the configuration names no number. Raises ConfigError."""
    worker = configuration.worker
    return _settings(
        WorkerSettings,
        worker,
        worker=worker.name or default_worker_id(),
        threads=worker.threads or threads,
        models=tuple(_served(model) for model in worker.models or (configuration.models.cloud,)),
    )


def mqtt_settings(configuration: Configuration) -> MqttSettings:
    """How the broker is reached. Reads the file that holds the password. Raises ConfigError."""
    broker = configuration.broker
    if broker.url is None:
        host = broker.embedded.host
        return MqttSettings(_REACHED_AT.get(host, host), broker.embedded.port)
    url = parse_broker_url(broker.url)
    if broker.username is not None:
        password = _secret(broker.password, broker.password_file)
        url = BrokerUrl(url.host, url.port, url.tls, broker.username, password)
    tls = None
    if broker.tls is not None:
        tls = TlsSettings(**{name: None if value is None else str(value) for name, value in broker.tls})
    return MqttSettings.of(url, tls)


def embedded_settings(configuration: Configuration) -> EmbeddedBrokerSettings | None:
    """Where the embedded broker listens; None where the configuration names another broker."""
    broker = configuration.broker
    return _settings(EmbeddedBrokerSettings, broker.embedded) if broker.url is None else None


def web_settings(configuration: Configuration) -> WebSettings:
    """The status page's settings. Reads the file that holds the token. Raises ConfigError."""
    web = configuration.web
    access = AccessSettings(web.host, _secret(web.token, web.token_file), web.allowed_hosts)
    return WebSettings(web.enabled, web.port, access)


def network_settings(configuration: Configuration) -> NetworkSettings | None:
    """The modelled network to the broker; None for the one that there is."""
    network = configuration.network
    return None if network.profile is None else NetworkSettings(network.profile, network.seed)


def default_agent_name() -> str:
    """The host's name as a topic level."""
    return re.sub(r"[^A-Za-z0-9_-]", "-", socket.gethostname())[:48] or "agent"


def _camera(camera: CameraEntry) -> CameraSettings:
    tracker = _settings(TrackerSettings, camera.tracker, noise=_settings(Noise, camera.tracker.noise))
    password = _secret(camera.password, camera.password_file)
    settings = _settings(
        CameraSettings,
        camera,
        capture=_settings(CaptureSettings, camera, password=password),
        objects=frozenset(camera.objects),
        change=_settings(ChangeSettings, camera.change),
        tracker=tracker,
        candidates=_settings(CandidateSettings, camera.candidates),
        offload=_settings(OffloadSettings, camera.offload),
        reuse=_settings(NearDuplicateSettings, camera.reuse),
        mosaic=_settings(MosaicSettings, camera.mosaic),
        images=_settings(ImageSettings, camera.images),
        steering=_settings(SteeringSettings, camera.steering),
        wait=_settings(WaitSettings, camera.wait),
        budget=budget_settings(camera.budget),
        lessons=_settings(LessonSettings, camera.lessons),
        privacy=(private := privacy(camera)),
        mode=camera.mode if private.beyond_device else "edge_only",
    )
    return settings if camera.calibration is None else calibrated(settings, _calibration(camera.calibration))


def _calibration(path: Path) -> Calibration:
    try:
        return read_calibration(path)
    except ValueError as error:  # it was checked before, and has changed since
        raise ConfigError(f"the calibration {path} is not usable: {error}") from error


def _served(model: CloudModelKeys) -> ServedModel:
    return ServedModel(model.name, model.input_size, model.url)


def _settings(kind: type[T], keys: Keys, **values: Any) -> T:
    """Settings from the keys that have the same names, and from further values."""
    names = {field.name for field in fields(kind)}  # type: ignore[arg-type] # every kind here is a dataclass
    return kind(**{name: value for name, value in keys if name in names} | values)


def _secret(given: SecretStr | None, file: Path | None) -> str | None:
    if file is None:
        return None if given is None else given.get_secret_value()
    try:
        return read_secret(file)
    except ValueError as error:  # it was checked before, and has changed since
        raise ConfigError(f"the secret file {file} is not usable: {error}") from error
