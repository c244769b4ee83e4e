"""From a file, the environment and the command line to a checked configuration."""

import base64
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from foveate.config.document import parse_document
from foveate.config.load import configure, load
from foveate.config.models import Configuration
from pipeline.errors import ConfigError


def read(
    text: str, overrides: dict[str, object] | None = None, folder: Path | None = None, **env: str
) -> Configuration:
    return configure(parse_document(text, "foveate.yaml", env), folder, overrides or {})


def faults(text: str, overrides: dict[str, object] | None = None, folder: Path | None = None, **env: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        read(text, overrides, folder, **env)
    return str(caught.value).splitlines()


def test_without_a_file_everything_has_its_default() -> None:
    assert load(None, {}) == Configuration()


def test_an_empty_file_is_a_valid_configuration(tmp_path: Path) -> None:
    path = tmp_path / "foveate.yaml"
    path.write_text("# nothing yet\ncameras:\nweb:\n")
    assert load(path, {}) == Configuration()


def test_an_unknown_key_is_refused_with_its_line_and_the_nearest_valid_one() -> None:
    text = "cameras:\n  - source: a.mp4\n    samle_fps: 5\n"
    assert faults(text) == ["unknown key 'samle_fps' (foveate.yaml line 3); did you mean 'sample_fps'?"]


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("uplnk: {}", "did you mean 'uplink'?"),
        ("uplink_kbps: 5", "did you mean 'uplink' or uplink.uplink_kbps?"),
        ("source: a.mp4", "did you mean cameras[].source?"),
        ("cameras: [{source: a.mp4, high_score: 1}]", "did you mean cameras[].tracker.high_score?"),
        ("defaults: {high_score: 1}", "did you mean defaults.tracker.high_score?"),
        ("cameras: [{source: a.mp4, fps: 5}]", "did you mean 'sample_fps'?"),
        ("defaults: {tracker: {noise: {speed: 1}}}", "did you mean 'birth_speed'?"),
        ("worker: {models: [{nam: x}]}", "did you mean 'name'?"),
        ("web: {xyzzy: 1}", "known here: enabled, host, port, token, token_file, allowed_hosts"),
        ("defaults: {source: a.mp4}", "did you mean cameras[].source?"),
        ("<<: {a: 1}", "known here: agent, broker"),
        ("cameras: [{source: a.mp4, zones: []}]", "known here: "),
    ],
)
def test_an_unknown_key_gets_the_best_hint_there_is(text: str, hint: str) -> None:
    (fault,) = faults(text)
    assert hint in fault


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("defaults: {sample_fps: 0}", "defaults.sample_fps is 0 (foveate.yaml line 1); it must be above 0"),
        ("defaults: {sample_fps: fast}", "is 'fast' (foveate.yaml line 1); it must be a number"),
        ("defaults: {sample_fps: .nan}", "is '.nan' (foveate.yaml line 1); it must be a number"),
        ("defaults: {sample_fps: inf}", "it must be a number"),
        ("defaults: {sample_fps:}", "is empty (foveate.yaml line 1); give it a value"),
        ("defaults: {deadline_ms: -5}", "is -5 (foveate.yaml line 1); it must be above 0"),
        ("defaults: {realtime: perhaps}", "it must be true or false"),
        ("defaults: {mode: edge}", "did you mean 'edge_only'? choose one of adaptive, edge_only, cloud_only"),
        ("defaults: {objects: person}", "is 'person' (foveate.yaml line 1); it must be a list"),
        ("defaults: {tracker: 5}", "is 5 (foveate.yaml line 1); it must be a group of keys"),
        ("defaults: {tracker: {low_score: 2}}", "it must be at most 1"),
        ("defaults: {change: {height_px: 144.5}}", "it must be a whole number"),
        ("defaults: {roi: [0, 0, 0.5, 1.5]}", "roi is [0, 0, 0.5, 1.5] (foveate.yaml line 1); it is less than 8 px"),
        ("defaults: {masks: [[1, 2, 3]]}", "defaults.masks[0] is [1, 2, 3] (foveate.yaml line 1); it must be a box"),
        ("defaults: {title: [a]}", "it must be text"),
        ("defaults: {username: ''}", "it must not be empty"),
        ("cameras: 5", "cameras is 5 (foveate.yaml line 1); it must be a list"),
        ("cameras: [5]", "cameras[0] is 5 (foveate.yaml line 1); it must be a group of keys"),
        ("cameras: [{name: gate}]", "cameras[0].source is missing (foveate.yaml line 1); add it"),
        ("cameras: [{source: 'gopher://x'}]", "cameras[0].source (foveate.yaml line 1): The source gopher://x has"),
        ("cameras: [{source: 'synthetic:plaza?fps=x'}]", "option fps of the synthetic scene is 'x'"),
        ("cameras: [{source: a.mp4, name: a/b}]", "it becomes part of MQTT topics, but it holds '/'"),
        ("cameras: [{source: a.mp4, name: v1}]", "it is reserved"),
        ("agent: {name: ''}", "it is empty"),
        ("models: {edge: {input_size: [192]}}", "it must be [height, width] in pixels"),
        ("models: {edge: {input_size: big}}", "it must be [height, width] in pixels"),
        ("models: {cloud: {input_size: [0, 32]}}", "it must be [height, width] in pixels"),
        ("worker: {batch: dedline}", "did you mean 'deadline'? choose one of none, fixed_window, aimd, deadline"),
        ("worker: {models: []}", "worker.models is [] (foveate.yaml line 1); it must not be empty"),
        (
            "uplink: {weights: cheap}",
            "is 'cheap' (foveate.yaml line 1); choose one of latency, bandwidth, energy",
        ),
        ("uplink: {weights: 2}", "uplink.weights is 2 (foveate.yaml line 1); choose one of latency, bandwidth, energy"),
        ("uplink: {weights: [1]}", "uplink.weights is [1] (foveate.yaml line 1); it must be a group of keys"),
        ("uplink: {weights: {bytes: -1}}", "uplink.weights.bytes is -1 (foveate.yaml line 1); it must be at least 0"),
        ("uplink: {weights: {byte: 1}}", "unknown key 'byte' (foveate.yaml line 1); did you mean 'bytes'?"),
        ("worker: {location: " + 65 * "x" + "}", "it must be at most 64 characters"),
        ("models: {cloud: {url: 'http://x'}}", "it must be http://HOST:PORT/v2/models/NAME or grpc://HOST:PORT/NAME"),
        ("models: {cloud: {url: 'grpc://x:99999/n'}}", "url is 'grpc://x:99999/n' (foveate.yaml line 1);"),
        ("broker: {url: 'http://x'}", "it must begin with mqtt:// or mqtts://"),
        ("broker: {embedded: {host: example.com}}", "it must be an IP address"),
        ("broker: {embedded: {port: 70000}}", "it must be at most 65535"),
        ("web: {port: -1}", "it must be at least 0"),
    ],
)
def test_a_wrong_value_gets_one_sentence(text: str, sentence: str) -> None:
    (fault,) = faults(text)
    assert sentence in fault


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("cameras: [{source: a.mp4, name: x}, {source: b.mp4, name: x}]", "cameras[1].name is 'x' for a second time"),
        ("defaults: {deadline_ms: 20}", "it must be above 20 ms, for so long before it an answer is"),
        ("agent: {settle_margin_ms: 300}", "it must be above 300 ms, for so long before it an answer"),
        ("defaults: {reconnect_first_s: 60}", "it must be at most reconnect_most_s, 30"),
        (
            "defaults: {tracker: {low_score: 0.9}}",
            "defaults.tracker.low_score is 0.9 (foveate.yaml line 1); it must be",
        ),
        ("defaults: {change: {least_levels: 50}}", "it must be at most most_levels, 40"),
        ("defaults: {candidates: {sure_below: 0.8}}", "it must be at most sure_above, 0.7"),
        ("defaults: {mosaic: {scale: 0.2}}", "it must be at most scale, 0.2"),
        ("defaults: {sample_fps_least: 6}", "sample_fps_least is 6 (foveate.yaml line 1); it must be at most sample_"),
        ("defaults: {budget: {least_sample_fps: 6}}", "budget.least_sample_fps is 6 (foveate.yaml line 1); it must"),
        ("defaults: {budget: {window_s: 5, sustained_s: 6}}", "it must be at most window_s, 5"),
        ("defaults: {budget: {sla: {within_ms: 201}}}", "it must be at most deadline_ms, 200"),
        ("defaults: {mosaic: {widths_px: [320, 192]}}", "it must be rising multiples of step_px, 32"),
        ("defaults: {mosaic: {widths_px: [100]}}", "it must be rising multiples of step_px, 32"),
        ("defaults: {mosaic: {most_height_px: 400}}", "it must be a multiple of step_px, 32"),
        ("worker: {models: [{name: a}, {name: a}]}", "worker.models[1].name is 'a' for a second time"),
        ("broker: {username: u}", "there is no url"),
        ("broker: {tls: {}}", "there is no url"),
        ("broker: {url: 'mqtts://h', password: p}", "has no username"),
        ("broker: {url: 'mqtts://u:p@h', username: u}", "is given beside a user in url"),
        ("broker: {url: 'mqtt://h', tls: {}}", "write the url with mqtts://"),
        ("broker: {embedded: {port: 1884}}", "is 1884 as port is"),
        ("web: {host: 0.0.0.0}", "opens the status page to the network without a token"),
        ("web: {host: '::'}", "opens the status page to the network without a token"),
    ],
)
def test_keys_that_contradict_each_other_are_refused(text: str, sentence: str) -> None:
    (fault,) = faults(text)
    assert sentence in fault


def test_a_slow_camera_needs_one_key() -> None:
    assert read("defaults: {sample_fps: 0.5}").defaults.sample_fps_least == 1


def test_a_switched_off_page_needs_no_token() -> None:
    assert read("web: {enabled: no, host: 0.0.0.0}").web.host == "0.0.0.0"


def test_all_faults_are_told_in_the_order_of_their_lines() -> None:
    text = "web: {port: x}\nagent: {nme: a}\ncameras:\n  - source: ${GONE}\n    weight: 0\nweb: 1\n"
    found = faults(text)
    assert [line.split("(foveate.yaml line ")[1][0] for line in found] == ["1", "1", "2", "4", "5"]


def test_a_fault_in_the_defaults_is_told_once_and_where_it_stands() -> None:
    text = "cameras:\n  - source: a.mp4\n  - source: b.mp4\ndefaults:\n  weight: -1\n"
    assert faults(text) == ["defaults.weight is -1 (foveate.yaml line 5); it must be above 0"]


def test_a_camera_that_contradicts_the_defaults_is_blamed_where_its_own_key_stands() -> None:
    text = "defaults:\n  tracker: {low_score: 0.3}\ncameras:\n  - source: a.mp4\n    tracker:\n      high_score: 0.2\n"
    (fault,) = faults(text)
    assert "tracker.low_score is 0.3" in fault
    assert "at most high_score, 0.2" in fault


