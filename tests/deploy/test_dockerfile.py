"""The Dockerfile holds together; hadolint and a build need tools that a checkout does not have, this does not."""

import fnmatch
import json
import re
import subprocess
import tomllib
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FINAL_STAGES = ("edge", "worker")


@dataclass(frozen=True, slots=True)
class Step:
    """One instruction of one stage."""

    stage: str
    word: str
    rest: str


def steps() -> list[Step]:
    text = re.sub(r"\\\n\s*", "", (ROOT / "Dockerfile").read_text("utf-8"))
    found: list[Step] = []
    stage = ""
    for line in text.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        word, _, rest = line.partition(" ")
        if word == "FROM":
            stage = rest.rsplit(" AS ", 1)[1]
        found.append(Step(stage, word, rest.strip()))
    return found


STEPS = steps()


def bases() -> dict[str, str]:
    return {step.stage: step.rest.split(" AS ")[0] for step in STEPS if step.word == "FROM"}


def lineage(stage: str) -> list[str]:
    """The stage and those it is made from, the first one first."""
    chain = [stage]
    while (base := bases()[chain[0]]) in bases():
        chain.insert(0, base)
    return chain


def last(stage: str, word: str) -> str:
    """What holds in a stage for an instruction of which the last one counts."""
    values = [step.rest for part in lineage(stage) for step in STEPS if step.stage == part and step.word == word]
    assert values, f"{stage} has no {word}"
    return values[-1]


def copied() -> list[str]:
    """The sources that are copied from the checkout."""
    rests = [step.rest for step in STEPS if step.word == "COPY" and not step.rest.startswith("--from=")]
    return [source.rstrip("/") for rest in rests for source in rest.split()[:-1]]


def in_build_context(path: str) -> bool:
    """Whether .dockerignore lets a file through: the last pattern that matches it, or a folder above it, decides."""
    kept = True
    above = [path, *(str(parent) for parent in Path(path).parents if str(parent) != ".")]
    for line in (ROOT / ".dockerignore").read_text("utf-8").splitlines():
        pattern = line.strip().removeprefix("!").removeprefix("**/")
        if line.startswith("#") or not pattern:
            continue
        whole = "**/" not in line
        names = above if whole else [part for name in above for part in Path(name).parts]
        if any(fnmatch.fnmatch(name, pattern) and (pattern == "*" or name.count("/") == pattern.count("/") or not whole)
               for name in names):  # fmt: skip
            kept = line.startswith("!")
    return kept


def test_every_source_that_is_copied_exists_and_is_in_the_build_context() -> None:
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    assert len(copied()) > 8
    for source in copied():
        assert (ROOT / source).exists(), source
        inside = [name for name in tracked if name == source or name.startswith(f"{source}/")]
        assert any(in_build_context(name) for name in inside) or not inside, source


@pytest.mark.parametrize("package", ["pipeline", "edge_agent", "cloud_worker", "foveate"])
def test_every_package_that_is_installed_is_copied(package: str) -> None:
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["setuptools"]["packages"]
    assert package in {name.split(".")[0] for name in listed}
    assert {name.split(".")[0] for name in listed} <= set(copied())
    for name in listed:
        assert in_build_context(f"{name.replace('.', '/')}/__init__.py"), name


def test_models_travel_with_the_image_and_nothing_secret_or_large_does() -> None:
    assert "models" in copied()
    manifest = tomllib.loads((ROOT / "models" / "manifest.toml").read_text("utf-8"))
    for entry in manifest["model"]:
        assert in_build_context(f"models/{entry['file']}")
        assert in_build_context(f"models/{entry['labels']}")
    for outside in (".git/config", ".venv/bin/python", "foveate.yaml", "secrets/token", "sample_videos/plaza.mp4",
                    "foveate/__pycache__/cli.cpython-312.pyc"):  # fmt: skip
        assert not in_build_context(outside), outside


def test_every_stage_that_is_referred_to_is_defined_before() -> None:
    defined: list[str] = []
    for step in STEPS:
        if step.word == "FROM":
            base = step.rest.split(" AS ")[0]
            assert base in defined or re.fullmatch(r"python:\$\{PYTHON_VERSION\}-slim-\w+", base), base
            defined.append(step.stage)
        for name in re.findall(r"--from=(\S+)", step.rest):
            assert name in defined, name
    assert set(FINAL_STAGES) <= set(defined)


def test_the_images_python_is_one_that_the_package_takes() -> None:
    version = next(step.rest for step in STEPS if step.word == "ARG").removeprefix("PYTHON_VERSION=")
    requires = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["requires-python"]
    least, below = (tuple(map(int, part.strip("><=").split("."))) for part in requires.split(","))
    assert least <= tuple(map(int, version.split("."))) < below


@pytest.mark.parametrize("stage", FINAL_STAGES)
def test_the_final_images_run_as_a_user_that_is_not_root(stage: str) -> None:
    user = last(stage, "USER").split(":")[0]
    assert user.isdigit()
    assert int(user) > 0


@pytest.mark.parametrize("stage", FINAL_STAGES)
def test_the_final_images_run_the_command_of_their_name_and_check_its_health(stage: str) -> None:
    assert json.loads(last(stage, "ENTRYPOINT")) == ["foveate"]
    assert json.loads(last(stage, "CMD"))[0] == stage
    check = json.loads(last(stage, "HEALTHCHECK").split("CMD ", 1)[1])
    assert check[2] == stage
    assert check[1] == f"/opt/foveate/{Path(check[1]).name}"
    assert f"deploy/{Path(check[1]).name}" in copied()


def test_the_dependencies_are_installed_from_the_lock_by_hash() -> None:
    installs = [step.rest for step in STEPS if step.word == "RUN" and "pip install" in step.rest]
    assert "--require-hashes" in installs[0]
    assert "-r requirements/run.txt" in installs[0]
    assert all("--require-hashes" in rest or "--no-deps" in rest for rest in installs)


def test_the_models_folder_of_the_image_is_named() -> None:
    target = next(step.rest.split()[-1] for step in STEPS if step.word == "COPY" and step.rest.startswith("models"))
    assert f"FOVEATE_MODELS={target.rstrip('/')}" in last("edge", "ENV").split()
