"""What int8 costs in quality, and how far the core and ONNX Runtime agree: perplexity, best words, log p."""

from __future__ import annotations

import argparse
import sys
from typing import Any

import numpy as np

from measuring import Figures
from queries import core_engine, onnx_engine
from rheostat.bundled import HELD_OUT_TEXT, model_path
from rheostat.measure.evaluation import read_splits
from rheostat.model.file import ModelFile, open_model
from rheostat.model.knob import choose
from rheostat.runtime.engine import Engine
from rheostat.runtime.evaluation import RuntimeEvaluator

LOG_CONTEXTS = 200  # of the comparison of log p


def measure_quality(options: argparse.Namespace) -> Figures:
    """int8 against fp32 on test text: all of chat's bundled text, the beginning of Penn Treebank's."""
    figures: Figures = {}
    models = {"chat": (model_path(), str(HELD_OUT_TEXT)), "ptb": (options.ptb, options.data)}
    for name, (path, data) in models.items():
        if data is None:
            print("Penn Treebank is not here: name its folder with --data", file=sys.stderr)
            continue
        with open_model(path) as file:
            ((_, split),) = read_splits(file, data, None, ["test"]).items()
            ids = np.asarray(split.ids[: options.tokens])
            point = choose(file, 1.0)
            ppl = {
                precision: RuntimeEvaluator(file, precision, 1, counts=False).quality(point, ids).perplexity
                for precision in ("int8", "fp32")
            }
        figures |= {f"{name}_int8_over_fp32": ppl["int8"] / ppl["fp32"], f"{name}_tokens": float(len(ids))}
    return figures


def measure_words(options: argparse.Namespace) -> Figures:
    """How often int8's three best words are fp32's, by the core and by ONNX Runtime; and both in fp32, in log p."""
    figures: Figures = {}
    with open_model(model_path()) as file:
        ((_, split),) = read_splits(file, str(HELD_OUT_TEXT), None, ["test"]).items()
        ids = np.asarray(split.ids[: options.contexts]).tolist()
        mask = np.ones(len(file.vocabulary), np.bool_)
        for knob in (1.0, 0.5, 0.2):
            engines = {
                "exact": core_engine(file, knob, "fp32"),
                "core": core_engine(file, knob),
                "onnx": onnx_engine(file, knob),
            }
            words = {name: best_words(engine, ids, mask) for name, engine in engines.items()}
            for name, key in (("core", "same_words"), ("onnx", "same_words_onnx")):
                same = sum(a == b for a, b in zip(words[name], words["exact"], strict=True))
                figures[f"{key}_{100 * knob:.0f}"] = same / len(ids)
        exact, other = core_engine(file, 1.0, "fp32"), onnx_engine(file, 1.0, "fp32")
        core, onnx = (log_probabilities(engine, ids[:LOG_CONTEXTS]) for engine in (exact, other))
        wide = log_probabilities_in_float64(file, ids[:LOG_CONTEXTS])
    return figures | {
        "log_p_difference": float(np.abs(core - onnx).max()),
        "log_p_core_error": float(np.abs(core - wide).max()),
        "log_p_onnx_error": float(np.abs(onnx - wide).max()),
    }


def best_words(engine: Engine, ids: list[int], mask: Any) -> list[set[int]]:
    state, found = engine.start(), list[set[int]]()
    for token in ids:
        reading, best = engine.query(state, token, 3, mask)
        state = engine.after(reading)
        found.append({word for word, _ in best})
    return found


def log_probabilities(engine: Engine, ids: list[int]) -> Any:
    state, found = engine.start(), []
    for token in ids:
        reading = engine.read(state, token)
        state = engine.after(reading)
        found.append(engine.log_probabilities(reading))
    return np.array(found, np.float64)


def log_probabilities_in_float64(file: ModelFile, ids: list[int]) -> Any:
    """What both engines approximate: the equations of a model with one softmax and tied words, in twice their bits."""
    weights = {name: np.asarray(tensor, np.float64) for name, tensor in file.weights().items()}
    shape, words = file.shape, weights["embedding.weight"]
    cells = [np.zeros(size) for size in shape.hidden_sizes]
    before = [np.zeros((window - 1) * shape.input_size(layer)) for layer, window in enumerate(shape.windows)]
    found = []
    for token in ids:
        hidden = words[token]
        for layer, size in enumerate(shape.hidden_sizes):
            inputs = np.concatenate([before[layer], hidden])
            before[layer] = inputs[shape.input_size(layer) :]
            gates = weights[f"layers.{layer}.weight"] @ inputs + weights[f"layers.{layer}.bias"]
            new, (forget, output) = np.tanh(gates[:size]), 1 / (1 + np.exp(-gates[size:].reshape(2, size)))
            cells[layer] = forget * cells[layer] + (1 - forget) * new
            hidden = output * cells[layer]
        scores = words @ hidden + weights["output.bias"]
        found.append(scores - scores.max() - np.log(np.exp(scores - scores.max()).sum()))
    return np.array(found)
