PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-all check format bench clean

help: ## show this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/\1|\2/' | awk -F'|' '{printf "make %-10s %s\n", $$1, $$2}'

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	@touch $@

setup: $(STAMP) ## make .venv and install Plica with everything that tests need

demo: $(STAMP) ## train a circuit on handwritten digits, then look at runs/demo
	$(BIN)/plica train digits --out runs/demo

test: $(STAMP) ## run the test suite
	$(BIN)/python -m pytest

test-all: $(STAMP) ## run the test suite with the full product of layers, semirings, flags and sizes
	$(BIN)/python -m pytest -m 'full or not full'

check: $(STAMP) ## check format, lint and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: $(STAMP) ## format the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(STAMP) ## run the benchmarks (minutes)
	$(BIN)/python -m benchmarks.run

clean: ## remove .venv and caches
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis
