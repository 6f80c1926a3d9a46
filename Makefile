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

.PHONY: docs wheel help demo test lint check slow bench clean install metamorphic audit proofs mutants faults fuzz security

help:
	@echo "make demo   install, fit the embedded sample data at epsilon = 1, write demo/report.html"
	@echo "make test   install, then lint, types, layering, unit and integration tests"
	@echo "make check  the fast part: lint, types, layering, unit tests of the core"
	@echo "make metamorphic  reading is record by record: 20,000 pairs of neighbouring files"
	@echo "make fuzz   changed files and releases: read or refused in a sentence, within memory and time"
	@echo "make slow   the long tests: statistics, real data, end to end"
	@echo "make audit   attack the pipeline: lower bounds on epsilon against the claims"
	@echo "make proofs  playback, sensitivity, coins and noise of whole fits, at length"
	@echo "make mutants planted bugs: each must be found"
	@echo "make faults  kills, failing writes, full disks, damaged checkpoints: writes docs/security/faults.json"
	@echo "make docs   the site, in site/ (open site/index.html)"
	@echo "make wheel  build wheel and sdist in dist/, install the wheel in an empty environment, import it, run a small demo"
	@echo "make bench  speed and memory (prints ratios)"
	@echo "make security  promise, test, figure: runs the tests, gathers docs/security/*.json, writes SECURITY.md"

$(STAMP): pyproject.toml constraints.txt
	@echo "== dpgm: creating $(VENV) and installing (torch is pinned in constraints.txt; a few minutes the first time)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/pip install -q --disable-pip-version-check -c constraints.txt "torch==2.13.0" hatchling editables
	@$(BIN)/pip install -q --disable-pip-version-check -c constraints.txt --no-build-isolation -e ".[dev]"
	@touch $(STAMP)

install: $(STAMP)

demo: $(STAMP)
	@echo "== dpgm: demo on simulated data (50,000 people, epsilon = 1)"
	@$(BIN)/dpgm demo --out demo

lint: $(STAMP)
	@echo "== dpgm: ruff"
	@$(BIN)/ruff check . && $(BIN)/ruff format --check .
	@echo "== dpgm: mypy --strict"
	@$(BIN)/mypy
	@echo "== dpgm: layers"
	@$(BIN)/lint-imports

check: lint
	@echo "== dpgm: core tests"
	@OMP_NUM_THREADS=1 $(BIN)/pytest -q -n 2 $(CORE)

test: lint
	@echo "== dpgm: tests of privacy/ and mechanisms/, traced: tracing all tests would take a minute more"
	@OMP_NUM_THREADS=1 $(BIN)/pytest -q -n 2 --cov --cov-report= $(TRACED)
	@echo "== dpgm: every line of privacy/ and mechanisms/ is tested"
	@$(BIN)/coverage report --skip-covered --include='src/dpgm/privacy/*,src/dpgm/mechanisms/*' --fail-under=100
	@echo "== dpgm: all other tests"
	@OMP_NUM_THREADS=1 $(BIN)/pytest -q -n 2 $(TRACED:%=--ignore=%)

fuzz: $(STAMP)
	@echo "== dpgm: changed files of every format (writes docs/security/reader_fuzz.json)"
	@OMP_NUM_THREADS=1 $(BIN)/python tests/harness/reader_fuzz.py --out docs/security/reader_fuzz.json
	@echo "== dpgm: mutated releases (writes docs/security/release_fuzz.json)"
	@OMP_NUM_THREADS=1 $(BIN)/python tests/harness/release_fuzz.py --count 100000 --workers 2 --out docs/security/release_fuzz.json

metamorphic: $(STAMP)
	@echo "== dpgm: 20,000 pairs of files that differ in one row, all formats and shapes (writes docs/security/metamorphic.json)"
	@OMP_NUM_THREADS=1 $(BIN)/python tests/harness/metamorphic.py --pairs 20000 --out docs/security/metamorphic.json

slow: $(STAMP)
	@OMP_NUM_THREADS=1 $(BIN)/pytest -q -m slow

audit: $(STAMP)
	@echo "== dpgm: attacking its own pipeline (writes docs/security/audit.json)"
	@mkdir -p docs/security
	@OMP_NUM_THREADS=1 $(BIN)/dpgm audit --out docs/security/audit.json

proofs: $(STAMP)
	@echo "== dpgm: the privacy proof executed on whole fits (writes docs/security/proofs.json)"
	@mkdir -p docs/security
	@OMP_NUM_THREADS=1 $(BIN)/python tools/proofs.py --out docs/security/proofs.json

mutants: $(STAMP)
	@echo "== dpgm: planted bugs, each must be killed by its tests (writes docs/security/mutants.json)"
	@mkdir -p docs/security
	@OMP_NUM_THREADS=1 $(BIN)/python tools/mutants/run.py --out docs/security/mutants.json

faults: $(STAMP)
	@echo "== dpgm: kills, failing writes, full disks, damaged checkpoints, reservations at once (about a quarter of an hour)"
	@OMP_NUM_THREADS=1 PYTHONPATH=tests/support $(BIN)/python tests/harness/faults.py --out docs/security/faults.json

bench: $(STAMP)
	@for script in benchmarks/[a-z]*.py; do echo "== $$script"; OMP_NUM_THREADS=1 $(BIN)/python $$script --quick; done

security: $(STAMP)
	@echo "== dpgm: promises, tests, figures"
	@OMP_NUM_THREADS=1 $(BIN)/python tools/security.py

docs: $(STAMP)
	@$(BIN)/pip install -q --disable-pip-version-check -c constraints.txt --no-build-isolation -e ".[docs]"
	@echo "== dpgm: the site"
	@$(BIN)/python tools/docs_reference.py
	@NO_MKDOCS_2_WARNING=1 PYTHONPATH=src $(BIN)/python -m mkdocs build --quiet --strict --site-dir site
	@echo "open site/index.html"

DIST ?= dist
wheel: $(STAMP)
	@$(BIN)/python tools/check_wheel.py --out $(DIST)

clean:
	rm -rf $(VENV) demo site dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache
