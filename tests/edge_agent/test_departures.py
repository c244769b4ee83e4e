"""The account of what a camera has sent where."""

from edge_agent.departures import MOST_PLACES, Departures, Place
from pipeline.policies.tier_cost import Tier


def test_bytes_are_told_by_tier_and_only_those_to_the_cloud_leave_the_site() -> None:
    departures = Departures()
    departures.add(Place(Tier.EDGE, "hall"), 100)
    departures.add(Place(Tier.EDGE, "hall"), 20)
    departures.add(Place(Tier.EDGE), 3)
    departures.add(Place(Tier.CLOUD, "north"), 4000)
    assert departures.by_tier == {"edge": 123, "cloud": 4000}
    assert departures.leaving_site_bytes == 4000
    assert departures.by_place[Place(Tier.EDGE, "hall")] == 120


def test_locations_that_come_from_outside_are_bounded_and_no_byte_is_lost() -> None:
    departures = Departures()
    for number in range(MOST_PLACES + 50):
        departures.add(Place(Tier.CLOUD, f"place {number}"), 10)
    assert len(departures.by_place) <= MOST_PLACES + 1
    assert departures.leaving_site_bytes == (MOST_PLACES + 50) * 10
