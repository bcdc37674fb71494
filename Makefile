# make demo       the main job on a fresh machine, in its own environment
# make test       everything the tests need, then the tests; what CI runs
# make check      ruff, mypy --strict and the tests
# make benchmark  the measurements behind the figures in docs/ (long)
# make reproduce  the results under results/ from the corpora in DATA (very long; resumable)

PYTHON ?= python3
DATA ?= ../shared/data
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
	$(BIN)/python benchmarks/corpus_scale.py --json -o results/benchmark-corpus-scale.json

reproduce: $(VENV)/test.done
	$(BIN)/python benchmarks/training_curve.py

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
