"""The first pictures of the committed clip, for tests that need real people on them."""

from pathlib import Path

import pytest

from foveate.bench.clip import cut

SAMPLE = Path(__file__).parents[3] / "sample_videos" / "plaza.mp4"


@pytest.fixture(scope="session")
def plaza(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The committed clip, cut short after its first key frames."""
    path = tmp_path_factory.mktemp("plaza") / "plaza.mp4"
    cut(SAMPLE, 15, path)
    return path
