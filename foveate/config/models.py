"""The configuration as a whole: its groups, each with the defaults of the settings they become."""

from typing import Literal

from cloud_worker.settings import ServedModel, WorkerSettings
from edge_agent.settings import AgentSettings, UplinkSettings
from foveate.config.camera import CameraEntry, CameraKeys
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
from foveate.learn.settings import LearnSettings
from foveate.plan import LIGHT_SIZE, EdgeModel, EmbeddedBrokerSettings, WebSettings
from pipeline.detectors.execution import PROVIDERS
from pipeline.policies.admission import ADMISSION_KINDS
from pipeline.policies.batch import BATCH_KINDS
from pipeline.policies.schedule import SCHEDULING_KINDS
from pipeline.transport.settings import TlsSettings

_AGENT = AgentSettings("", ())
_ROLLOUT = _AGENT.rollout
_UPLINK = UplinkSettings()
_EDGE_MODEL = EdgeModel()
_LIGHT_MODEL = EdgeModel(input_size=LIGHT_SIZE)
_CLOUD_MODEL = ServedModel(_UPLINK.model)
_WORKER = WorkerSettings((_CLOUD_MODEL,), worker="")
_EMBEDDED = EmbeddedBrokerSettings()
_TLS = TlsSettings()
_WEB = WebSettings()
_LEARN = LearnSettings()


class RolloutKeys(Keys):
    """How a new model is proven beside the current one, and watched afterwards."""

    canary_share: float = key(
        _ROLLOUT.gate.canary_share,
        "Share of the frames that it answers before it answers all",
        ge=0.01,
        le=0.1,
    )
    slice_s: float = key(
        _ROLLOUT.gate.slice_s, "It answers whole stretches of so long, one in `1 / canary_share`", ge=1, le=3600
    )
    shadow_share: float = key(
        _ROLLOUT.shadow_share, "Share of the analysed frames that it looks at beside the current model", ge=0, le=1
    )
    audits_per_minute: float = key(
        _ROLLOUT.audits_per_minute, "So often the larger model is to see a whole frame while it is proven", gt=0, le=600
    )
    audits_per_hour: float = key(
        _ROLLOUT.audits_per_hour, "So often afterwards, for as long as a camera has a model of its own", gt=0, le=36_000
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


class UplinkKeys(Keys):
    """The way to the larger model."""

    tier: Level = key(_UPLINK.tier, "Tier of the workers that are asked")
    model: Level | None = key(None, "Model that is asked for; `models.cloud.name` where it is left out")
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


class CloudModelKeys(Keys):
    """The larger model, in the worker."""

    name: Level = key(_CLOUD_MODEL.name, "Name in the models folder's manifest")
    input_size: InputSize | None = key(
        _CLOUD_MODEL.input_size,
        "[height, width] in pixels; null: each picture at its own size, up to the model's limit",
    )
    url: str | None = key(
        _CLOUD_MODEL.url,
        "Where it runs on an inference server: http://HOST:PORT/v2/models/NAME; null: in the worker itself",
        pattern="^https?://[^/]+/([^/]+/)*v2/models/.+",
        max_length=2048,
    )


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


class WorkerKeys(Keys):
    """The worker that runs the larger model."""

    name: Level | None = key(None, "Name in MQTT topics, another for each process; made up where it is left out")
    models: tuple[CloudModelKeys, ...] | None = key(
        None, "Models to serve; the one of `models.cloud` where left out", min_length=1, max_length=32
    )
    group: Level = key(_WORKER.group, "Workers of one group share the load")
    tier: Literal["edge", "cloud"] = key(_WORKER.tier, "Tier it serves")
    place: str = key(_WORKER.place, "Where it is; announced", max_length=64)
    energy_j: float | None = key(_WORKER.energy_j, "What a request takes in joules; announced", ge=0, le=1e6)
    transfer_price: float | None = key(
        _WORKER.transfer_price, "What a byte to it counts, 1 on a budgeted uplink, 0 on site; announced", ge=0, le=1e6
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
    stop_limit_s: float = key(_WORKER.stop_limit_s, "How long it finishes its work when it is stopped", gt=0, le=600)
    threads: int | None = key(
        None, "Inference threads; where left out 1, or for `foveate worker` all CPUs that it may use", ge=1, le=256
    )
    providers: tuple[one_of(PROVIDERS), ...] = key(  # type: ignore[valid-type] # the same
        _WORKER.providers,
        "What the models run on, best first; with `cpu` among them, it may stand in for one that cannot be used",
        min_length=1,
        max_length=8,
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
