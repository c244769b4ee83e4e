"""The simulator against the real agent and the real worker, on virtual time, at the product's own deadline."""

import pytest

from foveate.bench.agreement import on_virtual_time
from foveate.bench.playlist import Clip, Part, Playlist
from foveate.bench.service_times import ServiceTimes, Spread
from foveate.bench.virtual import Models
from pipeline.detectors.loading import load_detector
from tests.support.processes import CLIP

PLAZA = Playlist("plaza", (Part(Clip("plaza", CLIP, "person", 10.0), 300),))
CLOSE = 0.05
TIMES = ServiceTimes(
    gate=Spread((0.002, 0.003)), edge=Spread((0.008, 0.012)), draw=Spread((0.002,)), decode=Spread((0.001,)),
    cloud_fixed_s=0.004, cloud_pixel_s=1.3e-7, cloud_ratio=Spread((0.9, 1.0, 1.3)),
)  # fmt: skip


@pytest.fixture(scope="module")
def models() -> Models:
    small = load_detector("nanodet-g-int8", input_size=(192, 256), threads=1)
    return Models.remembering(small, load_detector("nanodet-g", input_size=None, threads=1), TIMES)


@pytest.mark.parametrize(
    ("network", "kbps", "least_lambda"), [("wifi", None, 0.0), ("lte-weak", None, 0.02), ("wifi", 60.0, 0.3)]
)
def test_simulation_and_the_real_parts_agree_on_hit_ratio_and_lambda_at_the_default_deadline(
    models: Models, network: str, kbps: float | None, least_lambda: float
) -> None:
    measured, expected = on_virtual_time(PLAZA, models, network, {"uplink.uplink_kbps": kbps})
    assert measured.kept == pytest.approx(expected.kept, rel=0.05)
    assert measured.hit_ratio == pytest.approx(expected.hit_ratio, abs=CLOSE)
    assert measured.lambda_edge == pytest.approx(expected.lambda_edge, abs=CLOSE)
    assert measured.lambda_edge >= least_lambda
