"""The models that a worker serves, and what is known of each. More may come while it runs."""

from collections.abc import Callable, Hashable

from cloud_worker.jobs import UNKNOWN_INPUT
from cloud_worker.settings import WorkerSettings
from pipeline.detectors.base import Detector
from pipeline.detectors.labels import label_set
from pipeline.geometry import Size
from pipeline.wire.messages import WorkerModel


class Shelf:
    """By name: the detectors; their versions; the input that each makes of a picture's size; and their contracts, which
    are all about a model that its answer to a picture depends on.

    The mappings stay the same objects, so that whoever was given one sees what comes later.
    """

    def __init__(self, settings: WorkerSettings) -> None:
        self._settings = {model.name: model for model in settings.models}
        self._most_padding = settings.most_padding
        self.detectors: dict[str, Detector] = {}
        self.versions: dict[str, str] = {}
        self.input_of: dict[str, Callable[[Size], Size]] = {}
        self.contracts: dict[str, Hashable] = {}
        self.announced: list[WorkerModel] = []
        """As in the worker's state; a new list with every model."""

    def put(self, name: str, detector: Detector, input_of: Callable[[Size], Size] = UNKNOWN_INPUT.of) -> None:
        """Add a model. Raises ValueError for one that is there, or that the settings do not name."""
        if name in self.detectors or name not in self._settings:
            raise ValueError(f"model {name!r} is served already, or not to be served")
        model, labels = self._settings[name], label_set(detector.labels)
        self.detectors[name] = detector
        self.versions[name] = detector.version
        self.input_of[name] = input_of
        self.contracts[name] = name, detector.version, labels, model.url, model.input_size, self._most_padding
        self.announced = [*self.announced, WorkerModel(name=name, version=detector.version, label_set=labels)]
