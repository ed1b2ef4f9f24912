# make demo: set up and run the main job on built-in data; make test: set up and pass the tests; make site: the pages.
# make test-processors: the tests with the kernels of other processors, one setting after another.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin

TESTS = tests
# What torch, oneDNN, MKL and OpenBLAS take a processor for; variables of one setting are joined by commas. The first
# takes away most: it is the one that CI runs.
OLDEST = ATEN_CPU_CAPABILITY=default,ONEDNN_MAX_CPU_ISA=AVX2,MKL_CBWR=COMPATIBLE,OPENBLAS_CORETYPE=Prescott
PROCESSORS = $(OLDEST) ATEN_CPU_CAPABILITY=default ATEN_CPU_CAPABILITY=avx2 ONEDNN_MAX_CPU_ISA=AVX2 \
  ONEDNN_MAX_CPU_ISA=AVX512_CORE ATEN_CPU_CAPABILITY=avx2,ONEDNN_MAX_CPU_ISA=AVX2

.PHONY: demo test test-processors lint site browser clean

demo: $(VENV)/.demo
	$(BIN)/memorisk audit classifier digits --out runs/demo --models 16 --fail-on never

test: $(VENV)/.test
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal

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

site: $(VENV)/.test
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet -c constraints.txt -e .
	touch $@

$(VENV)/.test: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet -c constraints.txt -e ".[medical,dp,onnx,detectors,generative,tracking,cluster,docs,dev]"
	touch $@ $(VENV)/.demo

clean:
	rm -rf $(VENV) runs site
