"""``foveate bench worker``."""

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import typer
from rich.console import Console

from cloud_worker.settings import ServedModel, WorkerSettings
from foveate.bench.report import check_writable, command_line, context
from foveate.load.arrivals import PROCESSES, HeightWidth, Mix
from foveate.load.generator import Target
from foveate.load.pictures import Pictures
from foveate.load.runs import Load, Measured, Searched, find_highest, run_at, warm_in
from foveate.load.search import RateSearch
from foveate.load.show import counts_table, found_sentence, run_json, search_json, sentences, times_table, tried_table
from foveate.load.stand import Stand, alike, joined, started
from pipeline.errors import ConfigError
from pipeline.policies.batch import BATCH_KINDS
from pipeline.transport.settings import MqttSettings
from pipeline.transport.url import parse_broker_url

MOST_REQUESTS = 1_000_000
"""Of one run: all are drawn beforehand and kept to the end."""


@dataclass(frozen=True, slots=True)
class Order:
    """A measurement as asked for: against workers of our own, or against those at a ``broker``."""

    load: Load
    worker: WorkerSettings
    workers: int
    broker: str | None
    models_dir: Path | None
    clip: Path | None


def worker_command(  # noqa: PLR0913 - one parameter per option
    rate: Annotated[
        float | None, typer.Option(min=0.01, help="Requests per second; the highest that is answered if not set.")
    ] = None,
    seconds: Annotated[float, typer.Option(min=0.5, help="How long each run offers them.")] = 10.0,
    arrivals: Annotated[str, typer.Option(help=f"How they come: {', '.join(PROCESSES)}.")] = "poisson",
    agents: Annotated[int, typer.Option(min=1, max=1000, help="Sessions that ask, each with a name of its own.")] = 4,
    deadlines_ms: Annotated[str, typer.Option(help="For how long answers are of use, any of these.")] = "150",
    sizes: Annotated[str, typer.Option(help="HEIGHTxWIDTH of the pictures in pixels, any of these.")] = "192x256",
    repeat_share: Annotated[float, typer.Option(min=0, max=1, help="Pictures that were sent before.")] = 0.0,
    clip: Annotated[Path | None, typer.Option(help="Pictures of this clip; of a synthetic scene if not set.")] = None,
    broker: Annotated[str | None, typer.Option(help="mqtt://host:port with workers that run already.")] = None,
    workers: Annotated[int, typer.Option(min=1, help="Workers to start, or to wait for at the broker.")] = 1,
    threads: Annotated[int, typer.Option(min=1, help="Inference threads of each worker that is started.")] = 1,
    model: Annotated[str, typer.Option(help="The model to ask for, and to serve.")] = "nanodet-g",
    models_dir: Annotated[Path | None, typer.Option(help="Where its manifest is; that of Foveate if not set.")] = None,
    tier: Annotated[str, typer.Option(help="edge or cloud.")] = "cloud",
    batch: Annotated[str, typer.Option(help=f"When a batch closes: {', '.join(BATCH_KINDS)}.")] = "deadline",
    max_batch: Annotated[int, typer.Option(min=1, help="Pictures per run of the model.")] = 8,
    most_missed: Annotated[float, typer.Option(min=0, max=1, help="Of a rate that counts as answered.")] = 0.01,
    seed: Annotated[int, typer.Option(help="Another course of the arrivals' chances.")] = 1,
    json_file: Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Where the figures go.")] = None,
) -> None:
    """Offer requests to real workers as they would come, and say what became of each.

    They come at moments that are drawn beforehand, however the workers fare. Without --rate the highest rate with at
    most 1 % misses is searched, by runs that are repeated until the 95 % interval of their misses is clear of it, or
    three times. A request misses its deadline when it is late, refused, lost, or could not be sent.
    """
    load = Load(arrivals, seconds, seed, Mix(_milliseconds(deadlines_ms), _sizes(sizes), agents, repeat_share))
    served = WorkerSettings((ServedModel(model),), tier=_tier(tier), threads=threads, batch=batch, max_batch=max_batch)
    _carry_out(Order(load, served, workers, broker, models_dir, clip), rate, most_missed, json_file)


