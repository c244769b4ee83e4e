import torch
from hypothesis import given
from hypothesis import strategies as st

from foveate.training.blend import SHARES, blend
from foveate.training.onnx_graph import OnnxNetwork
from tests.support.small_nanodet import small_nanodet

GENERAL = OnnxNetwork(small_nanodet(0))
TUNED = OnnxNetwork(small_nanodet(1))


def fresh() -> OnnxNetwork:
    network = OnnxNetwork(small_nanodet(0))
    network.put(TUNED.copy())
    return network


@given(scores=st.lists(st.sampled_from((0.2, 0.5, 0.8)), min_size=1 + len(SHARES), max_size=1 + len(SHARES)))
def test_the_best_blend_is_left_and_of_equals_the_one_nearest_to_the_general_model(scores: list[float]) -> None:
    network, said = fresh(), iter(scores[1:])
    general = GENERAL.copy()
    found = blend(network, general, scores[0], lambda: next(said))
    assert found.stands == max(scores)
    assert found.share == (0.0, *SHARES)[scores.index(max(scores))]
    for name, value in network.weights.items():
        expected = general[name] + found.share * (TUNED.weights[name] - general[name])
        assert torch.allclose(value, expected, atol=1e-6)
