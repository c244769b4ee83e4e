"""What waits is forecast from what was measured, and nothing is promised that was not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloud_worker.forecast import HOLDS_S, Forecast
from pipeline.geometry import Size
from pipeline.policies.batch_latency import RECENT_S

KIND = ("m", Size(64, 32))
TICKET_KIND = ("m", 64, 32)


def measured(*runs_s: tuple[int, float], max_batch: int = 4) -> Forecast:
    forecast = Forecast(max_batch)
    for batch, run_s in runs_s:
        forecast.observe(KIND, batch, run_s, 0.0)
    return forecast


def test_while_nothing_is_known_nothing_is_promised_and_nothing_counts() -> None:
    service = Forecast(4).service(0.5, 0.0)
    assert (service.free_s, service.together_s(TICKET_KIND, 7), service.alone_s(TICKET_KIND)) == (0.5, 0.0, None)


def test_many_take_full_batches_and_one_for_the_rest() -> None:
    service = measured((1, 0.010), (2, 0.012), (4, 0.016)).service(0.0, 0.0)
    assert service.together_s(TICKET_KIND, 4) == pytest.approx(0.016)
    assert service.together_s(TICKET_KIND, 10) == pytest.approx(2 * 0.016 + 0.012)


def test_what_the_warm_up_took_tells_the_gain_and_promises_nothing() -> None:
    forecast = Forecast(4)
    for batch, run_s in ((1, 0.010), (4, 0.016)):
        forecast.warmed(KIND, batch, run_s, 0.0)
    assert forecast.service(0.0, 0.0).alone_s(TICKET_KIND) is None
    assert forecast.latency.gain(*KIND, 4, 0.0) == pytest.approx(0.6)


def test_a_run_counts_at_once_and_an_old_one_no_longer() -> None:
    forecast = measured((1, 0.010))
    assert forecast.service(0.0, 0.0).alone_s(TICKET_KIND) == pytest.approx(0.010)
    for _ in range(30):
        forecast.observe(KIND, 1, 0.020, 0.01)
    assert forecast.service(0.0, 0.01).alone_s(TICKET_KIND) == pytest.approx(0.020)
    assert forecast.service(0.0, 0.01 + RECENT_S + HOLDS_S + 0.1).alone_s(TICKET_KIND) is None


@given(
    runs_s=st.dictionaries(st.integers(1, 8), st.floats(0.001, 1.0), min_size=1),
    max_batch=st.integers(1, 8),
    count=st.integers(0, 100),
)
def test_more_full_batches_never_take_less_time(runs_s: dict[int, float], max_batch: int, count: int) -> None:
    together_s = measured(*runs_s.items(), max_batch=max_batch).service(0.0, 0.0).together_s
    assert together_s(TICKET_KIND, 0) == 0.0
    assert together_s(TICKET_KIND, count + max_batch) >= together_s(TICKET_KIND, count) > (0.0 if count else -1.0)
