# People and CI run the same. `make demo` and `make test` set themselves up on a fresh machine.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready

.PHONY: install clients demo check quick test long fuzz bench clean
.DEFAULT_GOAL := test

install: $(READY)

$(READY): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable . --group dev
	touch $@

# The real clients for the end-to-end tests, at the versions these were written for: 340 MB, fetched once.
CLIENTS ?= $(or $(BACKSTORY_CLIENTS),$(HOME)/.cache/backstory-clients)
NPM     := npm install --no-audit --no-fund --no-update-notifier --fetch-retries=1 --fetch-timeout=60000
# A native program is an optional dependency, which npm passes over in silence when it cannot be fetched.
define client
	@dir='$(CLIENTS)/$(1)'; has() { grep -qs '"version": "$(3)"' "$$dir/node_modules/$(2)/package.json" && ls $$dir/$(4) >/dev/null 2>&1; }; \
	if has; then echo "$(2) $(3) is in $$dir"; else $(NPM) --prefix "$$dir" $(2)@$(3) && has; fi
endef
clients:
	$(call client,claude-latest,@anthropic-ai/claude-code,2.1.330,node_modules/@anthropic-ai/claude-code-*/claude)
	$(call client,codex,@openai/codex,0.169.0,node_modules/@openai/codex-*/vendor/*/bin/codex)

demo: $(READY)
	sh demo/demo.sh $(BIN)/backstory

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# While you work: every room, without what is marked slow; under two minutes on two cores. It does not replace `make test`.
quick: $(READY)
	$(BIN)/python -m pytest -n auto --dist worksteal -m "not slow"

# What is skipped is listed with its reason: a test that was not run is not a test that passed.
test: $(READY)
	$(BIN)/python -m pytest -n auto --dist worksteal -rs

# The same tests at every step instead of some, with more examples, and with processes that are started. Takes long.
long: $(READY)
	BACKSTORY_LONG=1 BACKSTORY_STARTED=1 $(BIN)/python -m pytest -n auto --dist worksteal -rs

# Longer than a test run may take: what is tested by examples, again and again, each round with examples of its own.
ROUNDS ?= 20
fuzz: $(READY)
	for round in $$(seq $(ROUNDS)); do BACKSTORY_LONG=1 $(BIN)/python -m pytest -n auto -m hypothesis || exit 1; done

# Every figure beside its bound: docs/performance.md. LOGS is a home folder with agents' logs or an archive of one, BEFORE a
# revision to compare with, PEERS a folder for other indexers, JSON a file for the figures. With QUICK=1 it takes 3 minutes.
LOGS   ?= $(firstword $(wildcard ../shared/corpus/logs.tar.xz) demo/home)
BEFORE ?= 43a8c7e
PEERS  ?= .peers
bench: $(READY)
	$(BIN)/python -m bench '$(LOGS)' --before '$(BEFORE)' --peers '$(PEERS)' $(if $(RUNS),--runs $(RUNS)) \
		$(if $(JSON),--json '$(JSON)') $(if $(QUICK),--quick) $(if $(PROFILE),--profile)

clean:
	rm -rf $(VENV) .peers .mypy_cache .ruff_cache .pytest_cache .hypothesis dist
