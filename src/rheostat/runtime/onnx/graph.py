"""A cut model as an ONNX graph: state in, state out.

    step      one token in; out: the next state and the k best allowed words
    read      the first half of a step: one token in; out: the next state and the input of the output layer
    choose    the second half of a step: the input of the output layer in; out: the k best allowed words
    sequence  many tokens in; out: the state after them and log p of every word after each of them
    replay    many tokens in; out: the state after them. Skips the output layer
    hidden    many tokens in; out: the state after them and the input of the output layer after each of them
    cluster   the input of the output layer in; out: log p of the words of one cluster of an adaptive softmax, within it

The same functions write all of them, and they agree to the last bits. Inputs and outputs (T tokens, V words):

    token [1] · tokens [T]       int64
    k [1]                        int64, how many words to return; more than V counts as V
    allowed [V]                  uint8, 1 for the words that may be suggested: prefixes, block lists and special
                                 tokens. Not bool, which Swift and Objective-C could not pass until 2026
    hidden [1, D] · [T, D]       the input of the output layer
    state.{l}.c [1, m]           of every layer; a layer with a window above 1 also has
    state.{l}.inputs             [1, (r-1)·D], its last inputs, oldest first; an LSTM has state.{l}.h [1, m]
    top_words [k]                int64, best first; words that are not allowed come last, with probability 0
    top_probabilities [k]        of the softmax over all words, allowed or not
    log_probabilities [T, V]     rather than logits: an adaptive softmax has no logits of all words, and evaluation
                                 and completion need probabilities. For a cluster [T, N]; for the head, cluster 0,
                                 its words and then each tail cluster
    next.{l}.…                   the state after the tokens

A step of an adaptive softmax is lazy. A word of a tail cluster is at most as probable as the cluster, so a cluster is
opened (`If`) only if it holds allowed words and is more probable than the k-th best word found so far. The answers are
the same to the last bit. Such a step does not return log p of all words; with C tail clusters, it returns instead:

    top_words, top_probabilities without words that are not allowed, so there may be fewer than k
    opened [C]                   uint8, 1 for the clusters that were opened
    head [1, H]                  choose: log p of the words of the head
    tail.{c} [1, N]              choose: log p of the words of a cluster if it was opened; else [1, 0]

Knows the mathematics of a model; `operators` knows matrices and precisions, `session` runs the graphs.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

import rheostat
from rheostat.model.names import scale_name
from rheostat.model.precision import Precision
from rheostat.model.shape import CLUSTERS, CLUSTERS_BIAS, EMBEDDING, MOST_CLUSTERS, OUTPUT_BIAS, ModelShape
from rheostat.runtime.onnx import format as onnx_format
from rheostat.runtime.onnx.format import BOOL, FLOAT, INT64, UINT8, Message
from rheostat.runtime.onnx.operators import CONTRIB, IR_VERSION, OPSET, Port, Products, Writer
from rheostat.runtime.onnx.weights import Prepared

if TYPE_CHECKING:
    import onnx

Form = Literal["step", "read", "choose", "sequence", "replay", "hidden", "cluster"]

SLICE_END = 2**63 - 1  # means: to the end
SMALL = 2 * MOST_CLUSTERS  # constants with fewer numbers stay in the graph: shape inference reads them
NOTHING = np.zeros((1, 0), np.float32)


@dataclass(frozen=True)
class Graph:
    """A graph, and separately its constants: a session takes them as they are, a file has them inside."""

    body: Message  # the graph without constants
    constants: dict[str, NDArray[Any]]
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]

    @property
    def weight_bytes(self) -> int:
        return sum(array.nbytes for array in self.constants.values())

    @property
    def outside(self) -> dict[str, NDArray[Any]]:
        """The constants that are not part of `structure`."""
        return {name: array for name, array in self.constants.items() if array.size >= SMALL}

    def structure(self) -> Message:
        """The model for a session, which is given the constants separately."""
        outside = self.outside
        return self._model(
            (onnx_format.tensor_elsewhere if name in outside else onnx_format.tensor)(name, array)
            for name, array in self.constants.items()
        )

    def complete(self) -> onnx.ModelProto:
        """One self-contained model."""
        import onnx  # here, because no session needs it

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
    """The parts of a state, `{l}.{part}`, with their widths, in the order of inputs and outputs."""
    sizes: dict[str, int] = {}
    for layer, hidden in enumerate(shape.hidden_sizes):
        if shape.cell != "qrnn":
            sizes[f"{layer}.h"] = hidden
        sizes[f"{layer}.c"] = hidden
        if shape.cell == "qrnn" and shape.windows[layer] > 1:
            sizes[f"{layer}.inputs"] = (shape.windows[layer] - 1) * shape.input_size(layer)
    return sizes


def build_graph(
    weights: Prepared,
    shape: ModelShape,
    precision: Precision,
    form: Form,
    *,
    every_cluster: bool = False,
    cluster: int = 0,
) -> Graph:
    """The graph of a cut model, from its prepared weights.

    every_cluster: open all clusters of an adaptive softmax, needed or not; tests compare the lazy graph with it.
    cluster: which one, for the form "cluster"; 0 is the head.
    """
    return _ModelWriter(weights, shape, precision, form, every_cluster, cluster).graph()


class _ModelWriter:
    """Writes one graph: embedding, layers, output layer, choice of words."""

    def __init__(
        self,
        weights: Prepared,
        shape: ModelShape,
        precision: Precision,
        form: Form,
        every_cluster: bool,
        cluster: int,
    ) -> None:
        self.weights, self.shape, self.form = weights, shape, form
        self.every_cluster, self.cluster = every_cluster, cluster
        self.products = Products(weights, precision)
        self.writer = Writer()
        self.one_row = form in ("step", "read", "choose")
        self.reads, self.chooses = form not in ("choose", "cluster"), form in ("step", "choose")
        self.output_name = shape.output_name

    def graph(self) -> Graph:
        hidden = self._layers(self._embedding()) if self.reads else "hidden"
        if self.form in ("read", "hidden"):
            self.writer.apply("Identity", hidden, names=["hidden"])
        elif self.form == "cluster":
            head = self.cluster == 0 and bool(self.shape.softmax_splits)
            scores = self._cluster(self.writer, hidden, self.shape.clusters[self.cluster], head=head)
            self.writer.apply("Identity", scores, names=["log_probabilities"])
        elif self.chooses and self.shape.softmax_splits:
            self._choose_lazily(hidden)
        elif self.chooses:
            self._choose(self._log_probabilities(hidden))
        elif self.form == "sequence":
            self._log_probabilities(hidden)
        inputs, outputs = self._inputs(), self._outputs()
        graph = self.writer.graph(f"rheostat {self.form}", inputs, outputs)
        read, named = self.writer.read, self.writer.constants.items()
        constants = {name: np.ascontiguousarray(array) for name, array in named if name in read}
        return Graph(graph, constants, inputs, outputs)

    # Inputs and outputs

    def _inputs(self) -> tuple[Port, ...]:
        ports = []
        if self.reads:
            ports.append(Port("token", INT64, (1,)) if self.one_row else Port("tokens", INT64, ("T",)))
        else:
            ports.append(self._hidden())
        if self.chooses:
            ports += [Port("k", INT64, (1,)), Port("allowed", UINT8, (self.shape.vocabulary_size,))]
        return (*ports, *self._state("state"))

    def _outputs(self) -> tuple[Port, ...]:
        ports = []
        if self.form in ("read", "hidden"):
            ports.append(self._hidden())
        if self.form == "cluster":
            words, tails = self.shape.clusters[self.cluster], len(self.shape.softmax_splits)
            size = words.stop - words.start + (tails if self.cluster == 0 else 0)
            ports.append(Port("log_probabilities", FLOAT, ("T", size)))
        if self.chooses:
            ports += [Port("top_words", INT64, ("K",)), Port("top_probabilities", FLOAT, ("K",))]
        if self.chooses and self.shape.softmax_splits:
            ports += self._lazy_outputs()
        elif self.chooses or self.form == "sequence":
            rows = 1 if self.one_row else "T"
            ports.append(Port("log_probabilities", FLOAT, (rows, self.shape.vocabulary_size)))
        return (*ports, *self._state("next"))

    def _hidden(self) -> Port:
        return Port("hidden", FLOAT, (1 if self.one_row else "T", self.shape.output_size))

    def _lazy_outputs(self) -> list[Port]:
        tails = len(self.shape.softmax_splits)
        opened = Port("opened", UINT8, (tails,))
        if self.form == "step":
            return [opened]
        parts = [Port(f"tail.{cluster}", FLOAT, (1, f"N{cluster}")) for cluster in range(tails)]
        return [opened, Port("head", FLOAT, (1, self.shape.clusters[0].stop)), *parts]

    def _state(self, place: str) -> list[Port]:
        if not self.reads:
            return []
        return [Port(f"{place}.{name}", FLOAT, (1, size)) for name, size in state_sizes(self.shape).items()]

    # Embedding

    def _embedding(self) -> str:
        """Rows of the embedding [T, D]; 8-bit rows are converted to floats after the look-up."""
        write, name = self.writer, EMBEDDING
        tokens = "token" if self.one_row else "tokens"
        if self.products.precision == "fp32":
            return write.apply("Gather", write.constant(name, self.weights[name]), tokens)
        integers, scale = self.weights[name], self.weights[scale_name(name)]
        rows = write.apply("Gather", write.constant(name, integers), tokens)
        scales = write.apply("Gather", write.constant(scale_name(name), scale), tokens)
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
        """h of one layer [T, m]."""
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
        """X [T, r·D] from x [T, D] and the inputs before it; the last inputs become part of the next state."""
        write, before, after = self.writer, f"state.{layer}.inputs", f"next.{layer}.inputs"
        steps, size = self.shape.windows[layer] - 1, self.shape.input_size(layer)
        if self.one_row:
            window = write.apply("Concat", before, x, axis=1)
            self._slice(window, size, SLICE_END, axis=1, name=after)
            return window
        padded = write.apply("Concat", write.apply("Reshape", before, write.integers(steps, size)), x, axis=0)
        last = self._slice(padded, -steps, SLICE_END, axis=0)
        write.apply("Reshape", last, write.integers(1, steps * size), names=[after])
        parts = [self._slice(padded, k, k - steps if k < steps else SLICE_END, axis=0) for k in range(steps + 1)]
        return write.apply("Concat", *parts, axis=1)

    def _slice(self, x: str, first: int, last: int, *, axis: int, name: str = "") -> str:
        bounds = [self.writer.integers(value) for value in (first, last, axis)]
        return self.writer.apply("Slice", x, *bounds, names=[name] if name else [])

    def _loop(self, body: Message, before: list[str], each: list[str], after: list[str]) -> str:
        """Run `body` for every token: states [m] are carried, rows of `each` [T, …] go in, one array comes out."""
        write = self.writer
        first = [write.apply("Squeeze", state, write.integers(0)) for state in before]
        *last, rows = write.apply_many(
            "Scan", *first, *each, outputs=len(before) + 1, body=body, num_scan_inputs=len(each)
        )
        for state, name in zip(last, after, strict=True):
            write.apply("Unsqueeze", state, write.integers(0), names=[name])
        return rows

    def _lstm(self, layer: int, x: str) -> str:
        """h of one layer [T, m], with torch's gates i, f, g, o. Products with x are computed for all tokens at once."""
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
        """One token: h and the state named `after`, from the products with its input [1, 4m]."""
        name, (h, c) = f"layers.{layer}", before
        gates = write.apply("Add", ahead, self._product(write, h, f"{name}.weight_hh", f"{name}.bias_hh", one_row=True))
        i, f, g, o = write.apply_many("Split", gates, outputs=4, axis=1)
        i, f, o = (write.apply("Sigmoid", gate) for gate in (i, f, o))
        new = write.apply("Mul", i, write.apply("Tanh", g))
        c = write.apply("Add", write.apply("Mul", f, c), new, names=after[1:])
        return write.apply("Mul", o, write.apply("Tanh", c), names=after[:1])

    # Output layer

    def _log_probabilities(self, hidden: str) -> str:
        """log p of every word [T, V]; opens all clusters of an adaptive softmax."""
        write = self.writer
        if not self.shape.softmax_splits:
            scores = self._product(write, hidden, self.output_name, OUTPUT_BIAS)
            return write.apply("LogSoftmax", scores, names=["log_probabilities"], axis=1)
        words, clusters = self._head(hidden)
        tails = zip(clusters, self.shape.clusters[1:], strict=True)
        parts = [self._tail(write, hidden, cluster, rows) for cluster, rows in tails]
        return write.apply("Concat", words, *parts, names=["log_probabilities"], axis=1)

    def _head(self, hidden: str, name: str = "") -> tuple[str, list[str]]:
        """log p of the words of the head [T, H], and of each tail cluster [T, 1]."""
        head, tails = self.shape.clusters[0], len(self.shape.softmax_splits)
        scores = self._cluster(self.writer, hidden, head, head=True)
        names = [name, *(f"{name}.cluster.{tail}" for tail in range(tails))] if name else []
        sizes = self.writer.integers(head.stop, *[1] * tails)
        words, *clusters = self.writer.apply_many("Split", scores, sizes, outputs=1 + tails, names=names, axis=1)
        return words, clusters

    def _tail(self, write: Writer, hidden: str, cluster: str, rows: slice) -> str:
        """log p of the words of a tail cluster [T, N], from log p of the cluster."""
        return write.apply("Add", self._cluster(write, hidden, rows), cluster)

    def _cluster(self, write: Writer, hidden: str, rows: slice, *, head: bool = False) -> str:
        """log p of the words of a cluster within it; the head also has the tail clusters."""
        matrix = self.products.matrix(self.output_name, *([CLUSTERS] if head else []), rows=rows)
        bias = self.products.biases(OUTPUT_BIAS, *([CLUSTERS_BIAS] if head else []), rows=rows)
        bias_name = f"{OUTPUT_BIAS}[{rows.start}:{rows.stop}]"
        scores = matrix.product(write, hidden, bias, bias_name, one_row=self.one_row)
        return write.apply("LogSoftmax", scores, axis=1)

    def _choose(self, scores: str) -> None:
        """Choose the k best allowed words."""
        write = self.writer
        most = write.apply("Min", "k", write.integers(self.shape.vocabulary_size))
        best, words = write.apply_many("TopK", _masked(write, scores, "allowed"), most, outputs=2, axis=1)
        write.apply("Squeeze", words, write.integers(0), names=["top_words"])
        write.apply("Exp", write.apply("Squeeze", best, write.integers(0)), names=["top_probabilities"])

    def _choose_lazily(self, hidden: str) -> None:
        """Choose the k best allowed words of an adaptive softmax, opening only tail clusters that can contain one.

        Clusters come in the order of their ids, and TopK prefers the first of equals: a later word has to be more
        probable than the k-th best.
        """
        write = self.writer
        words, clusters = self._head(hidden, "head" if self.form == "choose" else "")
        most = write.apply("Min", "k", write.integers(self.shape.vocabulary_size))
        # Padded to k, so there is always a k-th best to compare with.
        filling = write.apply("Expand", write.number(-np.inf), write.apply("Concat", write.integers(1), most, axis=0))
        allowed = _allowed(write, self.shape.clusters[0])
        candidates = write.apply("Concat", _masked(write, words, allowed), filling, axis=1)
        best, ids = write.apply_many("TopK", candidates, most, outputs=2, axis=1)
        opened = []
        for place, (cluster, rows) in enumerate(zip(clusters, self.shape.clusters[1:], strict=True)):
            condition = self._may_matter(place, cluster, rows, best)
            opened.append(write.apply("Cast", condition, to=UINT8))
            branch = self._opened(write.body(f"open.{place}"), hidden, cluster, rows, (best, ids), most)
            stay = _branch(write.body(f"leave.{place}"), best, ids, write.constant("nothing", NOTHING))
            best, ids, _ = write.apply_many(
                "If",
                condition,
                outputs=3,
                names=[f"{name}.{place}" for name in ("best", "words", "tail")],
                then_branch=branch,
                else_branch=stay,
            )
        write.apply("Concat", *opened, names=["opened"], axis=0)
        self._answer(best, ids)

    def _may_matter(self, place: int, cluster: str, rows: slice, best: str) -> str:
        """Whether a cluster has to be opened [1]: it is probable enough and (slower to check) has allowed words."""
        write = self.writer
        if self.every_cluster:
            return write.constant("yes", np.array([True]))
        probable = write.apply("Greater", cluster, write.apply("ReduceMin", best, axes=[1]))
        look, skip = write.body(f"look.{place}"), write.body(f"skip.{place}")
        some = look.apply("ReduceMax", _allowed(look, rows), axes=[0])
        answers = [
            look.apply("Cast", some, to=BOOL),
            skip.apply("Identity", skip.constant("no", np.array([False]))),
        ]
        then, other = (
            body.graph(body.prefix, [], [Port(answer, BOOL, (1,))])
            for body, answer in zip((look, skip), answers, strict=True)
        )
        return write.apply("If", probable, then_branch=then, else_branch=other)

    def _opened(
        self, write: Writer, hidden: str, cluster: str, rows: slice, best: tuple[str, str], most: str
    ) -> Message:
        """The branch that opens a cluster."""
        # No word may be more probable than its cluster, however a processor rounds: skipping clusters relies on it.
        scores = write.apply("Min", self._tail(write, hidden, cluster, rows), cluster)
        candidates = write.apply("Concat", best[0], _masked(write, scores, _allowed(write, rows)), axis=1)
        values, places = write.apply_many("TopK", candidates, most, outputs=2, axis=1)
        last = write.apply("Sub", most, write.integers(1))
        before = write.apply("GatherElements", best[1], write.apply("Min", places, last), axis=1)
        new = write.apply("Add", write.apply("Sub", places, most), write.integers(rows.start))
        words = write.apply("Where", write.apply("Less", places, most), before, new)
        return _branch(write, values, words, scores)

    def _answer(self, best: str, words: str) -> None:
        """The words that were found, without the padding."""
        write = self.writer
        found = write.apply("Greater", write.apply("Squeeze", best, write.integers(0)), write.number(-np.inf))
        write.apply("Compress", write.apply("Squeeze", words, write.integers(0)), found, names=["top_words"], axis=0)
        values = write.apply("Compress", write.apply("Squeeze", best, write.integers(0)), found, axis=0)
        write.apply("Exp", values, names=["top_probabilities"])


