"""Targets, and where each camera's pictures go, as values for the status page."""

from collections.abc import Iterable

from edge_agent.board import Board
from edge_agent.settings import CameraSettings
from edge_agent.status.snapshot import TargetStatus, TiersStatus
from edge_agent.target_figures import TargetFigures
from pipeline.policies.tier_cost import NEAREST_FIRST


def target_statuses(targets: Iterable[TargetFigures]) -> list[TargetStatus]:
    """The known targets, the nearest first."""
    known = sorted(targets, key=lambda one: (NEAREST_FIRST.index(one.tier), one.target))
    return [
        TargetStatus(
            target=one.target,
            tier=one.tier.value,
            location=one.location,
            model=one.model,
            workers=one.workers,
            closed=one.closed,
            round_trip_ms=one.round_trip_ms,
            in_flight=one.in_flight,
            asked=one.asked,
            answered=one.answered,
            refused=one.refused,
            moved=one.moved,
            bytes_up=one.bytes_up,
        )
        for one in known
    ]


def tiers_status(settings: CameraSettings, board: Board, plan: Iterable[str]) -> TiersStatus:
    """Where a camera's pictures may go and have gone, and who answers."""
    privacy, departures = settings.privacy, board.departures
    return TiersStatus(
        allowed=[tier.value for tier in NEAREST_FIRST if tier in privacy.tiers],
        masked_only=[tier.value for tier in NEAREST_FIRST if tier in privacy.beyond_device & privacy.masked_only],
        plan=list(plan),
        answers=dict(board.answers_by_tier),
        sent_bytes=departures.by_tier,
        leaving_site_bytes=departures.leaving_site_bytes,
    )
