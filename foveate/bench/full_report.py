"""``foveate bench all``: every system on the same frames over the same networks, and the report about them.

All on virtual time with the service times of this machine, so that a figure depends on the seed and these times alone.
Each run's records are written as it ends; the page is made from the records only.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

from foveate.bench import scheduling
from foveate.bench.ablation import FULL, RATES, UNITS, VARIANTS, Variant
from foveate.bench.baseline_work import Work, load_work, scenes
from foveate.bench.baselines import Rules, Way, edge_dense, every, over_link
from foveate.bench.filters import LEARN_SHARE, Segments, SegmentTrigger, StaticTrigger, learn_segments, tune
from foveate.bench.network_runs import MIX_FPS, SLO_MS, load_models
from foveate.bench.oracle import oracle
from foveate.bench.played import Played, of_product, records
from foveate.bench.playlist import BOTTLE, MIX, MIX_SHORT, ONE_BY_ONE, ONLY_VTEST, VTEST, Clip, Part, Playlist
from foveate.bench.reference import Say
from foveate.bench.report_page.records import Run, RunHead, ScheduleRecord, write_lines, write_run
from foveate.bench.service_times import measure_times
from foveate.bench.virtual import Models, Scenario, default_camera, default_uplink, play
from pipeline.detectors.loading import load_detector
from pipeline.network.profiles import profile
from pipeline.policies.batch import FixedWindow
from pipeline.timing import MonotonicClock

SLO_S = SLO_MS / 1000
GIVE_UP_S = 1.0
"""After so long a cloud-only camera asks about a newer frame."""
TARGET = 0.9
"""The share of the larger model's F1 that the thresholds of the filters are tuned for."""
CLIPS = (ONE_BY_ONE, VTEST, BOTTLE)
VTEST_SHORT = Playlist("vtest-short", (Part(VTEST, 450),))


@dataclass(frozen=True, slots=True)
class Cell:
    """What is played over which network; not ``thorough``: only the rows that this network can tell apart."""

    playlist: Playlist
    network: str
    thorough: bool = True


@dataclass(frozen=True, slots=True)
class Extent:
    """How much is measured. ``rates`` of the systems that have several, by name."""

    cells: tuple[Cell, ...]
    seeds: int
    rates: Mapping[str, tuple[float, ...]]
    oracle_shares: tuple[float, ...]
    load_s: float
    load_seeds: int


SHORT = Extent(
    (Cell(MIX_SHORT, "lte"), Cell(MIX_SHORT, "lte-weak", thorough=False), Cell(VTEST_SHORT, "outage", thorough=False)),
    seeds=1,
    rates={
        FULL: (20.0, 60.0),
        "B1 edge only, fewer frames": (10.0, 5.0, 2.0),
        "B7 least confidence": (0.5, 0.7),
        "B8 random": (0.2, 0.6),
    },
    oracle_shares=(0.1, 0.3),
    load_s=20.0,
    load_seeds=1,
)
OVERNIGHT = Extent(
    tuple(
        Cell(playlist, network)
        for playlist, network in (
            (MIX, "lte"), (MIX, "lte-weak"), (ONLY_VTEST, "lte"), (ONLY_VTEST, "lte-weak"), (ONLY_VTEST, "outage"),
        )
    ),
    seeds=5,
    rates={
        FULL: (20.0, 40.0, 80.0, 160.0),
        "B1 edge only, fewer frames": (10.0, 5.0, 3.3, 2.0, 1.0),
        "B7 least confidence": (0.4, 0.5, 0.6, 0.7, 0.8),
        "B8 random": (0.1, 0.2, 0.4, 0.6, 0.8),
    },
    oracle_shares=(0.05, 0.1, 0.2, 0.4),
    load_s=120.0,
    load_seeds=5,
)  # fmt: skip
SAMPLED = (1, 2, 3, 5, 10, 30)
TRIGGER_FACTORS = (1.0, 4.0, 16.0, 64.0)
"""Of the tuned threshold."""


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """A run that is over, before it is written."""

    group: str
    system: str
    setting: str
    rate: float
    played: Played


