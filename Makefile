# make help lists the targets. Everything runs in the virtual environment .venv, which is made on first use.
PYTHON ?= $(firstword $(foreach python,python3.11 python3.12 python3.13 python3,$(shell command -v $(python))))
VENV ?= .venv
BIN := $(VENV)/bin
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses auto --dist worksteal
EXPERIMENT ?=
LAUNCH ?= local
ARGS ?=
SWEEP ?= sweeps/demo
FIGURES := rllcs_simple induction_rllcs multigram_rllcs final_by_type drllcs memorization compositions stage_scores baselines \
	metric_comparison ablations_clustering

OVERRIDES := launch=$(LAUNCH) $(if $(EXPERIMENT),experiment=$(EXPERIMENT)) $(ARGS)

.DEFAULT_GOAL := help
.PHONY: help sweep status cluster report figures install test test-fast lint format bench clean

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

sweep: $(BIN)/rllc ## the main job, from training to figures; EXPERIMENT=seeds LAUNCH=local ARGS="sampler.gamma=100"
	$(BIN)/rllc sweep $(OVERRIDES)

status: $(BIN)/rllc ## done, diverged, failed and missing tasks of the sweep
	$(BIN)/rllc status $(OVERRIDES)

cluster: $(BIN)/rllc ## group the gathered curves again, offline
	$(BIN)/rllc cluster $(OVERRIDES)

report: $(BIN)/rllc ## draw the figures and the page again, offline
	$(BIN)/rllc report $(OVERRIDES)

figures: $(BIN)/rllc ## the paper's figures of a finished sweep; SWEEP=sweeps/demo
	@for script in $(FIGURES); do $(BIN)/python analysis/$$script.py $(SWEEP) || exit; done

install: $(BIN)/rllc ## the virtual environment with rllc, its extras and the developers' tools

$(BIN)/rllc: pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "make: no python3.11, 3.12 or 3.13 was found; name one with PYTHON=/path/to/python" >&2; exit 2; }
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' || \
		{ echo "make: $(PYTHON) is not Python 3.11, 3.12 or 3.13; name one with PYTHON=/path/to/python" >&2; exit 2; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt torch
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[all,dev]'
	@touch $@

test: $(BIN)/rllc ## all tests but those that need a GPU
	$(PYTEST) -m "not gpu"

test-fast: $(BIN)/rllc ## the unit tests
	$(PYTEST) -m "not slow and not slurm and not browser and not gpu"

lint: $(BIN)/rllc ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(BIN)/rllc ## format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(BIN)/rllc ## cost of a chain's draw beside devinterp's
	$(BIN)/python bench/chain_cost.py

clean: ## remove the virtual environment and the caches, never runs, sweeps or data
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache
