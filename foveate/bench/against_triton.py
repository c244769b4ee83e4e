"""The worker against a real Triton server: the same model, pictures and arrivals, in turns within one run.

What is alike: the model and the size of its input, in onnxruntime on one thread; senders in this process, open loop,
each request counted from its drawn moment and on time within ``DEADLINE_S``; the niceness of both servers; a picture
at a time, none twice, as JPEG; detections back. Triton runs our own code for decoding, preprocessing and
postprocessing in its Python backend, so that both have the same work.

What differs is what is compared. The worker gets requests over MQTT through its broker, which runs on the same
machine, decodes in a thread of its own, knows each request's deadline, and refuses what it cannot answer in time. Its
cache and coalescing are off. Triton gets them over gRPC, straight, and is measured as it comes and at the best of
``CANDIDATES``, which is looked for first, a little above the capacity. Where that is one that takes ready tensors,
they are made beforehand and its outputs are left as they are, which spares it work that the worker does.

Capacity is what one thread can do by itself, decoding and detecting one picture after another, by the median.
"""

import asyncio
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median

import cv2
import numpy as np

from cloud_worker.settings import ServedModel, WorkerSettings
from foveate.bench.triton_load import TritonGenerator
from foveate.bench.triton_server import HOST, triton_folder, triton_serving
from foveate.bench.triton_settings import CANDIDATES, DEFAULT, FEW, Setting, triton_model
from foveate.load.arrivals import Arrival, Mix, arrivals
from foveate.load.outcomes import Outcome, summarise
from foveate.load.pictures import Pictures
from foveate.load.stand import started
from pipeline.detectors.contract import ModelEntry
from pipeline.detectors.loading import load_detector
from pipeline.detectors.manifest import read_manifest
from pipeline.frames import Image
from pipeline.timing import MonotonicClock

MODEL, SIZE = "nanodet-g", (192, 256)
DEADLINE_S = 0.1
RATES = (30.0, 50.0, 70.0, 90.0)
LOADS = (0.5, 0.7, 0.9, 1.1)
OVERLOAD = 1.3
"""Arrivals per second, and as multiples of the capacity."""
SEARCH_LOAD, SEARCH_SEED = 1.1, 1000
PROBES = 100
"""Pictures for the capacity."""
TENSORS = 16
REST_S = 0.3
"""Between two runs, so that one does not begin with what is left of another."""
WORKER, AS_IT_COMES, BEST = "worker", "triton_default", "triton_best"

Offer = Callable[[Sequence[Arrival]], Awaitable[list[Outcome]]]
Ends = Mapping[str, Mapping["Rate", list[Outcome]]]
"""What became of all requests, by who was asked and by rate."""
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Plan:
    """How long a run lasts, how many there are at each rate, which they are, and what is tried for Triton."""

    run_s: float
    rounds: int
    rates: Sequence[float]
    loads: Sequence[float]
    candidates: Sequence[Setting]


@dataclass(frozen=True, slots=True, order=True)
class Rate:
    """Requests per second, and what figures call it."""

    per_s: float
    name: str


FULL = Plan(2.5, 2, RATES, (*LOADS, OVERLOAD), CANDIDATES)
SHORT = Plan(2.0, 1, (), (0.5, 0.9, OVERLOAD), FEW)


def measure(short: bool, say: Say) -> Mapping[str, float]:
    """All figures; none where there is no Triton here."""
    folder = triton_folder()
    if folder is None:
        say("no Triton to compare with: run make servers, or name its virtual environment in FOVEATE_TRITON")
        return {}
    return asyncio.run(_measured(folder, SHORT if short else FULL, say))


async def _measured(folder: Path, plan: Plan, say: Say) -> dict[str, float]:
    pictures = Pictures([SIZE])
    images = [_decoded(pictures, number) for number in range(TENSORS)]
    capacity_per_s = capacity(pictures)
    say(f"one thread by itself does {capacity_per_s:.1f} pictures per s")
    async with _triton(folder, pictures, images, plan.candidates) as offers, _worker(pictures) as worker:
        best = await _search(offers, SEARCH_LOAD * capacity_per_s, plan, say)
        rivals = {WORKER: worker, AS_IT_COMES: offers[DEFAULT.name], BEST: offers[best]}
        rates = [Rate(rate, f"{rate:g}_per_s") for rate in plan.rates]
        rates += [Rate(load * capacity_per_s, f"{load:g}_capacity") for load in plan.loads]
        ends = await _compared(rivals, sorted(rates), plan, say)
    found = figures(ends, plan.run_s * plan.rounds, say)
    at_most = max(found[f"{rival}_goodput_{OVERLOAD:g}_capacity"] for rival in (AS_IT_COMES, BEST))
    ours = found[f"{WORKER}_goodput_{OVERLOAD:g}_capacity"]
    return found | {
        "triton_capacity_per_s": capacity_per_s,
        "overload_goodput_triton": at_most / capacity_per_s,
        "overload_goodput": ours / capacity_per_s,
    }


