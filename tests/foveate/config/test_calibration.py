"""A camera takes over what was learned of it."""

from pathlib import Path

import numpy as np
import pytest

from foveate.config.load import load
from foveate.config.settings import agent_settings
from pipeline.errors import ConfigError
from pipeline.policies.calibration import Calibration
from pipeline.policies.crop_arms import CropArm
from pipeline.policies.gain import PRIOR


def camera(folder: Path, text: str) -> Path:
    (folder / "gate.json").write_text(text)
    file = folder / "foveate.yaml"
    file.write_text("cameras: [{source: a.mp4, calibration: gate.json, offload: {padding: 0.3}}]")
    return file


def test_what_was_learned_goes_before_what_is_configured(tmp_path: Path) -> None:
    model = PRIOR.learn_unseen(7)
    file = camera(tmp_path, Calibration(model, CropArm(0.1, 0.75, 40), 0.08).encode())
    [settings] = agent_settings(load(file, {})).cameras
    assert (settings.offload.padding, settings.mosaic.scale, settings.images.mosaic_quality) == (0.1, 0.75, 40)
    assert settings.offload.least_gain == 0.08
    assert settings.gain.unseen_gain == model.unseen_gain
    assert np.array_equal(settings.gain.weights, model.weights)


def test_what_was_not_learned_stays_as_configured(tmp_path: Path) -> None:
    [settings] = agent_settings(load(camera(tmp_path, Calibration().encode()), {})).cameras
    assert settings.offload.padding == 0.3


@pytest.mark.parametrize("text", ["no calibration", "{}", '{"schema": 2, "gain": {}}'])
def test_a_file_that_is_none_is_told_with_its_place(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError, match=r"calibration.*name a file that foveate calibrate has written"):
        load(camera(tmp_path, text), {})


def test_a_file_that_is_absent_is_told(tmp_path: Path) -> None:
    file = camera(tmp_path, "")
    (tmp_path / "gate.json").unlink()
    with pytest.raises(ConfigError, match="cannot be read"):
        load(file, {})