def test_defaults_hold_for_every_camera_that_does_not_say_otherwise() -> None:
    text = """
defaults: {sample_fps: 3, roi: [0, 0, 50, 50], tracker: {high_score: 0.6, noise: {measurement: 0.1}}}
cameras:
  - {source: a.mp4}
  - {source: b.mp4, sample_fps: 9, roi: [], tracker: {noise: {birth_speed: 2}}}
  - {source: c.mp4, tracker: }
"""
    first, second, third = read(text).cameras
    assert (first.sample_fps, len(first.roi), first.tracker.high_score) == (3, 4, 0.6)
    assert (second.sample_fps, second.roi, second.tracker.high_score) == (9, (), 0.6)
    assert (second.tracker.noise.measurement, second.tracker.noise.birth_speed) == (0.1, 2)
    assert third.tracker == first.tracker


def test_a_cameras_password_takes_the_place_of_the_defaults_password_file(tmp_path: Path) -> None:
    secret = tmp_path / "s"
    secret.write_text("x\n")
    text = f"defaults: {{password_file: {secret}}}\ncameras: [{{source: a.mp4, password: own}}, {{source: b.mp4}}]"
    own, common = read(text).cameras
    assert own.password_file is None
    assert common.password_file == secret


def test_cameras_without_a_name_get_one_that_no_other_has() -> None:
    text = "cameras: [{source: a/x.mp4}, {source: b/x.mp4}, {source: c.mp4, name: x-2}, {source: 'rtsp://u:p@cam/1'}]"
    assert [camera.name for camera in read(text).cameras] == ["x", "x-3", "x-2", "cam"]


