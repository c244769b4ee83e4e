"""Real servers of the Open Inference Protocol v2, with an ONNX model behind them as "fake", version 1."""

import json
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import onnx

from foveate.bench.triton_server import TritonModel, triton_serving
from tests.support.brokers import HOST, free_port

START_LIMIT_S = 50.0

_TRITON = """\
import onnxruntime as ort
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def initialize(self, args):
        options = ort.SessionOptions()
        options.intra_op_num_threads = 1
        self.session = ort.InferenceSession({path!r}, options, providers=["CPUExecutionProvider"])

    def execute(self, requests):
        responses = []
        for request in requests:
            image = pb_utils.get_input_tensor_by_name(request, "image").as_numpy()
            try:
                found = self.session.run({outputs!r}, {{"image": image}})
            except Exception as error:
                responses.append(pb_utils.InferenceResponse(error=pb_utils.TritonError(str(error))))
                continue
            tensors = [pb_utils.Tensor(name, each) for name, each in zip({outputs!r}, found)]
            responses.append(pb_utils.InferenceResponse(tensors))
        return responses
"""

_MLSERVER = """\
import onnxruntime as ort
from mlserver import MLModel
from mlserver.codecs import NumpyCodec
from mlserver.types import InferenceResponse, MetadataTensor

class Fake(MLModel):
    async def load(self):
        options = ort.SessionOptions()
        options.intra_op_num_threads = 1
        self.session = ort.InferenceSession({path!r}, options, providers=["CPUExecutionProvider"])
        self.inputs = [MetadataTensor(name="image", datatype="FP32", shape={input!r})]
        self.outputs = [MetadataTensor(name=name, datatype="FP32", shape=[-1, -1, -1]) for name in {outputs!r}]
        return True

    async def predict(self, payload):
        image = NumpyCodec.decode_input(payload.inputs[0])
        found = self.session.run({outputs!r}, {{"image": image}})
        outputs = [NumpyCodec.encode_output(name, each) for name, each in zip({outputs!r}, found)]
        return InferenceResponse(model_name=self.name, model_version=self.version, outputs=outputs)
"""


@contextmanager
def triton_server(folder: Path, model: onnx.ModelProto, work: Path) -> Iterator[dict[str, str]]:
    """Serve the model; its addresses by scheme."""
    path, outputs, shape = _saved(model, work)
    config = f"""
max_batch_size: 16
input [{{ name: "image" data_type: TYPE_FP32 dims: {shape[1:]} }}]
output [{", ".join(f'{{ name: "{name}" data_type: TYPE_FP32 dims: [-1, -1] }}' for name in outputs)}]
instance_group [{{ kind: KIND_CPU }}]
"""
    code = _TRITON.format(path=str(path), outputs=outputs)
    with triton_serving(folder, [TritonModel("fake", config, code)], work) as ports:
        yield {"http": f"http://{HOST}:{ports.http}/v2/models/fake", "grpc": f"grpc://{HOST}:{ports.grpc}/fake"}


@contextmanager
def mlserver_server(folder: Path, model: onnx.ModelProto, work: Path) -> Iterator[dict[str, str]]:
    """Serve the model; its addresses by scheme."""
    path, outputs, shape = _saved(model, work)
    http, grpc, metrics = free_port(), free_port(), free_port()
    (work / "fake_runtime.py").write_text(_MLSERVER.format(path=str(path), outputs=outputs, input=shape))
    told = {"name": "fake", "implementation": "fake_runtime.Fake", "parameters": {"version": "1"}}
    (work / "model-settings.json").write_text(json.dumps(told))
    settings = {"http_port": http, "grpc_port": grpc, "metrics_port": metrics, "host": HOST, "parallel_workers": 0}
    (work / "settings.json").write_text(json.dumps(settings | {"debug": False}))
    with (work / "mlserver.log").open("wb") as log:
        command = [str(folder / "bin" / "mlserver"), "start", str(work)]
        process = subprocess.Popen(command, cwd=work, stdout=log, stderr=subprocess.STDOUT)
        try:
            _wait_ready(process, f"http://{HOST}:{http}/v2/health/ready", work / "mlserver.log")
            yield {"http": f"http://{HOST}:{http}/v2/models/fake", "grpc": f"grpc://{HOST}:{grpc}/fake"}
        finally:
            process.terminate()
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def mlserver_folder() -> Path | None:
    """Where ``make servers`` puts it."""
    folder = Path(sys.prefix) / "mlserver"
    return folder if (folder / "installed.txt").is_file() else None


def _saved(model: onnx.ModelProto, work: Path) -> tuple[Path, list[str], list[int]]:
    """The file, the outputs, and the shape of the input with -1 where a side is free."""
    path = work / "fake.onnx"
    path.write_bytes(model.SerializeToString())
    sides = model.graph.input[0].type.tensor_type.shape.dim
    shape = [side.dim_value if side.HasField("dim_value") else -1 for side in sides]
    return path, [output.name for output in model.graph.output], shape


def _wait_ready(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    for _ in range(round(START_LIMIT_S / 0.05)):
        assert process.poll() is None, log.read_text("utf-8", "replace")[-2000:]
        try:
            with urllib.request.urlopen(url, timeout=1.0):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.05)
    raise AssertionError(f"not ready after {START_LIMIT_S:g} s: {log.read_text('utf-8', 'replace')[-2000:]}")
