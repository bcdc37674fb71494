"""A cut model as an ONNX graph: state in, state out (DESIGN section 6).

    step      one token: the next state, log p of every word, and the k best of the words that are allowed
    sequence  many tokens: the state after them, and log p of every word after each of them
    replay    many tokens: the state after them, and nothing else, so that the output layer is not paid for

All of them are written by the same functions and agree: fp32 and int8 to the last bits, int4 to a step of its 8-bit
inputs. Inputs and outputs (T tokens, V words):

    token [1] · tokens [T]       int64
    k [1]                        int64, how many words are wanted; more than V is V
    allowed [V]                  uint8, 1 for the words that may be suggested: prefixes, block lists and special
                                 tokens. Not bool, which Swift and Objective-C could not pass until 2026
    state.{l}.c [1, m]           of every layer, and of a layer that looks back
    state.{l}.inputs             [1, (r-1)·D], its last inputs, oldest first; of an LSTM, state.{l}.h [1, m]
    top_words [k]                int64, best first; words that are not allowed come last, with probability 0
    top_probabilities [k]        of the softmax over all words, allowed or not
    log_probabilities [T, V]     rather than logits: an adaptive softmax has no logits of all words, and what
                                 evaluation and completion ask for is the probability
    next.{l}.…                   the state after the tokens

Knows the mathematics of a model; matrices and precisions are the business of `operators`, sessions that of `engine`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

import rheostat
from rheostat.runtime import onnx_format
from rheostat.runtime.onnx_format import BOOL, FLOAT, INT64, UINT8, Message
from rheostat.runtime.operators import CONTRIB, IR_VERSION, OPSET, Port, Products, Writer
from rheostat.runtime.quantization import Precision, Weights, prepare, reduce
from rheostat.shape import ModelShape

if TYPE_CHECKING:
    import onnx

Form = Literal["step", "sequence", "replay"]
FORMS: tuple[Form, ...] = get_args(Form)

END = 2**63 - 1  # of a slice that goes to the end
SMALL = 32  # numbers of a constant that is not worth sharing; shape inference reads such ones


@dataclass(frozen=True)
class Graph:
    """A graph and, beside it, its constants: a session takes them as they are, a file needs them inside."""

    body: Message  # the graph without constants
    constants: dict[str, NDArray[Any]]
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]

    @property
    def weight_bytes(self) -> int:
        return sum(array.nbytes for array in self.constants.values())

    @property
    def outside(self) -> dict[str, NDArray[Any]]:
        """The constants that `structure` only names."""
        return {name: array for name, array in self.constants.items() if array.size >= SMALL}

    def structure(self) -> Message:
        """A model for a session that is handed the constants outside of it."""
        outside = self.outside
        return self._model(
            (onnx_format.tensor_elsewhere if name in outside else onnx_format.tensor)(name, array)
            for name, array in self.constants.items()
        )

    def complete(self) -> onnx.ModelProto:
        """One self-contained model."""
        import onnx  # here, since no session needs it

        tensors = (onnx_format.tensor(name, array) for name, array in self.constants.items())
        return onnx.load_model_from_string(self._model(tensors))

    def _model(self, tensors: Iterable[Message]) -> Message:
        return onnx_format.model(
            self.body + onnx_format.constants(tensors),
            ir_version=IR_VERSION,
            opsets={"": OPSET, CONTRIB: 1},
            producer="rheostat",
            version=rheostat.__version__,
        )


def state_sizes(shape: ModelShape) -> dict[str, int]:
    """What a state consists of: `{l}.{part}` and its width, in the order of inputs and outputs."""
    sizes: dict[str, int] = {}
    for layer, hidden in enumerate(shape.hidden_sizes):
        if shape.cell != "qrnn":
            sizes[f"{layer}.h"] = hidden
        sizes[f"{layer}.c"] = hidden
        if shape.cell == "qrnn" and shape.windows[layer] > 1:
            sizes[f"{layer}.inputs"] = (shape.windows[layer] - 1) * shape.input_size(layer)
    return sizes


def build_graph(weights: Weights, shape: ModelShape, precision: Precision, form: Form) -> Graph:
    """The graph of a cut model, whose weights may be float32, float16, or int8 with scales."""
    return _ModelWriter(prepare(weights, precision), shape, precision, form).graph()


class _ModelWriter:
    """Writes one graph: embedding, layers, output layer, choice of words."""

    def __init__(self, weights: Weights, shape: ModelShape, precision: Precision, form: Form) -> None:
        self.weights, self.shape, self.form = weights, shape, form
        self.products = Products(weights, precision)
        self.writer = Writer()
        self.one_row = form == "step"

    def graph(self) -> Graph:
        hidden = self._layers(self._embedding())
        if self.form != "replay":
            scores = self._log_probabilities(hidden)
            if self.one_row:
                self._choose(scores)
        inputs, outputs = self._inputs(), self._outputs()
        graph = self.writer.graph(f"rheostat {self.form}", inputs, outputs)
        read, named = self.writer.read, self.writer.constants.items()
        constants = {name: np.ascontiguousarray(array) for name, array in named if name in read}
        return Graph(graph, constants, inputs, outputs)

    # Inputs and outputs

    def _inputs(self) -> tuple[Port, ...]:
        state = tuple(Port(f"state.{name}", FLOAT, (1, size)) for name, size in state_sizes(self.shape).items())
        if not self.one_row:
            return (Port("tokens", INT64, ("T",)), *state)
        allowed = Port("allowed", UINT8, (self.shape.vocabulary_size,))
        return (Port("token", INT64, (1,)), Port("k", INT64, (1,)), allowed, *state)

    def _outputs(self) -> tuple[Port, ...]:
        state = tuple(Port(f"next.{name}", FLOAT, (1, size)) for name, size in state_sizes(self.shape).items())
        if self.form == "replay":
            return state
        scores = Port("log_probabilities", FLOAT, (1 if self.one_row else "T", self.shape.vocabulary_size))
        if not self.one_row:
            return (scores, *state)
        return (Port("top_words", INT64, ("K",)), Port("top_probabilities", FLOAT, ("K",)), scores, *state)

    # Embedding

    def _embedding(self) -> str:
        """Rows of the embedding [T, D]; in 8 bits they are made floats after they were looked up."""
        write, name = self.writer, "embedding.weight"
        tokens = "token" if self.one_row else "tokens"
        if self.products.precision == "fp32":
            return write.apply("Gather", write.constant(name, self.weights[name]), tokens)
        integers, scale = reduce(self.weights[name], self.weights.get(f"{name}.scale"))
        rows = write.apply("Gather", write.constant(name, integers), tokens)
        scales = write.apply("Gather", write.constant(f"{name}.scale", scale), tokens)
        column = write.apply("Unsqueeze", scales, write.integers(1))
        return write.apply("Mul", write.apply("Cast", rows, to=FLOAT), column)

    # Layers

    def _layers(self, x: str) -> str:
        outputs = []
        for layer in range(len(self.shape.hidden_sizes)):
            x = self._qrnn(layer, x) if self.shape.cell == "qrnn" else self._lstm(layer, x)
            outputs.append(x)
        # Melis et al. (2018): layers are stacked, and their outputs summed
        return self.writer.apply("Sum", *outputs) if self.shape.cell == "skip-lstm" else x

    def _product(self, writer: Writer, x: str, name: str, bias: str = "", *, one_row: bool | None = None) -> str:
        matrix = self.products.matrix(name)
        values = self.products.biases(bias) if bias else None
        return matrix.product(writer, x, values, bias, one_row=self.one_row if one_row is None else one_row)

    def _qrnn(self, layer: int, x: str) -> str:
        """h of one layer [T, m] (DESIGN section 3)."""
        write, hidden = self.writer, self.shape.hidden_sizes[layer]
        if self.shape.windows[layer] > 1:
            x = self._window(layer, x)
        gates = self._product(write, x, f"layers.{layer}.weight", f"layers.{layer}.bias")
        z, f_and_o = write.apply_many("Split", gates, write.integers(hidden, 2 * hidden), outputs=2, axis=1)
        f, o = write.apply_many("Split", write.apply("Sigmoid", f_and_o), outputs=2, axis=1)
        new = _new_share(write, write.apply("Tanh", z), f)
        before, after = f"state.{layer}.c", f"next.{layer}.c"
        if self.one_row:
            return _pool(write, before, f, new, o, after)
        body = write.body(after)
        _pool(body, "c_before", "f", "new", "o", "c", "h")
        sizes = [Port(name, FLOAT, (hidden,)) for name in ("c_before", "f", "new", "o", "c", "h")]
        return self._loop(body.graph("pool", sizes[:4], sizes[4:]), [before], [f, new, o], [after])

    def _window(self, layer: int, x: str) -> str:
        """X [T, r·D] of x [T, D] and the inputs before it; the last of them go on."""
        write, before, after = self.writer, f"state.{layer}.inputs", f"next.{layer}.inputs"
        steps, size = self.shape.windows[layer] - 1, self.shape.input_size(layer)
        if self.one_row:
            window = write.apply("Concat", before, x, axis=1)
            self._slice(window, size, END, axis=1, name=after)
            return window
        padded = write.apply("Concat", write.apply("Reshape", before, write.integers(steps, size)), x, axis=0)
        last = self._slice(padded, -steps, END, axis=0)
        write.apply("Reshape", last, write.integers(1, steps * size), names=[after])
        parts = [self._slice(padded, k, k - steps if k < steps else END, axis=0) for k in range(steps + 1)]
        return write.apply("Concat", *parts, axis=1)

    def _slice(self, x: str, first: int, last: int, *, axis: int, name: str = "") -> str:
        bounds = [self.writer.integers(value) for value in (first, last, axis)]
        return self.writer.apply("Slice", x, *bounds, names=[name] if name else [])

    def _loop(self, body: Message, before: list[str], each: list[str], after: list[str]) -> str:
        """Run `body` for every token: states [m] go round, rows of `each` [T, …] go in, rows of one array come out."""
        write = self.writer
        first = [write.apply("Squeeze", state, write.integers(0)) for state in before]
        *last, rows = write.apply_many(
            "Scan", *first, *each, outputs=len(before) + 1, body=body, num_scan_inputs=len(each)
        )
        for state, name in zip(last, after, strict=True):
            write.apply("Unsqueeze", state, write.integers(0), names=[name])
        return rows

    def _lstm(self, layer: int, x: str) -> str:
        """h of one layer [T, m]: torch's gates i, f, g, o. What x contributes is computed for all tokens at once."""
        name, hidden = f"layers.{layer}", self.shape.hidden_sizes[layer]
        ahead = self._product(self.writer, x, f"{name}.weight_ih", f"{name}.bias_ih")
        before, after = ([f"{place}.{layer}.{part}" for part in ("h", "c")] for place in ("state", "next"))
        if self.one_row:
            return self._lstm_step(self.writer, layer, ahead, before, after)
        body = self.writer.body(f"next.{layer}")
        row, h, c = (body.apply("Unsqueeze", part, body.integers(0)) for part in ("ahead", "h", "c"))
        self._lstm_step(body, layer, row, [h, c], ["h_row", "c_row"])
        for part in ("h", "c"):
            body.apply("Squeeze", f"{part}_row", body.integers(0), names=[f"{part}_after"])
        body.apply("Identity", "h_after", names=["output"])
        inputs = [Port("h", FLOAT, (hidden,)), Port("c", FLOAT, (hidden,)), Port("ahead", FLOAT, (4 * hidden,))]
        outputs = [Port(name, FLOAT, (hidden,)) for name in ("h_after", "c_after", "output")]
        return self._loop(body.graph("lstm", inputs, outputs), before, [ahead], after)

    def _lstm_step(self, write: Writer, layer: int, ahead: str, before: list[str], after: list[str]) -> str:
        """One token: h, and with it the state named `after`, from what its input contributes [1, 4m]."""
        name, (h, c) = f"layers.{layer}", before
        gates = write.apply("Add", ahead, self._product(write, h, f"{name}.weight_hh", f"{name}.bias_hh", one_row=True))
        i, f, g, o = write.apply_many("Split", gates, outputs=4, axis=1)
        i, f, o = (write.apply("Sigmoid", gate) for gate in (i, f, o))
        new = write.apply("Mul", i, write.apply("Tanh", g))
        c = write.apply("Add", write.apply("Mul", f, c), new, names=after[1:])
        return write.apply("Mul", o, write.apply("Tanh", c), names=after[:1])

    # Output layer

    def _log_probabilities(self, hidden: str) -> str:
        """log p of every word [T, V]; the clusters of an adaptive softmax are all opened."""
        write, splits = self.writer, self.shape.softmax_splits
        name = "output.weight" if self.shape.is_cut else "embedding.weight"
        if not splits:
            scores = self._product(write, hidden, name, "output.bias")
            return write.apply("LogSoftmax", scores, names=["log_probabilities"], axis=1)
        head = self._cluster(hidden, slice(0, splits[0]), name, "clusters")
        words, *clusters = write.apply_many(
            "Split", head, write.integers(splits[0], *[1] * len(splits)), outputs=1 + len(splits), axis=1
        )
        parts = [words]
        for cluster, (first, last) in zip(clusters, pairwise((*splits, self.shape.vocabulary_size)), strict=True):
            parts.append(write.apply("Add", self._cluster(hidden, slice(first, last), name), cluster))
        return write.apply("Concat", *parts, names=["log_probabilities"], axis=1)

    def _cluster(self, hidden: str, rows: slice, name: str, extra: str = "") -> str:
        """log p of some words, and of the clusters if these are the head's, among themselves."""
        matrix = self.products.matrix(name, *([f"{extra}.weight"] if extra else []), rows=rows)
        bias = self.products.biases("output.bias", *([f"{extra}.bias"] if extra else []), rows=rows)
        bias_name = f"output.bias[{rows.start}:{rows.stop}]"
        scores = matrix.product(self.writer, hidden, bias, bias_name, one_row=self.one_row)
        return self.writer.apply("LogSoftmax", scores, axis=1)

    def _choose(self, scores: str) -> None:
        """The k best of the words that are allowed."""
        write = self.writer
        masked = write.apply("Where", write.apply("Cast", "allowed", to=BOOL), scores, write.number(-np.inf))
        most = write.apply("Min", "k", write.integers(self.shape.vocabulary_size))
        best, words = write.apply_many("TopK", masked, most, outputs=2, axis=1)
        write.apply("Squeeze", words, write.integers(0), names=["top_words"])
        write.apply("Exp", write.apply("Squeeze", best, write.integers(0)), names=["top_probabilities"])


def _new_share(write: Writer, z: str, f: str) -> str:
    """(1 - f) ⊙ z: the part of pooling that does not wait for the token before."""
    return write.apply("Mul", write.apply("Sub", write.number(1), f), z)


def _pool(write: Writer, before: str, f: str, new: str, o: str, c: str, h: str = "") -> str:
    """h = o ⊙ c with c = f ⊙ c_before + (1 - f) ⊙ z; the names that c and h are to have."""
    write.apply("Add", write.apply("Mul", f, before), new, names=[c])
    return write.apply("Mul", o, c, names=[h] if h else [])
