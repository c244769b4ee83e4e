"""The comparison with Triton: the same work on both sides, and figures that are what was counted."""

import asyncio
import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest

from foveate.bench import against_triton
from foveate.bench.against_triton import AS_IT_COMES, BEST, MODEL, SIZE, WORKER, Rate, figures, measure
from foveate.bench.triton_load import TritonGenerator, decode_rows, encode_jpeg
from foveate.bench.triton_server import HOST, TritonModel, triton_serving
from foveate.bench.triton_settings import CANDIDATES, DEFAULT, FEW, Setting, triton_model
from foveate.load.arrivals import Arrival
from foveate.load.outcomes import End, Outcome
from pipeline.detectors.loading import load_detector
from pipeline.detectors.manifest import read_manifest
from pipeline.detectors.open_inference_codec import InferenceServerError
from pipeline.detectors.open_inference_grpc import OpenInferenceGrpcSession
from pipeline.detectors.open_inference_proto import MESSAGES
from pipeline.errors import FoveateError
from pipeline.frames import Image
from pipeline.timing import MonotonicClock

PLAZA = Path(__file__).parents[3] / "sample_videos" / "plaza.mp4"
JPEGS = replace(DEFAULT, max_batch=2)  # what is larger takes longer to warm up
TENSORS = replace(JPEGS, name="tensors", takes="tensor")


def picture() -> Image:
    capture = cv2.VideoCapture(str(PLAZA))
    _, frame = capture.read()
    capture.release()
    return np.asarray(cv2.resize(frame, (SIZE[1], SIZE[0]), interpolation=cv2.INTER_AREA), np.uint8)


def drawn(count: int) -> list[Arrival]:
    return [Arrival(number, number * 0.001, 30.0, SIZE, 0, number) for number in range(count)]


async def offered(port: int, jpeg: bytes, image: Image) -> Mapping[str, list[Outcome]]:
    generator = TritonGenerator(f"{HOST}:{port}", lambda _: jpeg, MonotonicClock())
    generator.prepare(TENSORS, [image], read_manifest().entry(MODEL))
    try:
        unknown = Setting("unknown", "")
        return {each.name: await generator.offer(drawn(12), each) for each in (JPEGS, TENSORS, unknown)}
    finally:
        await generator.close()


def test_triton_finds_what_the_detector_finds_and_answers_every_request(triton: Path, tmp_path: Path) -> None:
    entry, image = read_manifest().entry(MODEL), picture()
    jpeg = cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, 90])[1].tobytes()
    seen = np.asarray(cv2.imdecode(np.frombuffer(jpeg, np.uint8), cv2.IMREAD_COLOR), np.uint8)
    [wanted] = load_detector(MODEL, input_size=SIZE, threads=1).detect([seen], 0.5)
    models = [triton_model(each, entry, SIZE) for each in (JPEGS, TENSORS)]
    with triton_serving(triton, models, tmp_path) as ports:
        session = OpenInferenceGrpcSession(f"grpc://{HOST}:{ports.grpc}/{JPEGS.name}", timeout_s=30.0)
        session.connect()
        found = decode_rows(session._call("ModelInfer", encode_jpeg(JPEGS.name, jpeg)))
        session.close()
        ends = asyncio.run(offered(ports.grpc, jpeg, image))
    assert len(wanted) > 0, "a picture without objects shows nothing"
    np.testing.assert_allclose(found[:, :4], wanted.xyxy, atol=0.01)
    np.testing.assert_allclose(found[:, 4], wanted.score, atol=1e-4)
    assert {each.end for each in (*ends[JPEGS.name], *ends[TENSORS.name])} == {End.ANSWERED}
    assert {(each.end, each.reason) for each in ends["unknown"]} == {(End.REFUSED, "not_found")}
    assert [each.arrival.number for each in ends[JPEGS.name]] == list(range(12))