def _carry_out(order: Order, rate_per_s: float | None, most_missed: float, json_file: Path | None) -> None:
    """Measure, show and write what came out. Raises ConfigError on what cannot be offered before anything starts."""
    load = order.load
    if load.process not in PROCESSES:
        raise ConfigError(f"--arrivals is {load.process!r}; choose one of {', '.join(PROCESSES)}.")
    if (rate_per_s or 0.0) * load.duration_s > MOST_REQUESTS:
        offered = f"{rate_per_s:g} requests per s for {load.duration_s:g} s"
        raise ConfigError(f"{offered} are more than {MOST_REQUESTS}: ask for fewer.")
    if json_file is not None:
        check_writable(json_file)
    about = context(command_line())
    measured, searched = asyncio.run(measure(order, rate_per_s, most_missed, lambda what: typer.echo(what, err=True)))
    _show(measured, searched, most_missed, Console())
    if json_file is not None:
        json_file.write_bytes(_json(measured, searched, about))


async def measure(
    order: Order, rate_per_s: float | None, most_missed: float, say: Callable[[str], None]
) -> tuple[Measured | None, Searched | None]:
    """The run at a rate, or the search and the last run at the rate that it found. Raises FoveateError."""
    pictures = await asyncio.to_thread(Pictures, order.load.mix.sizes_px, order.clip)
    async with _stand(order) as stand:
        await warm_in(stand, order.load, pictures)
        if rate_per_s is not None:
            return await run_at(stand, order.load, pictures, rate_per_s), None
        most_per_s = MOST_REQUESTS / order.load.duration_s
        search = RateSearch(20.0, most_missed, most_per_s=max(most_per_s, 20.0))
        searched = await find_highest(stand, order.load, pictures, search, say)
        return searched.best, searched


def _stand(order: Order) -> contextlib.AbstractAsyncContextManager[Stand]:
    agents = order.load.mix.agents
    if order.broker is None:
        return started(alike(order.worker, order.workers), agents, models_dir=order.models_dir)
    target = Target(order.worker.models[0].name, order.worker.tier)
    return joined(target, agents, order.workers, MqttSettings.of(parse_broker_url(order.broker)))


def _show(measured: Measured | None, searched: Searched | None, most_missed: float, console: Console) -> None:
    if searched is not None:
        console.print(tried_table(searched))
        console.print(found_sentence(searched, most_missed), soft_wrap=True)
    if measured is not None:
        console.print(counts_table(measured.summary))
        console.print(times_table(measured.summary))
        for line in sentences(measured):
            console.print(line, soft_wrap=True)


def _json(measured: Measured | None, searched: Searched | None, about: dict[str, Any]) -> bytes:
    content: dict[str, Any] = {"context": about}
    if measured is not None:
        content["run"] = run_json(measured)
    if searched is not None:
        content["search"] = search_json(searched)
    return msgspec.json.format(msgspec.json.encode(content), indent=2) + b"\n"


def _tier(text: str) -> Literal["edge", "cloud"]:
    if text not in {"edge", "cloud"}:
        raise ConfigError(f"--tier is {text!r}; choose edge or cloud.")
    return "edge" if text == "edge" else "cloud"


def _milliseconds(text: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) / 1e3 for part in text.split(","))
    except ValueError:
        raise ConfigError(f"--deadlines-ms is {text!r}; write numbers with commas, for example 60,150,400.") from None


def _sizes(text: str) -> tuple[HeightWidth, ...]:
    try:
        return tuple(_size(part) for part in text.split(","))
    except ValueError:
        raise ConfigError(f"--sizes is {text!r}; write HEIGHTxWIDTH, for example 192x256,320x416.") from None


def _size(text: str) -> HeightWidth:
    height, width = text.lower().split("x")
    return int(height), int(width)