def capacity(pictures: Pictures) -> float:
    """Pictures per second that this thread decodes and looks at, one after another, by the median."""
    cv2.setNumThreads(1)
    detector = load_detector(MODEL, input_size=SIZE, threads=1)
    clock, took_s = MonotonicClock(), []
    for number in range(PROBES):
        begun_s = clock.now_s()
        detector.detect([_decoded(pictures, number)], 0.5)
        took_s.append(clock.now_s() - begun_s)
    return 1 / median(took_s)


def _decoded(pictures: Pictures, number: int) -> Image:
    jpeg = np.frombuffer(pictures.jpeg(SIZE, number, run=0), np.uint8)
    return np.asarray(cv2.imdecode(jpeg, cv2.IMREAD_COLOR), np.uint8)


@asynccontextmanager
async def _worker(pictures: Pictures) -> AsyncIterator[Offer]:
    settings = WorkerSettings((ServedModel(MODEL, SIZE),), coalesce=False, cache_ttl_s=0.0)
    async with started([settings], agents=1) as stand:
        yield lambda requests: stand.generator.offer(requests, pictures)


@asynccontextmanager
async def _triton(
    folder: Path, pictures: Pictures, images: Sequence[Image], candidates: Sequence[Setting]
) -> AsyncIterator[Mapping[str, Offer]]:
    """All settings at once, each a model of one server: those that nobody asks cost nothing. Its start blocks."""
    entry: ModelEntry = read_manifest().entry(MODEL)
    settings = (DEFAULT, *candidates)
    with (
        tempfile.TemporaryDirectory() as work,
        triton_serving(folder, [triton_model(each, entry, SIZE) for each in settings], Path(work)) as ports,
    ):
        generator = TritonGenerator(
            f"{HOST}:{ports.grpc}", lambda number: pictures.jpeg(SIZE, number, run=1), MonotonicClock()
        )
        for each in settings:
            if each.takes == "tensor":
                generator.prepare(each, images, entry)
        try:
            yield {each.name: partial(generator.offer, setting=each) for each in settings}
        finally:
            await generator.close()


async def _search(offers: Mapping[str, Offer], per_s: float, plan: Plan, say: Say) -> str:
    """The candidate with the most answers in time."""
    requests = _drawn(per_s, plan.run_s, SEARCH_SEED)
    in_time = Counter[str]()
    for each in plan.candidates:
        in_time[each.name] = sum(outcome.in_time for outcome in await _run(offers[each.name], requests))
    told = ", ".join(f"{name} {number}" for name, number in in_time.most_common())
    say(f"Triton's settings, in time of {len(requests)} at {per_s:.0f} per s: {told}")
    [(best, _)] = in_time.most_common(1)
    return best


async def _compared(rivals: Mapping[str, Offer], rates: Sequence[Rate], plan: Plan, say: Say) -> Ends:
    """Rounds of all rates; who begins changes from one rate to the next."""
    ends: dict[str, dict[Rate, list[Outcome]]] = {rival: {rate: [] for rate in rates} for rival in rivals}
    order = list(rivals)
    for number in range(plan.rounds):
        say(f"round {number + 1} of {plan.rounds}")
        for rate in rates:
            requests = _drawn(rate.per_s, plan.run_s, number)
            for rival in order:
                ends[rival][rate] += await _run(rivals[rival], requests)
            order = [*order[1:], order[0]]
    return ends


async def _run(offer: Offer, requests: Sequence[Arrival]) -> list[Outcome]:
    outcomes = await offer(requests)
    await asyncio.sleep(REST_S)
    return outcomes


def _drawn(per_s: float, run_s: float, seed: int) -> list[Arrival]:
    return arrivals("poisson", per_s, run_s, seed, Mix(deadlines_s=(DEADLINE_S,), sizes_px=(SIZE,)))


def figures(ends: Ends, offered_s: float, say: Say) -> dict[str, float]:
    """Goodput and P99 of each by rate, and the least ratio of the worker's goodput to the better of Triton's two.

    Where Triton answers nothing in time, it counts as one answer.
    """
    found: dict[str, float] = {}
    for rate in ends[WORKER]:
        told = []
        for rival, by_rate in ends.items():
            summary = summarise(by_rate[rate], offered_s)
            trip = summary.segments["round_trip"]
            found[f"{rival}_goodput_{rate.name}"] = summary.goodput_per_s
            found[f"{rival}_p99_ms_{rate.name}"] = trip.p99_ms if trip else float("inf")
            told.append(f"{rival} {summary.goodput_per_s:.1f} (P99 {trip.p99_ms:.0f} ms)" if trip else f"{rival} 0")
        triton = max(found[f"{rival}_goodput_{rate.name}"] for rival in (AS_IT_COMES, BEST))
        found[f"triton_goodput_ratio_{rate.name}"] = found[f"{WORKER}_goodput_{rate.name}"] / max(triton, 1 / offered_s)
        say(f"{rate.per_s:.0f} per s, in time per s: {', '.join(told)}")
    found["triton_goodput_ratio_min"] = min(found[f"triton_goodput_ratio_{rate.name}"] for rate in ends[WORKER])
    return found
