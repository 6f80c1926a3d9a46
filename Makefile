# Two commands do everything: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
CORE := src/dpgm/data tests/test_public_surface.py tests/data/test_records.py tests/synthesis/test_plan.py tests/mechanisms/test_gateway.py
# Tests that run every line of privacy/ and mechanisms/.
TRACED := tests/mechanisms tests/privacy tests/testing tests/networks/test_private_sgd.py tests/networks/test_kernel_kmeans.py \
	tests/synthesis/test_verification.py tests/synthesis/test_books.py tests/synthesis/test_rows_per_person.py \
	tests/synthesis/test_domain_discovery.py src/dpgm/mechanisms src/dpgm/privacy

.PHONY: help install demo test check docs bench assure clean

help:
	@echo "make demo    install, fit the embedded sample data at epsilon = 1, write demo/report.html"
	@echo "make test    install, then lint, types, layers, and all tests that take seconds"
	@echo "make check   the fast part: lint, types, layers, tests of the core"
	@echo "make docs    the site, in site/ (open site/index.html)"
	@echo "make bench   speed and memory (prints ratios)"
	@echo 'make assure  the long runs: slow tests, fuzz, audit, proofs, planted bugs, faults; RUNS="audit proofs" for some'
	@echo "make clean   remove the environment and everything that was built"

$(STAMP): pyproject.toml constraints.txt
	@echo "== dpgm: creating $(VENV) and installing (torch is pinned in constraints.txt; a few minutes the first time)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/pip install -q --disable-pip-version-check -c constraints.txt "torch==2.13.0" hatchling editables
	@$(BIN)/pip install -q --disable-pip-version-check -c constraints.txt --no-build-isolation -e ".[dev]"
	@npm install --silent --no-save --prefix $(VENV)/node axe-core@4.14.1 >/dev/null 2>&1 || echo "== dpgm: npm is not here or has no network: axe-core's tests of the studio will be skipped"
	@touch $(STAMP)

install: $(STAMP)

demo: $(STAMP)
	@echo "== dpgm: demo on simulated data (50,000 people, epsilon = 1)"
	@$(BIN)/dpgm demo --out demo

define LINT
@echo "== dpgm: ruff"
@$(BIN)/ruff check . && $(BIN)/ruff format --check .
@echo "== dpgm: mypy --strict"
@$(BIN)/mypy
@echo "== dpgm: layers"
@$(BIN)/lint-imports
endef

check: $(STAMP)
	$(LINT)
	@echo "== dpgm: core tests"
	@OMP_NUM_THREADS=1 $(BIN)/pytest -q -n 2 $(CORE)

test: $(STAMP)
	$(LINT)
	@echo "== dpgm: tests of privacy/ and mechanisms/, traced: tracing all tests would take a minute more"
	@OMP_NUM_THREADS=1 $(BIN)/pytest -q -n 2 --cov --cov-report= $(TRACED)
	@echo "== dpgm: every line of privacy/ and mechanisms/ is tested"
	@$(BIN)/coverage report --skip-covered --include='src/dpgm/privacy/*,src/dpgm/mechanisms/*' --fail-under=100
	@echo "== dpgm: all other tests"
	@OMP_NUM_THREADS=1 $(BIN)/pytest -q -n 2 $(TRACED:%=--ignore=%)

docs: $(STAMP)
	@$(BIN)/pip install -q --disable-pip-version-check -c constraints.txt --no-build-isolation -e ".[docs]"
	@echo "== dpgm: the site"
	@$(BIN)/python tools/docs_reference.py
	@NO_MKDOCS_2_WARNING=1 PYTHONPATH=src $(BIN)/python -m mkdocs build --quiet --strict --site-dir site
	@echo "open site/index.html"

bench: $(STAMP)
	@for script in benchmarks/[a-z]*.py; do echo "== $$script"; OMP_NUM_THREADS=1 $(BIN)/python $$script --quick; done

RUNS ?=
assure: $(STAMP)
	@$(BIN)/python tools/assure.py $(RUNS)

clean:
	rm -rf $(VENV) demo site dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache
