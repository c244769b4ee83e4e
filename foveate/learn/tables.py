"""What the commands show: lessons, verdicts and states as tables and as JSON."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import msgspec
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from foveate.learn.alone import is_held
from foveate.learn.folders import CameraFolders
from foveate.learn.memory import LearnerMemory, read_memory
from foveate.learn.values import Outcome
from pipeline.policies.enough import Enough, LessonSummary
from pipeline.releases.standing import Standing

_COMPARED = (("f1", "F1, agent's threshold"), ("best_f1", "F1, best threshold"), ("ece", "ECE"),
             ("blind_share", "blind share"), ("median_ms", "ms per look"))  # fmt: skip


def lessons_as_json(summary: LessonSummary, found: Enough) -> dict[str, Any]:
    """The lessons of a camera for ``--json``; keys are text."""
    conditions = {str(condition): number for condition, number in summary.conditions.items()}
    labels = {label: asdict(seen) for label, seen in summary.labels.items()}
    whole = {name: getattr(summary, name) for name in ("lessons", "size_bytes", "empty", "span_s", "watched_s")}
    return {
        **whole,
        "hours": list(summary.hours),
        "labels": labels,
        "conditions": conditions,
        "way": found.way,
        "reason": found.reason,
        "missing": list(found.missing),
    }


def show_lessons(console: Console, camera: str, summary: LessonSummary, found: Enough) -> None:
    """The lessons of a camera for people."""
    console.print(Text(f"{camera}: {summary.lessons} lessons", style="bold"))
    if summary.lessons:
        hours = ", ".join(f"{hour} h" for hour in summary.hours)
        console.print(
            f"  {summary.size_bytes / 1e6:.1f} MB, {summary.empty} without objects, "
            f"{summary.watched_s / 60:.0f} minutes watched, taken at {hours}",
            highlight=False,
        )
        table = Table("class", "objects", "tracks", "places", "in view", box=box.SIMPLE)
        for label, seen in summary.labels.items():
            table.add_row(Text(label), *map(str, (seen.objects, seen.tracks, seen.places)), f"{seen.seen_s:.0f} s")
        console.print(table)
        light = Table("light, hour, content", "lessons", box=box.SIMPLE)
        for condition, number in sorted(summary.conditions.items()):
            light.add_row(str(condition), str(number))
        console.print(light)
    enough_for = {"own": "enough for a small model of its own", "adapt": "enough to adapt the general model"}
    said = enough_for.get(found.way, "not enough yet")
    console.print(f"  {said}: {found.reason}", markup=False, highlight=False, soft_wrap=True)


def show_outcome(console: Console, outcome: Outcome) -> None:
    """What a training came to: each way's figures beside those of the general model, and the verdict."""
    for tried in outcome.tried:
        figures = tried.figures
        if figures:
            table = Table(f"{tried.way}, {tried.build}", "trained", "general", box=box.SIMPLE)
            for name, what in _COMPARED:
                table.add_row(what, *(_shown(figures, key) for key in (name, f"general_{name}")))
            console.print(table)
            console.print(
                f"  judged on {figures.get('judged_pictures', 0):.0f} lessons that it has never seen, "
                f"{figures.get('judged_with_objects', 0):.0f} of them with objects; trained for {tried.train_s:.0f} s",
                highlight=False,
            )
    console.print(outcome.in_words(), markup=False, highlight=False, soft_wrap=True)


def state_as_json(summary: LessonSummary, folders: CameraFolders, standing: Standing | None) -> dict[str, Any]:
    """Where a camera stands, for ``--json``; reads its files."""
    memory, outcome = read_memory(folders.memory_file), folders.outcome()
    return {
        "lessons": summary.lessons,
        "training": training(folders),
        "last": memory.in_words or (outcome.in_words() if outcome is not None else None),
        "accepted": None if outcome is None else outcome.accepted,
        "trained_at": None if outcome is None else outcome.at,
        "released": None if memory.released is None else _title(memory),
        "rollout": None if standing is None else msgspec.to_builtins(standing),
    }


def training(folders: CameraFolders) -> str | None:
    """Whether an attempt is under way, or was left off and goes on with the next start; None where there is none."""
    begun = folders.attempt.is_dir()
    if is_held(folders.by_hand_lock) or (begun and is_held(folders.agent_lock)):
        return "under way"
    return "left off, goes on with the next start" if begun else None


def show_states(console: Console, states: Mapping[str, Mapping[str, Any]], broker: str) -> None:
    """Where all cameras stand, for people; ``broker`` says why nothing is known of rollouts, or is empty."""
    table = Table("camera", "lessons", "last training", "released", "rollout", box=box.SIMPLE)
    for camera, state in states.items():
        rollout = state["rollout"]
        stage = "-" if rollout is None else f"{rollout['stage']}: {rollout['reason']}"
        parts = [part for part in (state["training"], state["last"]) if part]
        last = "; before it ".join(parts) or "none yet"
        cells = (last, state["released"] or "-", stage)
        table.add_row(Text(camera), str(state["lessons"]), *(Text(cell) for cell in cells))
    console.print(table)
    if broker:
        console.print(broker, markup=False, highlight=False, soft_wrap=True)


def _title(memory: LearnerMemory) -> str:
    return "" if memory.released is None else memory.released.title


def _shown(figures: Mapping[str, float], name: str) -> str:
    return f"{figures[name]:.3f}" if name in figures else "-"
