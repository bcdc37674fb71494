# make demo       the main job on a fresh machine: an environment without torch, then the bundled model and its knob
# make test       everything the tests need, then the tests; what CI runs
# make test-arm   the light half's tests on an emulated Cortex-A53 (docs/arm.md)
# make web        the browser runtime for the keyboard page, from npm (docs/keyboard.md)
# make check      ruff, mypy --strict and the tests
# make benchmark  the measurements behind the figures in docs/ (long)
# make model      the bundled model from nothing (hours; resumable)
# make reproduce  results/ and docs/results from the corpora in DATA and the trained ptb-qrnn in MODELS (very long; resumable)

PYTHON ?= python3
DATA ?= ../shared/data
MODELS ?= ../shared/models
VENV := .venv
LIGHT := .venv-light
ARM := .arm
BIN := $(VENV)/bin
PIP_INSTALL := install --quiet --disable-pip-version-check
SIDE_BY_SIDE := -n 2 --dist loadfile

.PHONY: demo model web test test-browser test-light test-arm check lint benchmark reproduce reproduce-ptb reproduce-wiki clean

demo: $(VENV)/demo.done
	$(BIN)/rheostat demo

# Only the standard library is needed, so any Python will do.
web:
	PYTHONPATH=src $(PYTHON) -m rheostat.keyboard.browser_runtime

test: $(VENV)/test.done test-browser test-light
	RHEOSTAT_DATA=$${RHEOSTAT_DATA:-$(DATA)} $(BIN)/python -m pytest -q $(SIDE_BY_SIDE)

# What the tests in a browser need, where it can be had; they are skipped, with the reason, where it cannot.
test-browser:
	command -v chromium >/dev/null || { test "$$(id -u)" = 0 && apt-get install -y -qq chromium >/dev/null 2>&1; } || true
	$(MAKE) --no-print-directory web || true

# The light half in an environment that has never seen torch.
test-light: $(LIGHT)/test.done
	$(LIGHT)/bin/python -m pytest -q $(SIDE_BY_SIDE) tests/light

# Corpora belong to the heavy half, and reading them under emulation takes long: tests that want them skip.
test-arm: $(LIGHT)/test.done
	scripts/arm/prepare $(ARM) $(LIGHT)/bin/python
	RHEOSTAT_DATA=$(ARM)/no-corpora nice $(ARM)/python -m pytest -q -p no:cacheprovider $(or $(TESTS),tests/light)

lint: $(VENV)/test.done
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

check: lint test

benchmark: $(VENV)/test.done
	$(BIN)/python benchmarks/training.py --json -o results/benchmark-training.json
	$(BIN)/python benchmarks/learning.py --json -o results/benchmark-learning.json
	$(BIN)/python benchmarks/evaluation.py --model $(MODELS)/ptb-qrnn.safetensors --json -o results/benchmark-evaluation.json
	$(BIN)/python benchmarks/keyboard_load.py --model $(CHAT_MODEL) --json -o results/benchmark-keyboard.json
	$(BIN)/python benchmarks/runtime.py --model $(MODELS)/ptb-qrnn.safetensors --steps 1000000 --json -o results/benchmark-runtime.json
	test ! -f $(WIKI_SPLIT) || $(BIN)/python benchmarks/output_layer.py --model $(WIKI_SPLIT) --packed runs/wt103-int8.safetensors $(WIKI) --json -o results/benchmark-output-layer.json
	test ! -d $(DATA)/wikitext-103-part || $(BIN)/python benchmarks/scale.py $(WIKI) --vocabulary $(DATA)/wikitext-103-part/vocabulary-with-counts.txt --json -o results/scale.json --page docs/scale.md
	$(BIN)/python benchmarks/corpus_scale.py --json -o results/benchmark-corpus-scale.json
	! command -v chromium >/dev/null || $(BIN)/python benchmarks/keyboard_picture.py -o docs/keyboard.png
	$(BIN)/python benchmarks/page.py results -o docs/results/benchmarks.md

# A run in a folder: gone on with, or begun; one that was killed before its first checkpoint has nothing to go on with.
TRAINED = if test -f $(1)/checkpoint.pt; then $(BIN)/rheostat train --resume -o $(1); \
	else rm -rf $(1) && $(BIN)/rheostat train $(2) -o $(1); fi
