"""docs/mqtt.md says what the code does: topics, messages, words."""

import ast
import inspect
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest

from cloud_worker.settings import ServedModel, WorkerSettings
from edge_agent.publish import ALERTS_WAITING, BACKLOG_BYTES, RECORD_CAPACITY_BYTES, StateMessage
from edge_agent.settings import AgentSettings, UplinkSettings
from foveate.watch import WAITING_LINES
from pipeline.alerts import Alert, AnyAlert, ModelAlert
from pipeline.policies.fallback import Bound
from pipeline.policies.offload import Why
from pipeline.policies.restraint import Action
from pipeline.releases.manifest import Manifest
from pipeline.releases.standing import Standing
from pipeline.results import CameraState, DropReason, Origin, Result, ResultDetection, Timings, decode_result
from pipeline.transport.base import PublishStatus
from pipeline.transport.settings import MqttSettings
from pipeline.wire import topics
from pipeline.wire.codec import MAX_HEADER_BYTES, MAX_PAYLOAD_BYTES
from pipeline.wire.messages import WIRE_VERSION, Refusal, Reply, Request, WorkerState

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("edge_agent", "cloud_worker", "foveate", "pipeline")
MQTT = (ROOT / "docs" / "mqtt.md").read_text("utf-8")
ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text("utf-8")
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
KINDS: dict[str, type[msgspec.Struct]] = {
    "origin": Result,
    "crops": Request,
    "detections": Reply,
    "beat": WorkerState,
    "p99_ms": Alert,
    "given_up": ModelAlert,
    "sequence": Manifest,
    "canary_share": Standing,
    "since": StateMessage,
}
"""What a message is, by a key that it alone has; the first that matches counts."""


def blocks() -> list[tuple[str, str]]:
    """The JSON of all pages, with the page's name."""
    pattern = re.compile(r"^```json\n(.*?)^```", re.DOTALL | re.MULTILINE)
    return [(page.name, text) for page in PAGES for text in pattern.findall(page.read_text("utf-8"))]


def used_topics() -> set[str]:
    """The names of ``pipeline.wire.topics`` that the product uses outside of it."""
    used: set[str] = set()
    for path in (path for package in PACKAGES for path in (ROOT / package).rglob("*.py")):
        if path.name == "topics.py":
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "topics":
                used.add(node.attr)
    return used


def builders() -> dict[str, Callable[..., str]]:
    """The functions that build a topic."""
    helpers = {"level_fault", "valid_level", "camera_fault", "as_level", "target", "targets"}
    functions = inspect.getmembers(topics, inspect.isfunction)
    return {name: function for name, function in functions if not name.startswith("_") and name not in helpers}


def shown(name: str) -> str:
    """A topic as the page writes it, with {names} for its levels."""
    function = builders()[name]
    levels = [name if level == "name" else level for level in inspect.signature(function).parameters]
    return function(*(f"{{{level}}}" for level in levels))


@pytest.mark.parametrize(("page", "text"), blocks(), ids=[f"{page}-{i}" for i, (page, _) in enumerate(blocks())])
def test_every_message_shown_is_whole_and_as_the_code_writes_it(page: str, text: str) -> None:
    message = json.loads(text)
    kind = next(kind for key, kind in KINDS.items() if key in message)
    parsed = msgspec.convert(message, kind)
    assert msgspec.json.decode(msgspec.json.encode(parsed)) == message, f"a field too many or too few in {page}"


def test_every_result_shown_fits_the_published_schema() -> None:
    validator = jsonschema.Draft202012Validator(msgspec.json.schema(Result))
    results = [text for _, text in blocks() if '"origin"' in text]
    assert len(results) >= 2
    for text in results:
        validator.validate(json.loads(text))
        result = decode_result(text)
        parts = [value for value in msgspec.structs.asdict(result.timings_ms).values() if value is not None]
        assert result.timings_ms.total is not None
        assert sum(parts) <= 2 * result.timings_ms.total, "the parts are more than the whole"


def test_every_alert_shown_fits_the_published_schema_and_every_field_and_action_is_explained() -> None:
    validator = jsonschema.Draft202012Validator(msgspec.json.schema(AnyAlert))
    alerts = [text for _, text in blocks() if '"p99_ms"' in text or '"given_up"' in text]
    assert len(alerts) >= 2
    for text in alerts:
        validator.validate(json.loads(text))
    start = MQTT.index("## An alert")
    section = MQTT[start : MQTT.index("\n## ", start + 1)]
    for name in (*Alert.__struct_fields__, *ModelAlert.__struct_fields__, *Action):
        assert f"`{name}`" in section or f'"{name}"' in section, name


