# make setup | demo [SOURCE=...] | test | lint | lock
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SOURCE ?=
LOCK_FLAGS := --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-annotate --no-header

.PHONY: setup setup-run demo test lint lock tools servers

setup: $(VENV)/.dev
setup-run: $(VENV)/.run

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Foveate needs Python 3.11 or newer; name one with PYTHON=python3.12"; exit 2; }
	@$(PYTHON) -m venv $(VENV) 2>/dev/null || { rm -rf $(VENV); sh scripts/debian-packages.sh python3-venv && $(PYTHON) -m venv $(VENV); }

$(VENV)/.run: requirements/run.txt pyproject.toml | $(BIN)/python
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements/run.txt
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

# PyTorch without hashes: each platform has a build of its own, and any of the version that the extra names will do.
$(VENV)/.train: $(VENV)/.run
	$(BIN)/pip install --quiet --disable-pip-version-check --no-build-isolation -e '.[train]'
	@touch $@

$(VENV)/.dev: requirements/dev.txt $(VENV)/.run $(VENV)/.train
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.txt
	@touch $@

demo: setup-run
	@$(BIN)/foveate run $(if $(SOURCE),'$(SOURCE)',sample_videos/plaza.mp4 --realtime) --open

tools:
	@sh scripts/debian-packages.sh mosquitto mosquitto-clients chromium

# Real servers of the Open Inference Protocol: to test its clients with, and to measure the worker against.
servers: $(BIN)/python
	@sh scripts/inference-servers.sh $(VENV)

test: setup tools servers lint
	$(BIN)/pytest $(if $(CI),--require-tools)

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

lock:
	uv pip compile pyproject.toml --group build $(LOCK_FLAGS) -o requirements/run.txt
	uv pip compile pyproject.toml --group build --group dev $(LOCK_FLAGS) -o requirements/dev.txt
	uv pip compile requirements/triton.in --no-deps $(LOCK_FLAGS) -o requirements/triton.txt
	uv pip compile requirements/mlserver.in --no-deps $(LOCK_FLAGS) -o requirements/mlserver.txt
