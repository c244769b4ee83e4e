"""Topics and the names in them."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.errors import ConfigError
from pipeline.transport.matching import filter_fault, matches, topic_fault
from pipeline.wire import topics


def test_topics_are_those_of_the_design() -> None:
    assert topics.request("cloud", "nanodet-g") == "foveate/v1/req/cloud/nanodet-g"
    assert topics.request_share("g", "cloud", "m") == "$share/g-cloud-m/foveate/v1/req/cloud/m"
    assert topics.reply("a1") == "foveate/v1/rep/a1"
    assert topics.cancel("cloud", "a1") == "foveate/v1/cancel/cloud/a1"
    assert topics.worker("w1") == "foveate/v1/worker/w1"
    assert topics.model("m") == "foveate/v1/model/m"
    assert topics.config("a1") == "foveate/v1/config/a1"
    assert topics.result("plaza") == "foveate/plaza/result"
    assert topics.event("plaza") == "foveate/plaza/event"
    assert topics.count("plaza", "cell phone") == "foveate/plaza/count/cell phone"
    assert topics.zone_count("plaza", "gate", "person") == "foveate/plaza/zone/gate/count/person"
    assert topics.alert("plaza") == "foveate/plaza/alert"
    assert topics.state("plaza") == "foveate/plaza/state"
    assert topics.command("plaza", "mode") == "foveate/plaza/set/mode"
    assert topics.available("a1") == "foveate/agent/a1/available"
    assert topics.discovery("sensor", "plaza_person") == "homeassistant/sensor/plaza_person/config"


@given(st.text())
def test_workers_with_a_location_serve_their_own_target_and_that_of_the_tier(location: str) -> None:
    assert topics.target("edge", "hall 2") == "edge@hall 2"
    served = topics.targets("edge", location)
    assert topics.target("edge", location) in served
    assert "edge" in served
    assert len(set(served)) == len(served)
    for target in served:
        assert topic_fault(topics.request(target, "m")) is None


def test_filters_match_their_topics() -> None:
    assert matches(topics.cancels("cloud"), topics.cancel("cloud", "a1"))
    assert not matches(topics.cancels("cloud"), topics.cancel("edge", "a1"))
    assert matches(topics.ANY_WORKER, topics.worker("w1"))
    assert matches(topics.ANY_MODEL, topics.model("m"))
    assert matches(topics.ANY_RESULT, topics.result("plaza"))
    assert matches(topics.commands("plaza"), topics.command("plaza", "mode"))
    assert filter_fault(topics.request_share("g", "cloud", "m")) is None


@pytest.mark.parametrize("name", ["", "a/b", "+", "a#", "a\0", "a\n", "$SYS", "x" * 65, "ü" * 33, "\ud800", "\uffff"])
def test_a_name_that_is_no_level_is_refused_and_shown(name: str) -> None:
    assert not topics.valid_level(name)
    makers: list[Callable[[str], str]] = [topics.result, topics.reply, topics.worker, topics.model, topics.available]
    for make in makers:
        with pytest.raises(ConfigError, match="cannot be part of an MQTT topic"):
            make(name)


@pytest.mark.parametrize("name", ["v1", "agent"])
def test_reserved_names_are_no_cameras(name: str) -> None:
    assert topics.camera_fault(name)
    assert topics.valid_level(name)
    with pytest.raises(ConfigError, match="reserved"):
        topics.result(name)


@pytest.mark.parametrize("name", ["plaza", "Hof 2", "kamera-ü", "日本", "x" * 64])
def test_usual_names_are_fine(name: str) -> None:
    assert topics.camera_fault(name) is None
    assert topic_fault(topics.result(name)) is None


@given(st.text(st.characters()))
def test_any_label_becomes_a_valid_level(label: str) -> None:
    level = topics.as_level(label)
    assert topics.valid_level(level)
    assert level == label or not topics.valid_level(label)
    assert topic_fault(topics.count("plaza", label)) is None


def test_the_longest_topic_stays_under_the_limit() -> None:
    longest = topics.zone_count("c" * 64, "z" * 64, "l" * 1000)
    assert len(longest.encode()) <= topics.MAX_TOPIC_BYTES
    assert len(topics.request("t" * 64, "m" * 64).encode()) <= topics.MAX_TOPIC_BYTES
