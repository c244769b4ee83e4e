"""Steering at work: budgets that follow the link, a mode that follows the way, and agreement from whole frames."""

import itertools
from dataclasses import dataclass, field
from random import Random

import msgspec
import pytest

from edge_agent.levers import Levers
from edge_agent.settings import UplinkSettings
from edge_agent.steer import Outlook, Steer, learned, paced
from pipeline.detections import Detections
from pipeline.network.link import Link
from pipeline.network.profiles import Profile, profile
from pipeline.policies.path import PathEstimate, RoundTrip
from pipeline.policies.steering import Mode, SteeringSettings
from pipeline.policies.tokens import SharedBudget
from pipeline.wire.messages import AnswerSource, Reply

WEIGHTS = {"gate": 1.0}
REMAINING_MS = 125.0
SIZES_BYTES = (2000.0, 6000.0, 12_000.0)


def path_of(mbit_s: float, base_ms: float = 50.0, until_s: float = 12.0) -> PathEstimate:
    """A path that answered five requests a second until a moment."""
    path = PathEstimate()
    for number in range(60):
        size_bytes = SIZES_BYTES[number % 3]
        network_ms = base_ms + size_bytes * 8 / mbit_s / 1000
        path = path.answered(RoundTrip("mosaic", size_bytes, 0.0, network_ms + 22, 2, 20), until_s - (59 - number) / 5)
    return path


def outlook(path: PathEstimate, now_s: float, fill: float | None = None) -> Outlook:
    return Outlook(
        reachable=True,
        reason="",
        round_trip_ms=path.tails_ms({}, now_s, 1.0),
        tokens_bytes=None,
        path=path,
        fill=fill,
        bucket_s=2.0,
    )


def budget_at(kbps: float | None, path: PathEstimate, bandwidth_share: float = 0.8) -> SharedBudget:
    settings = UplinkSettings(uplink_kbps=kbps, bandwidth_share=bandwidth_share)
    return paced(SharedBudget.full(kbps, settings.burst_s, WEIGHTS, 0.0), path, settings, WEIGHTS, 12.1)


def test_no_more_than_a_share_of_what_a_slow_link_carries_is_used() -> None:
    rate_bytes_s = budget_at(None, path_of(1.0)).rate_bytes_s
    assert rate_bytes_s is not None
    assert 0.8 * 125_000 <= rate_bytes_s <= 0.8 * 200_000


def test_the_smaller_limit_holds() -> None:
    assert budget_at(60, path_of(1.0)).rate_bytes_s == 7500
    limited = budget_at(10_000, path_of(1.0)).rate_bytes_s
    assert limited is not None
    assert limited < 200_000


def test_a_link_that_is_not_to_be_considered_limits_nothing() -> None:
    assert budget_at(None, path_of(1.0), bandwidth_share=0.0).rate_bytes_s is None
    assert budget_at(None, PathEstimate()).rate_bytes_s is None


def test_the_buckets_stay_as_full_as_they_were_when_the_limit_changes() -> None:
    settings = UplinkSettings(uplink_kbps=None)
    half = SharedBudget.full(8000, settings.burst_s, WEIGHTS, 12.1)
    half = half.take("gate", half.shares["gate"].burst_bytes / 2)
    assert paced(half, path_of(1.0), settings, WEIGHTS, 12.1).fill("gate") == pytest.approx(0.5)


def test_a_path_on_which_nothing_comes_in_time_is_left_to_the_edge() -> None:
    steer, slow = Steer(SteeringSettings()), path_of(1.0, base_ms=400.0, until_s=12.0)
    for number in range(5):
        state = steer.at(11.0 + number / 5, outlook(slow, 11.0 + number / 5), 150.0, Levers())
    assert (state.mode, state.hindrance) == (Mode.EDGE, "edge_mode")


def test_a_lever_keeps_frames_at_the_edge() -> None:
    steer, path, hindrances = Steer(SteeringSettings()), path_of(10.0), []
    for number in range(40):
        spared = steer.spares(Levers(lambda_least=0.5))
        state = steer.at(12.0 + number / 50, outlook(path, 12.0), 150.0, Levers(lambda_least=0.5))
        assert spared == (state.hindrance == "lambda_least")
        hindrances.append(state.hindrance)
        if not state.hindrance:
            steer.asked(3, 3000)
    assert 18 <= hindrances.count("lambda_least") <= 22


