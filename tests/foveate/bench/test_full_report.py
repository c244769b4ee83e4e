"""The whole comparison on a few frames with models that are made up: every row is there and told from its records."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from foveate.bench import full_report
from foveate.bench.ablation import FULL, RATES, UNITS, VARIANTS
from foveate.bench.baseline_work import Work
from foveate.bench.baselines import Way
from foveate.bench.filters import learn_segments
from foveate.bench.full_report import OVERNIGHT, SHORT, Bench, Cell, Extent
from foveate.bench.oracle import oracle
from foveate.bench.played import Played, records
from foveate.bench.reference import frames
from foveate.bench.streaming import pooled, streaming_scores
from foveate.bench.virtual import Models
from pipeline.detections import Detections
from pipeline.frames import Image
from pipeline.network.profiles import profile
from tests.support.bench_work import constant_times, person, walking

FRAMES = 15
HELD = "all frames analysed, boxes held"
TINY = Extent((), 1, {FULL: (50.0,), "B8 random": (0.5,)}, (0.5,), 2.0, 1)


class Sees:
    """A model that sees one person, always at the same place of its picture."""

    labels = ("person",)
    version = "1"

    def __init__(self, name: str) -> None:
        self.name = name

    def detect(self, images: Sequence[Image], min_score: float) -> list[Detections]:
        return [Detections.of(person(0, 0.0), [0.6], ["person"]) for _ in images]


@pytest.fixture
def work(plaza: Path) -> Work:
    """The first frames of the committed clip, with made up answers."""
    made_up = walking(FRAMES, path=plaza)
    first = next(iter(frames(plaza)))
    size = replace(made_up.size[0], width=first.shape[1], height=first.shape[0])
    return replace(made_up, size=(size,) * FRAMES)


@pytest.fixture
def bench(work: Work) -> Bench:
    made = Bench(TINY, lambda _: None)
    models = Models.remembering(Sees("small"), Sees("large"), constant_times())
    learned = learn_segments([walking(300, 2.0)], 0.9)
    known = {"models": models, "int8": models, "segments": learned, "trigger_threshold": 0.001}
    made.__dict__.update(known)
    made.work = lambda playlist: work  # type: ignore[method-assign] # what it would read is not there
    return made


def rows(bench: Bench, work: Work, network: str, *, thorough: bool) -> Iterator[full_report.Row]:
    cell = Cell(work.playlist, network, thorough)
    yield from bench.baselines(cell, 0)
    yield from bench.rated(cell, 0)


def test_every_baseline_and_every_part_is_measured_on_a_network_that_is_looked_at_closely(
    bench: Bench, work: Work
) -> None:
    measured = list(rows(bench, work, "lte", thorough=True))
    names = {row.system for row in measured}
    assert {name.split()[0] for name in names} >= {"B0", "B2", "B3", "B4", "B5", "B6", "B8", "B9", FULL}
    assert {variant.name for variant in VARIANTS} <= names
    assert len({(row.system, row.setting) for row in measured}) == len(measured)
    for row in measured:
        assert len(records(row.played, work.shown, 0.15)) == FRAMES


def test_the_product_answers_every_frame_whatever_part_is_changed(bench: Bench, work: Work) -> None:
    for row in bench.rated(Cell(work.playlist, "outage", thorough=False), 0):
        if not row.system.endswith("boxes held"):
            assert {answer.state.seq for answer in row.played.answers} == set(range(FRAMES)), row.system


def test_on_other_networks_only_what_they_can_tell_apart_is_measured(bench: Bench, work: Work) -> None:
    names = [row.system for row in bench.rated(Cell(work.playlist, "outage", thorough=False), 0)]
    assert names == [FULL, HELD, *(variant.name for variant in VARIANTS if variant.key)]


def test_the_oracle_asks_where_it_mends_and_pays_for_it(work: Work) -> None:
    unsure = replace(work, small=tuple(Detections.of(f.xyxy, [0.3], f.label) for f in work.small))

    def play(share: float) -> Played:
        way = Way(profile("wifi"), constant_times(), 0)
        return oracle(unsure, way, constant_times(), share, 0.15, 10.0)

    never, often = play(0.0), play(1.0)
    f1 = [
        pooled(streaming_scores([a.state for a in p.answers], work.shown, p.captured_s, 0.15)) for p in (never, often)
    ]
    assert never.uplink_bytes == 0 < often.uplink_bytes
    assert f1[0] == 0.0
    assert f1[1] > 0.8


def test_the_queues_are_compared_below_and_above_their_capacity(bench: Bench) -> None:
    loads = list(bench.loads())
    assert {record.load for record in loads} == {0.8, 1.3}
    assert {record.system.split()[0] for record in loads} == {FULL, "B10", "B11"}


@pytest.mark.parametrize("extent", [SHORT, OVERNIGHT])
def test_the_rates_that_are_measured_are_those_of_systems_that_exist(extent: Extent) -> None:
    assert set(extent.rates) == set(RATES) == set(UNITS)
    assert {cell.network for cell in extent.cells} >= {"lte", "lte-weak", "outage"}
    assert any(cell.thorough for cell in extent.cells)
