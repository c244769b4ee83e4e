"""From a configuration to the settings of the parts."""

from dataclasses import fields, replace
from pathlib import Path

import pytest

from cloud_worker.settings import ServedModel, WorkerSettings
from edge_agent.capture.settings import CaptureSettings
from edge_agent.releases.settings import ReleaseSettings
from edge_agent.settings import AgentSettings, CameraSettings
from edge_agent.status.access import AccessSettings
from foveate.config.camera import CameraEntry
from foveate.config.document import parse_document
from foveate.config.fields import Keys
from foveate.config.load import configure
from foveate.config.models import Configuration, EmbeddedKeys, TlsKeys
from foveate.config.settings import (
    agent_settings,
    default_agent_name,
    for_sources,
    mqtt_settings,
    plan,
    web_settings,
    worker_settings,
)
from foveate.config.worker import WorkerKeys
from foveate.plan import EdgeModel, EmbeddedBrokerSettings, WebSettings
from pipeline.errors import ConfigError
from pipeline.transport.settings import MqttSettings, TlsSettings
from pipeline.wire.topics import valid_level


def read(text: str, folder: Path | None = None) -> Configuration:
    return configure(parse_document(text, "foveate.yaml", {}), folder, {})


def test_a_camera_with_nothing_but_a_source_has_the_defaults_of_the_settings() -> None:
    settings = agent_settings(for_sources(["clips/plaza.mp4"]))
    camera = CameraSettings("plaza", CaptureSettings("clips/plaza.mp4"))
    assert settings == AgentSettings(default_agent_name(), (camera,))


def test_a_worker_without_keys_has_the_defaults_of_the_settings() -> None:
    made = worker_settings(Configuration())
    assert made == WorkerSettings((ServedModel("nanodet-g"),), worker=made.worker)


def test_everything_else_has_the_defaults_of_the_settings() -> None:
    made = plan(Configuration())
    assert made.edge_model == EdgeModel()
    assert made.web == WebSettings()
    assert made.embedded == EmbeddedBrokerSettings()
    assert made.models_dir is None


@pytest.mark.parametrize(
    ("kind", "keys"),
    [
        (CaptureSettings, CameraEntry),
        (CameraSettings, CameraEntry),
        (WorkerSettings, WorkerKeys),
        (EmbeddedBrokerSettings, EmbeddedKeys),
        (TlsSettings, TlsKeys),
    ],
)
def test_every_setting_has_a_key(kind: type, keys: type[Keys]) -> None:
    # The gain comes from the file that `calibration` names; privacy is what `tiers` and `masked_only` say.
    names = {field.name for field in fields(kind)} - {"capture", "worker", "gain", "privacy"}
    assert names <= set(keys.model_fields)


@pytest.mark.parametrize(
    "group",
    ["change", "tracker", "candidates", "offload", "mosaic", "images", "steering", "wait", "budget", "uplink", "agent"],
)
def test_every_finer_setting_has_a_key_and_every_key_is_a_setting(group: str) -> None:
    settings = agent_settings(for_sources(["a.mp4"]))
    configuration = for_sources(["a.mp4"])
    part: object = settings if group == "agent" else settings.uplink if group == "uplink" else None
    part = part or getattr(settings.cameras[0], group)
    keys = getattr(configuration, group, None) or getattr(configuration.cameras[0], group)
    names = {field.name for field in fields(part)}  # type: ignore[arg-type] # every part is a dataclass
    # Releases are set where they concern it: agent.site, models.trusted_keys, models.release_limit_bytes.
    assert names - {"agent", "cameras", "uplink", "releases"} == set(type(keys).model_fields) - (
        {"name", "site"} if group == "agent" else set()
    )


def test_every_key_of_a_camera_reaches_its_settings() -> None:
    camera = agent_settings(
        read("""
cameras:
  - name: gate
    title: Main gate
    source: rtsp://cam/1
    username: viewer
    password: 0123
    realtime: true
    rtsp_transport: udp
    open_timeout_s: 1
    read_timeout_s: 2
    reconnect_first_s: 3
    reconnect_most_s: 4
    pixel_limit: 5000
    sample_fps: 6
    change_detection: uniform
    deadline_ms: 700
    patience_ms: 900
    weight: 8
    mode: cloud_only
    roi: [0, 0, 0.5, 0.5]
    masks: [[0, 0, 9, 9]]
    objects: [person, car]
    publish: all
    change: {height_px: 90}
    tracker: {coast_s: 0.5, noise: {measurement: 0.1}}
    candidates: {recheck_s: 2}
    offload: {padding: 0.3}
    mosaic: {widths_px: [64, 128]}
    images: {mosaic_quality: 50}
""")
    ).cameras[0]
    base = CameraSettings("gate", CaptureSettings(""))
    tracker = replace(base.tracker, coast_s=0.5, noise=replace(base.tracker.noise, measurement=0.1))
    assert camera == CameraSettings(
        name="gate",
        capture=CaptureSettings(
            source="rtsp://cam/1",
            realtime=True,
            username="viewer",
            password="0123",
            rtsp_transport="udp",
            open_timeout_s=1,
            read_timeout_s=2,
            reconnect_first_s=3,
            reconnect_most_s=4,
            pixel_limit=5000,
        ),
        title="Main gate",
        sample_fps=6,
        change_detection="uniform",
        deadline_ms=700,
        patience_ms=900,
        weight=8,
        mode="cloud_only",
        roi=((0, 0), (0.5, 0), (0.5, 0.5), (0, 0.5)),
        masks=(((0, 0), (9, 0), (9, 9), (0, 9)),),
        objects=frozenset({"person", "car"}),
        publish="all",
        change=replace(base.change, height_px=90),
        tracker=tracker,
        candidates=replace(base.candidates, recheck_s=2),
        offload=replace(base.offload, padding=0.3),
        mosaic=replace(base.mosaic, widths_px=(64, 128)),
        images=replace(base.images, mosaic_quality=50),
    )


