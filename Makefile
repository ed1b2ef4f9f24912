# make demo: set up and run the main job on built-in data; make test: set up and run each behaviour's test;
# make test-all: those and their repetitions (other executors, sizes, settings), as CI does; make site: the pages;
# make lock: the lock files anew from pyproject.toml; make audit: known vulnerabilities of the locked versions;
# make newest: the tests with the newest release of everything;
# make notebooks: runs the notebooks of the site and writes them anew, NAMES of them or all;
# make mutants: whether the tests of scores and statistics notice a changed formula (recipes/mutants.py);
# make test-processors: the tests with the kernels of other processors, one setting after another.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
TOOLS = $(VENV)/tools
# Modules are compiled when they are first read: compiling all of them takes half of the set-up.
INSTALL = $(BIN)/python -m pip install --quiet --no-compile
UPGRADE ?=

TESTS = tests
# What torch, oneDNN, MKL and OpenBLAS take a processor for; variables of one setting are joined by commas. The first
# takes away most: it is the one that CI runs.
OLDEST = ATEN_CPU_CAPABILITY=default,ONEDNN_MAX_CPU_ISA=AVX2,MKL_CBWR=COMPATIBLE,OPENBLAS_CORETYPE=Prescott
PROCESSORS = $(OLDEST) ATEN_CPU_CAPABILITY=default ATEN_CPU_CAPABILITY=avx2 ONEDNN_MAX_CPU_ISA=AVX2 \
  ONEDNN_MAX_CPU_ISA=AVX512_CORE ATEN_CPU_CAPABILITY=avx2,ONEDNN_MAX_CPU_ISA=AVX2

# The tests read hundreds of modules and start hundreds of processes: compiled modules are kept between them.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-all test-processors lint site notebooks lock audit newest mutants clean

demo: $(VENV)/.demo
	$(BIN)/memorisk audit classifier digits --out runs/demo --models 16 --fail-on never

test: $(VENV)/.test
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal

test-all: $(VENV)/.test
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal -m 'not slow'

test-processors: $(VENV)/.test
	for setting in $(PROCESSORS); do \
	  echo "$$setting"; \
	  env $$(echo "$$setting" | tr , ' ') OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal $(TESTS) || exit 1; \
	done

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright --pythonpath $(BIN)/python
	$(BIN)/lint-imports
	$(BIN)/python recipes/plain_english.py

site: $(VENV)/.test
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

notebooks: $(VENV)/.test
	$(BIN)/python recipes/notebooks.py $(NAMES)

lock: $(TOOLS)/.made
	$(TOOLS)/bin/python recipes/locks.py $(TOOLS)/bin/uv $(UPGRADE)

audit: $(TOOLS)/.made
	$(TOOLS)/bin/python recipes/dependencies.py --audit $(TOOLS)/bin/pip-audit

mutants: $(TOOLS)/.made $(VENV)/.test
	$(TOOLS)/bin/python recipes/mutants.py $(BIN)/python $(MUTANTS)

newest: $(TOOLS)/.made
	$(TOOLS)/bin/python recipes/newest_releases.py $(TOOLS)/bin/uv $(VENV)/newest

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.build: locks/build.txt | $(VENV)/bin/python
	$(INSTALL) --require-hashes -r locks/build.txt
	touch $@

$(VENV)/.demo: pyproject.toml locks/core.txt $(VENV)/.build
	$(INSTALL) --require-hashes -r locks/core.txt
	$(INSTALL) --no-deps --no-build-isolation -e .
	touch $@

# One test dependency has no wheel: it is built with the locked setuptools, not with what an isolated build would fetch.
$(VENV)/.test: pyproject.toml locks/test.txt $(VENV)/.build
	$(INSTALL) --require-hashes --no-build-isolation -r locks/test.txt
	$(INSTALL) --no-deps --no-build-isolation -e .
	touch $@ $(VENV)/.demo

$(TOOLS)/.made: locks/tools.txt locks/build.txt
	$(PYTHON) -m venv $(TOOLS)
	$(TOOLS)/bin/python -m pip install --quiet --require-hashes -r locks/build.txt
	$(TOOLS)/bin/python -m pip install --quiet --require-hashes --no-build-isolation -r locks/tools.txt
	touch $@

clean:
	rm -rf $(VENV) runs site
