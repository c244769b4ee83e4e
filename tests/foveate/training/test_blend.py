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
    network.put({name: value.detach() for name, value in TUNED.weights.items()})
    return network


@given(scores=st.lists(st.sampled_from((0.2, 0.5, 0.8)), min_size=len(SHARES), max_size=len(SHARES)))
def test_the_best_blend_is_left_and_of_equals_the_one_nearest_to_the_general_model(scores: list[float]) -> None:
    network, said = fresh(), iter(scores)
    general = {name: value.detach().clone() for name, value in GENERAL.weights.items()}
    found = blend(network, general, lambda: next(said))
    assert found.stands == max(scores) >= found.general == scores[0]
    assert found.share == SHARES[scores.index(max(scores))]
    for name, value in network.weights.items():
        expected = general[name] + found.share * (TUNED.weights[name] - general[name])
        assert torch.allclose(value, expected, atol=1e-6)