def test_a_secret_file_is_read_without_its_line_end(tmp_path: Path) -> None:
    (tmp_path / "s").write_bytes("S3cr&t/Ü \r\n".encode())
    text = (
        "web: {host: 0.0.0.0, token_file: s, allowed_hosts: [cam.example.com]}\n"
        "broker: {url: 'mqtt://h', username: u, password_file: s}\n"
        "cameras: [{source: a.mp4, password_file: s}]"
    )
    configuration = read(text, tmp_path)
    assert agent_settings(configuration).cameras[0].capture.password == "S3cr&t/Ü "
    assert mqtt_settings(configuration).password == "S3cr&t/Ü "
    assert web_settings(configuration).access == AccessSettings("0.0.0.0", "S3cr&t/Ü ", ("cam.example.com",))


def test_a_secret_file_that_vanished_since_is_named(tmp_path: Path) -> None:
    file = tmp_path / "s"
    file.write_text("x")
    configuration = read("web: {token_file: s}", tmp_path)
    file.unlink()
    with pytest.raises(ConfigError, match="No such file"):
        web_settings(configuration)


def test_the_model_asked_for_is_the_one_served_unless_said_otherwise() -> None:
    configuration = read("models: {cloud: {name: big, input_size: [320, 416]}}")
    assert agent_settings(configuration).uplink.model == "big"
    assert worker_settings(configuration).models == (ServedModel("big", (320, 416)),)
    other = read("uplink: {model: other}\nworker: {name: w1, models: [{name: other}, {name: third}]}")
    assert agent_settings(other).uplink.model == "other"
    assert worker_settings(other).models == (ServedModel("other"), ServedModel("third"))
    assert worker_settings(other).worker == "w1"


def test_a_worker_has_the_threads_it_is_told_else_those_that_its_command_can_have() -> None:
    assert worker_settings(Configuration()).threads == 1
    assert worker_settings(Configuration(), threads=6).threads == 6
    assert worker_settings(read("worker: {threads: 3}"), threads=6).threads == 3


def test_no_limit_for_the_uplink_is_written_null() -> None:
    assert agent_settings(read("uplink: {burst_s: 1}")).uplink.uplink_kbps is None
    assert agent_settings(read("uplink: {uplink_kbps: 600}")).uplink.uplink_kbps == 600


def test_the_embedded_broker_is_reached_on_this_machine_wherever_it_listens() -> None:
    assert mqtt_settings(read("broker: {embedded: {port: 2883}}")) == MqttSettings("127.0.0.1", 2883)
    assert mqtt_settings(read("broker: {embedded: {host: 0.0.0.0}}")).host == "127.0.0.1"
    assert mqtt_settings(read("broker: {embedded: {host: '::'}}")).host == "::1"
    assert mqtt_settings(read("broker: {embedded: {host: 10.0.0.5}}")).host == "10.0.0.5"


def test_at_another_broker_the_workers_are_somebody_elses(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("x")
    made = plan(read("broker: {url: 'mqtts://u:p@h', tls: {ca_file: ca.pem, server_name: b}}", tmp_path))
    assert made.embedded is None
    assert made.worker is None
    tls = TlsSettings(ca_file=str(tmp_path / "ca.pem"), server_name="b")
    assert made.mqtt == MqttSettings("h", 8883, "u", "p", tls)
    assert plan(Configuration()).worker is not None


def test_credentials_may_stand_beside_the_url() -> None:
    made = mqtt_settings(read("broker: {url: 'mqtt://h:1', username: u, password: 'p@/'}"))
    assert (made.username, made.password, made.tls) == ("u", "p@/", None)


def test_sources_of_the_command_line_become_cameras_with_names() -> None:
    configuration = for_sources(["a.mp4", "b/a.mp4", "rtsp://u:p@cam/1"], {"cameras.mode": "edge_only", "web.port": 0})
    assert [camera.name for camera in configuration.cameras] == ["a", "a-2", "cam"]
    assert {camera.mode for camera in configuration.cameras} == {"edge_only"}
    assert configuration.web.port == 0
    assert configuration.cameras[0].source == "a.mp4"


def test_a_wrong_source_or_option_is_refused_in_one_sentence() -> None:
    with pytest.raises(ConfigError) as caught:
        for_sources(["ftp://u:secret@h/x"], {"cameras.deadline_ms": 0})
    first, second = sorted(str(caught.value).splitlines())
    assert first == "cameras[0].deadline_ms is 0 (command line); it must be above 0"
    assert second.startswith("cameras[0].source (command line): The source ftp://***@h/x has the unknown scheme")


def test_the_agents_default_name_is_a_topic_level() -> None:
    assert valid_level(default_agent_name())


def test_whose_releases_are_taken_and_for_whom_reaches_the_agent() -> None:
    key = "ed25519:" + "A" * 43 + "="
    made = agent_settings(
        read(f"""
agent: {{site: north}}
models:
  trusted_keys: ["{key}"]
  release_limit_bytes: 5000
  edge: {{threads: 2}}
cameras:
  - {{name: gate, source: "rtsp://cam/1", group: outdoor}}
""")
    )
    assert made.releases == ReleaseSettings((key,), "north", 5000, 2)
    assert made.cameras[0].group == "outdoor"


def test_what_is_no_public_key_is_refused_in_a_sentence() -> None:
    with pytest.raises(ConfigError, match=r"models\.trusted_keys.*is no public key: it is ed25519: and 32 bytes"):
        read('models: {trusted_keys: ["ssh-ed25519 AAAA"]}')
