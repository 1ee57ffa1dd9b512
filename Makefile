# Any Python from 3.11 to 3.14: the first of these that can make an environment; `make PYTHON=...` takes another.
PYTHONS := python3.11 python3.12 python3.13 python3.14 python3 python
FITS := import ensurepip, sys, venv; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 14))
PYTHON ?= $(shell for one in $(PYTHONS); do $$one -c '$(FITS)' 2>/dev/null && echo $$one && break; done)
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
DEMO_STAMP := $(VENV)/.installed-demo
ENGINES := $(VENV)/.engines
.DEFAULT_GOAL := help
.PHONY: help setup demo test test-all check format package explorer bench gpu docs docs-test clean

help: ## show this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/\1|\2/' | awk -F'|' '{printf "make %-10s %s\n", $$1, $$2}'

$(STAMP): SET := dev
$(DEMO_STAMP): SET := torch,draw,digits
$(STAMP) $(DEMO_STAMP): pyproject.toml constraints.txt
	@'$(or $(PYTHON),false)' -c '$(FITS)' 2>/dev/null || { \
		echo 'Plica needs Python 3.11 to 3.14 with venv and pip, but found none in: $(or $(PYTHON),$(PYTHONS)).' \
			'Install one, or name it: make PYTHON=/path/to/python ...' >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[$(SET)]'
	@touch $@

$(ENGINES): $(STAMP)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev,ray,spark,dask]'
	@touch $@

setup: $(STAMP) ## make .venv and install Plica with everything that tests need

# What the demo needs; beside other goals, or after them, everything, so that two installations never meet in .venv.
demo: $(if $(filter-out demo,$(MAKECMDGOALS))$(wildcard $(STAMP)),$(STAMP),$(DEMO_STAMP))
demo: ## train a circuit on handwritten digits, then look at runs/demo
	$(BIN)/plica train digits --out runs/demo

test test-all: export PYTHONDONTWRITEBYTECODE = # empty: each process of tests would compile all of them again
test: $(STAMP) ## run the test suite
	@$(BIN)/python -m compileall -q src # once, not in each of the processes that tests start
	$(BIN)/python -m pytest

test-all: $(ENGINES) ## run the test suite with the full product of layers, semirings, flags and sizes, in a browser and on engines
	$(BIN)/python -m pytest -m 'full or browser or not full'

check: $(STAMP) ## check format, lint and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: $(STAMP) ## format the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

package: $(STAMP) ## build wheel and sdist in dist/, and check them
	rm -rf dist
	$(BIN)/python -m build --no-isolation
	$(BIN)/twine check --strict dist/*


explorer: ## build the script of plica explore from the folder explorer; needs node and npm
	cd explorer && npm ci --ignore-scripts --no-audit --no-fund && npx tsc --noEmit && node build.mjs

bench: $(STAMP) ## run the benchmarks (minutes)
	$(BIN)/python -m benchmarks.run

DOCS_STAMP := $(VENV)/.docs
$(DOCS_STAMP): $(STAMP)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev,docs]'
	@touch $@

docs: $(DOCS_STAMP) ## build the site in docs/_build/html
	$(BIN)/python -m sphinx --builder html --jobs 2 --fail-on-warning --keep-going docs docs/_build/html

docs-test: docs ## build the site, then check its pages, links, pictures and names
	$(BIN)/python -m pytest -n 0 docs/tests

# No installation: a GPU is where some other Python has torch already. `make gpu PYTHON=... OUT=...`
OUT ?= gpu.json
gpu: ## check and measure Plica on a GPU, 8 minutes, with the torch of python3 (or PYTHON=) as it is
	$(if $(filter file,$(origin PYTHON)),python3,$(PYTHON)) -m benchmarks.gpu --out $(OUT)

clean: ## remove .venv and caches
	rm -rf $(VENV) dist .pytest_cache .mypy_cache .ruff_cache .hypothesis docs/_build docs/gallery docs/measured docs/reference/*.rst docs/reference/api
