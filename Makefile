# Everything runs inside .venv, which the first target creates with nothing but python3 >= 3.11 and pip.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.ready
# Keeps compiled tests for the next run whatever the shell says, and one BLAS thread a process: idle ones spin on the core of the other.
PYTEST := PYTHONDONTWRITEBYTECODE= OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q

.PHONY: help demo test test-times soak bytecode kernels check bench papers audit faults slow notebooks mutants wheel docs lock clean

demo: $(STAMP)  ## the demonstration
	$(BIN)/colonnade demo

# All targets, a line each.
help:
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "%-14s%s\n", $$1, $$2 }' Makefile

# More processes than cores: tests wait for other processes and disks a third of their time. A file in one process, since its
# tests share what is slow to make; in the order of the folders, so that short files come last. On Linux all tests are
# collected once, before the processes are forked (tests/forks.py); elsewhere libraries may not be forked once loaded.
SPREAD := $(if $(filter Linux,$(shell uname)),-p tests.forks --forks 6,-n 4 --dist loadfile --no-loadscope-reorder)

test: $(STAMP)  ## all tests but the long ones
	$(PYTEST) $(SPREAD)

# The slowest 20 tests.
test-times: $(STAMP)  ## the same, and the slowest 20 tests
	$(PYTEST) $(SPREAD) --durations 20

# Repeats `make test` until it is stopped, and adds a line a run to soak.txt; RUNS=n ends it, BUSY=1 keeps the cores busy beside it.
RUNS ?= 0
soak: $(STAMP)  ## repeats the tests; RUNS=n, BUSY=1
	$(BIN)/python tests/soak.py --runs '$(RUNS)' $(if $(BUSY),--busy)

# Compiles all tests and what they load, once, so that the next run has it.
bytecode: $(STAMP)  ## compiles the tests once for all their processes
	$(PYTEST) --collect-only -qq > /dev/null

# Compiles the kernels that take longest, once: else every process of the tests would do it.
kernels: $(STAMP)  ## compiles the slowest kernels once for all processes
	$(PYTEST) tests/kernels/test_samplers.py tests/kernels/test_score_bounds.py tests/kernels/test_sparse_fw.py \
	  -k 'exponential_mechanism or noisy_max or odd_columns or lazy_picks or corrective_solver'
	PYTHONPATH=. OPENBLAS_NUM_THREADS=1 $(BIN)/python -c 'import tests.helpers.warm' # those of most fits

check: $(STAMP)  ## format, lint, types, rooms, docstrings, generated documents
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/python docs/docstrings.py
	$(BIN)/python docs/generate.py --check

bench: $(STAMP)  ## benchmarks
	$(BIN)/python -m benchmarks

# The papers' figures, run again with few repeats; `python -m papers --help` says more.
papers: $(STAMP)  ## the papers' figures, with few repeats
	$(BIN)/python -m papers all

audit: $(STAMP)  ## full privacy audits
	$(PYTEST) -n 2 -m audit

# N: trials of the series that lose parties at random moments.
N ?= 10
faults: $(STAMP)  ## long series of crashes and faults; N=trials
	TRIALS=$(N) $(PYTEST) -n 2 -m fault

slow: $(STAMP)  ## tests too long for every run
	$(PYTEST) -n 2 -m slow

# Runs the notebooks of examples/ as tests; `python examples/run.py` writes their outputs into them.
notebooks: $(STAMP)  ## the notebooks of examples/
	$(PYTEST) -m notebooks

# Plants every mistake of tests/mutants/list.toml, one at a time, in a copy; ONLY=text takes those whose name or file holds it.
mutants: $(STAMP)  ## plants mistakes that tests must see; ONLY=text
	$(BIN)/python tests/mutants/run.py --only '$(ONLY)'

# Builds dist/*.whl, and tries it in a fresh environment without development tools or extras.
wheel: $(STAMP)  ## builds the wheel and tries it
	$(BIN)/python -m pip wheel . --no-deps --quiet --wheel-dir dist
	$(PYTEST) -s tests/test_packaging.py -m 'slow or not slow'

docs: $(STAMP)  ## rewrites generated documents, builds the site
	$(BIN)/python docs/generate.py
	@$(BIN)/python -m pip install --disable-pip-version-check --quiet --constraint constraints.txt --editable '.[docs]'
	$(BIN)/mkdocs build --quiet --strict
	@echo "site/index.html; with search: $(BIN)/python -m http.server --directory site"

# Writes the exact versions CI installs, and those of the container with their hashes. Run it in a fresh environment
# after changing pyproject.toml, on Linux, x86-64 and Python 3.11.
lock: $(STAMP)  ## writes the versions in use
	$(BIN)/python -m pip freeze --exclude-editable --exclude colonnade > constraints.txt
	$(BIN)/python .ci/lock.py > examples/locked-linux-x86_64.txt

clean:  ## removes .venv
	rm -rf .venv

PIP := $(BIN)/python -m pip install --disable-pip-version-check --quiet --no-compile
# Nine tenths of all that is unpacked: first, and by two processes. What fails there is left to the call behind it, which looks
# for what is missing.
LARGE := opendp|ray|llvmlite|polars-runtime-32|pyarrow|scs|scipy|pandas|statsmodels|sparsediffpy|plotly|scikit-learn|numpy|$\
         matplotlib|fonttools|grpcio|numba|pillow|cryptography|mypy|highspy|networkx|adbc-driver-manager|adbc-driver-postgresql

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "colonnade needs Python 3.11 or newer; '$(PYTHON)' is older. Try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@echo "installing into .venv, once; this takes a minute or two"
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@grep -E '^($(LARGE))==' constraints.txt | xargs -P 2 -n 4 $(PIP) --no-deps --only-binary :all: || true
	@$(PIP) --constraint constraints.txt --editable '.[demo,test]'
	@touch $(STAMP)
