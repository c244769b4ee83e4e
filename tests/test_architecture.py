"""Rules of the code base that no linter checks: sizes of modules and functions, documentation, broad handlers."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("pipeline", "edge_agent", "cloud_worker", "foveate")

MOST_LINES = 300
LONG_MODULES: dict[str, str] = {}
"""Modules that may be longer, and why."""

MOST_FUNCTION_LINES = 40
LONG_FUNCTIONS: dict[str, str] = {}
"""Functions that may be longer, and why."""

BROAD_HANDLERS = {
    "cloud_worker/model_runner.py": "whatever a model raises costs its batch alone, and is the reason of the refusal",
    "cloud_worker/threads.py": "what a call on a thread raises is handed to the coroutine that waits for it",
    "edge_agent/capture/child.py": "the last word of a reader's thread: its reason must reach the agent",
    "edge_agent/releases/aside.py": "what a call raises is raised again where it is awaited",
    "edge_agent/releases/loading.py": "whatever a released model raises is the reason of its refusal",
    "edge_agent/releases/sights.py": "a released model that raises is taken back, and costs no frame",
    "edge_agent/supervision.py": "whatever a camera's stage raises is its state's reason, and harms no other camera",
    "foveate/learn/beside.py": "whatever learning raises ends it alone, and harms no camera",
    "pipeline/detectors/split.py": "what a part of a batch raises is raised again where the batch was asked for",
    "pipeline/transport/dispatch.py": "a handler or birth that fails is counted and reported, and harms no other",
}
"""Modules that may swallow every exception, and why."""


@cache
def modules() -> dict[str, ast.Module]:
    """The syntax trees of all product modules by path."""
    files = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
    return {path.relative_to(ROOT).as_posix(): ast.parse(path.read_text(encoding="utf-8")) for path in files}


def functions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def length(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of a function without its decorators."""
    assert node.end_lineno is not None
    return node.end_lineno - node.lineno + 1


def line_count(name: str) -> int:
    return len((ROOT / name).read_text(encoding="utf-8").splitlines())


def swallows_everything(handler: ast.ExceptHandler) -> bool:
    """Whether a handler names ``Exception`` or ``BaseException``, and does not raise it again when it is done."""
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    broad = any(isinstance(kind, ast.Name) and kind.id in {"Exception", "BaseException"} for kind in kinds)
    last = handler.body[-1]
    return broad and not (isinstance(last, ast.Raise) and last.exc is None)


def test_the_packages_are_found() -> None:
    assert {name.split("/")[0] for name in modules()} == set(PACKAGES)


def test_every_module_says_what_it_is_for() -> None:
    silent = [name for name, tree in modules().items() if tree.body and not ast.get_docstring(tree)]
    assert silent == []


def test_no_module_is_too_long() -> None:
    long = {name: line_count(name) for name in modules() if line_count(name) > MOST_LINES}
    assert {name: lines for name, lines in long.items() if name not in LONG_MODULES} == {}


def test_no_function_is_too_long() -> None:
    long = {
        f"{name}:{node.name}": length(node)
        for name, tree in modules().items()
        for node in functions(tree)
        if length(node) > MOST_FUNCTION_LINES
    }
    assert {name: lines for name, lines in long.items() if name not in LONG_FUNCTIONS} == {}


def test_every_handler_names_what_it_catches() -> None:
    bare = [
        f"{name}:{node.lineno}"
        for name, tree in modules().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ExceptHandler) and node.type is None
    ]
    assert bare == []


def test_only_listed_supervisors_swallow_every_exception() -> None:
    broad = {
        name
        for name, tree in modules().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ExceptHandler) and swallows_everything(node)
    }
    assert broad - BROAD_HANDLERS.keys() == set()


def test_no_listed_exception_is_out_of_date() -> None:
    assert {name for name in LONG_MODULES if line_count(name) <= MOST_LINES} == set()
    known = {f"{name}:{node.name}" for name, tree in modules().items() for node in functions(tree)}
    assert LONG_FUNCTIONS.keys() - known == set()
    broad = {
        name
        for name in BROAD_HANDLERS
        for node in ast.walk(modules()[name])
        if isinstance(node, ast.ExceptHandler) and swallows_everything(node)
    }
    assert broad == BROAD_HANDLERS.keys()


@pytest.mark.parametrize(
    ("source", "broad"),
    [
        ("try: pass\nexcept ValueError: pass", False),
        ("try: pass\nexcept Exception: pass", True),
        ("try: pass\nexcept (OSError, BaseException): pass", True),
        ("try: pass\nexcept BaseException:\n    clean_up()\n    raise", False),
        ("try: pass\nexcept Exception as error:\n    raise ValueError from error", True),
    ],
)
def test_the_rule_itself_knows_a_broad_handler(source: str, broad: bool) -> None:
    handlers = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ExceptHandler)]
    assert [swallows_everything(handler) for handler in handlers] == [broad]
