"""Settings that cannot work are refused in one sentence; worker names are unique and valid."""

import pytest

from cloud_worker.settings import ServedModel, WorkerSettings, default_worker_id
from pipeline.errors import ConfigError
from pipeline.wire.topics import valid_level

MODELS = (ServedModel("m"),)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"models": ()}, "no model to serve"),
        ({"models": (ServedModel("m"), ServedModel("m", (320, 416)))}, "names a model twice"),
        ({"queue_capacity": 0}, "queue_capacity is 0; it must be above 0"),
        ({"max_batch": -1}, "max_batch is -1"),
        ({"heartbeat_s": float("nan")}, "heartbeat_s is nan"),
        ({"reply_margin_ms": -1.0}, "reply_margin_ms is -1.0; it must not be negative"),
        ({"energy_j": -0.1}, "energy_j is -0.1; it must not be negative"),
        ({"transfer_cost": float("nan")}, "transfer_cost is nan"),
        ({"batch": "big"}, "batch is 'big'; choose one of none, fixed_window, aimd, deadline"),
        ({"admission": "all"}, "admission is 'all'; choose one of deadline, capacity"),
    ],
)
def test_a_setting_that_cannot_work_is_named_with_its_value(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        WorkerSettings(**({"models": MODELS} | changes))  # type: ignore[arg-type]  # the fields, by name


def test_every_process_has_a_name_of_its_own_that_is_a_topic_level(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: "häuschen/+#.local" * 9)
    names = {default_worker_id() for _ in range(50)}
    assert len(names) == 50
    assert all(valid_level(name) for name in names)
