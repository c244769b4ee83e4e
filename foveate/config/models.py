"""The configuration as a whole: its groups, each with the defaults of the settings they become."""

from dataclasses import asdict
from typing import Annotated, Literal

from pydantic import BeforeValidator, model_validator

from edge_agent.settings import AgentSettings, UplinkSettings
from foveate.config.camera import CameraEntry, CameraKeys
from foveate.config.faults import choose
from foveate.config.fields import (
    AnyPath,
    BrokerUrlText,
    InputSize,
    IpAddress,
    Keys,
    Level,
    NetworkName,
    PublicKey,
    ReadableFile,
    Secret,
    SecretFile,
    key,
    one_of,
)
from foveate.config.worker import CloudModelKeys, WorkerKeys
from foveate.learn.settings import LearnSettings
from foveate.plan import LIGHT_SIZE, EdgeModel, EmbeddedBrokerSettings, WebSettings
from pipeline.policies.tier_cost import NEAREST_FIRST, PRESETS
from pipeline.policies.tiers import TIER_KINDS
from pipeline.transport.settings import TlsSettings

WorkerTier = Literal["edge", "cloud"]

_AGENT = AgentSettings("", ())
_ROLLOUT = _AGENT.rollout
_UPLINK = UplinkSettings()
_EDGE_MODEL = EdgeModel()
_LIGHT_MODEL = EdgeModel(input_size=LIGHT_SIZE)
_EMBEDDED = EmbeddedBrokerSettings()
_TLS = TlsSettings()
_WEB = WebSettings()
_LEARN = LearnSettings()


class RolloutKeys(Keys):
    """How a new model is proven beside the current one, and watched afterwards."""

    canary_share: float = key(
        _ROLLOUT.gate.canary_share, "Share of the frames that it answers before it answers all", ge=0.01, le=0.1
    )
    slice_s: float = key(
        _ROLLOUT.gate.slice_s, "It answers whole stretches of so long, one in `1 / canary_share`", ge=1, le=3600
    )
    shadow_share: float = key(
        _ROLLOUT.shadow_share, "Share of the analysed frames that it looks at beside the current model", ge=0, le=1
    )
    audits_per_minute: float = key(
        _ROLLOUT.audits_per_minute, "So often the larger model is to see a whole frame while it is proven", gt=0, le=60
    )
    audits_per_hour: float = key(
        _ROLLOUT.audits_per_hour, "So often afterwards, for as long as a camera has a model of its own", gt=0, le=3_600
    )
    agreement_margin: float = key(
        _ROLLOUT.gate.agreement_margin, "By so much in F1 against the larger model it may be worse", gt=0, le=0.5
    )
    time_tolerance: float = key(
        _ROLLOUT.gate.time_tolerance, "So many times what its release promises its looks may take", ge=1, le=10
    )
    false_withdrawal: float = key(
        _ROLLOUT.gate.false_withdrawal, "Probability of giving up one that is no worse than allowed", gt=0, le=0.2
    )
    full_doubt: float = key(
        _ROLLOUT.gate.full_doubt,
        "Probability of letting one answer all frames that is worse than allowed",
        gt=0,
        le=0.2,
    )
    hang_s: float = key(_ROLLOUT.hang_s, "A look of it that takes longer hangs, and it is given up", gt=0, le=60)


class AgentKeys(Keys):
    """The agent as a whole."""

    name: Level | None = key(None, "Name in MQTT topics, another for each agent; the host's name where it is left out")
    state_dir: AnyPath | None = key(
        None,
        "Folder, this agent's own, for what its cameras learn: gains, crops and the gate's thresholds, a file of some"
        " kilobytes each, without pictures; and lessons, with pictures, of cameras that keep them; null keeps nothing",
    )
    site: str = key(_AGENT.releases.site, "Where it is, for releases of models that are for one site", max_length=64)
    settle_margin_ms: float = key(
        _AGENT.settle_margin_ms, "So long before the deadline an answer is settled with what is there", ge=0, le=10_000
    )
    frames_in_flight: int = key(
        _AGENT.frames_in_flight, "Frames under way at once from a source that is not live", ge=1, le=64
    )
    rollout: RolloutKeys = key(RolloutKeys(), "How a new model is proven beside the current one")


class EmbeddedKeys(Keys):
    """The broker that comes with Foveate; used where `broker.url` names no other."""

    host: IpAddress = key(
        _EMBEDDED.host, "IP address it listens on; it has no access control, so think before opening it"
    )
    port: int = key(_EMBEDDED.port, "Port for MQTT 5", ge=1, le=65_535)
    port_v3: int | None = key(_EMBEDDED.port_v3, "Port for MQTT 3.1.1; null for none", ge=1, le=65_535)