def test_agreement_is_counted_by_label_and_place() -> None:
    steer = Steer(SteeringSettings())
    boxes = [(10.0, 10.0, 50.0, 90.0), (100.0, 10.0, 150.0, 90.0)]
    edge = Detections.of(boxes, [0.9, 0.8], ["person", "car"])
    cloud = Detections.of(boxes, [0.9, 0.8], ["person", "person"])
    for _ in range(3):
        steer.compared(edge, cloud)
    assert steer.agreement.f1 == pytest.approx(0.5)


@dataclass
class Asker:
    """A camera that asks five times a second over a modelled network, whenever an answer is likely in time."""

    network: Profile
    path: PathEstimate = field(default_factory=PathEstimate)
    steer: Steer = field(default_factory=lambda: Steer(SteeringSettings(), 1.0))
    modes: list[tuple[float, Mode]] = field(default_factory=list)
    sent: list[tuple[float, float]] = field(default_factory=list)
    under_way: list[tuple[float, float, RoundTrip]] = field(default_factory=list)

    def play(self, seconds: float, seed: int) -> "Asker":
        up, down = self.network.links(0.0)
        rng = Random(seed)
        for number in range(int(seconds * 5)):
            now_s = number / 5
            self._hear(now_s)
            state = self.steer.at(now_s, outlook(self.path, now_s), REMAINING_MS, Levers())
            self.modes.append((now_s, state.mode))
            size_bytes = rng.randrange(5000, 11_000)
            tails = self.path.forecast(size_bytes, now_s, deviations=1.0)
            if not state.hindrance and (tails is None or tails.tail_ms <= REMAINING_MS):
                self._send(size_bytes, now_s, up, down)
        return self

    def _send(self, size_bytes: int, now_s: float, up: Link, down: Link) -> None:
        ahead_bytes = self.path.ahead_bytes(now_s)
        self.path = self.path.sent(size_bytes, now_s)
        back_s = down.transmit(500, up.transmit(size_bytes, now_s) + 0.022)
        trip = RoundTrip("mosaic", size_bytes, ahead_bytes, (back_s - now_s) * 1000, 2.0, 20.0)
        self.under_way.append((back_s, now_s, trip))
        self.sent.append((now_s, trip.round_trip_ms))

    def _hear(self, now_s: float) -> None:
        for flight in sorted(f for f in self.under_way if f[0] <= now_s):
            self.path = self.path.answered(flight[2], flight[0])
            self.under_way.remove(flight)

    def between(self, from_s: float, to_s: float) -> tuple[float, float]:
        """The share of the frames that were asked about, and of those the share whose answer came too late."""
        trips_ms = [round_trip_ms for at_s, round_trip_ms in self.sent if from_s <= at_s < to_s]
        late = sum(round_trip_ms > REMAINING_MS for round_trip_ms in trips_ms)
        return len(trips_ms) / ((to_s - from_s) * 5), late / max(1, len(trips_ms))


@pytest.mark.parametrize("seed", range(5))
def test_a_step_of_the_link_from_10_to_1_mbit_s_is_reacted_to_within_two_seconds_and_so_is_the_way_back(
    seed: int,
) -> None:
    """On 1 Mbit/s a request of 8 kB takes 136 ms, and 125 are left; the smallest ones still come in time."""
    asker = Asker(profile("step", seed)).play(60.0, seed)
    asked, late = asker.between(0.0, 20.0)
    assert (asked > 0.9, late < 0.05) == (True, True)
    asked, late = asker.between(22.0, 40.0)
    assert (asked < 0.7, late < 0.2) == (True, True)
    asked, late = asker.between(44.0, 60.0)
    assert (asked > 0.85, late < 0.05) == (True, True)
    changes_s = [b[0] for a, b in itertools.pairwise(asker.modes) if a[1] is not b[1]]
    assert all(b - a >= 5.0 - 1e-9 for a, b in itertools.pairwise(changes_s))


@pytest.mark.parametrize("source", ["joined", "cache"])
def test_an_answer_that_cost_no_run_says_something_of_the_network_and_nothing_of_runs(source: AnswerSource) -> None:
    path = PathEstimate.holding(1.0)
    reply = Reply(
        agent="a", camera="c", epoch=1, seq=1, worker="w", model="m", model_version="1", detections=[], queue_ms=1.0,
        batch_wait_ms=0.0, infer_ms=0.0, total_ms=2.0,
    )  # fmt: skip
    ran = learned(path, ("mosaic", 5000, 0.0), 40.0, reply, 1.0)
    kept = learned(path, ("mosaic", 5000, 0.0), 40.0, msgspec.structs.replace(reply, source=source), 1.0)
    assert ran.knows_worker("mosaic", 1.0)
    assert not kept.knows_worker("mosaic", 1.0)
    assert kept.forecast(5000, 1.0) is not None
