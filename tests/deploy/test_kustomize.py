"""What stands in for kustomize, held against builds of the real one."""

from pathlib import Path

import pytest
import yaml

from tests.support.kustomize import Kustomized, identity_of

FOLDER = Path(__file__).parent / "kustomize"
"""NAME.yaml is what kubectl 1.32 (kustomize 5.5.0) made of NAME: kubectl kustomize NAME >NAME.yaml."""


@pytest.mark.parametrize("name", ["base", "overlay"])
def test_a_build_is_what_the_real_kustomize_made_of_it(name: str) -> None:
    real = {identity_of(manifest): manifest for manifest in yaml.safe_load_all((FOLDER / f"{name}.yaml").read_text())}
    assert {identity_of(manifest): manifest for manifest in Kustomized(FOLDER / name).manifests} == real