# Each line leaves a file or goes on where it was stopped, so that the whole can be killed and called again. A model that
# is made anew takes the results of the one before with it.
RANKED := runs/ptb-qrnn.safetensors
LEARNED := runs/ptb-learned.safetensors
PACKED := models/ptb-graded-int8.safetensors
PTB := --data $(DATA)/ptb
RECOVER = $(BIN)/rheostat recover --recipe fast $(PTB)
NGRAM = $(BIN)/rheostat ngram --check
UNTRAINED = $(BIN)/rheostat train --untrained $(PTB)
# A results file of this machine's own: one that came with the clone is measured anew. Times want a quiet machine; delete
# runs/NAME.measured to measure NAME again.
MEASURED = test -f runs/$(1).measured || { $(2) -o results/$(1).json && touch runs/$(1).measured; }
BENCH = $(BIN)/rheostat bench $(PTB) --meter auto
KNOBS := --knob 1 --knob 0.9 --knob 0.8 --knob 0.7 --knob 0.6 --knob 0.5 --knob 0.4
BESIDE := --beside runs/ptb-awd-lstm.safetensors --beside runs/ptb-skip-lstm.safetensors --beside runs/ptb-dense-60.safetensors
POINTS := --knob 1 --point taylor-searched-0.8 --point taylor-searched-0.6 --point l0-0.8 --point l0-0.7 --point l0-0.6 --point l0-0.5
TRACES := tests/data/traces
DAYS := ordinary-day busy-device flapping-battery
REPORTED := ptb ptb-learned ptb-graded ptb-dense-60 ptb-bench ptb-learned-bench ptb-graded-bench ptb-ngram wt103 wt103-graded wt103-bench wt103-split-bench chat chat-ngram $(DAYS:%=govern-%)
# WikiText-103: the full vocabulary and the paper's shape, trained for two hours on two cores.
WIKI := --data $(DATA)/wikitext-103-part
WIKI_MODEL := runs/wt103-learned.safetensors
WIKI_SPLIT := runs/wt103-split.safetensors
WIKI_GATES := --recipe fast --set train.steps=150 --set train.batch_size=10 --set train.learning_rate=0.1
WIKI_RECOVER = $(BIN)/rheostat recover --recipe fast --set train.steps=100 $(WIKI)
WIKI_GRADED := --set train.graded=0.7 --set graded.ranking=gates-0.7 --set graded.teacher=start --set train.steps=60 --set train.learning_rate=2e-4
WIKI_POINTS := --knob 1 --knob 0.9 --knob 0.8 --point random-0.7 --point l0-0.7 --knob 0.6 --knob 0.5 --knob 0.4
# Of what there is by now.
REPORT = $(BIN)/rheostat report $$(for name in $(REPORTED); do test ! -f results/$$name.json || echo results/$$name.json; done) $$(test ! -f $(LEARNED) || echo --model $(LEARNED)) -o docs/results
reproduce: $(VENV)/test.done
	$(MAKE) --no-print-directory reproduce-ptb
	if test -d $(DATA)/wikitext-103-part; then $(MAKE) --no-print-directory reproduce-wiki; \
	else echo "no $(DATA)/wikitext-103-part: the report goes without new results of WikiText-103"; fi
	$(REPORT)

reproduce-ptb: $(VENV)/test.done
	mkdir -p runs/untrained
	test -f runs/ptb-r1.safetensors || $(BIN)/rheostat prune $(MODELS)/ptb-qrnn.safetensors --criterion random --seed 1 --name random-1 -o runs/ptb-r1.safetensors
	test -f runs/ptb-r2.safetensors || $(BIN)/rheostat prune runs/ptb-r1.safetensors --criterion random --seed 2 --name random-2 -o runs/ptb-r2.safetensors
	test -f runs/ptb-r3.safetensors || $(BIN)/rheostat prune runs/ptb-r2.safetensors --criterion random --seed 3 --name random-3 -o runs/ptb-r3.safetensors
	test -f runs/ptb-fn.safetensors || $(BIN)/rheostat prune runs/ptb-r3.safetensors --criterion filter-norm -o runs/ptb-fn.safetensors
	test -f runs/ptb-ma.safetensors || $(BIN)/rheostat prune runs/ptb-fn.safetensors --criterion mean-activation $(PTB) -o runs/ptb-ma.safetensors
	test -f $(RANKED) || $(BIN)/rheostat prune runs/ptb-ma.safetensors --criterion taylor --share 0.25 --search --knob 0.8 --knob 0.6 $(PTB) -o $(RANKED)
	$(BIN)/rheostat sweep $(RANKED) $(PTB) -o results/ptb.json
	test -f runs/ptb-l0.safetensors || $(BIN)/rheostat prune $(RANKED) --criterion l0 --recipe fast --knob 0.8 --knob 0.6 --knob 0.7 --knob 0.5 $(PTB) -o runs/ptb-l0.safetensors
	test -f runs/ptb-u1.safetensors || $(RECOVER) runs/ptb-l0.safetensors --ranking mean-activation --knob 0.8 -o runs/ptb-u1.safetensors
	test -f runs/ptb-u2.safetensors || $(RECOVER) runs/ptb-u1.safetensors --point l0-0.8 --name l0-0.8-updated -o runs/ptb-u2.safetensors
	test -f runs/ptb-u3.safetensors || $(RECOVER) runs/ptb-u2.safetensors --ranking filter-norm --knob 0.8 -o runs/ptb-u3.safetensors
	test -f runs/ptb-u4.safetensors || $(RECOVER) runs/ptb-u3.safetensors --ranking random-1 --knob 0.8 -o runs/ptb-u4.safetensors
	test -f runs/ptb-u5.safetensors || $(RECOVER) runs/ptb-u4.safetensors --ranking random-1 --knob 0.8 --rank 4 --name random-1-0.8-rank-4 -o runs/ptb-u5.safetensors
	test -f runs/ptb-u6.safetensors || $(RECOVER) runs/ptb-u5.safetensors --ranking random-1 --knob 0.8 --rank 16 --name random-1-0.8-rank-16 -o runs/ptb-u6.safetensors
	test -f $(LEARNED) || { rm -f runs/ptb-learned-bench.measured; $(RECOVER) runs/ptb-u6.safetensors --point l0-0.6 --name l0-0.6-updated -o $(LEARNED); }
	$(BIN)/rheostat sweep $(LEARNED) $(PTB) --stored -o results/ptb-learned.json
	test -f runs/ptb-l0-40.safetensors || $(BIN)/rheostat prune $(RANKED) --criterion l0 --recipe fast --knob 0.4 $(PTB) -o runs/ptb-l0-40.safetensors
	$(call TRAINED,runs/ptb-graded,ptb-graded --from runs/ptb-l0-40.safetensors $(PTB))
	cmp -s runs/ptb-graded/model.safetensors runs/ptb-graded.safetensors || { rm -f results/ptb-graded.json results/ptb-graded-int8.json runs/ptb-graded-bench.measured runs/govern-*.measured $(PACKED); cp runs/ptb-graded/model.safetensors runs/ptb-graded.safetensors; }
	$(BIN)/rheostat sweep runs/ptb-graded.safetensors $(PTB) --knob 0.9 --knob 0.8 --knob 0.7 --knob 0.6 --knob 0.5 --knob 0.4 -o results/ptb-graded.json
	test -f $(PACKED) || $(BIN)/rheostat pack runs/ptb-graded.safetensors --precision int8 -o $(PACKED)
	$(BIN)/rheostat sweep $(PACKED) $(PTB) --precision int8 --split test --keystrokes --knob 0.9 --knob 0.8 --knob 0.7 --knob 0.6 --knob 0.5 --knob 0.4 -o results/ptb-graded-int8.json
	$(BIN)/python benchmarks/card.py $(PACKED) results/ptb-graded-int8.json
	$(call TRAINED,runs/ptb-dense,ptb-dense-60 $(PTB))
	cmp -s runs/ptb-dense/model.safetensors runs/ptb-dense-60.safetensors || { rm -f results/ptb-dense-60.json; cp runs/ptb-dense/model.safetensors runs/ptb-dense-60.safetensors; }
	$(BIN)/rheostat sweep runs/ptb-dense-60.safetensors $(PTB) --stored -o results/ptb-dense-60.json
	$(BIN)/python -c 'import kenlm' 2>/dev/null || $(BIN)/pip $(PIP_INSTALL) -e '.[ngram]'  # needs a C++ compiler
	$(call MEASURED,ptb-ngram,$(NGRAM) ptb $(PTB))
	$(call MEASURED,chat-ngram,$(NGRAM) chat --words 10000)
	test -f runs/untrained/awd-lstm/model.safetensors || $(UNTRAINED) ptb-awd-lstm -o runs/untrained/awd-lstm
	test -f runs/untrained/skip-lstm/model.safetensors || $(UNTRAINED) ptb-skip-lstm -o runs/untrained/skip-lstm
	for name in awd-lstm skip-lstm; do cp runs/untrained/$$name/model.safetensors runs/ptb-$$name.safetensors; done
	$(call MEASURED,ptb-bench,$(BENCH) runs/ptb-ma.safetensors $(KNOBS) $(BESIDE))
	$(call MEASURED,ptb-learned-bench,$(BENCH) $(LEARNED) $(POINTS))
	$(call MEASURED,ptb-graded-bench,$(BENCH) runs/ptb-graded.safetensors $(KNOBS))
	for day in $(DAYS); do test -f runs/govern-$$day.measured || { \
	$(BIN)/rheostat govern --trace $(TRACES)/$$day.csv $$(test ! -f $(TRACES)/$$day.toml || echo --policy $(TRACES)/$$day.toml) --model runs/ptb-graded.safetensors -o runs/govern-$$day && \
	cp runs/govern-$$day/govern.json results/govern-$$day.json && touch runs/govern-$$day.measured; } || exit 1; done

reproduce-wiki: $(VENV)/test.done
	mkdir -p runs
	$(call TRAINED,runs/wt103,wikitext103-fast $(WIKI) --vocabulary $(DATA)/wikitext-103-part/vocabulary-with-counts.txt)
	$(call MEASURED,wt103-training,$(BIN)/python benchmarks/training_curve.py runs/wt103 $(WIKI))
	test -f $(WIKI_SPLIT) || { rm -f results/wt103-split.json runs/wt103-int8.safetensors; $(BIN)/rheostat resplit runs/wt103/model.safetensors $(WIKI) -o $(WIKI_SPLIT); }
	$(BIN)/rheostat sweep $(WIKI_SPLIT) $(WIKI) --stored -o results/wt103-split.json
	test -f runs/wt103-int8.safetensors || $(BIN)/rheostat pack $(WIKI_SPLIT) --precision int8 -o runs/wt103-int8.safetensors
	test -f runs/wt103-r.safetensors || { rm -f results/wt103.json runs/wt103-bench.measured runs/wt103-split-bench.measured; $(BIN)/rheostat prune runs/wt103/model.safetensors --criterion random -o runs/wt103-r.safetensors; }
	test -f runs/wt103-fn.safetensors || $(BIN)/rheostat prune runs/wt103-r.safetensors --criterion filter-norm -o runs/wt103-fn.safetensors
	test -f runs/wt103-ma.safetensors || $(BIN)/rheostat prune runs/wt103-fn.safetensors --criterion mean-activation --share 0.1 $(WIKI) -o runs/wt103-ma.safetensors
	test -f runs/wt103-ta.safetensors || $(BIN)/rheostat prune runs/wt103-ma.safetensors --criterion taylor --share 0.02 $(WIKI) -o runs/wt103-ta.safetensors
	test -f runs/wt103-l0.safetensors || $(BIN)/rheostat prune runs/wt103-ta.safetensors --criterion l0 $(WIKI_GATES) --knob 0.7 $(WIKI) -o runs/wt103-l0.safetensors
	test -f runs/wt103-u1.safetensors || $(WIKI_RECOVER) runs/wt103-l0.safetensors --ranking random --knob 0.7 -o runs/wt103-u1.safetensors
	test -f runs/wt103-u2.safetensors || $(WIKI_RECOVER) runs/wt103-u1.safetensors --point l0-0.7 --name l0-0.7-updated -o runs/wt103-u2.safetensors
	test -f runs/wt103-u3.safetensors || $(WIKI_RECOVER) runs/wt103-u2.safetensors --ranking mean-activation --knob 0.7 -o runs/wt103-u3.safetensors
	test -f runs/wt103-u4.safetensors || $(WIKI_RECOVER) runs/wt103-u3.safetensors --ranking filter-norm --knob 0.7 -o runs/wt103-u4.safetensors
	test -f $(WIKI_MODEL) || $(BIN)/rheostat pack runs/wt103-u4.safetensors --default-ranking gates-0.7 -o $(WIKI_MODEL)
	$(BIN)/rheostat sweep $(WIKI_MODEL) $(WIKI) --knob 0.7 -o results/wt103.json
	$(call MEASURED,wt103-bench,$(BIN)/rheostat bench $(WIKI_MODEL) $(WIKI) --meter auto $(WIKI_POINTS))
	$(call TRAINED,runs/wt103-graded,wikitext103-fast --from $(WIKI_MODEL) $(WIKI) $(WIKI_GRADED))
	cmp -s runs/wt103-graded/model.safetensors runs/wt103-graded.safetensors || { rm -f results/wt103-graded.json; cp runs/wt103-graded/model.safetensors runs/wt103-graded.safetensors; }
	$(BIN)/rheostat sweep runs/wt103-graded.safetensors $(WIKI) --criterion graded --knob 0.7 --split test -o results/wt103-graded.json
	test -f runs/wt103-learned-split.safetensors || $(BIN)/rheostat resplit $(WIKI_MODEL) $(WIKI) -o runs/wt103-learned-split.safetensors
	$(call MEASURED,wt103-split-bench,$(BIN)/rheostat bench runs/wt103-learned-split.safetensors $(WIKI) --meter auto $(WIKI_POINTS))

