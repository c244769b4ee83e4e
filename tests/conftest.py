"""Fixtures and rules for all tests."""

import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from foveate.bench.triton_server import triton_folder
from tests.support.inference_servers import mlserver_folder

# How long an example takes says more about the machine than about the code.
settings.register_profile("foveate", deadline=None)
settings.load_profile("foveate")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--require-tools", action="store_true", help="a test that lacks a tool fails instead of skipping")


def _need(config: pytest.Config, found: bool, what: str) -> None:
    if found:
        return
    if config.getoption("--require-tools"):
        pytest.fail(f"{what} is missing")
    pytest.skip(f"{what} is missing")


@pytest.fixture
def mosquitto(request: pytest.FixtureRequest) -> str:
    """Path of the mosquitto broker."""
    path = shutil.which("mosquitto") or shutil.which("mosquitto", path="/usr/sbin")
    _need(request.config, path is not None, "mosquitto")
    assert path is not None
    return path


@pytest.fixture
def chromium(request: pytest.FixtureRequest) -> str:
    """Path of Chromium."""
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    _need(request.config, path is not None, "chromium")
    assert path is not None
    return path


@pytest.fixture(scope="session")
def triton(request: pytest.FixtureRequest) -> Path:
    """Folder of the Triton server."""
    folder = triton_folder()
    _need(request.config, folder is not None, "Triton (make servers)")
    assert folder is not None
    return folder


@pytest.fixture(scope="session")
def mlserver(request: pytest.FixtureRequest) -> Path:
    """Folder of MLServer's virtual environment."""
    folder = mlserver_folder()
    _need(request.config, folder is not None, "MLServer (make servers)")
    assert folder is not None
    return folder


@pytest.fixture
def public_folder() -> Iterator[Path]:
    """A folder that mosquitto, which leaves root, may read."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.fixture
def authority(public_folder: Path) -> Callable[[str, int], Path]:
    """Make a certificate for a DNS name, valid for some days, signed by its own authority in ``ca.pem`` beside it."""

    def make(name: str, days: int) -> Path:
        folder = public_folder / f"{name}{days}"
        folder.mkdir()
        quiet = {"check": True, "capture_output": True, "cwd": folder}
        new = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
        subprocess.run([*new, "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=ca"], **quiet)  # type: ignore[call-overload] # one dict of options
        request = ["openssl", "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
        subprocess.run([*request, "-keyout", "key.pem", "-out", "req.pem", "-subj", "/CN=broker"], **quiet)  # type: ignore[call-overload] # as above
        (folder / "san").write_text(f"subjectAltName=DNS:{name}\n")
        sign = ["openssl", "x509", "-req", "-in", "req.pem", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial"]
        subprocess.run([*sign, "-days", str(days), "-extfile", "san", "-out", "cert.pem"], **quiet)  # type: ignore[call-overload] # as above
        for file in folder.iterdir():
            file.chmod(0o644)
        return folder

    return make
