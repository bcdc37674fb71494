# make            this list
# make demo       the bundled model and its knob, in a new environment without torch
# make test       ruff, mypy --strict and all tests; installs what they need; what CI runs (alias: make check)
# make lint       only ruff and mypy --strict
# make test-light only the tests of the light half, in an environment without torch, with coverage
# make test-arm   the tests of the core and the light half on an emulated Cortex-A53 (docs/arm.md)
# make fuzz       an hour of damaged inputs of every kind (MINUTES=…), the core's opener under libFuzzer among them if there
#                 is clang, and 100,000 mutated model files through that opener, under sanitizers (COUNT=…)
# make test-lowest the tests with the lowest versions (requirements-lowest.txt) of everything that users install; not those in a browser
# make release    sdist and wheels in dist/, built twice, checked in fresh environments, with checksums
# make wheels     wheels for Linux x86-64 and aarch64 in dist/, each built twice and run (docs/embedding.md)
# make benchmark  the measurements behind the figures in docs/ (long)
# make reproduce  regenerate what is missing or stale in results/ and docs/results (very long; can be resumed)
# make model      regenerate the bundled model from its text (hours; can be resumed)
# make clean      remove environments and caches; results, models and runs stay
#
# reproduce and model run the steps in reproduce.toml (docs/reproduce.md). They take DRY=1 (only show what would be done),
# ARGS=… (options for the runner), DATA=…, MODELS=… and WORDS=… (folders of corpora, trained models and word lists); reproduce also takes
# STEP=… (only these steps and what they need). Example: make reproduce STEP=ptb-l0 DRY=1

PYTHON ?= python3
DATA ?= ../shared/data
MODELS ?= ../shared/models
WORDS ?= /usr/share/dict
VENV := .venv
LIGHT := .venv-light
LOWEST := .venv-lowest
KENLM := kenlm==0.3.0
ARM := .arm
BIN := $(VENV)/bin
PIP_INSTALL := install --quiet --disable-pip-version-check
SIDE_BY_SIDE := -n 2 --dist loadfile
PASSED := $(LIGHT)/passed.txt

.PHONY: help demo model test test-browser test-light test-arm test-lowest fuzz release wheels check lint benchmark reproduce clean

help:
	@sed '/^$$/q; s/^# \{0,1\}//' Makefile

demo: $(VENV)/demo.done
	$(BIN)/rheostat demo

# Cheapest first, so that simple mistakes are found early. What passed in test-light is not run again.
test: export RHEOSTAT_FUZZ_SECONDS ?= 5
test: $(VENV)/test.done lint test-light test-browser
	RHEOSTAT_DATA=$${RHEOSTAT_DATA:-$(DATA)} $(BIN)/python -m pytest -q $(SIDE_BY_SIDE) --leave-out $(PASSED) tests

check: test

lint: $(VENV)/test.done
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# The tests in a browser are skipped if there is no chromium.
test-browser:
	@if command -v "$${RHEOSTAT_CHROMIUM:-chromium}" >/dev/null || command -v chromium-browser >/dev/null; then :; \
	elif ! command -v apt-get >/dev/null; then echo "make test: no chromium; the tests in a browser are skipped"; \
	elif test "$$(id -u)" != 0; then \
	    echo "make test: no chromium, and only root can install it; the tests in a browser are skipped (apt-get install chromium)"; \
	else \
	    echo "make test: installing chromium on this system, for the tests in a browser: apt-get install -y chromium"; \
	    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq chromium >/dev/null || \
	        echo "make test: chromium could not be installed; the tests in a browser are skipped"; \
	fi

# In an environment without torch. The coverage floor is in pyproject.toml. From Python 3.12 on, sys.monitoring measures
# coverage at almost no cost.
COVERAGE_CORE = $$($(LIGHT)/bin/python -c 'import sys; print("sysmon" if sys.version_info >= (3, 12) else "ctrace")')
test-light: $(LIGHT)/test.done
	COVERAGE_CORE=$(COVERAGE_CORE) $(LIGHT)/bin/python -m pytest -q $(SIDE_BY_SIDE) --cov --cov-report= \
	    --list-passed $(PASSED) tests/light

# Without corpora: they belong to the heavy half, and reading them under emulation takes too long.
test-arm: $(LIGHT)/test.done
	scripts/arm/prepare $(ARM) $(LIGHT)/bin/python
	RHEOSTAT_DATA=$(ARM)/no-corpora nice $(ARM)/python -m pytest -q -p no:cacheprovider $(or $(TESTS),tests/light)

# -rP shows how many files were refused and how many opened.
fuzz: $(VENV)/fuzz.done
	RHEOSTAT_MUTATIONS=$(or $(COUNT),100000) nice $(BIN)/python -m pytest -q -rP tests/light/test_core_builds.py -k mutated
	nice $(BIN)/python scripts/fuzz.py --minutes $(or $(MINUTES),60)

# The newest versions are those of `make test`, but for zeus and kenlm: their lowest versions are the newest there are.
test-lowest: $(LOWEST)/test.done
	RHEOSTAT_DATA=$(LOWEST)/no-corpora $(LOWEST)/bin/python -m pytest -q $(SIDE_BY_SIDE) tests/light tests/heavy tests/parity

release: $(VENV)/wheels.done
	PYTHONPATH=$(CURDIR)/scripts $(BIN)/python scripts/release.py -o dist --arm $(ARM)

wheels: $(VENV)/wheels.done
	$(BIN)/python scripts/wheels.py -o dist --arm $(ARM)

WIKI := --data $(DATA)/wikitext-103-part
benchmark: $(VENV)/test.done
	$(BIN)/python benchmarks/training.py --json -o results/benchmark-training.json
	$(BIN)/python benchmarks/learning.py --json -o results/benchmark-learning.json
	$(BIN)/python benchmarks/evaluation.py --model $(MODELS)/ptb-qrnn.safetensors --json -o results/benchmark-evaluation.json
	$(BIN)/python benchmarks/keyboard_load.py --model src/rheostat/bundled/chat.safetensors --json -o results/benchmark-keyboard.json
	$(BIN)/python benchmarks/runtime.py --json -o results/benchmark-runtime.json
	test ! -f runs/wt103-split.safetensors || $(BIN)/python benchmarks/output_layer.py --model runs/wt103-split.safetensors --packed runs/wt103-int8.safetensors $(WIKI) --json -o results/benchmark-output-layer.json
	test ! -d $(DATA)/wikitext-103-part || $(BIN)/python benchmarks/scale.py $(WIKI) --vocabulary $(DATA)/wikitext-103-part/vocabulary-with-counts.txt --json -o results/scale.json --page docs/scale.md
	$(BIN)/python benchmarks/corpus_scale.py --json -o results/benchmark-corpus-scale.json
	! command -v chromium >/dev/null || $(BIN)/python benchmarks/keyboard_picture.py -o docs/keyboard.png
	$(BIN)/python benchmarks/page.py results -o docs/results/benchmarks.md
	$(BIN)/python benchmarks/reliability.py

# -f: the runner expands patterns such as STEP='ptb-*', not the shell.
RUN_STEPS = set -f; RHEOSTAT_DATA=$(DATA) PYTHONPATH=$(CURDIR)/scripts $(BIN)/python -m reproduce --set data=$(DATA) --set models=$(MODELS) --set words=$(WORDS) \
	$(if $(DRY),--dry-run) $(ARGS)
reproduce: $(VENV)/ngram.done
	@$(RUN_STEPS) $(STEP)

model: $(VENV)/test.done
	@$(RUN_STEPS) model

clean:
	rm -rf $(VENV) $(LIGHT) $(LOWEST) $(ARM) .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage .coverage.*

# Changed C sources compile the core again.
CORE := $(wildcard src/rheostat/core/*.[ch]) src/rheostat/core/build.py hatch_build.py

# Without torch. The environment for the tests is the same folder with more packages; either can be created first.
$(VENV)/demo.done: pyproject.toml $(CORE)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip $(PIP_INSTALL) -e '.[report,keyboard]'
	touch $@

# All extras in one pip call, so that the pinned version of torch is the one installed.
$(VENV)/test.done: pyproject.toml $(CORE)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip $(PIP_INSTALL) -e '.[onnx,train,report,keyboard,chat,dev]'
	touch $@

# The compiler of wheels, in the version that core/build.py names.
$(VENV)/wheels.done: $(VENV)/test.done
	$(BIN)/pip $(PIP_INSTALL) $$($(BIN)/python -c "import runpy; print(runpy.run_path('src/rheostat/core/build.py')['ZIG'])")
	touch $@

# Atheris guides damage by coverage. It has no wheels for some systems; without it, damage is random.
$(VENV)/fuzz.done: $(VENV)/test.done
	$(BIN)/pip $(PIP_INSTALL) atheris || echo "atheris could not be installed: damage is not guided by coverage"
	touch $@

# kenlm is built from source. Without it, the steps that compare with it are skipped, and the next call tries again.
$(VENV)/ngram.done: $(VENV)/test.done
	$(BIN)/pip $(PIP_INSTALL) -e '.[ngram]' && touch $@ || echo "kenlm could not be built (it needs a C++ compiler)"

$(LOWEST)/test.done: pyproject.toml requirements-lowest.txt $(CORE)
	test -x $(LOWEST)/bin/python || $(PYTHON) -m venv $(LOWEST)
	$(LOWEST)/bin/pip $(PIP_INSTALL) -e '.[onnx,train,report,keyboard,energy,chat]' -r requirements-lowest.txt
	$(LOWEST)/bin/pip $(PIP_INSTALL) $(KENLM) || echo "kenlm could not be built (it needs a C++ compiler)"
	touch $@

# The base install and what its tests need.
$(LIGHT)/test.done: pyproject.toml $(CORE)
	test -x $(LIGHT)/bin/python || $(PYTHON) -m venv $(LIGHT)
	$(LIGHT)/bin/pip $(PIP_INSTALL) -e '.[onnx]' pytest pytest-cov pytest-xdist hypothesis safetensors
	touch $@
