"""The manifests of deploy/kubernetes: valid by the schemas of Kubernetes, and at one with the code that they run."""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml

from cloud_worker.health import ANSWER_WITHIN_S
from cloud_worker.metrics import WorkerCollector
from cloud_worker.settings import WorkerSettings
from foveate.config.document import parse_document
from foveate.config.load import configure
from foveate.config.settings import mqtt_settings, worker_settings
from pipeline.wire.messages import BatchFigures, QueueFigures, Refusal, WorkerState
from tests.support.kustomize import Kustomized, Manifest, containers_of, identity_of, pod_of

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "deploy" / "kubernetes"
OVERLAYS = ("overlays/keda", "overlays/gpu", "overlays/triton")
"""All that there is: each holds the base."""
BUILDS = ("base", *OVERLAYS)
NEWEST = kubernetes_validate.latest_version()
OLDEST = "1.31"
GOODBYE_S = 1.0
"""What a session takes at most to close, after the worker's own limit."""

POLICIES = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {
            "type": {"enum": ["Pods", "Percent"]},
            "value": {"type": "integer", "minimum": 1},
            "periodSeconds": {"type": "integer", "minimum": 1, "maximum": 1800},
        },
        "required": ["type", "value", "periodSeconds"],
        "additionalProperties": False,
    },
}
RULES = {
    "type": "object",
    "properties": {
        "stabilizationWindowSeconds": {"type": "integer", "minimum": 0, "maximum": 3600},
        "selectPolicy": {"enum": ["Max", "Min", "Disabled"]},
        "policies": POLICIES,
    },
    "additionalProperties": False,
}
TRIGGER = {
    "type": "object",
    "properties": {
        "type": {"const": "prometheus"},
        "name": {"type": "string"},
        "metricType": {"enum": ["AverageValue", "Value"]},
        "metadata": {
            "type": "object",
            "properties": {
                "serverAddress": {"type": "string", "pattern": "^https?://"},
                "query": {"type": "string", "minLength": 1},
                "threshold": {"type": "string", "pattern": r"^[0-9]+(\.[0-9]+)?$"},
            },
            "required": ["serverAddress", "query", "threshold"],
            "additionalProperties": False,
        },
    },
    "required": ["type", "name", "metricType", "metadata"],
    "additionalProperties": False,
}
SCALED_OBJECT = {
    "type": "object",
    "properties": {
        "apiVersion": {"const": "keda.sh/v1alpha1"},
        "kind": {"const": "ScaledObject"},
        "metadata": {"type": "object", "required": ["name"]},
        "spec": {
            "type": "object",
            "properties": {
                "scaleTargetRef": {
                    "type": "object",
                    "properties": {"name": {"type": "string"}},
                    "required": ["name"],
                    "additionalProperties": False,
                },
                "minReplicaCount": {"type": "integer", "minimum": 0},
                "maxReplicaCount": {"type": "integer", "minimum": 1},
                "pollingInterval": {"type": "integer", "minimum": 1},
                "fallback": {
                    "type": "object",
                    "properties": {
                        "failureThreshold": {"type": "integer", "minimum": 0},
                        "replicas": {"type": "integer", "minimum": 0},
                    },
                    "required": ["failureThreshold", "replicas"],
                    "additionalProperties": False,
                },
                "advanced": {
                    "type": "object",
                    "properties": {
                        "horizontalPodAutoscalerConfig": {
                            "type": "object",
                            "properties": {
                                "behavior": {
                                    "type": "object",
                                    "properties": {"scaleUp": RULES, "scaleDown": RULES},
                                    "additionalProperties": False,
                                }
                            },
                            "additionalProperties": False,
                        }
                    },
                    "additionalProperties": False,
                },
                "triggers": {"type": "array", "minItems": 1, "items": TRIGGER},
            },
            "required": ["scaleTargetRef", "triggers"],
            "additionalProperties": False,
        },
    },
    "required": ["apiVersion", "kind", "metadata", "spec"],
    "additionalProperties": False,
}
"""Of KEDA's ScaledObject (keda.sh/v1alpha1, as of 2.20) the fields that we use; all others count as misspelt."""


@cache
def built(build: str) -> tuple[Manifest, ...]:
    return tuple(Kustomized(FOLDER / build).manifests)


def of_kind(build: str, kind: str) -> dict[str, Manifest]:
    return {manifest["metadata"]["name"]: manifest for manifest in built(build) if manifest["kind"] == kind}


def deployment(build: str, name: str) -> Manifest:
    return of_kind(build, "Deployment")[name]


def container(build: str, name: str = "worker") -> Manifest:
    (only,) = containers_of(deployment(build, name))
    return only


