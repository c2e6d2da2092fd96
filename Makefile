# Each target makes its own environment in .venv when there is none.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo site wheel test test-slow interpreted coverage fuzz bench browser lint setup kernels

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

# The documentation as a site, in build/site: open build/site/index.html. It needs no network; warnings are errors.
site: setup
	$(BIN)/sphinx-build --fail-on-warning --keep-going --quiet -d build/doctrees docs build/site

# Wheel and sdist, in dist/, tried in an empty environment; PYTHONS are further interpreters to try, separated by colons.
wheel: setup
	$(BIN)/python -m build --outdir dist .
	$(if $(PYTHONS),RUE_PYTHONS=$(PYTHONS)) $(BIN)/pytest -m slow tests/test_wheel_slow.py

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
	$(MAKE) --no-print-directory interpreted

# Tests of kernels on small models, with the kernels as plain Python: numpy tells of a NaN that compiled code would hide.
INTERPRETED := tests/test_structure.py tests/test_optimal.py tests/test_traps.py tests/test_upper_vectors.py \
	tests/test_sums.py::test_intervals_hold_exact_values tests/test_sums.py::test_few_samples_at_first \
	tests/test_growth.py::test_a_grown_graph_is_that_of_all_samples \
	tests/test_corpus.py --deselect tests/test_corpus.py::test_a_short_run_with_a_new_seed
interpreted: setup
	NUMBA_DISABLE_JIT=1 $(BIN)/pytest $(INTERPRETED)

# How much of src/rue the tests run through: Python by all tests, kernels by those that interpret them.
coverage: kernels
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest
	NUMBA_DISABLE_JIT=1 $(BIN)/coverage run -m pytest $(INTERPRETED)
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report --skip-covered --include='src/rue/*_kernels.py,src/rue/*/*_kernels.py,src/rue/*/*/*_kernels.py'
	$(BIN)/coverage report --skip-covered --fail-under=95

# Random models and mutated files for a number of seconds, or with a seed: the same ones again. What fails is in fuzz/corpus.
SECONDS ?= 60
fuzz: kernels
	$(BIN)/python -m fuzz --seconds $(SECONDS) $(if $(SEED),--seed $(SEED))

# Debian's Chromium, in which the tests open the page; without one they say so and are skipped.
browser:
	command -v chromium && command -v chromedriver || (apt-get update -qq && apt-get install -y -qq chromium chromium-driver)

# Other tools that slow tests compare with; where they cannot be installed, those tests say so and are skipped.
.venv/.ready-oracle: .venv/.ready
	-$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[dev,oracle]"
	touch $@

# What takes longest comes last, for those who stop after a while; FLAGS are for pytest.
test-slow: .venv/.ready-oracle
	$(BIN)/pytest -m slow --ignore=tests/test_paper_slow.py $(FLAGS)
	$(BIN)/pytest -m slow tests/test_paper_slow.py $(FLAGS)

bench: .venv/.ready-bench
	$(BIN)/python -m benchmarks
