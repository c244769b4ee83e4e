"""The keys of a camera: its own, and groups of finer ones. Every default is that of the settings they become."""

from typing import Literal

from pydantic import ConfigDict

from edge_agent.candidates import CandidateSettings
from edge_agent.capture.settings import CaptureSettings
from edge_agent.lessons.settings import LessonSettings
from edge_agent.lessons.settings import Privacy as LessonPrivacy
from edge_agent.settings import CameraSettings, ImageSettings, Mode
from edge_agent.tracking.kalman import Noise
from edge_agent.tracking.tracks import TrackerSettings
from foveate.config.budget import BudgetKeys
from foveate.config.calibration import CalibrationFile
from foveate.config.fields import CameraName, Keys, Mask, Roi, Secret, SecretFile, SourceText, key, one_of
from foveate.config.reuse import ReuseKeys
from pipeline.mosaic import MosaicSettings
from pipeline.policies.change import ChangeSettings
from pipeline.policies.fallback import WaitSettings
from pipeline.policies.offload import OFFLOAD_KINDS, OffloadSettings
from pipeline.policies.steering import SteeringSettings
from pipeline.policies.tier_cost import NEAREST_FIRST, Tier
from pipeline.policies.tier_offers import Privacy

_CAPTURE = CaptureSettings("")
_CAMERA = CameraSettings("", _CAPTURE)
_CHANGE = ChangeSettings()
_NOISE = Noise()
_TRACKER = TrackerSettings()
_CANDIDATES = CandidateSettings()
_OFFLOAD = OffloadSettings()
_MOSAIC = MosaicSettings()
_IMAGES = ImageSettings()
_WAIT = WaitSettings()
_STEERING = SteeringSettings()
_LESSONS = LessonSettings()


class ChangeKeys(Keys):
    """When a frame is worth a look, and what counts as motion."""

    height_px: int = key(_CHANGE.height_px, "Height of the small picture that is compared", ge=16, le=2160)
    least_levels: float = key(_CHANGE.least_levels, "Grey levels a pixel must differ by", gt=0, le=255)
    noise_factor: float = key(_CHANGE.noise_factor, "The same in multiples of the noise; the greater counts", gt=0)
    most_levels: float = key(_CHANGE.most_levels, "Grey levels that are always enough, however noisy", gt=0, le=255)
    least_area: float = key(_CHANGE.least_area, "Share of the picture one moving thing must cover", gt=0, le=1)
    learn: bool = key(_CHANGE.learn, "Learn that share from what looks have shown, starting from least_area")
    audit_share: float = key(
        _CHANGE.audit_share, "Share of the unchanged frames analysed all the same, to learn from", ge=0, le=1
    )
    max_gap_s: float = key(_CHANGE.max_gap_s, "A frame is analysed at the latest after this", gt=0)
    global_share: float = key(_CHANGE.global_share, "Share changed at once that means a new scene", gt=0, le=1)
    idle_share: float = key(_CHANGE.idle_share, "With fewer idle frames than this, sampling is uniform", ge=0, le=1)
    storm_fps: float = key(
        _CHANGE.storm_fps, "Frames analysed per second while changes come from everywhere", gt=0, le=1000
    )
    learn_rate: float = key(_CHANGE.learn_rate, "How fast the background is learned where all is still", gt=0, le=1)
    learn_rate_moving: float = key(_CHANGE.learn_rate_moving, "The same where something moves", ge=0, le=1)


class NoiseKeys(Keys):
    """The tracker's Kalman filter; standard deviations as shares of a box's height."""

    measurement: float = key(_NOISE.measurement, "Of a box found by the larger model", gt=0)
    edge_measurement: float = key(_NOISE.edge_measurement, "Of the small model's, times one minus its score", gt=0)
    birth_speed: float = key(_NOISE.birth_speed, "Of the speed of a new track, per s", gt=0)
    acceleration: float = key(_NOISE.acceleration, "Of acceleration, per s²", gt=0)
    size_share: float = key(_NOISE.size_share, "Scales the last two for width and height", gt=0)


class TrackerKeys(Keys):
    """How detections become tracks."""

    high_score: float = key(_TRACKER.high_score, "Score that starts and keeps a track", ge=0, le=1)
    low_score: float = key(_TRACKER.low_score, "Score that only keeps a track", ge=0, le=1)
    publish_score: float = key(_TRACKER.publish_score, "Score to publish what the cloud has not confirmed", ge=0, le=1)
    match_iou: float = key(_TRACKER.match_iou, "Overlap that joins a sure box to a track", ge=0, le=1)
    low_match_iou: float = key(_TRACKER.low_match_iou, "Overlap that joins an unsure box to a track", ge=0, le=1)
    coast_s: float = key(_TRACKER.coast_s, "A track that is not seen is published for this long", ge=0)
    confirmed_coast_s: float = key(_TRACKER.confirmed_coast_s, "The same once the cloud has confirmed it", ge=0)
    forget_s: float = key(_TRACKER.forget_s, "A track that is not seen is forgotten after this", gt=0)
    verdict_s: float = key(_TRACKER.verdict_s, "How long the cloud's word on a track holds", ge=0)
    noise: NoiseKeys = key(NoiseKeys(), "The Kalman filter")


class CandidateKeys(Keys):
    """Which places deserve a second look."""

    recheck_s: float = key(_CANDIDATES.recheck_s, "A confirmed track is looked at again after this", ge=0)
    still_recheck_s: float = key(_CANDIDATES.still_recheck_s, "The same for one that stands still", ge=0)
    still_speed: float = key(_CANDIDATES.still_speed, "Speed below which it does, in its own heights per s", ge=0)
    sure_below: float = key(_CANDIDATES.sure_below, "Scores below are surely nothing", ge=0, le=1)
    sure_above: float = key(_CANDIDATES.sure_above, "Scores above are surely something", ge=0, le=1)
    most_motion: int = key(_CANDIDATES.most_motion, "Most moving places without a detection", ge=0, le=100)
    missed_s: float = key(_CANDIDATES.missed_s, "A confirmed track that is missed is looked for this long", ge=0)


class OffloadKeys(Keys):
    """What is sent to the larger model."""

    policy: one_of(OFFLOAD_KINDS) = key(  # type: ignore[valid-type] # made from a table
        _OFFLOAD.policy, "What is sent: where it changes most (adaptive), or by a simpler rule, for comparison"
    )
    least_gain: float = key(
        _OFFLOAD.least_gain, "Places where a look changes the answer with less probability are left out", ge=0, le=1
    )
    least_gain_own: float = key(_OFFLOAD.least_gain_own, "The same while a model of the camera's own looks", ge=0, le=1)
    audit_share: float = key(
        _OFFLOAD.audit_share, "Share of the frames that have all places looked at, to be learned from", ge=0, le=1
    )
    trial_share: float = key(
        _OFFLOAD.trial_share,
        "Share of the whole frames that are followed by crops drawn another way, to learn which is enough; 0 for never",
        ge=0,
        le=1,
    )
    threshold: float = key(_OFFLOAD.threshold, "Score of the policies `threshold` and `min_confidence`", ge=0, le=1)
    share: float = key(_OFFLOAD.share, "Share of the frames that the policy `random` sends", ge=0, le=1)
    padding: float = key(_OFFLOAD.padding, "Margin around a place, as a share of its side", ge=0, le=5)
    padding_px: float = key(_OFFLOAD.padding_px, "The least margin", ge=0)
    merge_slack: float = key(_OFFLOAD.merge_slack, "Two places join below this ratio of joint to summed area", ge=0)
    most_regions: int = key(_OFFLOAD.most_regions, "Most places in one request", ge=1, le=100)
    full_frame_s: float = key(_OFFLOAD.full_frame_s, "A whole frame so often, at low quality; 0 for never", ge=0)
    tail_deviations: float = key(_OFFLOAD.tail_deviations, "How pessimistic the predicted round trip is", ge=0, le=20)


class MosaicKeys(Keys):
    """How crops are packed into one picture."""

    scale: float = key(_MOSAIC.scale, "Scale of the crops", gt=0, le=4)
    least_scale: float = key(_MOSAIC.least_scale, "Scale below which places are left out instead", gt=0, le=4)
    gap_px: int = key(_MOSAIC.gap_px, "Space between crops", ge=0, le=256)
    step_px: int = key(_MOSAIC.step_px, "Width and height are multiples of this, the model's stride", ge=1, le=256)
    widths_px: tuple[int, ...] = key(_MOSAIC.widths_px, "Widths to choose from, rising", min_length=1, max_length=32)
    most_height_px: int = key(_MOSAIC.most_height_px, "Largest height", ge=16, le=4320)


class ImageKeys(Keys):
    """Quality and size of what is sent."""

    mosaic_quality: int = key(_IMAGES.mosaic_quality, "JPEG quality of crops", ge=1, le=100)
    frame_quality: int = key(_IMAGES.frame_quality, "JPEG quality of whole frames", ge=1, le=100)
    frame_width_px: int = key(_IMAGES.frame_width_px, "Largest width of whole frames", ge=16, le=7680)
    frame_height_px: int = key(_IMAGES.frame_height_px, "Largest height of whole frames", ge=16, le=4320)


class SteeringKeys(Keys):
    """How a camera's share of the cloud is steered."""

    agreement: float | None = key(
        _STEERING.agreement,
        "F1 of edge against cloud that is enough: looks beyond it are saved; null to use what the budget allows",
        gt=0,
        le=1,
    )
    dwell_s: float = key(_STEERING.dwell_s, "The mode (open, saving, edge) changes at most once in this", ge=0, le=600)
    least_bytes: float = key(
        _STEERING.least_bytes, "A way on which not even so much comes in time is left alone", gt=0, le=1e6
    )
    factor: float = key(
        _STEERING.factor, "It is used again where so much needs no more of the time than this", gt=0, le=1
    )
    frames_ahead: float = key(_STEERING.frames_ahead, "Frames that may ask are saved up to so many", ge=1, le=100)
    price_most: float = key(
        _STEERING.price_most,
        "Most that a place must bring per kilobyte, in multiples of the usual; 0 spends a budget as it comes",
        ge=0,
        le=20,
    )


class WaitKeys(Keys):
    """How long an answer of the larger model is waited for, at the most until the deadline."""

    stretch: float = key(_WAIT.stretch, "In multiples of the 95th percentile of recent round trips", ge=1, le=100)
    least_ms: float = key(_WAIT.least_ms, "And never shorter than this", ge=0, le=10_000)


class LessonKeys(Keys):
    """What a camera keeps to learn from: small pictures with the larger model's answers."""

    enabled: bool = key(_LESSONS.enabled, "Keep lessons, in a folder of its own in `agent.state_dir`")
    privacy: LessonPrivacy = key(
        _LESSONS.privacy,
        "Lessons never leave the machine that took them (site), or may (cloud); what was taken under site stays",
    )
    picture_width_px: int = key(_LESSONS.picture_width_px, "Largest width of their pictures", ge=32, le=1920)
    picture_height_px: int = key(_LESSONS.picture_height_px, "Largest height of their pictures", ge=32, le=1080)
    least_apart_s: float = key(_LESSONS.least_apart_s, "Least time between two lessons", ge=0, le=3600)
    most_per_minute: float = key(
        _LESSONS.most_per_minute,
        "Whole frames asked about for lessons alone while the uplink is idle, at most; fewer once there are many"
        " lessons; 0 for none",
        ge=0,
        le=60,
    )
    uplink_share: float = key(_LESSONS.uplink_share, "Share of the uplink budget that such frames may take", ge=0, le=1)
    most_bytes: int = key(
        _LESSONS.most_bytes,
        "All that is kept; beyond it what is common in an hour and a light gives way",
        ge=1_000_000,
        le=1024**4,
    )