def settings_of(build: str) -> tuple[WorkerSettings, str, int]:
    """The worker's settings under the mounted configuration, and the broker's host and port."""
    (volume,) = [each for each in pod_of(deployment(build, "worker"))["volumes"] if each["name"] == "configuration"]
    text = of_kind(build, "ConfigMap")[volume["configMap"]["name"]]["data"]["foveate.yaml"]
    configuration = configure(parse_document(text, build, {"HOSTNAME": "worker-5c7d9-x2x1"}), None, {})
    broker = mqtt_settings(configuration)
    return worker_settings(configuration, 2), broker.host, broker.port


def selects(selector: dict[str, str], build: str) -> list[str]:
    """The deployments whose pods carry all labels of a selector."""
    return [
        name
        for name, each in of_kind(build, "Deployment").items()
        if selector.items() <= each["spec"]["template"]["metadata"]["labels"].items()
    ]


@pytest.mark.parametrize(("build", "version"), [*((build, NEWEST) for build in OVERLAYS), ("overlays/triton", OLDEST)])
def test_every_manifest_is_valid_by_the_schema_of_its_kind(build: str, version: str) -> None:
    for manifest in built(build):
        if manifest["kind"] != "ScaledObject":
            kubernetes_validate.validate(manifest, version, strict=True)


def test_the_schemas_find_a_misspelt_field() -> None:
    (broken,) = [dict(each) for each in built("base") if identity_of(each) == ("Deployment", "worker")]
    broken["spec"] = broken["spec"] | {"replica": 2}
    with pytest.raises(kubernetes_validate.ValidationError, match="replica"):
        kubernetes_validate.validate(broken, OLDEST, strict=True)


def test_the_scaled_object_is_valid_and_scales_the_workers_whose_number_nothing_else_says() -> None:
    (scaled,) = of_kind("overlays/keda", "ScaledObject").values()
    jsonschema.validate(scaled, SCALED_OBJECT)
    target = scaled["spec"]["scaleTargetRef"]["name"]
    assert "replicas" not in deployment("overlays/keda", target)["spec"]
    assert any(each["metricType"] == "AverageValue" for each in scaled["spec"]["triggers"]), "fallback needs one"


def test_the_scaled_object_asks_for_metrics_and_outcomes_that_workers_have() -> None:
    state = WorkerState(
        worker="w",
        online=True,
        wait_ms=1.0,
        queue=QueueFigures(arrivals_per_s=1.0, wait_ms=1.0, mean_length=1.0),
        batches=BatchFigures(busy_s=1.0),
    )
    told = {sample.name for metric in WorkerCollector(lambda: state).collect() for sample in metric.samples}
    (scaled,) = of_kind("overlays/keda", "ScaledObject").values()
    for trigger in scaled["spec"]["triggers"]:
        query = trigger["metadata"]["query"]
        asked = set(re.findall(r"foveate_\w+", query))
        assert asked
        assert asked <= told, trigger["name"]
        for outcomes in re.findall(r'outcome=~"([^"]+)"', query):
            assert set(outcomes.split("|")) <= {refusal.value for refusal in Refusal}


@pytest.mark.parametrize("build", BUILDS)
def test_the_workers_configuration_is_taken_and_names_the_broker_of_the_same_build(build: str) -> None:
    settings, host, port = settings_of(build)
    assert settings.worker == "worker-5c7d9-x2x1"
    service = of_kind(build, "Service")[host]
    assert [each["port"] for each in service["spec"]["ports"]] == [port]
    assert selects(service["spec"]["selector"], build) == ["broker"]


@pytest.mark.parametrize("build", BUILDS)
def test_probes_and_scrapes_go_where_the_worker_serves_them(build: str) -> None:
    settings, *_ = settings_of(build)
    worker = container(build)
    assert settings.metrics_host == "0.0.0.0"
    assert {port["name"]: port["containerPort"] for port in worker["ports"]} == {"metrics": settings.metrics_port}
    paths = {name: worker[name]["httpGet"]["path"] for name in ("startupProbe", "livenessProbe", "readinessProbe")}
    assert paths == {"startupProbe": "/healthz", "livenessProbe": "/healthz", "readinessProbe": "/readyz"}
    assert all(worker[name]["timeoutSeconds"] > ANSWER_WITHIN_S for name in paths)
    annotations = deployment(build, "worker")["spec"]["template"]["metadata"]["annotations"]
    assert annotations["prometheus.io/port"] == str(settings.metrics_port)


@pytest.mark.parametrize("build", BUILDS)
def test_a_pod_has_the_time_that_its_worker_may_take_to_leave(build: str) -> None:
    settings, *_ = settings_of(build)
    assert pod_of(deployment(build, "worker"))["terminationGracePeriodSeconds"] > settings.stop_limit_s + GOODBYE_S