def test_a_model_that_triton_cannot_load_is_one_sentence(triton: Path, tmp_path: Path) -> None:
    broken = TritonModel("broken", "instance_group [{ kind: KIND_CPU }]", "raise RuntimeError('no such thing')\n")
    with (
        pytest.raises(FoveateError, match=r"^Triton did not start: .*\.$"),
        triton_serving(triton, [broken], tmp_path),
    ):
        pass


def test_without_triton_it_says_what_to_run_and_has_no_figures(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FOVEATE_TRITON", str(tmp_path))
    said: list[str] = []
    assert measure(short=True, say=said.append) == {}
    assert said == ["no Triton to compare with: run make servers, or name its virtual environment in FOVEATE_TRITON"]


@pytest.mark.parametrize("data", [b"", b"\xff", MESSAGES["Reply"](raw_output_contents=[b"12345"]).SerializeToString()])
def test_a_reply_without_rows_is_an_error(data: bytes) -> None:
    with pytest.raises(InferenceServerError, match="the reply"):
        decode_rows(data)


def test_settings_have_names_of_their_own() -> None:
    names = [each.name for each in (DEFAULT, *CANDIDATES)]
    assert len(set(names)) == len(names)
    assert len(FEW) > 1


def outcomes(answered_s: list[float], refused: int) -> list[Outcome]:
    ends = [Outcome(Arrival(0, 0.0, 0.1, SIZE, 0, 0), End.ANSWERED, 0.0, after_s) for after_s in answered_s]
    return ends + [Outcome(Arrival(0, 0.0, 0.1, SIZE, 0, 0), End.REFUSED, 0.0, 0.01)] * refused


def test_each_rate_is_held_against_the_better_of_triton_s_two_and_the_least_ratio_counts() -> None:
    slow, fast = Rate(2.0, "slow"), Rate(4.0, "fast")
    ends = {
        WORKER: {slow: outcomes([0.05, 0.06], 0), fast: outcomes([0.05, 0.06, 0.07], 1)},
        AS_IT_COMES: {slow: outcomes([0.05, 0.05], 0), fast: outcomes([0.2, 0.3, 0.4, 0.5], 0)},
        BEST: {slow: outcomes([0.05, 0.2], 0), fast: outcomes([0.05, 0.06, 0.2, 0.09], 0)},
    }
    found = figures(ends, 1.0, lambda _: None)
    assert found["triton_goodput_ratio_slow"] == 1.0
    assert found["triton_goodput_ratio_fast"] == found["triton_goodput_ratio_min"] == 1.0
    assert (found["worker_goodput_fast"], found["triton_default_goodput_fast"]) == (3.0, 0.0)
    assert math.isclose(found["triton_default_p99_ms_fast"], 500.0)


def test_who_answers_nothing_has_no_p99_and_the_ratio_stays_a_number() -> None:
    rate = Rate(1.0, "any")
    nothing = {rate: outcomes([], 3)}
    found = figures({WORKER: nothing, AS_IT_COMES: nothing, BEST: nothing}, 1.0, lambda _: None)
    assert found["worker_p99_ms_any"] == math.inf
    assert found["triton_goodput_ratio_min"] == 0.0


async def test_rounds_offer_all_rivals_the_same_arrivals_and_change_who_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(against_triton, "REST_S", 0.0)
    asked: list[tuple[str, list[float]]] = []

    def rival(name: str) -> against_triton.Offer:
        async def offer(requests: list[Arrival]) -> list[Outcome]:
            asked.append((name, [each.at_s for each in requests]))
            return []

        return offer  # type: ignore[return-value]  # a list is a sequence

    plan = against_triton.Plan(1.0, 2, (), (), ())
    rates = [Rate(20.0, "a"), Rate(30.0, "b")]
    await against_triton._compared({name: rival(name) for name in "xyz"}, rates, plan, lambda _: None)
    assert "".join(name for name, _ in asked) == "xyzyzxzxyxyz"
    for first in range(0, 12, 3):
        assert asked[first][1] == asked[first + 1][1] == asked[first + 2][1]
    assert asked[0][1] != asked[6][1], "each round has arrivals of its own"