def test_values_come_from_the_environment_whatever_their_type() -> None:
    camera = read(
        "cameras: [{source: 'rtsp://${HOST}/1', sample_fps: '${FPS}', password: '${PW}'}]",
        HOST="cam",
        FPS="2.5",
        PW="0123",
    ).cameras[0]
    assert (camera.source, camera.sample_fps) == ("rtsp://cam/1", 2.5)
    assert camera.password is not None
    assert camera.password.get_secret_value() == "0123"


def test_a_missing_variable_is_one_fault_and_not_a_wrong_value_too() -> None:
    assert faults("defaults: {sample_fps: '${FPS}'}") == [
        "defaults.sample_fps uses ${FPS}, which is not set (foveate.yaml line 1); set the environment variable FPS"
    ]


def test_paths_are_relative_to_the_folder_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("s")
    path = tmp_path / "foveate.yaml"
    path.write_text(
        "models: {dir: m}\nweb: {token_file: secret}\n"
        "cameras: [{source: clips/a.mp4}, {source: 'rtsp://h/x'}, {source: device:0}, {source: 'synthetic:'}]"
    )
    configuration = load(path, {})
    assert configuration.models.dir == tmp_path / "m"
    assert configuration.web.token_file == tmp_path / "secret"
    sources = [camera.source for camera in configuration.cameras]
    assert sources == [str(tmp_path / "clips/a.mp4"), "rtsp://h/x", "device:0", "synthetic:"]


@pytest.mark.parametrize(
    ("content", "why"),
    [(None, "No such file"), (b"", "one line"), (b" \n", "one line"), (b"a\nb\n", "one line"), (b"\xff", "UTF-8"),
     (b"x" * 5000, "one line")],
)  # fmt: skip
def test_a_secret_file_that_holds_no_secret_is_refused_with_its_line(
    tmp_path: Path, content: bytes | None, why: str
) -> None:
    if content is not None:
        (tmp_path / "s").write_bytes(content)
    (fault,) = faults("web:\n  token_file: s\n", folder=tmp_path)
    assert fault.startswith("web.token_file is 's' (foveate.yaml line 2); it")
    assert why in fault


def test_a_certificate_that_cannot_be_read_is_refused_with_its_line(tmp_path: Path) -> None:
    (fault,) = faults("broker:\n  url: mqtts://h\n  tls:\n    ca_file: ca.pem\n", folder=tmp_path)
    assert "broker.tls.ca_file is 'ca.pem' (foveate.yaml line 4); it cannot be read (No such file" in fault


def test_a_client_key_needs_its_certificate(tmp_path: Path) -> None:
    (tmp_path / "k").write_text("x")
    (fault,) = faults("broker: {url: 'mqtts://h', tls: {key_file: k}}", folder=tmp_path)
    assert "broker.tls.key_file has no certificate" in fault


def test_the_command_line_goes_before_the_file_and_before_every_camera() -> None:
    text = "uplink: {uplink_kbps: 5}\ndefaults: {sample_fps: 1}\ncameras: [{source: a.mp4, sample_fps: 2}]"
    configuration = read(text, {"uplink.uplink_kbps": 7, "cameras.sample_fps": 9, "cameras.mode": "edge_only"})
    assert configuration.uplink.uplink_kbps == 7
    assert (configuration.cameras[0].sample_fps, configuration.cameras[0].mode) == (9, "edge_only")