# The bundled model, measured as it is shipped: sweep and card are of the very file that goes into the package.
CHAT_KNOBS := 0.9 0.8 0.7 0.6 0.5 0.4 0.3 0.2 0.15
CHAT_PACKED := runs/packed/chat.safetensors
CHAT_MODEL := src/rheostat/bundled/chat.safetensors
model: $(VENV)/test.done
	mkdir -p $(dir $(CHAT_PACKED))
	$(call TRAINED,runs/chat,chat)
	test -f runs/chat-l0.safetensors || $(BIN)/rheostat prune runs/chat/model.safetensors --criterion l0 --recipe fast --knob 0.2 --data chat -o runs/chat-l0.safetensors
	$(call TRAINED,runs/chat-graded,chat-graded --from runs/chat-l0.safetensors)
	test -f $(CHAT_PACKED) || { rm -f results/chat.json; $(BIN)/rheostat pack runs/chat-graded/model.safetensors --precision int8 --default-ranking graded -o $(CHAT_PACKED); }
	$(BIN)/rheostat sweep $(CHAT_PACKED) --data chat --criterion graded $(addprefix --knob ,$(CHAT_KNOBS)) --precision int8 --keystrokes --words 10000 -o results/chat.json
	$(BIN)/rheostat pack $(CHAT_PACKED) --results results/chat.json -o $(CHAT_MODEL)
	test -f results/chat-ngram.json || $(BIN)/rheostat ngram chat --words 10000 -o results/chat-ngram.json
	$(BIN)/python benchmarks/card.py $(CHAT_MODEL) results/chat.json results/chat-ngram.json
	$(REPORT)

clean:
	rm -rf $(VENV) $(LIGHT) $(ARM) .mypy_cache .ruff_cache .pytest_cache .hypothesis

# Without torch. The tests' environment is the same folder with more in it: either may come first.
$(VENV)/demo.done: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip $(PIP_INSTALL) -e '.[report,keyboard]'
	touch $@

# torch is named in the same pip call as what needs it, so that its pin decides which build is taken.
$(VENV)/test.done: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip $(PIP_INSTALL) -e '.[train,report,keyboard,chat,dev]'
	touch $@

$(LIGHT)/test.done: pyproject.toml
	test -x $(LIGHT)/bin/python || $(PYTHON) -m venv $(LIGHT)
	$(LIGHT)/bin/pip $(PIP_INSTALL) -e . pytest pytest-xdist hypothesis
	touch $@
