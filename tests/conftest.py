"""Fixtures and rules for all tests."""

import shutil

import pytest
from hypothesis import settings

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