@pytest.mark.parametrize("build", BUILDS)
def test_no_container_has_more_rights_than_it_needs(build: str) -> None:
    for name in of_kind(build, "Deployment"):
        pod, only = pod_of(deployment(build, name)), container(build, name)
        assert pod["automountServiceAccountToken"] is False
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["runAsUser"] > 0
        assert only["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert {"requests", "limits"} <= set(only["resources"])


def test_users_and_images_are_those_of_the_dockerfile_and_of_compose() -> None:
    user = re.findall(r"^USER (\d+):(\d+)$", (ROOT / "Dockerfile").read_text("utf-8"), re.M)[-1]
    context = pod_of(deployment("base", "worker"))["securityContext"]
    assert (str(context["runAsUser"]), str(context["runAsGroup"])) == user
    services: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text("utf-8"))["services"]
    assert container("base", "broker")["image"] == services["mosquitto"]["image"]
    assert container("base")["image"].split(":")[0] == services["worker"]["image"]


def test_the_broker_has_the_one_configuration_that_there_is() -> None:
    (volume,) = [each for each in pod_of(deployment("base", "broker"))["volumes"] if each["name"] == "configuration"]
    data = of_kind("base", "ConfigMap")[volume["configMap"]["name"]]["data"]
    assert data == {"mosquitto.conf": (ROOT / "deploy" / "mosquitto" / "mosquitto.conf").read_text("utf-8")}


def policies_of(build: str) -> Iterator[tuple[str, Manifest]]:
    for name, policy in of_kind(build, "NetworkPolicy").items():
        yield name, policy["spec"]


def reachable(build: str, source: str, target: str) -> set[int]:
    """The ports of a deployment that the policies let another one reach, by its way out and the other's way in."""

    def ports(deployment_name: str, other: str, direction: str, side: str) -> set[int]:
        found: set[int] = set()
        for _, spec in policies_of(build):
            if deployment_name not in selects(spec["podSelector"].get("matchLabels", {}), build):
                continue
            for rule in spec.get(direction, []):
                for peer in rule[side]:
                    labels = peer.get("podSelector", {}).get("matchLabels")
                    if "namespaceSelector" not in peer and labels and other in selects(labels, build):
                        found |= {port["port"] for port in rule["ports"]}
        return found

    return ports(source, target, "egress", "to") & ports(target, source, "ingress", "from")


@pytest.mark.parametrize("build", BUILDS)
def test_everything_is_closed_but_the_ways_that_are_needed(build: str) -> None:
    closed = dict(policies_of(build))["closed"]
    assert closed == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    names = list(of_kind(build, "Deployment"))
    open_ways = {(a, b): ports for a in names for b in names if a != b and (ports := reachable(build, a, b))}
    expected = {("worker", "broker"): {1883}}
    if build == "overlays/triton":
        expected["worker", "triton"] = {8000}
    assert open_ways == expected
    for name, spec in policies_of(build):
        assert selects(spec["podSelector"].get("matchLabels", {}), build), f"{name} selects nothing"


@pytest.mark.parametrize("build", BUILDS)
def test_disruption_budgets_select_workers_and_never_hold_a_node(build: str) -> None:
    for budget in of_kind(build, "PodDisruptionBudget").values():
        assert selects(budget["spec"]["selector"]["matchLabels"], build) == ["worker"]
        assert budget["spec"]["maxUnavailable"] >= 1


def test_workers_on_a_gpu_have_one_and_do_without_it_for_nothing() -> None:
    settings, *_ = settings_of("overlays/gpu")
    assert settings.providers == ("cuda",)
    assert container("overlays/gpu")["resources"]["limits"]["nvidia.com/gpu"] == "1"
    assert container("overlays/gpu")["image"].split(":")[0] == "foveate-worker-gpu"
    rolling = deployment("overlays/gpu", "worker")["spec"]["strategy"]["rollingUpdate"]
    assert rolling == {"maxUnavailable": 1, "maxSurge": 0}


def test_workers_beside_triton_ask_it_by_its_service_and_batch_no_more_than_it_takes() -> None:
    settings, *_ = settings_of("overlays/triton")
    (model,) = settings.models
    assert model.url == f"http://triton:8000/v2/models/{model.name}"
    service = of_kind("overlays/triton", "Service")["triton"]
    assert [each["port"] for each in service["spec"]["ports"]] == [8000]
    assert selects(service["spec"]["selector"], "overlays/triton") == ["triton"]
    (most,) = re.findall(r"default-max-batch-size=(\d+)", " ".join(container("overlays/triton", "triton")["args"]))
    assert int(most) >= settings.max_batch
