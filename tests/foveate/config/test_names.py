"""Camera names made from sources."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foveate.config.names import camera_name
from pipeline.wire.topics import camera_fault


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("rtsp://user:secret@192.168.1.20:554/stream1", "192.168.1.20"),
        ("http://[::1]:8080/video", "::1"),
        ("https://Cam.Example.com/mjpeg", "cam.example.com"),
        ("clips/plaza.mp4", "plaza"),
        ("/data/Main gate.avi", "Main-gate"),
        ("pictures/", "pictures"),
        ("device:0", "device-0"),
        ("/dev/video2", "video2"),
        ("synthetic:plaza?fps=5", "synthetic"),
        ("v1.mp4", "camera-v1"),
        ("agent", "camera-agent"),
        ("$SYS.mp4", "_SYS"),
        ("a+b#c.mp4", "a_b_c"),
        ("..", "camera"),
        ("", "camera"),
        ("ftp://nobody/x", "camera"),
        ("rtsp://[broken", "camera"),
    ],
)
def test_a_source_gives_a_name_that_people_recognise(source: str, name: str) -> None:
    assert camera_name(source, ()) == name


def test_a_long_name_in_any_script_leaves_room_for_its_number() -> None:
    source = "𐀀" * 40
    first = camera_name(source, ())
    assert camera_fault(camera_name(source, {first})) is None


def test_a_taken_name_gets_a_number() -> None:
    assert camera_name("a/x.mp4", {"x", "x-2"}) == "x-3"


@settings(deadline=None)
@given(st.lists(st.one_of(st.text(max_size=90), st.sampled_from(["v1", "agent", "rtsp://v1/x", "device:1"]))))
def test_names_are_valid_topic_levels_and_differ(sources: list[str]) -> None:
    taken: set[str] = set()
    for source in sources:
        name = camera_name(source, taken)
        assert camera_fault(name) is None
        assert name not in taken
        taken.add(name)


@settings(deadline=None)
@given(st.text(st.characters(exclude_characters="@/?#[]:\\", exclude_categories=["Cs", "Cc"]), min_size=6))
def test_a_name_never_holds_the_credentials_of_its_url(secret: str) -> None:
    secret = f"~{secret}~"
    assert secret not in camera_name(f"rtsp://{secret}:{secret}@host/{secret}?token={secret}", ())
