# make demo: set up and run the main job on built-in data; make test: set up and pass the tests; make site: the pages.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin

.PHONY: demo test lint site browser clean

demo: $(VENV)/.demo
	$(BIN)/memorisk audit classifier digits --out runs/demo --models 16 --fail-on never

test: $(VENV)/.test
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal

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
	$(BIN)/python -m pip install --quiet -c constraints.txt -e ".[medical,dp,onnx,detectors,generative,tracking,cluster,sign,docs,dev]"
	touch $@ $(VENV)/.demo

clean:
	rm -rf $(VENV) runs site
