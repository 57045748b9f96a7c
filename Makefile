# Each target sets up what it needs in .venv, once. `make help` lists them.

PYTHON ?= python3
# The one place that says which torch to install: a pip requirement.
# On a GPU machine `make TORCH=torch …` takes the newest build that pip finds.
TORCH ?= torch==2.13.0
# Further arguments for pytest: `make test ARGS="-k cues -x"`.
ARGS ?=

VENV := .venv
BIN := $(VENV)/bin
PIP_INSTALL := $(BIN)/python -m pip install --disable-pip-version-check -qq

# Models and data sets are never fetched while testing.
test test-unit check-slow: export HF_HUB_OFFLINE := 1

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: help demo test test-unit check-slow lint fmt bench tiny-refresh clean FORCE

help:  ## list the targets
	@sed -n 's/^\([a-z-]*\):.*  ## \(.*\)$$/\1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{printf "  make %-13s %s\n", $$1, $$2}'

demo: $(VENV)/.ready-run  ## watch two small models take turns on a problem
	@$(BIN)/relay demo

test: $(VENV)/.ready-dev  ## unit and integration tests, as CI runs them
	$(BIN)/python -m pytest tests/unit tests/integration $(ARGS)

test-unit: $(VENV)/.ready-dev  ## unit tests only: no socket, no model, two minutes
	$(BIN)/python -m pytest tests/unit $(ARGS)

check-slow: $(VENV)/.ready-dev  ## the long checks: soak, large tables, memory over time
	$(BIN)/python -m pytest -m slow --timeout 3600 tests/slow $(ARGS)

lint: $(VENV)/.ready-dev  ## style (ruff) and types (mypy)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

fmt: $(VENV)/.ready-dev  ## format, and fix what ruff can fix
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.ready-run  ## what the engine costs a token and a handoff
	@$(BIN)/relay bench engine

tiny-refresh: $(VENV)/.ready-dev  ## redo all that depends on the tiny models' weights: cues, tables, captures (an hour)
	$(BIN)/python tools/tiny_refresh.py $(ARGS)

clean:  ## remove .venv and every cache folder (what was trained, in build/, stays)
	rm -rf $(VENV) dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# --- the environment ---------------------------------------------------------------------------------------------
# .made-for and .torch hold what the environment was made for; they are rewritten, and so set off a new set-up,
# only when that changes: another folder or interpreter, or another TORCH.

$(VENV)/.made-for: FORCE
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "relay needs Python 3.11 or newer; '$(PYTHON)' is $$($(PYTHON) --version 2>&1 || true). Choose one: make PYTHON=python3.12 …" >&2; exit 1; }
	@want="$(CURDIR) $$($(PYTHON) -c 'import sys; print(sys.base_prefix, sys.version.split()[0])')"; \
	if [ "$$(cat $@ 2>/dev/null)" != "$$want" ] || ! $(BIN)/python -c '' 2>/dev/null; then \
	  $(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { \
	    echo "'$(PYTHON)' cannot make virtual environments. On Debian or Ubuntu: apt install python3-venv" >&2; exit 1; }; \
	  echo "Setting up $(VENV): a few minutes, once."; \
	  rm -rf $(VENV) && $(PYTHON) -m venv $(VENV) && echo "$$want" > $@; \
	fi

$(VENV)/.torch: $(VENV)/.made-for FORCE
	@[ "$$(cat $@ 2>/dev/null)" = '$(TORCH)' ] && [ ! $(VENV)/.made-for -nt $@ ] || { \
	  $(PIP_INSTALL) --upgrade '$(TORCH)' && echo '$(TORCH)' > $@; }

# torch comes first, in a call of its own: the next one finds it there and pulls in no other build.
$(VENV)/.ready-run: $(VENV)/.torch pyproject.toml
	@$(PIP_INSTALL) -e '.[transformers]'
	@touch $@

$(VENV)/.ready-dev: $(VENV)/.torch pyproject.toml
	@$(PIP_INSTALL) -e '.[transformers,langchain,llamaindex,dev]'
	@touch $(VENV)/.ready-run $@