class TlsKeys(Keys):
    """TLS to the broker of an `mqtts://` URL; its certificate is always verified."""

    ca_file: ReadableFile | None = key(_TLS.ca_file, "Authority that signed it, PEM; the system's ones where left out")
    cert_file: ReadableFile | None = key(_TLS.cert_file, "Certificate of this client, PEM")
    key_file: ReadableFile | None = key(_TLS.key_file, "Its private key, PEM")
    server_name: str | None = key(_TLS.server_name, "Name in the broker's certificate, where it is not the URL's host")


class BrokerKeys(Keys):
    """The MQTT broker."""

    url: BrokerUrlText | None = key(
        None, "`mqtt://host:port` or `mqtts://host:port`; null for the embedded broker", repr=False
    )
    username: str | None = key(None, "User at the broker", min_length=1)
    password: Secret | None = key(None, "Password at the broker; better `${NAME}` or `password_file`")
    password_file: SecretFile | None = key(None, "File that holds the password")
    tls: TlsKeys | None = key(None, "TLS files; null for the system's authorities")
    embedded: EmbeddedKeys = key(EmbeddedKeys(), "The embedded broker")


class WeightKeys(Keys):
    """How much each part of the cost of an answer counts, each of them 1 where it is all that it may be."""

    latency: float = key(_UPLINK.weights.latency, "Its latency, as a share of the frame's deadline", ge=0, le=1e6)
    bytes: float = key(_UPLINK.weights.bytes, "What is sent, by what a byte to there counts, in 16 kB", ge=0, le=1e6)
    energy: float = key(_UPLINK.weights.energy, "What it takes, in 2 J", ge=0, le=1e6)
    shortfall: float = key(_UPLINK.weights.shortfall, "What it lacks of the best F1, in 0.1 of it", ge=0, le=1e6)

    @model_validator(mode="after")
    def _some_weight(self) -> "WeightKeys":
        if not self.latency + self.bytes + self.energy + self.shortfall > 0:
            raise ValueError("all weights are 0, so that nothing can be chosen by them; set at least one above")
        return self


def _preset(given: object) -> object:
    """The numbers that the name of a preset stands for."""
    if not isinstance(given, str):
        return given
    if given not in PRESETS:
        raise ValueError(f"{choose(given, list(PRESETS))}, or write a group of numbers")
    return asdict(PRESETS[given])


_Weights = Annotated[WeightKeys, BeforeValidator(_preset, json_schema_input_type=one_of(PRESETS) | WeightKeys)]


class UplinkKeys(Keys):
    """The way to the larger model."""

    tiers: tuple[WorkerTier, ...] = key(
        tuple(tier.value for tier in NEAREST_FIRST if tier in _UPLINK.tiers),
        "Tiers whose workers are asked, in any order; `[cloud]` asks nobody on site",
        min_length=1,
    )
    model: Level | None = key(None, "Model that is asked for; `models.cloud.name` where it is left out")
    edge_model: Level | None = key(None, "Model that workers on site are asked for; null for the same one")
    edge_shortfall: float = key(
        _UPLINK.edge_shortfall, "The part of the F1 of `model` that the answers of `edge_model` lack", ge=0, le=1
    )
    choice: one_of(TIER_KINDS) = key(  # type: ignore[valid-type] # a type made from the table of kinds
        _UPLINK.choice,
        "Which of several targets that can answer in time is asked: the one of the least weighted cost (`weighted`), "
        "of the shortest round trip (`fastest`), or of the nearest tier (`nearest`)",
    )
    weights: _Weights = key(
        WeightKeys(), "What counts how much: `latency`, `bandwidth`, `energy`, `balanced`, or the numbers below"
    )
    two_stage: bool = key(
        _UPLINK.two_stage, "Whether a quick answer and a better one after it may both be asked for (`weighted` alone)"
    )
    uplink_kbps: float | None = key(
        _UPLINK.uplink_kbps,
        "Budget of all cameras, shared by their `weight`; null for no limit; 600 for a link with a price",
        gt=0,
    )
    burst_s: float = key(_UPLINK.burst_s, "How much unused budget is saved up, in seconds of it", gt=0, le=600)
    in_flight: int = key(_UPLINK.in_flight, "Requests under way per camera, at most", ge=1, le=64)
    min_score: float = key(_UPLINK.min_score, "Score that the larger model must reach", ge=0, le=1)
    support_score: float = key(
        _UPLINK.support_score,
        "From this score on it supports a box of the small model, where their mean reaches `min_score`",
        ge=0,
        le=1,
    )
    late_s: float = key(
        _UPLINK.late_s,
        "How long an answer is taken in that is late; over 2 s after the capture it has no effect",
        gt=0,
        le=60,
    )
    misses_to_open: int = key(_UPLINK.misses_to_open, "Unanswered requests in a row that mean it is down", ge=1)
    probe_every_s: float = key(_UPLINK.probe_every_s, "How often it is tried while it is down", gt=0, le=3600)
    bandwidth_share: float = key(
        _UPLINK.bandwidth_share,
        "No more than this share of what the link seems to carry is used; 0 for no limit",
        ge=0,
        le=1,
    )