class Bench:
    """All that runs share: the models with their times, and what is known of each playlist. Measures as it is asked."""

    def __init__(self, extent: Extent, say: Say) -> None:
        self.extent, self.say = extent, say
        self._works: dict[str, Work] = {}

    @cached_property
    def models(self) -> Models:
        return load_models(self.say)

    @cached_property
    def int8(self) -> Models:
        """The same with the larger model of 8 bits."""
        self.say("timing the worker's model of 8 bits")
        large = load_detector("nanodet-g-int8", input_size=None, threads=1)
        camera = default_camera(ONLY_VTEST, SLO_MS)
        times = measure_times(VTEST.path, camera, self.models.small, large, MonotonicClock())
        mine = self.models.times
        fixed_s, pixel_s = times.cloud_fixed_s, times.cloud_pixel_s
        times = replace(mine, cloud_fixed_s=fixed_s, cloud_pixel_s=pixel_s, cloud_ratio=times.cloud_ratio)
        return replace(Models.remembering(large, large, times), small=self.models.small)

    def work(self, playlist: Playlist) -> Work:
        if playlist.name not in self._works:
            self.say(f"reading {playlist.name}")
            self._works[playlist.name] = load_work(playlist, self.say)
        return self._works[playlist.name]

    def clip(self, clip: Clip) -> Work:
        """A whole clip."""
        return self.work(Playlist(clip.name, (Part(clip),)))

    @cached_property
    def trigger_threshold(self) -> float:
        """The static threshold, tuned on the first part of the first clip."""
        work = self.clip(ONE_BY_ONE)
        return tune(work, TARGET, "change", round(LEARN_SHARE * len(work.shown)))

    @cached_property
    def segments(self) -> Segments:
        self.say("learning thresholds of segments")
        return learn_segments([self.clip(clip) for clip in CLIPS], TARGET)

    def product(self, cell: Cell, variant: Variant, seed: int) -> Played:
        """Play the product, changed as the variant says."""
        camera = replace(default_camera(cell.playlist, SLO_MS), sample_fps=MIX_FPS)
        models = self.int8 if variant.int8 else self.models
        network = profile(cell.network, seed)
        uplink = variant.uplink(default_uplink())
        scenario = Scenario(cell.playlist, variant.camera(camera), network, seed, uplink)
        return of_product(play(scenario, models), models.times.edge.median_s)

    def baselines(self, cell: Cell, seed: int) -> Iterator[Row]:
        """The baselines that are loops of their own."""
        work, times, network = self.work(cell.playlist), self.models.times, profile(cell.network, seed)

        def way(*, free: bool = False) -> Way:
            return Way(network, None if free else times, seed)

        def row(system: str, setting: str, rate: float, played: Played) -> Row:
            return Row("systems", system, setting, rate, played)

        yield row("B0 edge only, every frame", "every frame", 0, edge_dense(work, times, seed))
        fifo, newest = Rules("nothing", in_flight=None), Rules("nothing", timeout_s=GIVE_UP_S)
        yield row("B2 cloud only, in turn", "every frame", 0, over_link(work, way(), every(1), fifo))
        yield row("B3 cloud only, newest wins", "every frame", 0, over_link(work, way(), every(1), newest))
        for n in SAMPLED:
            for fill, system in (("hold", "B4 every n-th, held"), ("velocity", "B4 every n-th, moved along")):
                rules = Rules(fill)  # type: ignore[arg-type] # both are fills
                yield row(system, f"n = {n}", -n, over_link(work, way(free=True), every(n), rules))
        for factor in TRIGGER_FACTORS:
            trigger = StaticTrigger(work.grey, factor * self.trigger_threshold)
            setting = f"{factor:g} times the threshold"
            played = over_link(work, way(), trigger, Rules("change"))
            yield row("B5 after Glimpse", setting, -factor, played)
        played = over_link(work, way(), SegmentTrigger(work, self.segments), Rules("hold"))
        yield row("B6 after Reducto", f"target {TARGET:g}", 0, played)
        for share in self.extent.oracle_shares if cell.thorough else ():
            played = oracle(work, way(), times, share, SLO_S, MIX_FPS)
            yield row("B9 oracle", f"share {share:g}", share, played)

    def rated(self, cell: Cell, seed: int) -> Iterator[Row]:
        """The product at its default and at several rates, and the policies that it is compared with."""
        full = self.product(cell, Variant(FULL), seed)
        yield Row("systems", FULL, "default", float("inf"), full)
        names = self.extent.rates if cell.thorough else ()
        for name in names:
            for rate in self.extent.rates[name]:
                self.say(f"  {name}, {rate:g} {UNITS[name]}")
                played = self.product(cell, RATES[name](rate), seed)
                yield Row("systems", name, f"{rate:g} {UNITS[name]}", rate, played)
        yield Row("ablation", "all frames analysed, boxes held", "-", 0, full.without_carried())
        for variant in VARIANTS:
            if not cell.thorough and not variant.key:
                continue
            self.say(f"  {variant.name}")
            played = self.product(cell, variant, seed)
            yield Row("ablation", variant.name, "-", 0, played)
            if variant.held:
                yield Row("ablation", f"{variant.name}, boxes held", "-", 0, played.without_carried())

    def across(self) -> Iterator[tuple[Row, Work]]:
        """The static threshold of each clip on each other one, without a network."""
        thresholds = {clip.name: tune(self.clip(clip), TARGET, "change") for clip in CLIPS}
        for tuned_on, threshold in thresholds.items():
            for clip in CLIPS:
                work = self.clip(clip)
                trigger = StaticTrigger(work.grey, threshold)
                played = over_link(work, Way(None, None, 0), trigger, Rules("change", in_flight=None))
                yield Row("across", f"tuned on {tuned_on}", f"{threshold:.4f}", threshold, played), work

    def loads(self) -> Iterator[ScheduleRecord]:
        """The worker's queue and its alternatives below and above its capacity."""
        kinds: Mapping[str, tuple[str, FixedWindow | None]] = {
            FULL: ("edf_weighted", None),
            "B10 batches as Triton's, first come": ("fifo", FixedWindow(0.0)),
            "B11 first come, first served": ("fifo", None),
            "B11 earliest deadline, no early drop": ("edf", None),
        }
        for share in (0.8, 1.3):
            for name, (kind, batching) in kinds.items():
                self.say(f"load {share:g}, {name}")
                for seed in range(1, self.extent.load_seeds + 1):
                    load = scheduling.Load(share, self.extent.load_s)
                    out = scheduling.run(kind, load, seed, batching=batching)
                    yield ScheduleRecord(
                        system=name, load=share, seed=seed, hit=out.hit, goodput=out.goodput, fairness=out.fairness,
                        hopeless_runs=out.hopeless_runs, late_runs=out.late_runs,
                    )  # fmt: skip


