"""The modelled network in a configuration."""

from pathlib import Path

import pytest

from foveate.config.document import parse_document
from foveate.config.load import configure
from foveate.config.settings import for_sources, plan
from foveate.plan import NetworkSettings
from pipeline.errors import ConfigError


def network(text: str, folder: Path | None = None) -> NetworkSettings | None:
    return plan(configure(parse_document(text, "foveate.yaml", {}), folder, {})).network


def test_there_is_none_unless_one_is_named() -> None:
    assert network("{}") is None
    assert network("network: {seed: 3}") is None


def test_a_name_and_a_seed_reach_the_plan_from_the_file_and_from_the_command_line() -> None:
    assert network("network: {profile: 3g}") == NetworkSettings("3g", 0)
    assert network("network: {profile: lte, seed: 7}") == NetworkSettings("lte", 7)
    assert plan(for_sources(["a.mp4"], {"network.profile": "outage", "network.seed": 2})).network == NetworkSettings(
        "outage", 2
    )


def test_traces_are_found_beside_the_file_and_must_be_readable(tmp_path: Path) -> None:
    (tmp_path / "up").write_text("1\n")
    assert network("network: {profile: 'mahimahi:up,up'}", tmp_path) == NetworkSettings(
        f"mahimahi:{tmp_path}/up,{tmp_path}/up"
    )
    with pytest.raises(ConfigError, match=r"network.profile \(foveate.yaml line 1\): The network trace .*/down cannot"):
        network("network: {profile: 'mahimahi:up,down'}", tmp_path)
    with pytest.raises(ConfigError, match="names no traces: write mahimahi:UP_FILE"):
        network("network: {profile: 'mahimahi:up,'}", tmp_path)


def test_a_mistyped_name_is_one_sentence_with_the_nearest_one() -> None:
    with pytest.raises(ConfigError) as caught:
        network("network: {profile: lte-waek}")
    assert str(caught.value).startswith(
        "network.profile (foveate.yaml line 1): There is no network 'lte-waek': did you mean 'lte-weak'? choose one of"
    )
