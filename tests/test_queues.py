"""Every queue in the product has a maximum and a rule for what happens when it is full.

Case E05. A queue class is bounded where it is made (``deque(maxlen=...)``), or it is listed here with the name that
bounds it in its module, the rule, and the test that fills it. Benchmarks and the simulator are left out: what they hold
ends with them.
"""

import ast
import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np
import pytest

from cloud_worker.outbox import Outbox
from edge_agent.reuse import AnswerReuse
from edge_agent.reuse_counts import ReuseCounts
from pipeline.policies.change import AdaptiveChange, ChangeSettings
from pipeline.policies.near_duplicate import Look, NearDuplicates, NearDuplicateSettings
from pipeline.transport.base import Outgoing
from pipeline.transport.memory import MemoryHub, MemoryTransport
from tests.test_architecture import ROOT, modules

QUEUES = {"deque", "OrderedDict", "Queue", "LifoQueue", "PriorityQueue", "SimpleQueue", "Channel"}
LEFT_OUT = ("foveate/bench/", "foveate/simulation/")
Rule = Literal["the oldest gives way", "the newest is turned away", "who fills it waits", "no more can come"]


@dataclass(frozen=True)
class Bound:
    """``most``: a name in the module that limits it, or whoever it depends on; ``shown_by``: path and test."""

    most: str
    rule: Rule
    shown_by: str