def measure(raw: Path, extent: Extent, about: Mapping[str, Any], say: Say) -> None:
    """Measure everything and write the records under ``raw``, in place of older ones; each run's as it ends.

    Raises SourceError, ModelError and ConfigError.
    """
    for clip in CLIPS:
        clip.require()
    bench = Bench(extent, say)
    for old in raw.glob("*.jsonl"):
        old.unlink()
    # First, since these alone depend on how busy the machine is.
    context = {**about, "service_ms": bench.models.times.as_ms(), "int8_cloud_ms": bench.int8.times.as_ms()["cloud"]}
    write_lines(raw / "context.jsonl", [context])
    seen = set[str]()
    for cell in extent.cells:
        work = bench.work(cell.playlist)
        if cell.playlist.name not in seen:
            write_lines(raw / f"{cell.playlist.name}.scene.jsonl", scenes(work))
            seen.add(cell.playlist.name)
        for seed in range(extent.seeds):
            say(f"{cell.playlist.name} over {cell.network}, seed {seed + 1} of {extent.seeds}")
            for row in chain(bench.baselines(cell, seed), bench.rated(cell, seed)):
                write_run(raw, _run(row, work, cell.network, seed))
    say("thresholds of one camera on another")
    for row, work in bench.across():
        write_run(raw, _run(row, work, "none", 0))
    write_lines(raw / "schedules.jsonl", bench.loads())


def _run(row: Row, work: Work, network: str, seed: int) -> Run:
    played: Played = row.played
    outages: Sequence[tuple[float, float]] = () if network == "none" else profile(network).outages
    head = RunHead(
        group=row.group,
        system=row.system,
        setting=row.setting,
        playlist=work.playlist.name,
        network=network,
        seed=seed,
        slo_s=SLO_S,
        duration_s=work.duration_s,
        uplink_bytes=played.uplink_bytes,
        jpeg_bytes=sum(work.jpeg_bytes),
        h264_bytes=work.h264_bytes,
        edge_s=played.edge_s,
        cloud_s=played.cloud_s,
        rate=row.rate if row.rate != float("inf") else 1e9,
        outages=list(outages),
    )
    return Run(head, records(played, work.shown, SLO_S))
