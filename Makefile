# Each target makes its own environment in .venv when there is none.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test test-slow bench browser lint setup kernels

setup: .venv/.ready

.venv/.ready: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[dev]"
	touch $@

# Libraries that only the benchmarks compare with.
.venv/.ready-bench: .venv/.ready
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[dev,bench]"
	touch $@

# Compares all methods on a rescue grid, and writes demo.html.
demo: setup
	$(BIN)/rue compare disaster:width=8,height=8,samples=15,seed=1 --report demo.html

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# The kernels are compiled before the tests, or each of their processes would compile them for itself.
kernels: setup
	$(BIN)/rue warm

test: lint kernels
	$(BIN)/pytest -n 2 --dist worksteal

# Debian's Chromium, in which the tests open the page; without one they say so and are skipped.
browser:
	command -v chromium && command -v chromedriver || (apt-get update -qq && apt-get install -y -qq chromium chromium-driver)

# Other tools that slow tests compare with; where they cannot be installed, those tests say so and are skipped.
.venv/.ready-oracle: .venv/.ready
	-$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[dev,oracle]"
	touch $@

test-slow: .venv/.ready-oracle
	$(BIN)/pytest -m slow

bench: .venv/.ready-bench
	$(BIN)/python -m benchmarks
