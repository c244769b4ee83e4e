"""To which tiers a camera's pictures may go: the keys, what they become, and what is refused."""

import pytest

from foveate.config.settings import agent_settings
from pipeline.errors import ConfigError
from pipeline.policies.tier_cost import Tier
from pipeline.policies.tier_offers import Privacy
from tests.foveate.config.test_settings import read


def privacy(keys: str) -> Privacy:
    return agent_settings(read(f"cameras: [{{source: a.mp4, {keys}}}]")).cameras[0].privacy


def test_without_a_word_every_tier_may_have_everything() -> None:
    assert privacy("title: a") == Privacy() == Privacy(frozenset(Tier), frozenset())


def test_the_device_is_always_in() -> None:
    assert privacy("tiers: [edge]") == Privacy(frozenset({Tier.DEVICE, Tier.EDGE}))
    assert privacy("tiers: []") == privacy("tiers: [device]") == Privacy(frozenset({Tier.DEVICE}))


def test_a_camera_that_keeps_all_on_the_device_runs_as_edge_only() -> None:
    [camera] = agent_settings(read("cameras: [{source: a.mp4, tiers: [device]}]")).cameras
    assert camera.mode == "edge_only"


def test_masked_crops_are_for_the_tiers_that_are_named() -> None:
    found = privacy("masked_only: [cloud], masks: [[0, 0, 9, 9]]")
    assert found == Privacy(masked_only=frozenset({Tier.CLOUD}))
    assert (found.masks, found.whole_frames) == (True, True)  # the edge may still have whole frames


@pytest.mark.parametrize(
    ("keys", "sentence"),
    [
        ("tiers: [device, fog]", "choose one of device, edge, cloud"),
        ("masked_only: [device], masks: [[0, 0, 9, 9]]", "edge, cloud"),
        (
            "masked_only: [cloud]",
            "masked_only is [cloud], but there is nothing to paint over (foveate.yaml line 1); add masks",
        ),
        ("tiers: [device], mode: cloud_only", "mode is cloud_only, but tiers allows no tier but the device"),
        (
            "masked_only: [edge, cloud], masks: [[0, 0, 9, 9]], mode: cloud_only",
            "mode is cloud_only, which sends whole frames, but no tier may have them",
        ),
        (
            "tiers: [cloud], masked_only: [cloud], masks: [[0, 0, 9, 9]], offload: {policy: always}",
            "offload.policy is always, which sends whole frames, but no tier may have them",
        ),
    ],
)
def test_what_cannot_be_meant_is_refused_in_one_sentence(keys: str, sentence: str) -> None:
    with pytest.raises(ConfigError) as caught:
        privacy(keys)
    assert sentence in str(caught.value)
    assert str(caught.value).count("\n") == 0


def test_defaults_may_ask_for_masked_crops_and_each_camera_brings_its_masks() -> None:
    text = "defaults: {masked_only: [cloud]}\ncameras: [{source: a.mp4, masks: [[0, 0, 9, 9]]}"
    assert agent_settings(read(text + "]")).cameras[0].privacy.masks
    with pytest.raises(ConfigError, match=r"cameras\[1\]\.masked_only|defaults\.masked_only"):
        read(text + ", {source: b.mp4}]")


def test_a_tier_that_gets_nothing_needs_no_masks() -> None:
    assert not privacy("tiers: [device, edge], masked_only: [cloud]").masks
