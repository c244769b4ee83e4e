"""docs/figures.md explains every field of the summary and of the status."""

import re
from pathlib import Path

import msgspec
import pytest

from edge_agent.status import snapshot
from foveate.plan import NetworkSettings
from foveate.summary import summary
from tests.foveate.test_summary import USAGE, camera

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "figures.md").read_text("utf-8")
SUMMARY, STATUS = PAGE.split("## The status")
STRUCTS = [value for value in vars(snapshot).values() if isinstance(value, type) and issubclass(value, msgspec.Struct)]


def named(text: str) -> set[str]:
    return set(re.findall(r"`([a-z0-9_]+)`", text))


def test_every_field_of_the_summary_is_explained() -> None:
    found = summary([camera("a", ["fused", "carried"])], USAGE, {"record_lost": 0}, network=NetworkSettings("lte", 7))
    groups = ("latency_ms", "attainment", "network", "cpu_s", "rss_mb")
    fields = {*found, *found["cameras"]["a"], *(name for group in groups for name in found[group])}
    assert fields - named(SUMMARY) == set()


@pytest.mark.parametrize("kind", [kind for kind in STRUCTS if kind.__module__ == snapshot.__name__], ids=str)
def test_every_field_of_the_status_is_explained(kind: type[msgspec.Struct]) -> None:
    explained = named(STATUS) | named(SUMMARY) if kind is snapshot.AttainmentStatus else named(STATUS)
    if kind is snapshot.Percentiles:
        explained = set(re.findall(r'"([a-z0-9_]+)"', STATUS))
    assert set(kind.__struct_fields__) - explained == set()
