"""The effective configuration as YAML."""

from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from foveate.config.document import parse_document
from foveate.config.load import configure
from foveate.config.models import Configuration
from foveate.config.show import show

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
SHARE = st.floats(0, 1).map(str)
POSITIVE = st.floats(1e-6, 900).map(str)
BOX = st.tuples(st.integers(0, 99), st.integers(0, 99), st.integers(110, 999), st.integers(110, 999)).map(
    lambda box: [str(side) for side in box]
)
CAMERA = st.fixed_dictionaries(
    {},
    optional={
        "title": TEXT,
        "username": TEXT.filter(bool),
        "realtime": st.sampled_from(["true", "no", "on"]),
        "sample_fps": POSITIVE,
        "weight": POSITIVE,
        "mode": st.sampled_from(["adaptive", "edge_only", "cloud_only"]),
        "roi": st.one_of(BOX, st.just([]), st.none()),
        "masks": st.lists(BOX, max_size=3),
        "objects": st.lists(TEXT, max_size=3),
        "pixel_limit": st.integers(1, 10**12).map(str),
        "tracker": st.one_of(
            st.none(),
            st.fixed_dictionaries(
                {}, optional={"match_iou": SHARE, "noise": st.fixed_dictionaries({}, optional={"size_share": POSITIVE})}
            ),
        ),
        "mosaic": st.fixed_dictionaries({}, optional={"widths_px": st.sampled_from([["64"], ["32", "320"]])}),
    },
)
SOURCES = st.sampled_from(["synthetic:", "/data/a b.mp4", "rtsp://cam/1?x=${y}", "device:3"])
DOCUMENTS = st.fixed_dictionaries(
    {},
    optional={
        "defaults": CAMERA,
        "cameras": st.lists(st.tuples(CAMERA, SOURCES).map(lambda pair: pair[0] | {"source": pair[1]}), max_size=3),
        "uplink": st.fixed_dictionaries({}, optional={"uplink_kbps": st.one_of(st.none(), POSITIVE)}),
        "broker": st.sampled_from([{"url": "mqtts://h", "tls": {"server_name": "${x}"}}, {"embedded": {"port": "5"}}]),
        "models": st.just({"cloud": {"name": "m", "input_size": ["32", "64"]}}),
        "worker": st.just({"models": [{"name": "a"}, {"name": "b", "input_size": ["64", "64"]}]}),
        "web": st.just({"enabled": "no", "allowed_hosts": ["a", "null"]}),
    },
)


def again(shown: str) -> Configuration:
    return configure(parse_document(shown, "shown.yaml", {}), None, {})


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(DOCUMENTS)
def test_what_is_shown_is_the_same_configuration_when_it_is_read(values: dict[str, object]) -> None:
    document = parse_document("", "f.yaml", {})
    document.values.update(values)  # type: ignore[arg-type] # the strategy makes such values only
    configuration = configure(document, None, {})
    assert again(show(configuration)) == configuration


def test_defaults_are_shown_in_full() -> None:
    text = show(Configuration())
    for part in ("uplink_kbps: null", "widths_px: [192, 320, 448, 576]", "measurement: 0.03", "port_v3: 1884"):
        assert part in text


def test_a_camera_shows_what_differs_from_the_defaults() -> None:
    text = "defaults: {sample_fps: 3, roi: [0, 0, 9, 9]}\ncameras: [{source: 'synthetic:', roi: []}]"
    configuration = configure(parse_document(text, "f", {}), None, {})
    shown = show(configuration)
    assert shown.partition("cameras:\n")[2] == "- name: synthetic\n  source: 'synthetic:'\n  roi: []\n"
    assert again(shown) == configuration


def test_secrets_are_masked_wherever_they_stand() -> None:
    text = """
broker: {url: 'mqtt://u:hidden1@h'}
web: {token: hidden2}
defaults: {password: hidden3}
cameras:
  - {source: 'rtsp://u:hidden4@h/x?password=hidden5'}
  - {source: 'rtsp://u:my hidden6@h/x', password: '${PW}'}
"""
    configuration = configure(parse_document(text, "f", {"PW": "hidden7"}), None, {})
    assert "hidden" not in show(configuration)
    assert "hidden" not in repr(configuration)
    assert "hidden" not in str(configuration)
    assert "password: '***'" in show(configuration)
    assert again(show(configuration)).cameras[0].name == "h"


def test_a_secret_file_is_shown_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "s").write_text("hidden")
    shown = show(configure(parse_document("web: {token_file: s}", "f", {}), tmp_path, {}))
    assert f"token_file: {tmp_path / 's'}" in shown
    assert "hidden" not in shown