def _allowed(write: Writer, rows: slice) -> str:
    """Which words of a cluster are allowed."""
    return write.apply("Slice", "allowed", *[write.integers(bound) for bound in (rows.start, rows.stop, 0)])


def _masked(write: Writer, scores: str, allowed: str) -> str:
    return write.apply("Where", write.apply("Cast", allowed, to=BOOL), scores, write.number(-np.inf))


def _branch(write: Writer, best: str, words: str, scores: str) -> Message:
    """A branch of an `If`: the k best so far [1, k], their ids, and log p of the words of an opened cluster [1, N]."""
    sizes = {"best": "K", "words": "K", "scores": "N"}
    ports = [Port(write.prefix + name, INT64 if name == "words" else FLOAT, (1, size)) for name, size in sizes.items()]
    for value, port in zip((best, words, scores), ports, strict=True):
        write.apply("Identity", value, names=[port.name])
    return write.graph(write.prefix, [], ports)


def _new_share(write: Writer, z: str, f: str) -> str:
    """(1 - f) ⊙ z: the part of pooling that does not depend on the token before."""
    return write.apply("Mul", write.apply("Sub", write.number(1), f), z)


def _pool(write: Writer, before: str, f: str, new: str, o: str, c: str, h: str = "") -> str:
    """h = o ⊙ c with c = f ⊙ c_before + (1 - f) ⊙ z; names: of c and h."""
    write.apply("Add", write.apply("Mul", f, before), new, names=[c])
    return write.apply("Mul", o, c, names=[h] if h else [])