def test_an_option_that_was_not_given_changes_nothing() -> None:
    assert read("uplink: {uplink_kbps: 5}", {"uplink.uplink_kbps": None}).uplink.uplink_kbps == 5


def test_a_wrong_option_is_said_to_come_from_the_command_line() -> None:
    text = "cameras: [{source: a.mp4, sample_fps: 2}]"
    assert faults(text, {"cameras.sample_fps": -1}) == [
        "cameras[0].sample_fps is -1 (command line); it must be above 0"
    ]
    assert faults(text, {"web.port": 70_000}) == ["web.port is 70000 (command line); it must be at most 65535"]


def test_an_option_does_not_change_what_was_read(tmp_path: Path) -> None:
    document = parse_document("web: {port: 1}", "f", {})
    configure(document, None, {"web.port": 2})
    assert configure(document, None, {}).web.port == 1


SECRET = "S3cr&t/Ü"
FORMS = {
    SECRET,
    quote(SECRET, safe=""),
    quote(SECRET),
    base64.b64encode(SECRET.encode()).decode(),
    base64.b64encode(f"admin:{SECRET}".encode()).decode(),
}
PLACES = [
    "broker: {{url: 'mqtt://admin:{0}@host:99999'}}",
    "broker: {{url: 'ftp://admin:{0}@host'}}",
    "broker: {{password: [{0!r}]}}",
    "broker: {{password: {{a: {0!r}}}}}",
    "broker: {{password: {0!r}}}",
    "broker: {{url: 'mqtt://h', username: admin, password: {0!r}, password_file: x}}",
    "web: {{token: [{0!r}]}}",
    "web: {{token: {0!r}, port: x}}",
    "cameras: 'rtsp://admin:{0}@cam/1'",
    "cameras: ['rtsp://admin:{0}@cam/1']",
    "cameras: [{{source: 'ftp://admin:{0}@cam/1'}}]",
    "cameras: [{{source: 'rtsp://admin:my {0}@cam:x/1'}}]",
    "cameras: [{{source: ['rtsp://admin:{0}@cam/1']}}]",
    "cameras: [{{source: 'rtsp://cam:x/1?user=admin&password={1}'}}]",
    "cameras: [{{source: a.mp4, password: {0!r}, pasword: {0!r}}}]",
    "cameras: [{{source: a.mp4, password: {0!r}, password: {0!r}}}]",
    "cameras: [{{source: a.mp4, sample_fps: '${{SECRET}}'}}]",
    "cameras: [{{source: 'synthetic:plaza?fps=${{SECRET}}'}}]",
    "cameras: [{{source: a.mp4, name: '${{SECRET}}'}}]",
    "password: !{0} x",
    "password: *{1}",
]


@pytest.mark.parametrize("place", PLACES)
def test_no_message_ever_holds_a_secret(place: str) -> None:
    text = place.format(SECRET, quote(SECRET, safe=""))
    with pytest.raises(ConfigError) as caught:
        read(text, SECRET=SECRET)
    for form in FORMS:
        assert form not in str(caught.value)
    assert caught.value.__cause__ is None or SECRET not in str(caught.value.__cause__)


WORDS = st.sampled_from([
    "name", "source", "sample_fps", "roi", "password", "tracker", "noise", "cameras", "defaults", "broker", "url",
    "web", "models", "edge", "input_size", "masks", "worker", "x",
])  # fmt: skip
TREES = st.recursive(
    st.one_of(st.none(), st.text(max_size=6), st.integers(-2, 2000).map(str)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(WORDS, inner, max_size=4)),
    max_leaves=12,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(WORDS, TREES, max_size=4))
def test_any_tree_of_values_is_accepted_or_refused_in_sentences(values: dict[str, object]) -> None:
    document = parse_document("", "f.yaml", {})
    document.values.update(values)  # type: ignore[arg-type] # the strategy makes such values only
    try:
        configure(document, Path("/nowhere"), {"cameras.sample_fps": 2})
    except ConfigError as error:
        sentences = str(error).splitlines()
    else:
        return
    for sentence in sentences:
        assert "(f.yaml)" in sentence or "(command line)" in sentence
        assert sentence.isprintable()
