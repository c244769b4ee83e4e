"""The file in which ``foveate calibrate`` keeps what it has learned of a camera."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator

from edge_agent.settings import CameraSettings
from foveate.config.fields import AnyPath
from pipeline.policies.calibration import Calibration, decode

MOST_BYTES = 1_000_000


def read_calibration(path: Path) -> Calibration:
    """The calibration in a file. Raises ValueError where there is none."""
    try:
        with path.open("rb") as file:
            return decode(file.read(MOST_BYTES).decode())
    except OSError as error:
        fault = f"it cannot be read ({error.strerror})"
    except ValueError as error:
        fault = str(error)
    raise ValueError(f"{fault}: name a file that foveate calibrate has written")


def calibrated(settings: CameraSettings, calibration: Calibration) -> CameraSettings:
    """The settings with what was learned in their place."""
    arm, least = calibration.arm, calibration.least_gain
    settings = replace(settings, gain=calibration.gain)
    if least is not None:
        settings = replace(settings, offload=replace(settings.offload, least_gain=least))
    if arm is None:
        return settings
    return replace(
        settings,
        offload=replace(settings.offload, padding=arm.padding),
        mosaic=replace(settings.mosaic, scale=arm.scale),
        images=replace(settings.images, mosaic_quality=arm.quality),
    )


def _checked(path: Path) -> Path:
    read_calibration(path)
    return path


CalibrationFile = Annotated[AnyPath, AfterValidator(_checked)]
