"""docker-compose.yml and its configurations, as far as a machine without Docker can tell.

The rules are those that we rely on. That the file is valid Compose was checked with the Compose command itself.
"""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from foveate.config.load import load
from foveate.config.settings import plan, worker_settings
from pipeline.errors import ConfigError

ROOT = Path(__file__).resolve().parents[2]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text("utf-8"))
SERVICES: dict[str, Any] = COMPOSE["services"]
OURS = ("edge", "worker")
TIERS: dict[str, Any] = yaml.safe_load((ROOT / "deploy/compose/three-tiers.yaml").read_text("utf-8"))["services"]
"""What the overlay adds to the services."""


def mounts(service: str) -> dict[str, str]:
    """Host path by container path."""
    return {target: source for source, target, *_ in (volume.split(":") for volume in SERVICES[service]["volumes"])}


def environment(service: str) -> dict[str, str]:
    """What a container of ours finds set, with a value for what the user must choose."""
    given = {"HOSTNAME": "3f2a1b", "FOVEATE_WEB_TOKEN": "secret"}
    for name, value in SERVICES[service].get("environment", {}).items():
        default = re.fullmatch(r"\$\{\w+:-(.*)\}", value)
        given[name] = default[1] if default else given[name]
    return given


def configuration_of(service: str) -> Path:
    return ROOT / mounts(service)["/etc/foveate/foveate.yaml"]


def test_the_three_parts_are_there() -> None:
    assert set(SERVICES) == {"mosquitto", *OURS}


@pytest.mark.parametrize("service", SERVICES)
def test_no_service_has_more_rights_than_it_needs(service: str) -> None:
    keys = SERVICES[service]
    assert keys["read_only"] is True
    assert keys["cap_drop"] == ["ALL"]
    assert "no-new-privileges:true" in keys["security_opt"]
    assert not {"privileged", "cap_add", "network_mode", "pid"} & set(keys)


@pytest.mark.parametrize("service", SERVICES)
def test_every_mounted_path_exists_and_is_read_only(service: str) -> None:
    for volume in SERVICES[service]["volumes"]:
        source, _, mode = volume.split(":")
        assert (ROOT / source).exists(), volume
        assert mode == "ro", volume


@pytest.mark.parametrize("service", SERVICES)
def test_ports_are_open_to_this_machine_only(service: str) -> None:
    assert all(port.startswith("127.0.0.1:") for port in SERVICES[service].get("ports", []))


def test_the_broker_does_not_run_as_root_and_has_a_health_check() -> None:
    broker = SERVICES["mosquitto"]
    assert not broker["user"].startswith(("0", "root"))
    assert broker["healthcheck"]["test"][:2] == ["CMD", "mosquitto_sub"]


@pytest.mark.parametrize("service", OURS)
def test_our_services_wait_for_a_healthy_broker_and_build_their_own_stage(service: str) -> None:
    assert SERVICES[service]["depends_on"] == {"mosquitto": {"condition": "service_healthy"}}
    assert SERVICES[service]["build"] == {"context": ".", "target": service}


@pytest.mark.parametrize("service", OURS)
def test_the_configurations_find_the_broker_by_its_service_name_and_port(service: str) -> None:
    configuration = load(configuration_of(service), environment(service))
    assert configuration.broker.url == "mqtt://mosquitto:1883"
    listener = re.search(r"^listener (\d+)$", (ROOT / "deploy/mosquitto/mosquitto.conf").read_text("utf-8"), re.M)
    assert listener
    assert listener[1] == "1883"


def test_the_edge_plays_a_mounted_clip_unless_told_otherwise() -> None:
    made = plan(load(configuration_of("edge"), environment("edge")))
    source = Path(made.agent.cameras[0].capture.source)
    assert (ROOT / mounts("edge")[str(source.parent)] / source.name).is_file()
    assert made.agent.cameras[0].capture.realtime
    assert made.embedded is None


def test_the_page_is_open_to_the_network_of_the_containers_with_a_token_only() -> None:
    web = plan(load(configuration_of("edge"), environment("edge"))).web
    assert (web.access.host, web.access.token) == ("0.0.0.0", "secret")
    assert SERVICES["edge"]["ports"] == [f"127.0.0.1:{web.port}:{web.port}"]


def test_without_a_token_neither_compose_nor_the_agent_starts() -> None:
    assert ":?" in SERVICES["edge"]["environment"]["FOVEATE_WEB_TOKEN"]
    bare = {name: value for name, value in environment("edge").items() if name != "FOVEATE_WEB_TOKEN"}
    with pytest.raises(ConfigError, match="FOVEATE_WEB_TOKEN"):
        load(configuration_of("edge"), bare)
    with pytest.raises(ConfigError, match=r"without a token|empty"):
        load(configuration_of("edge"), bare | {"FOVEATE_WEB_TOKEN": ""})


def test_workers_of_one_group_have_names_of_their_own() -> None:
    names = [
        worker_settings(load(configuration_of("worker"), environment("worker") | {"HOSTNAME": host})).worker
        for host in ("3f2a1b", "9c8d7e")
    ]
    assert names == ["3f2a1b", "9c8d7e"]


def test_edge_and_worker_mean_the_same_model_and_tier() -> None:
    uplink = plan(load(configuration_of("edge"), environment("edge"))).agent.uplink
    worker = worker_settings(load(configuration_of("worker"), environment("worker")))
    assert (worker.tier in uplink.tiers, uplink.model) == (True, worker.models[0].name)


def test_the_overlay_adds_a_worker_on_site_that_differs_from_the_others_in_its_configuration_alone() -> None:
    assert set(TIERS) == {"edge-node", "worker"}
    assert set(TIERS["worker"]) == {"scale"}
    node, worker = TIERS["edge-node"], SERVICES["worker"]
    assert {key: node[key] for key in node if key != "volumes"} == {
        key: worker[key] for key in worker if key != "volumes"
    }
    (volume,) = node["volumes"]
    source, target, mode = volume.split(":")
    assert (target, mode) == ("/etc/foveate/foveate.yaml", "ro")
    settings = worker_settings(load(ROOT / source, {"HOSTNAME": "5d6e7f"}))
    assert (settings.worker, settings.tier, settings.location, settings.transfer_cost) == ("5d6e7f", "edge", "hall", 0)


def test_the_agent_of_compose_asks_the_edge_node_of_the_overlay_for_a_model_that_it_serves() -> None:
    uplink = plan(load(configuration_of("edge"), environment("edge"))).agent.uplink
    node = worker_settings(load(ROOT / "deploy/compose/edge-node.yaml", {"HOSTNAME": "5d6e7f"}))
    assert node.tier in uplink.tiers
    assert (uplink.edge_model or uplink.model) in {model.name for model in node.models}