def test_the_reply_shown_answers_the_request_shown() -> None:
    by_kind: dict[type, Any] = {}
    for _, text in blocks():
        message = json.loads(text)
        kind = next(kind for key, kind in KINDS.items() if key in message)
        by_kind[kind] = msgspec.convert(message, kind)
    assert by_kind[Reply].key == by_kind[Request].key
    assert len(by_kind[Reply].detections) == len(by_kind[Request].crops)


def test_every_topic_that_the_product_uses_is_described() -> None:
    used = used_topics()
    assert {"result", "request_share", "reply", "available", "ANY_WORKER"} <= used
    for name in used & set(builders()):
        assert f"`{shown(name)}`" in MQTT, name
    assert f"`{topics.ANY_WORKER}`" in MQTT
    assert f"`{shown('request')}`" in MQTT


def test_no_topic_is_described_that_the_product_does_not_use() -> None:
    idle = set(builders()) - used_topics() - {"request"}
    assert idle, "every topic is in use: this test and the page's word about reserved topics can go"
    for name in idle:
        assert f"`{shown(name)}`" not in MQTT, name


@pytest.mark.parametrize(
    "words", [Origin, DropReason, CameraState, Refusal, Why, Bound], ids=lambda kind: kind.__name__
)
def test_every_word_that_a_message_can_hold_is_explained(words: Any) -> None:
    for word in words:
        assert f"`{word.value}`" in MQTT, word


def reasons_in(tree: ast.AST) -> set[str]:
    """The reasons that a module of the edge gives: texts handed to the calls that settle a frame."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = getattr(node.func, "attr", "") or getattr(node.func, "id", "")
        if name in {"settle", "_give_up", "_displace", "replace", "_pend"}:
            values = [*node.args, *(word.value for word in node.keywords if word.arg == "reason")]
            found |= {
                value.value for value in values if isinstance(value, ast.Constant) and isinstance(value.value, str)
            }
        elif name == "OffloadDecision" and isinstance(node.args[1], ast.Constant):
            found.add(str(node.args[1].value))
    return found


def test_every_reason_that_the_edge_gives_is_explained() -> None:
    names = ("analysis", "intake", "uplink", "target_link", "resolve", "camera")
    modules = [ROOT / "edge_agent" / f"{name}.py" for name in names]
    given = {reason for path in modules for reason in reasons_in(ast.parse(path.read_text("utf-8")))}
    assert {"detector_busy", "edge_late", "displaced", "too_late_to_send", "not_due"} <= given
    given |= {status.value for status in PublishStatus if status is not PublishStatus.SENT}
    policy = ast.parse((ROOT / "pipeline" / "policies" / "offload.py").read_text("utf-8"))
    used = [
        node for node in policy.body if isinstance(node, ast.ClassDef) and node.name in {"Adaptive", "Always", "Never"}
    ]
    given |= {reason for node in used for reason in reasons_in(node)}
    for reason in given:
        assert f"`{reason}`" in MQTT, reason


def test_every_field_of_a_result_is_explained() -> None:
    start = MQTT.index("| field |")
    table = MQTT[start : MQTT.index("\n\n", start)]
    named = set(re.findall(r"`([\w\[\].]+)`", table))
    fields = set(Result.__struct_fields__) - {"detections"} | set(Timings.__struct_fields__)
    fields |= {f"detections[].{name}" for name in ResultDetection.__struct_fields__} - {"detections[].score"} | {
        "score"
    }
    assert fields <= named


def test_the_wire_format_has_the_version_and_limits_of_the_code() -> None:
    assert f"| 0 | 1 | version, {WIRE_VERSION} |" in MQTT
    assert f"At most {MAX_PAYLOAD_BYTES // 2**20} MiB in all and {MAX_HEADER_BYTES // 1024} KiB of header" in MQTT


def test_the_table_of_queues_has_the_capacities_of_the_code() -> None:
    agent, worker = AgentSettings("a", ()), WorkerSettings((ServedModel("m"),))
    waiting_mib = worker.queue_capacity_bytes // 2**20
    backlog_kib = MqttSettings("h").backlog_bytes // 1024
    rows = (
        f"| file intake | frames under way | `frames_in_flight`, {agent.frames_in_flight} |",
        f"| uplink, per camera | requests in flight | `in_flight`, {UplinkSettings().in_flight} |",
        f"| MQTT session | bytes not yet on the link | {backlog_kib} KiB; of results {BACKLOG_BYTES // 1024} KiB |",
        f"| alerts | alerts to publish | {ALERTS_WAITING} |",
        f"| record file | results | {RECORD_CAPACITY_BYTES // 2**20} MiB |",
        f"| worker queue | requests | {worker.queue_capacity}, and {waiting_mib} MiB |",
        f"| `foveate watch` | lines | {WAITING_LINES} |",
    )
    for row in rows:
        assert row in ARCHITECTURE, row