class EdgeModelKeys(Keys):
    """The small model, in the agent."""

    name: str = key(_EDGE_MODEL.name, "Name in the models folder's manifest", min_length=1)
    input_size: InputSize = key(_EDGE_MODEL.input_size, "[height, width] in pixels that pictures are brought to")
    threads: int = key(_EDGE_MODEL.threads, "Inference threads", ge=1, le=256)


class LightModelKeys(EdgeModelKeys):
    """A lighter small model with the same classes: another one, or the same at a smaller size."""

    name: str = key(_LIGHT_MODEL.name, "Name in the models folder's manifest", min_length=1)
    input_size: InputSize = key(_LIGHT_MODEL.input_size, "[height, width] in pixels that pictures are brought to")


class ModelsKeys(Keys):
    """The models."""

    dir: AnyPath | None = key(None, "Folder with manifest.toml; else that of FOVEATE_MODELS, else the one delivered")
    edge: EdgeModelKeys = key(EdgeModelKeys(), "The small model")
    edge_light: LightModelKeys | None = key(
        None, "A lighter small model, for cameras whose latency budgets ask for it; null for none"
    )
    cloud: CloudModelKeys = key(CloudModelKeys(), "The larger model")
    trusted_keys: tuple[PublicKey, ...] = key(
        _AGENT.releases.trusted_keys,
        "Public keys (`ed25519:...`) whose signed releases of models the agent takes; empty for none. They are kept in"
        " `agent.state_dir`, without which none are taken",
        max_length=16,
    )
    release_limit_bytes: int = key(
        _AGENT.releases.most_bytes, "Released models with more bytes are refused", ge=1024, le=1024**3
    )


class LearnKeys(Keys):
    """How cameras get models of their own, learned from their lessons; needs the extra `train`."""

    enabled: bool = key(_LEARN.enabled, "Whether the cameras that keep lessons learn from them")
    way: Literal["auto", "own", "adapt"] = key(
        _LEARN.way, "A small network of the camera's own, the general model adapted, or as the lessons allow (auto)"
    )
    threads: int = key(_LEARN.threads, "Threads of a training, at low priority", ge=1, le=256)
    time_limit_s: float = key(_LEARN.time_limit_s, "How long the training of one way may take", ge=10, le=86_400)
    retrain_hours: float = key(_LEARN.retrain_hours, "A camera learns again after this", gt=0, le=8760)
    growth: float = key(_LEARN.growth, "And earlier with so many times the lessons of the last time", gt=1, le=1000)
    most_ms: float | None = key(
        _LEARN.most_ms, "A look may take so long on one thread, at most; null: as fast as it gets", gt=0
    )


class NetworkKeys(Keys):
    """A modelled network between the agent and its broker, to try things out; see `foveate run --network`."""

    profile: NetworkName | None = key(
        None,
        "`wifi`, `lte`, `lte-weak`, `3g`, `step`, `outage`, `trace-vzw`, `trace-umts`, or `mahimahi:UP_FILE,DOWN_FILE`;"
        " null for the network that there is",
    )
    seed: int = key(0, "Another one gives another course of delays, losses and generated traces", ge=0)


class WebKeys(Keys):
    """The status page."""

    enabled: bool = key(_WEB.enabled, "Whether there is one")
    host: str = key(_WEB.access.host, "Address it listens on; any but this machine's own needs a token", min_length=1)
    port: int = key(_WEB.port, "Port; 0 for a free one", ge=0, le=65_535)
    token: Secret | None = key(None, "Secret that opens it; better `${NAME}` or `token_file`")
    token_file: SecretFile | None = key(None, "File that holds the token")
    allowed_hosts: tuple[str, ...] = key(_WEB.access.names, "Further host names it is reached by", max_length=100)


class Configuration(Keys):
    """All that a configuration file can say."""

    agent: AgentKeys = key(AgentKeys(), "The agent as a whole")
    broker: BrokerKeys = key(BrokerKeys(), "The MQTT broker")
    uplink: UplinkKeys = key(UplinkKeys(), "The way to the larger model")
    models: ModelsKeys = key(ModelsKeys(), "The models")
    worker: WorkerKeys = key(WorkerKeys(), "The worker")
    web: WebKeys = key(WebKeys(), "The status page")
    learn: LearnKeys = key(LearnKeys(), "Models of the cameras' own")
    network: NetworkKeys = key(NetworkKeys(), "A modelled network to the broker")
    defaults: CameraKeys = key(CameraKeys(), "Keys for all cameras; a camera's own go first")
    cameras: tuple[CameraEntry, ...] = key((), "The cameras", max_length=1000)
