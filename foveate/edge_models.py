"""Loading the agent's small models: the usual one, and a lighter one where the configuration names it."""

from pathlib import Path

from foveate.plan import EdgeModel, Plan
from pipeline.detectors.base import Detector
from pipeline.detectors.loading import load_detector
from pipeline.errors import ModelError


def load_edge_models(plan: Plan) -> tuple[Detector, Detector | None]:
    """The small model, and the lighter one or None; blocks. Raises ModelError."""
    detector = _load(plan.edge_model, plan.models_dir)
    if plan.edge_light is None:
        return detector, None
    light = _load(plan.edge_light, plan.models_dir)
    if light.labels != detector.labels:
        # The tracks of a camera go on from one model to the other.
        raise ModelError(
            f"The model {light.name!r} of models.edge_light has other classes than {detector.name!r} of models.edge: "
            "name one with the same classes."
        )
    return detector, light


def _load(model: EdgeModel, models_dir: Path | None) -> Detector:
    return load_detector(model.name, input_size=model.input_size, threads=model.threads, models_dir=models_dir)
