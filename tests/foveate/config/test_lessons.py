"""The keys of lessons and what they become."""

from pathlib import Path

import pytest

from edge_agent.lessons.settings import LessonSettings
from foveate.config.load import load
from foveate.config.settings import agent_settings
from pipeline.errors import ConfigError

CAMERA = "cameras: [{source: 'rtsp://cam/1'}]\n"


def lessons(tmp_path: Path, text: str) -> LessonSettings:
    file = tmp_path / "foveate.yaml"
    file.write_text(CAMERA + text)
    return agent_settings(load(file, {})).cameras[0].lessons


def test_without_a_word_nothing_is_kept_and_what_would_be_stays_on_the_site(tmp_path: Path) -> None:
    made = lessons(tmp_path, "")
    assert made == LessonSettings()
    assert (made.enabled, made.privacy) == (False, "site")


def test_every_key_reaches_its_settings(tmp_path: Path) -> None:
    made = lessons(
        tmp_path,
        "agent: {state_dir: state}\n"
        "defaults: {lessons: {enabled: true, privacy: cloud, picture_width_px: 256, picture_height_px: 192,"
        " least_apart_s: 2, most_per_minute: 6, uplink_share: 0.1, most_bytes: 5000000}}",
    )
    assert made == LessonSettings(
        enabled=True,
        privacy="cloud",
        picture_width_px=256,
        picture_height_px=192,
        least_apart_s=2.0,
        most_per_minute=6.0,
        uplink_share=0.1,
        most_bytes=5_000_000,
    )


def test_lessons_need_a_folder_and_that_is_said_in_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"lessons\.enabled is true, .*line 2\); add agent\.state_dir") as caught:
        lessons(tmp_path, "defaults: {lessons: {enabled: true}}")
    assert str(caught.value).count("\n") == 0


@pytest.mark.parametrize(
    ("text", "advice"),
    [("privacy: nowhere", "site"), ("most_byte: 1", "most_bytes"), ("uplink_share: 2", "at most 1")],
)
def test_a_mistake_is_told_with_what_was_meant(tmp_path: Path, text: str, advice: str) -> None:
    with pytest.raises(ConfigError, match=advice):
        lessons(tmp_path, f"defaults: {{lessons: {{{text}}}}}")
