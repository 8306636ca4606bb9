# People and CI run the same. `make demo` and `make test` set themselves up on a fresh machine.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready

.PHONY: install clients demo check test fuzz bench clean
.DEFAULT_GOAL := test

install: $(READY)

$(READY): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable . --group dev
	touch $@

# The real clients for the end-to-end tests, at the versions these were written for. Without them they are skipped.
CLIENTS ?= $(HOME)/.cache/backstory-clients
clients:
	npm install --no-audit --no-fund --prefix $(CLIENTS)/claude-latest @anthropic-ai/claude-code@2.1.330
	npm install --no-audit --no-fund --prefix $(CLIENTS)/codex @openai/codex@0.169.0

demo: $(READY)
	sh demo/demo.sh $(BIN)/backstory

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test: $(READY)
	$(BIN)/python -m pytest -n auto

# Longer than a test run may take: what is tested by examples, again and again, each round with examples of its own.
ROUNDS ?= 20
fuzz: $(READY)
	for round in $$(seq $(ROUNDS)); do $(BIN)/python -m pytest -n auto -m hypothesis || exit 1; done

# LOGS names a folder shaped like a home folder; the samples that come with the project are small.
LOGS ?= demo/home
bench: $(READY)
	$(BIN)/python bench/ingest.py $(LOGS)
	$(BIN)/python bench/append.py
	$(BIN)/python bench/startup.py $(LOGS)
	$(BIN)/python bench/run.py

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis dist
