"""Whether the models that a configuration names exist, and know the classes that it asks for."""

from collections.abc import Iterator

from foveate.config.faults import Loc, nearest, path_of
from foveate.config.models import Configuration
from pipeline.detectors.contract import ModelEntry
from pipeline.detectors.labels import read_label_file
from pipeline.detectors.manifest import Manifest, read_manifest
from pipeline.errors import ConfigError


def check_models(configuration: Configuration) -> None:
    """Look the models up in the manifest, without loading them.

    Raises ModelError on an unknown model, ConfigError on an input size that a model cannot take and on a class in
    ``objects`` that no model knows.
    """
    models = configuration.models
    manifest = read_manifest(models.dir)
    faults = list(_size_faults(("models", "edge"), models.edge.input_size, manifest.entry(models.edge.name)))
    if (light := models.edge_light) is not None:
        faults += _size_faults(("models", "edge_light"), light.input_size, manifest.entry(light.name))
    faults += _size_faults(("models", "cloud"), models.cloud.input_size, manifest.entry(models.cloud.name))
    for number, model in enumerate(configuration.worker.models or ()):
        faults += _size_faults(("worker", "models", number), model.input_size, manifest.entry(model.name))
    faults += _object_faults(configuration, manifest)
    if faults:
        raise ConfigError("\n".join(faults))


def _size_faults(loc: Loc, size: tuple[int, int] | None, entry: ModelEntry) -> Iterator[str]:
    stride = entry.input.stride_px
    if size is not None and any(side % stride for side in size):
        yield (
            f"{path_of((*loc, 'input_size'))} is {list(size)}; model {entry.name!r} takes multiples of {stride} px only"
        )


def _object_faults(configuration: Configuration, manifest: Manifest) -> Iterator[str]:
    models = configuration.models
    known: set[str] = set()
    for name in (models.edge.name, models.cloud.name):
        entry = manifest.entry(name)
        if entry.labels is None:
            return  # the model file has the labels
        known.update(read_label_file(manifest.folder / entry.labels, entry.output.classes))
    for number, camera in enumerate(configuration.cameras):
        for wanted in camera.objects:
            if wanted not in known:
                near = nearest(wanted, known)
                hint = f"did you mean {near!r}?" if near else "take a class of the models' label files"
                yield f"{path_of(('cameras', number, 'objects'))} has {wanted!r}, which no model knows; {hint}"
