import base64
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge_agent.capture.address import (
    Redactor,
    SourceKind,
    credentials,
    host_and_port,
    mask_url,
    parse_address,
    with_credentials,
)
from edge_agent.capture.settings import CaptureSettings
from pipeline.errors import ConfigError

SECRETS = st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=3, max_size=20)


@pytest.mark.parametrize(
    ("source", "kind", "target"),
    [
        ("rtsp://camera.local/stream", SourceKind.URL, "rtsp://camera.local/stream"),
        ("RTSPS://camera.local:8322/s", SourceKind.URL, "RTSPS://camera.local:8322/s"),
        ("http://[::1]:8080/video", SourceKind.URL, "http://[::1]:8080/video"),
        ("/dev/video0", SourceKind.DEVICE, "/dev/video0"),
        ("/dev/v4l/by-id/usb-cam-index0", SourceKind.DEVICE, "/dev/v4l/by-id/usb-cam-index0"),
        ("device:2", SourceKind.DEVICE, "2"),
        ("synthetic:plaza?fps=5", SourceKind.SYNTHETIC, "plaza?fps=5"),
        ("clip.mp4", SourceKind.PATH, "clip.mp4"),
        ("12:30 gate.mp4", SourceKind.PATH, "12:30 gate.mp4"),
        ("gate:north.mp4", SourceKind.PATH, "gate:north.mp4"),
    ],
)
def test_a_source_is_told_by_its_name(source: str, kind: SourceKind, target: str) -> None:
    address = parse_address(source)
    assert (address.kind, address.target) == (kind, target)


@pytest.mark.parametrize(
    "source",
    [
        "",
        "  ",
        "a\0b",
        "ftp://host/x",
        "rtsp://",
        "rtsp:///path",
        "http://host:port/",
        "http://h:99999/",
        "device:",
        "device:-1",
    ],
)
def test_what_cannot_be_meant_is_refused(source: str) -> None:
    with pytest.raises(ConfigError):
        parse_address(source)


def test_a_refusal_does_not_repeat_the_password() -> None:
    for source in ("ftp://me:s3cret@host/", "http://me:s3cret@host:port/"):
        with pytest.raises(ConfigError) as refusal:
            parse_address(source)
        assert "s3cret" not in str(refusal.value)


@settings(deadline=None)
@given(user=SECRETS, word=SECRETS)
def test_credentials_survive_the_way_into_the_url_and_out_again(user: str, word: str) -> None:
    url = with_credentials("rtsp://old:pass@camera.local:554/a?b=c", user, word)
    assert credentials(url) == ("rtsp://camera.local:554/a?b=c", user, word)
    assert host_and_port(url) == ("camera.local", 554)


def test_ports_default_by_scheme() -> None:
    assert host_and_port("rtsp://camera/") == ("camera", 554)
    assert host_and_port("https://camera/") == ("camera", 443)


@pytest.mark.parametrize(
    ("url", "masked"),
    [
        ("rtsp://u:p@host/x", "rtsp://***@host/x"),
        ("rtsp://u:p/w@host/x", "rtsp://***@host/x"),
        ("rtsp://host/x?user=admin&password=pw&channel=1", "rtsp://host/x?user=***&password=***&channel=1"),
        ("http://host/x?PWD=pw", "http://host/x?PWD=***"),
        ("http://host/x?channel=2", "http://host/x?channel=2"),
        ("cannot open rtsp://u:p@host/x: no", "cannot open rtsp://***@host/x: no"),
    ],
)
def test_a_shown_url_has_no_secrets(url: str, masked: str) -> None:
    assert mask_url(url) == masked


@settings(deadline=None)
@given(user=SECRETS, word=SECRETS, inside=st.booleans())
def test_no_form_of_user_or_password_passes_the_redactor(user: str, word: str, *, inside: bool) -> None:
    if "***" in user + word or set(user + word) <= {"*"}:
        return
    pair = f"{quote(user, safe='')}:{quote(word, safe='')}@" if inside else ""
    secrets = CaptureSettings(
        f"rtsp://{pair}camera.local/x", username=None if inside else user, password=None if inside else word
    )
    header = base64.b64encode(f"{user}:{word}".encode()).decode()
    # The words around hold no letter that a secret could be made of by itself.
    text = f"\n{user}\n{word}\n{quote(word, safe='')}\n{header}\nrtsp://{pair}h\n"
    lines = Redactor(secrets).clean(text).split("\n")
    assert user not in lines
    assert word not in lines
    assert quote(word, safe="") not in lines
    assert header not in lines
