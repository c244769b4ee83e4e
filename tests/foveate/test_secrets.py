"""No value that carries a secret shows it when it is printed or logged."""

from typing import Any

import msgspec
import pytest

from cloud_worker.settings import ServedModel, WorkerSettings
from edge_agent.capture.address import SourceKind
from edge_agent.capture.protocol import Order
from edge_agent.capture.settings import CaptureSettings
from edge_agent.settings import AgentSettings, CameraSettings
from edge_agent.status.access import AccessSettings
from foveate.children import WorkerOrder
from foveate.plan import EmbeddedBrokerSettings, Plan, WebSettings
from pipeline.transport.settings import MqttSettings
from tests.support.capture import order_for

SECRET = "s3cret"
CAPTURE = CaptureSettings(f"rtsp://user:{SECRET}@camera.test/1?token={SECRET}", username=SECRET, password=SECRET)
MQTT = MqttSettings("broker.test", username="site-a", password=SECRET)
WORKER = WorkerSettings((ServedModel("nanodet-g"),))
PLAN = Plan(
    agent=AgentSettings("site-a", (CameraSettings("gate", CAPTURE),)),
    mqtt=MQTT,
    embedded=EmbeddedBrokerSettings(),
    worker=WORKER,
    web=WebSettings(access=AccessSettings(token=SECRET)),
)


@pytest.mark.parametrize(
    "value",
    [
        CAPTURE,
        PLAN,
        WorkerOrder(WORKER, MQTT, None),
        order_for(CAPTURE.source, SourceKind.URL, username=SECRET, password=SECRET),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_secret_is_in_the_value_and_not_in_its_text(value: Any) -> None:
    assert SECRET in str(msgspec.to_builtins(value, enc_hook=str))
    assert SECRET not in repr(value)
    assert SECRET not in f"{value}"


def test_the_order_to_a_reader_is_told_from_another_by_its_kind() -> None:
    order = order_for("clip.mp4")
    assert isinstance(order, Order)
    assert "path" in repr(order)
