# make demo       the main job on a fresh machine, in its own environment
# make test       everything the tests need, then the tests; what CI runs
# make check      ruff, mypy --strict and the tests
# make benchmark  the measurements behind the figures in docs/ (long)
# make reproduce  the results under results/ from the corpora in DATA (very long; resumable)

PYTHON ?= python3
DATA ?= ../shared/data
MODELS ?= ../shared/models
VENV := .venv
LIGHT := .venv-light
BIN := $(VENV)/bin
PIP_INSTALL := install --quiet --disable-pip-version-check

.PHONY: demo test test-light check lint benchmark reproduce clean

demo: $(VENV)/demo.done
	$(BIN)/rheostat demo

test: $(VENV)/test.done test-light
	RHEOSTAT_DATA=$${RHEOSTAT_DATA:-$(DATA)} $(BIN)/python -m pytest -q

# The light half in an environment that has never seen torch.
test-light: $(LIGHT)/test.done
	$(LIGHT)/bin/python -m pytest -q tests/light

lint: $(VENV)/test.done
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

check: lint test

benchmark: $(VENV)/test.done
	$(BIN)/python benchmarks/training.py --json -o results/benchmark-training.json
	$(BIN)/python benchmarks/evaluation.py --model $(MODELS)/ptb-qrnn.safetensors --json -o results/benchmark-evaluation.json
	$(BIN)/python benchmarks/corpus_scale.py --json -o results/benchmark-corpus-scale.json
	$(BIN)/python benchmarks/page.py results -o docs/results/benchmarks.md

# Each line leaves a file or goes on where it was stopped, so that the whole can be killed and called again.
RANKED := runs/ptb-qrnn.safetensors
PTB := --data $(DATA)/ptb
reproduce: $(VENV)/test.done
	mkdir -p runs
	test -f runs/ptb-r1.safetensors || $(BIN)/rheostat prune $(MODELS)/ptb-qrnn.safetensors --criterion random --seed 1 --name random-1 -o runs/ptb-r1.safetensors
	test -f runs/ptb-r2.safetensors || $(BIN)/rheostat prune runs/ptb-r1.safetensors --criterion random --seed 2 --name random-2 -o runs/ptb-r2.safetensors
	test -f runs/ptb-r3.safetensors || $(BIN)/rheostat prune runs/ptb-r2.safetensors --criterion random --seed 3 --name random-3 -o runs/ptb-r3.safetensors
	test -f runs/ptb-fn.safetensors || $(BIN)/rheostat prune runs/ptb-r3.safetensors --criterion filter-norm -o runs/ptb-fn.safetensors
	test -f runs/ptb-ma.safetensors || $(BIN)/rheostat prune runs/ptb-fn.safetensors --criterion mean-activation $(PTB) -o runs/ptb-ma.safetensors
	test -f $(RANKED) || $(BIN)/rheostat prune runs/ptb-ma.safetensors --criterion taylor --share 0.25 --search --knob 0.8 --knob 0.6 $(PTB) -o $(RANKED)
	$(BIN)/rheostat sweep $(RANKED) $(PTB) -o results/ptb.json
	$(BIN)/rheostat report results/ptb.json -o docs/results

clean:
	rm -rf $(VENV) $(LIGHT) .mypy_cache .ruff_cache .pytest_cache .hypothesis

# torch is named in the same pip call as what needs it, so that its pin decides which build is taken.
$(VENV)/demo.done: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip $(PIP_INSTALL) -e '.[train,chat]'
	touch $@

$(VENV)/test.done: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip $(PIP_INSTALL) -e '.[train,report,keyboard,chat,dev]'
	touch $@

$(LIGHT)/test.done: pyproject.toml
	test -x $(LIGHT)/bin/python || $(PYTHON) -m venv $(LIGHT)
	$(LIGHT)/bin/pip $(PIP_INSTALL) -e . pytest hypothesis
	touch $@
