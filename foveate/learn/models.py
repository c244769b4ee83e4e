"""Loading the models that are judged: the general one of the manifest, and learned ones from their files."""

from foveate.learn.values import GeneralModel, LearnedModel
from foveate.training.order import BaseModel, Trained
from pipeline.detectors.labels import metadata_labels, read_label_file
from pipeline.detectors.loading import load_detector, load_file
from pipeline.detectors.manifest import read_manifest, verified_path
from pipeline.detectors.onnx import OnnxDetector
from pipeline.detectors.session import open_session

TWIN_SUFFIX = "-int8"


def load_general(model: GeneralModel) -> OnnxDetector:
    """The general edge model on one thread. Raises ModelError."""
    return load_detector(model.name, input_size=model.input_size, threads=1, models_dir=model.models_dir)


def learned_model(trained: Trained) -> LearnedModel:
    """The model of a training."""
    return LearnedModel(file=trained.file, entry=trained.entry, labels=trained.labels, input_size=trained.input_size)


def load_learned(model: LearnedModel) -> OnnxDetector:
    """A learned model on one thread. Raises ModelError where it breaks its contract."""
    return load_file(model.file, model.entry, labels=model.labels, input_size=model.input_size, threads=1)


def base_model(general: GeneralModel) -> BaseModel:
    """What is adapted: the float model whose 8-bit twin the general edge model is, or itself. Raises ModelError."""
    manifest = read_manifest(general.models_dir)
    names = {entry.name for entry in manifest.entries}
    original = general.name.removesuffix(TWIN_SUFFIX)
    entry = manifest.entry(original if original in names else general.name)
    file = verified_path(manifest, entry)
    classes = entry.output.classes
    if entry.labels is not None:
        labels = read_label_file(manifest.folder / entry.labels, classes)
    else:
        session = open_session(file, 1, one_shape=False)
        labels = metadata_labels(session.get_modelmeta().custom_metadata_map, classes, str(file))
    return BaseModel(file=file, entry=entry, labels=labels, input_size=general.input_size)
