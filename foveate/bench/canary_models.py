"""Models with faults: real ones, on real pictures, that are wrong in one way each."""

from collections.abc import Callable, Sequence

import msgspec
import numpy as np

from edge_agent.releases.slot import Staged
from foveate.bench.reference import SMALL
from pipeline.detections import Detections
from pipeline.detectors.base import Detector
from pipeline.detectors.contract import ModelEntry
from pipeline.detectors.loading import load_file
from pipeline.detectors.manifest import read_manifest, verified_path
from pipeline.frames import Image
from pipeline.releases.manifest import manifest_for
from pipeline.timing import wall_time

See = Callable[[Image, float], Detections]
"""What is seen on a picture, with scores of at least a limit."""


class Model:
    """A detector under a name of its own, which sees what ``see`` says."""

    def __init__(self, name: str, labels: tuple[str, ...], see: See) -> None:
        self.name, self.version, self.labels = name, "1", labels
        self._see = see

    def detect(self, images: Sequence[Image], min_score: float) -> list[Detections]:
        return [self._see(image, min_score) for image in images]


def as_release(model: Detector) -> Staged:
    """A model as a camera's release; nobody has to fetch it, so its file is only named."""
    entry = msgspec.structs.replace(_entry(), name=model.name, version=model.version)
    manifest = manifest_for(
        entry,
        model.name.encode(),
        kind="camera",
        labels=model.labels,
        input_size=SMALL[1],
        now=wall_time(),
    )
    return Staged(model, manifest, manifest.entry.sha256)


def honest(small: Detector) -> Model:
    """The same model again."""
    return Model("own-honest", small.labels, lambda image, least: small.detect([image], least)[0])


def zeroed(small: Detector) -> Model:
    """All scores are zero, as of a head whose weights were lost."""
    return Model("own-zeroed", small.labels, lambda _image, _least: Detections.none())


def shifted(small: Detector) -> Model:
    """Each class is taken for the next one, as with a label map that lacks its first line."""
    turned = dict(zip(small.labels, np.roll(small.labels, 1).tolist(), strict=True))

    def see(image: Image, least: float) -> Detections:
        found = small.detect([image], least)[0]
        names = [turned[label] for label in found.label.tolist()]
        return Detections.of(found.xyxy, found.score, names)

    return Model("own-shifted", small.labels, see)


def wrongly_normalised(small: Detector) -> Model:
    """The real file under a contract that hands pixels over as they are, as many other models want them."""
    entry = _entry()
    as_they_are = msgspec.structs.replace(entry.input, scale=1.0, mean=(0.0, 0.0, 0.0), std=(1.0, 1.0, 1.0))
    wrong = load_file(
        verified_path(read_manifest(), entry),
        msgspec.structs.replace(entry, input=as_they_are),
        labels=small.labels,
        input_size=SMALL[1],
        threads=1,
    )
    return Model("own-normalised", small.labels, lambda image, least: wrong.detect([image], least)[0])


def raising(small: Detector) -> Model:
    """Fails on each picture."""

    def see(_image: Image, _least: float) -> Detections:
        raise RuntimeError("the model cannot run")

    return Model("own-raising", small.labels, see)


class GoesBlind(Model):
    """Sees what the small model sees until it is told to see nothing any more."""

    def __init__(self, small: Detector) -> None:
        super().__init__(
            "own-blind",
            small.labels,
            lambda image, least: Detections.none() if self.blind else small.detect([image], least)[0],
        )
        self.blind = False


class OneScene(Model):
    """Knows one scene by heart: elsewhere, in pictures of another height, it goes on seeing what it last saw there."""

    def __init__(self, small: Detector, height: int) -> None:
        self._last = Detections.none()

        def see(image: Image, least: float) -> Detections:
            if image.shape[0] == height:
                self._last = small.detect([image], least)[0]
            return self._last

        super().__init__("own-scene", small.labels, see)


def _entry() -> ModelEntry:
    return read_manifest().entry(SMALL[0])