HERE = "tests/test_queues.py"
BOUNDS = {
    "pipeline/channels.py:_items": Bound(
        "_capacity",
        "the oldest gives way",
        "tests/pipeline/test_channels.py:test_nothing_is_lost_or_doubled_and_the_capacity_is_never_exceeded",
    ),
    "pipeline/policies/change.py:_looks": Bound(
        "_REMEMBERED_LOOKS", "the oldest gives way", f"{HERE}:test_looks_that_nothing_is_ever_heard_of_are_forgotten"
    ),
    "pipeline/policies/near_duplicate.py:_kept": Bound(
        "places", "the oldest gives way", f"{HERE}:test_places_whose_answers_may_be_used_again_are_bounded"
    ),
    "pipeline/policies/result_cache.py:_entries": Bound(
        "_most_bytes",
        "the oldest gives way",
        "tests/pipeline/policies/test_result_cache.py:"
        "test_it_gives_back_what_was_put_in_last_and_never_holds_more_than_it_may",
    ),
    "pipeline/transport/lane.py:_coming": Bound(
        "most_bytes",
        "the newest is turned away",
        "tests/pipeline/transport/test_shaped.py:"
        "test_more_than_the_backlog_is_refused_at_once_and_taken_again_when_it_has_passed",
    ),
    "pipeline/transport/memory.py:_inbox": Bound(
        "INBOX_MESSAGES",
        "the newest is turned away",
        "tests/pipeline/transport/test_memory.py:test_an_inbox_that_is_full_ignores_and_counts",
    ),
    "pipeline/transport/mqtt_link.py:_pending": Bound(
        "backlog_bytes",
        "the newest is turned away",
        "tests/pipeline/transport/test_mqtt.py:test_a_link_that_does_not_move_is_told_as_backlog_and_memory_stays_flat",
    ),
    "edge_agent/capture/outbox.py:_held": Bound(
        "READ_AHEAD_PICTURES",
        "the oldest gives way",
        "tests/edge_agent/capture/test_outbox.py:test_every_picture_of_a_live_source_is_taken_lost_or_unusable",
    ),
    "edge_agent/gain_lessons.py:_open": Bound(
        "MOST_OPEN",
        "the oldest gives way",
        "tests/edge_agent/test_gain_lessons.py:test_the_questions_without_an_answer_that_are_remembered_are_bounded",
    ),
    "edge_agent/lessons/offline.py:_entries": Bound(
        "reach_s",
        "no more can come",
        "tests/edge_agent/lessons/test_offline.py:"
        "test_of_a_long_recording_only_what_looks_can_still_say_something_about_is_held",
    ),
    "edge_agent/lessons/offline.py:_open": Bound(
        "until_s",
        "no more can come",
        "tests/edge_agent/lessons/test_offline.py:"
        "test_of_a_long_recording_only_what_looks_can_still_say_something_about_is_held",
    ),
    "edge_agent/lessons/taking.py:_frames": Bound(
        "MOST_FRAMES",
        "the oldest gives way",
        "tests/edge_agent/lessons/test_taking.py:"
        "test_frames_that_are_not_made_small_in_time_give_way_to_newer_ones_and_are_counted",
    ),
    "edge_agent/lessons/taking.py:_open": Bound(
        "MOST_OPEN_BYTES",
        "the oldest gives way",
        "tests/edge_agent/lessons/test_taking.py:test_pictures_that_wait_for_their_annotation_are_bounded_in_bytes",
    ),
    "edge_agent/lessons/taking.py:_answers": Bound(
        "_MOST_ANSWERS",
        "the oldest gives way",
        "tests/edge_agent/lessons/test_taking.py:test_a_teacher_that_is_never_heard_from_again_costs_bounded_memory",
    ),
    "edge_agent/publish.py:_alerts": Bound(
        "ALERTS_WAITING",
        "the oldest gives way",
        "tests/edge_agent/test_publish.py:test_of_too_many_alerts_without_a_broker_the_oldest_give_way_and_are_counted",
    ),
    "edge_agent/releases/audits.py:_open": Bound(
        "MOST_OPEN",
        "the oldest gives way",
        "tests/edge_agent/releases/test_rollout_parts.py:test_of_too_many_audits_the_oldest_gives_way",
    ),
    "edge_agent/resolve.py:_frames": Bound(
        "deadline_s",
        "no more can come",
        "tests/edge_agent/test_redelivery.py:"
        "test_what_a_dead_worker_keeps_is_answered_by_the_edge_at_the_deadline_and_nothing_hangs",
    ),
    "edge_agent/reuse.py:_open": Bound(
        "MOST_OPEN",
        "the oldest gives way",
        "tests/edge_agent/test_reuse.py:test_questions_without_an_answer_that_are_remembered_are_bounded",
    ),
    "edge_agent/reuse.py:_untracked": Bound(
        "places", "the oldest gives way", f"{HERE}:test_places_whose_answers_may_be_used_again_are_bounded"
    ),
    "edge_agent/revisions.py:_published": Bound(
        "MOST",
        "the oldest gives way",
        "tests/edge_agent/test_revisions.py:test_the_memory_is_bounded_by_number_and_by_age",
    ),
    "cloud_worker/answers.py:_orphans": Bound(
        "_most_followers",
        "the newest is turned away",
        "tests/pipeline/policies/test_coalescing.py:test_as_many_follow_as_may_and_a_new_question_still_leads",
    ),
    "cloud_worker/outbox.py:_waiting": Bound(
        "_capacity", "the oldest gives way", f"{HERE}:test_replies_that_cannot_be_sent_give_way_to_newer_ones"
    ),
    "cloud_worker/recent.py:_seen": Bound(
        "_capacity",
        "the oldest gives way",
        "tests/cloud_worker/test_recent.py:test_the_memory_of_seen_keys_is_bounded",
    ),
    "foveate/watch.py:_waiting": Bound(
        "WAITING_LINES",
        "the oldest gives way",
        "tests/foveate/test_watch.py:test_slow_output_loses_the_oldest_and_says_how_many",
    ),
}
"""Queues that are bounded by hand, by module and attribute."""


@dataclass(frozen=True)
class Made:
    """A queue that is made somewhere: the attribute that it becomes, and whether the call itself bounds it."""

    where: str
    bounded: bool