class CameraKeys(Keys):
    """What can be said of every camera, and in `defaults` for all of them."""

    title: str = key(_CAMERA.title, "Name for people", max_length=200)
    group: str = key(_CAMERA.group, "Group of cameras that releases of models may be for", max_length=64)
    username: str | None = key(_CAPTURE.username, "User of the source", min_length=1)
    password: Secret | None = key(None, "Password of the source; better `${NAME}` or `password_file`")
    password_file: SecretFile | None = key(None, "File that holds the password")
    realtime: bool = key(_CAPTURE.realtime, "Play a file at its own pace; the newest picture wins")
    rtsp_transport: Literal["tcp", "udp"] = key(_CAPTURE.rtsp_transport, "How RTSP brings the pictures")
    open_timeout_s: float = key(_CAPTURE.open_timeout_s, "Give up opening after this", gt=0, le=600)
    read_timeout_s: float = key(_CAPTURE.read_timeout_s, "Give up waiting for a picture after this", gt=0, le=600)
    reconnect_first_s: float = key(_CAPTURE.reconnect_first_s, "First pause before connecting again", gt=0, le=3600)
    reconnect_most_s: float = key(_CAPTURE.reconnect_most_s, "Longest pause; it doubles up to this", gt=0, le=3600)
    pixel_limit: int = key(_CAPTURE.pixel_limit, "Pictures with more pixels are refused", ge=1)
    sample_fps: float = key(_CAMERA.sample_fps, "Frames analysed per second, at most", gt=0, le=1000)
    sampling: Literal["adaptive", "fixed"] = key(
        _CAMERA.sampling, "Fewer frames while what is tracked moves slowly (adaptive), or always the full rate (fixed)"
    )
    sample_fps_least: float = key(_CAMERA.sample_fps_least, "Lowest rate of adaptive sampling", gt=0, le=1000)
    change_detection: Literal["adaptive", "uniform"] = key(
        _CAMERA.change_detection, "Analyse what changed (adaptive), or every sampled frame (uniform)"
    )
    deadline_ms: float = key(
        _CAMERA.deadline_ms,
        "Every frame is answered within this, from capture; see patience_ms for files",
        gt=0,
        le=60_000,
    )
    patience_ms: float = key(
        _CAMERA.patience_ms, "How long a file that is read as fast as can be waits for the cloud", gt=0, le=600_000
    )
    weight: float = key(
        _CAMERA.weight,
        "Its part of the uplink budget, and its rank in a worker's queue, against the other cameras'",
        gt=0,
        le=1000,
    )
    mode: Mode = key(_CAMERA.mode, "Ask the cloud where it pays (adaptive), never, or for every analysed frame")
    roi: Roi = key(_CAMERA.roi, "Where to look: a box [x1, y1, x2, y2] or points [[x, y], ...]; empty for everywhere")
    masks: tuple[Mask, ...] = key(_CAMERA.masks, "Where not to look: a list of boxes or of lists of points")
    tiers: tuple[Literal["device", "edge", "cloud"], ...] = key(
        tuple(tier.value for tier in NEAREST_FIRST if tier in _CAMERA.privacy.tiers),
        "To which tiers its pictures may go: `device`, which is always in, `edge` (workers on site), `cloud`",
        max_length=len(Tier),
    )
    masked_only: tuple[Literal["edge", "cloud"], ...] = key(
        tuple(tier.value for tier in NEAREST_FIRST if tier in _CAMERA.privacy.masked_only),
        "Tiers that get crops alone and no whole frames, with all that is under `masks` painted over",
        max_length=len(Tier),
    )
    objects: tuple[str, ...] = key((), "Classes to report; empty for all", max_length=1000)
    publish: Literal["analysed", "all"] = key(_CAMERA.publish, "Publish analysed frames, or the carried ones too")
    calibration: CalibrationFile | None = key(
        None,
        "What `foveate calibrate` has learned of this camera; its crops and gains go before those configured, and what"
        " is in `agent.state_dir` before them",
    )
    revisions: bool = key(_CAMERA.revisions, "Publish a result again where a late answer of the cloud changes it")
    change: ChangeKeys = key(ChangeKeys(), "Change detection")
    tracker: TrackerKeys = key(TrackerKeys(), "Tracking")
    candidates: CandidateKeys = key(CandidateKeys(), "What deserves a second look")
    offload: OffloadKeys = key(OffloadKeys(), "What is sent to the larger model")
    reuse: ReuseKeys = key(ReuseKeys(), "Answers of the cloud that are said again")
    mosaic: MosaicKeys = key(MosaicKeys(), "How crops are packed")
    images: ImageKeys = key(ImageKeys(), "JPEG quality and size of what is sent")
    steering: SteeringKeys = key(SteeringKeys(), "How its share of the cloud is steered")
    wait: WaitKeys = key(WaitKeys(), "How long an answer of the cloud is waited for")
    route: Literal["auto", "edge"] = key(
        _CAMERA.route, "The cloud may look first where the small model is slower than the whole way (auto), or never"
    )
    lessons: LessonKeys = key(LessonKeys(), "What it keeps to learn from")
    budget: BudgetKeys = key(BudgetKeys(), "Latency budgets, alerts, and what is turned down when one is breached")


def privacy(camera: CameraKeys) -> Privacy:
    """Where a camera's pictures may go; the device is always in."""
    tiers = {Tier.DEVICE, *map(Tier, camera.tiers)}
    return Privacy(frozenset(tiers), frozenset(map(Tier, camera.masked_only)))


class CameraEntry(CameraKeys):
    """One camera."""

    # Loading gives a name to every camera without one, so that only a file's reader may miss it.
    model_config = ConfigDict(json_schema_extra={"required": ["source"]})

    name: CameraName = key(..., "Name in MQTT topics; made from the source where it is left out")
    source: SourceText = key(
        ..., "RTSP or HTTP URL, file, folder of pictures, `/dev/video0` or `device:0`, `synthetic:`", repr=False
    )