def made(name: str, tree: ast.Module) -> Iterator[Made]:
    """The queues that a module makes. One that becomes no attribute is known by its line, so that none is missed."""
    named: dict[ast.AST, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            target = target.value if isinstance(target, ast.Subscript) else target
            attribute = target.attr if isinstance(target, ast.Attribute) else ast.unparse(target)
            named |= dict.fromkeys(ast.walk(node.value), attribute)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and called(node) in QUEUES:
            yield Made(f"{name}:{named.get(node, node.lineno)}", bounded_by_call(node))


def called(call: ast.Call) -> str:
    function = call.func.value if isinstance(call.func, ast.Subscript) else call.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def bounded_by_call(call: ast.Call) -> bool:
    if called(call) == "deque":
        return len(call.args) > 1 or any(each.arg == "maxlen" for each in call.keywords)
    if called(call) == "Channel":
        return True  # it cannot be made without a capacity
    most = [each.value for each in call.keywords if each.arg == "maxsize"] + call.args[:1]
    unlimited = any(isinstance(each, ast.Constant) and each.value == 0 for each in most)
    return called(call) != "OrderedDict" and bool(most) and not unlimited


@cache
def queues() -> tuple[Made, ...]:
    return tuple(each for name, tree in modules().items() if not name.startswith(LEFT_OUT) for each in made(name, tree))


def test_every_queue_has_a_maximum_where_it_is_made_or_is_listed_with_one() -> None:
    assert len(queues()) > 30
    assert {each.where for each in queues() if not each.bounded} - BOUNDS.keys() == set()


def test_no_listed_queue_is_out_of_date() -> None:
    assert BOUNDS.keys() - {each.where for each in queues()} == set()


@pytest.mark.parametrize("where", BOUNDS)
def test_the_module_of_a_listed_queue_knows_its_limit_and_a_test_fills_it(where: str) -> None:
    bound, module = BOUNDS[where], where.split(":")[0]
    names = {getattr(node, "id", None) or getattr(node, "attr", None) for node in ast.walk(modules()[module])}
    names |= {node.arg for node in ast.walk(modules()[module]) if isinstance(node, ast.arg)}
    assert bound.most in names
    path, test = bound.shown_by.split(":")
    assert f"def {test}" in (ROOT / path).read_text("utf-8")


@pytest.mark.parametrize(
    ("source", "bounded"),
    [
        ("self._a = deque()", False),
        ("self._a: deque[int] = deque(maxlen=3)", True),
        ("self._a = deque((1, 2), 3)", True),
        ("self._a = OrderedDict()", False),
        ("self._a = queue.Queue()", False),
        ("self._a = queue.Queue(maxsize=0)", False),
        ("self._a = queue.Queue[int](8)", True),
        ("a = [field(default_factory=lambda: deque())]", False),
    ],
)
def test_the_rule_itself_knows_a_queue(source: str, *, bounded: bool) -> None:
    [found] = made("m.py", ast.parse(source))
    assert found.bounded is bounded
    assert found.where in {"m.py:_a", "m.py:a"}


def test_replies_that_cannot_be_sent_give_way_to_newer_ones() -> None:
    async def scene() -> Outbox:
        outbox = Outbox(MemoryTransport(MemoryHub()), capacity=5)
        for number in range(8):
            outbox.put(Outgoing("t", bytes([number])))
        return outbox

    outbox = asyncio.run(scene())
    assert outbox.lost == {"displaced": 3}
    assert [reply.payload[0] for reply in outbox._waiting] == [3, 4, 5, 6, 7]


def test_looks_that_nothing_is_ever_heard_of_are_forgotten() -> None:
    change = AdaptiveChange(ChangeSettings(), None)
    chance = np.random.default_rng(1)
    for number in range(60):
        change.look(chance.integers(0, 255, (48, 64, 3), np.uint8), number * 0.2)
    assert len(change._looks) <= 16


def test_places_whose_answers_may_be_used_again_are_bounded() -> None:
    settings = NearDuplicateSettings(places=8)
    reuse, known = AnswerReuse(settings, ReuseCounts()), NearDuplicates[Same](settings)
    for number in range(30):
        reuse._untracked_at((float(100 * number), 0.0, 100.0 * number + 50, 50.0))
        known.answered(Look(number, number), "m@1", Same(), float(number))
    assert len(reuse._untracked) == len(known) == settings.places


class Same:
    """An answer that agrees with any."""

    def agrees(self, other: "Same", /) -> bool:
        return isinstance(other, Same)

    def backed(self, score: float, /) -> bool:
        return score >= 0.0
