"""Searching for the path of a knob: the order in which it gives up filters and bits.

A greedy search on validation text. From the whole model on, each step narrows one layer, narrows all layers along the
default ranking (as graded training did), or reads a block of rows of one matrix in 4 bits instead of 8: whichever loses
least per unit saved. Every position contains the next, so all of them are served from one file. A step is measured
again only when it looks best or was measured long ago, because what it loses changes slowly (lazy greedy, Minoux 1978).
Every step is saved, so a killed search loses at most one.

Knows positions and measured losses; `model.path` knows what a path is, `model.flops` what a position costs.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import exp, inf
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from rheostat.arguments import checked
from rheostat.durable import replacing
from rheostat.errors import CheckpointError, OperatingPointError, RheostatError, visible
from rheostat.inputs import read_input
from rheostat.measure.results import BenchResults, read_results
from rheostat.model.file import ModelFile, open_model
from rheostat.model.flops import cost_by_part, flops_by_part
from rheostat.model.operating_point import BOUND_STEP, whole_bounds
from rheostat.model.path import SMALLEST, KnobPath, PathPosition, check_path, known_down_to, path_along, point_at
from rheostat.model.shape import ModelShape
from rheostat.model.widths import check_knob
from rheostat.model.writer import check_target, write_model
from rheostat.provenance import new_origin
from rheostat.runtime.evaluation import RuntimeEvaluator
from rheostat.tables import decode_json, from_json
from rheostat.text.corpus import CorpusConfig, load_training_split

LARGEST_STEP = 0.02  # of the whole model's cost, between neighbouring positions
LARGEST_PART = 0.05  # of the position's own cost: near the small end, steps are finer
# Widths are multiples of the first of these that a step allows. The core reads 16 rows and 8 columns at once.
WIDTH_STEPS = (16, 8, 1)
COLUMNS = 8
REMEMBERED = 3  # steps after which the price of a move is measured again
TOKENS = 4000  # of validation text per measurement
STRETCH = 500  # tokens: the sample is made of stretches from all over the text
VALID = "valid"
SMALLEST_SHARE = 0.02  # of the FLOPs, down to which widths along the ranking are tried

Spent = Literal["cost", "bytes", "ms"]
SPENT: tuple[Spent, ...] = get_args(Spent)
Progress = Callable[[str, float], None]


@dataclass(frozen=True)
class PathSearch:
    """A searched path. perplexities: of its positions, on the sample that decided."""

    path: KnobPath
    perplexities: tuple[float, ...]
    by: Spent
    sample_tokens: int
    measurements: int

    @property
    def tokens_read(self) -> int:
        """Tokens of text in all measurements together."""
        return self.sample_tokens * self.measurements

    def as_json(self) -> dict[str, Any]:
        positions = [
            {"cost": position.cost, "widths": position.widths, "bounds": position.bounds, "perplexity": perplexity}
            for position, perplexity in zip(self.path, self.perplexities, strict=True)
        ]
        read = {"sample_tokens": self.sample_tokens, "measurements": self.measurements, "tokens_read": self.tokens_read}
        return {"by": self.by, **read, "positions": positions}


@checked
def search_path(
    model: str | Path,
    out: str | Path,
    *,
    data: str | Path,
    by: Spent = "cost",
    bench: str | Path | None = None,
    smallest: float | None = None,
    tokens: int = TOKENS,
    progress: Progress = lambda label, share: None,
) -> PathSearch:
    """Search the path of an ordered int8 file on validation text, and write the file with it to `out`.

    data: a folder with train, valid and test text, "chat" or "talk", or one text file. by: what a step should save:
    cost, bytes read, or milliseconds as the results file `bench` of this model predicts them. smallest: the share of
    the cost where the path ends. tokens: of text, per measurement. A search that was killed resumes when called again.
    """
    check_target(out)
    if by not in SPENT:
        raise OperatingPointError(f"by is {by!r:.40}; expected one of {', '.join(SPENT)}")
    if tokens < 2:
        raise OperatingPointError(f"tokens is {tokens}; expected at least 2: one to read, one to predict")
    with open_model(model) as file:
        _check_file(file)
        end = _end(file) if smallest is None else smallest
        check_knob(end)
        config = CorpusConfig(tokenizer=file.tokenizer)
        split = load_training_split(data, VALID, config, file.vocabulary, progress=progress)
        ids = sample(split.ids, tokens)
        spends = spending(file.shape, by, None if bench is None else Path(bench))
        evaluator, ranking = RuntimeEvaluator(file, "int8"), file.ranking()

        def loss(position: PathPosition) -> float:
            return evaluator.quality(point_at(position, ranking, file.shape), ids).loss

        weights = file.weights_digest()
        subject = {"weights": weights, "text": split.digest, "tokens": len(ids), "by": spends.name, "smallest": end}
        saved = SavedSearch(Path(f"{out}.search.json"), subject, file.shape)
        together = [position.widths for position in path_along(ranking, file.shape, SMALLEST_SHARE)]
        search = Search(file.shape, loss, spends, together, saved.load())
        for position in search.down_to(end):
            saved.save(search)
            progress(f"{position.cost:.0%} of the cost", min((1 - position.cost) / (1 - end), 1.0))
        found = PathSearch(
            tuple(step.position for step in search.steps),
            tuple(exp(step.loss) for step in search.steps),
            by,
            len(ids),
            search.measurements,
        )
        origin = replace(
            new_origin(),
            tokens_read=found.tokens_read,
            corpus=visible(Path(data).resolve().name),
            corpus_digest=split.digest,
            made_from=weights,
        )
        contents = file.contents()
        recorded = {**contents.provenance, "path": {"by": by, **origin.as_json()}}
        write_model(out, replace(contents, knob_path=found.path, provenance=recorded))
    saved.remove()
    return found


def _check_file(file: ModelFile) -> None:
    remedy = "write such a file with: rheostat pack --precision int8 --order"
    if file.ordered is None or file.precision != "int8":
        found = "is not ordered" if file.ordered is None else f"has its weights in {file.precision}"
        raise OperatingPointError(f"{file.path} {found}; expected an ordered int8 file: {remedy}")
    if file.description.bits == 4:
        raise OperatingPointError(f"{file.path} has 4 bits only; expected both planes: use the file it was packed from")


def _end(file: ModelFile) -> float:
    """Where the path ends by default: the smallest width that the model was trained or measured for, in 4 bits."""
    about = file.description
    criterion = next(entry.criterion for entry in about.rankings if entry.name == about.default_ranking)
    known = known_down_to(criterion, about.recipe, about.provenance)
    return SMALLEST if known is None else max(known / 2, SMALLEST)


def sample(ids: NDArray[np.integer[Any]], tokens: int) -> NDArray[np.integer[Any]]:
    """About this many tokens of a text, in stretches that are spread evenly over it; all of it if it is shorter."""
    stretches = max(1, tokens // STRETCH)
    if len(ids) <= tokens or stretches == 1:
        return ids[:tokens]
    starts = np.linspace(0, len(ids) - STRETCH, stretches).astype(int)
    return np.concatenate([ids[start : start + STRETCH] for start in starts])


class Spending(NamedTuple):
    """What a position spends, in the unit that the search saves."""

    name: str  # the unit, and what else decides
    of: Callable[[PathPosition], float]


def spending(shape: ModelShape, by: Spent, bench: Path | None) -> Spending:
    if bench is not None and by != "ms":
        raise OperatingPointError(
            f"a bench file was given to search by {by}; expected a search by ms with it, or no bench file"
        )
    if by == "cost":
        return Spending(by, lambda position: position.cost)
    if by == "bytes":
        return Spending(by, lambda position: _bytes_read(shape, position))
    if bench is None:
        raise OperatingPointError(
            "no bench file was given to search by ms; expected one of the device, from rheostat bench -o FILE"
        )
    fixed, eight, four = _fitted_ms(shape, bench)
    return Spending(
        f"ms {eight:.6g} {four:.6g}",
        lambda position: fixed + float(np.dot(work_of(shape, position), (eight, four))),
    )


def _bytes_read(shape: ModelShape, position: PathPosition) -> float:
    """Bytes of matrices, row scales and biases that a query reads; lazy clusters count as opened."""
    rows = 3 * sum(position.widths) + shape.vocabulary_size
    return position.cost * shape.flops / 2 + 8 * rows


def work_of(shape: ModelShape, position: PathPosition) -> tuple[float, float]:
    """Millions of FLOPs with 8-bit weights, and with 4-bit ones."""
    cut = shape.with_hidden_sizes(position.widths)
    flops, cost = sum(flops_by_part(cut).values()), sum(cost_by_part(cut, position.bounds).values())
    four = 2 * (flops - cost)
    return (flops - four) / 1e6, four / 1e6


def _fitted_ms(shape: ModelShape, bench: Path) -> tuple[float, float, float]:
    """ms = a + b · FLOPs in 8 bits + c · FLOPs in 4 bits, by least squares over the rows of a bench."""
    results = read_results(bench)
    if not isinstance(results, BenchResults):
        raise OperatingPointError(f"{bench} holds no bench; expected the results file that rheostat bench wrote")
    rows = [row for row in results.rows if len(row.widths) == len(shape.hidden_sizes)]
    work = [work_of(shape, PathPosition(row.cost, row.widths, row.bounds)) for row in rows]
    table = np.array([(1.0, *parts) for parts in work]).reshape(-1, 3)
    if np.linalg.matrix_rank(table) < 3:
        raise OperatingPointError(
            f"{bench} has {len(rows)} rows, which is not enough to separate 8 bits from 4; expected at least three "
            "positions of this model, some of them in 4 bits: bench a file with a path"
        )
    fixed, eight, four = map(float, np.linalg.lstsq(table, np.array([row.latency_ms for row in rows]), rcond=None)[0])
    if min(eight, four) <= 0:
        raise OperatingPointError(
            f"{bench} has latencies that do not grow with the work ({eight:.3g} and {four:.3g} ms per million FLOPs in "
            "8 and 4 bits); expected a quiet machine: bench again"
        )
    return fixed, eight, four


@dataclass(frozen=True)
class PathStep:
    """A position that the search has accepted, and its measured loss."""

    position: PathPosition
    loss: float


class Price(NamedTuple):
    """What a move lost per unit saved, and after how many steps that was measured."""

    loss_per_unit: float
    measured_at: int


UNKNOWN_PRICE = Price(-inf, 0)


@dataclass(frozen=True)
class SearchState:
    """What a search resumes from. prices: see `Price`, by move."""

    steps: tuple[PathStep, ...]
    prices: Mapping[str, Price]
    measurements: int


class Search:
    """The greedy search itself, on any measure of loss."""

    def __init__(
        self,
        shape: ModelShape,
        loss: Callable[[PathPosition], float],
        spends: Spending,
        together: Sequence[tuple[int, ...]] = (),
        state: SearchState | None = None,
    ) -> None:
        """together: widths of all layers along a ranking, the largest first, to follow where that is best."""
        self._shape, self._loss, self._spends = shape, loss, spends
        self._together = [self._in_blocks(widths) for widths in together]
        self.measurements = state.measurements if state else 0
        self.steps: list[PathStep] = list(state.steps) if state else []
        self.prices: dict[str, Price] = dict(state.prices) if state else {}
        if not self.steps:
            whole = PathPosition(1.0, shape.hidden_sizes)
            self.steps = [PathStep(whole, self._measure(whole))]

    def down_to(self, smallest: float) -> Iterator[PathPosition]:
        """Accept one step after another until a position costs no more than this; yields each one."""
        yield self.steps[-1].position
        while self.steps[-1].position.cost > smallest:
            step = self._best()
            if step is None:
                cost = self.steps[-1].position.cost
                raise OperatingPointError(
                    f"the smallest position of this model costs {cost:.4f}; expected no smaller one to be asked for"
                )
            self.steps.append(step)
            yield step.position

    def _best(self) -> PathStep | None:
        """The step that loses least per unit saved. A move is measured if its price is the lowest known, or too old."""
        now, moves = self.steps[-1], self._moves()
        spent = self._spends.of(now.position)
        fresh: dict[str, PathStep] = {}
        oldest = len(self.steps) - REMEMBERED
        known = {name: self.prices.get(name, UNKNOWN_PRICE) for name in moves}
        self.prices = {name: price if price.measured_at >= oldest else UNKNOWN_PRICE for name, price in known.items()}
        while moves:
            name = min(self.prices, key=lambda move: self.prices[move].loss_per_unit)
            if name in fresh:
                return fresh[name]
            position = moves[name]
            step = PathStep(position, self._measure(position))
            fresh[name] = step
            saved = max(spent - self._spends.of(position), 1e-12)
            self.prices[name] = Price((step.loss - now.loss) / saved, len(self.steps))
        return None

    def _measure(self, position: PathPosition) -> float:
        self.measurements += 1
        return self._loss(position)

    def _moves(self) -> dict[str, PathPosition]:
        """What can be done from here, by name: "narrow 0", "bits 2"."""
        now = self.steps[-1].position
        bounds, found = now.bounds or whole_bounds(self._shape), {}
        for layer, width in enumerate(now.widths):
            if width > 1:
                found[f"narrow {layer}"] = self._narrower(width, partial(self._narrowed, now, layer))
        for part, size in enumerate((*now.widths, self._shape.vocabulary_size)):
            if bound := min(bounds[part], size):
                found[f"bits {part}"] = self._coarser(bound, partial(self._coarsened, now, part))
        if (narrower := self._narrower_together(now)) is not None:
            found["narrow all"] = narrower
        return found

    def _narrower_together(self, now: PathPosition) -> PathPosition | None:
        """All layers narrower along the ranking by as much as one step allows; None if no widths are within one."""
        within = [
            position
            for widths in self._together
            if (position := self._position(tuple(map(min, widths, now.widths)), now.bounds)).cost < now.cost
        ]
        for step in (self._step, LARGEST_STEP):
            if steps := [position for position in within if position.cost >= self._lowest(step)]:
                return steps[-1]
        return None

    def _in_blocks(self, widths: tuple[int, ...]) -> tuple[int, ...]:
        """Widths rounded to multiples of the columns that the core reads at once."""
        rounded = (max(1, round(width / COLUMNS)) * COLUMNS for width in widths)
        return tuple(map(min, rounded, self._shape.hidden_sizes))

    def _narrower(self, width: int, narrowed: Callable[[int], PathPosition]) -> PathPosition:
        """A layer narrower by as much as one step allows, to a multiple of the first of WIDTH_STEPS that fits."""
        for step in WIDTH_STEPS:
            counts = range(1, (width - 1) // step + 1)
            if counts and narrowed(counts[-1] * step).cost >= self._lowest(self._step):
                return self._furthest(counts, partial(_times, step, narrowed))
        return narrowed(width - 1)

    def _coarser(self, bound: int, coarsened: Callable[[int], PathPosition]) -> PathPosition:
        """A bit bound lower by as much as one step allows, and by at least BOUND_STEP."""
        return self._furthest(range((bound - 1) // BOUND_STEP + 1), partial(_times, BOUND_STEP, coarsened))

    def _furthest(self, counts: range, change: Callable[[int], PathPosition]) -> PathPosition:
        """The position with the lowest of these counts that is within one step; else with the highest."""
        lowest = self._lowest(self._step)
        return change(counts[min(bisect_left(counts, lowest, key=lambda count: change(count).cost), len(counts) - 1)])

    @property
    def _step(self) -> float:
        """What the next step should save at most, as a share of the cost."""
        return min(LARGEST_STEP, LARGEST_PART * self.steps[-1].position.cost)

    def _lowest(self, step: float) -> float:
        return self.steps[-1].position.cost - step

    def _narrowed(self, now: PathPosition, layer: int, width: int) -> PathPosition:
        return self._position((*now.widths[:layer], width, *now.widths[layer + 1 :]), now.bounds)

    def _coarsened(self, now: PathPosition, part: int, bound: int) -> PathPosition:
        bounds = now.bounds or whole_bounds(self._shape)
        return self._position(now.widths, (*bounds[:part], bound, *bounds[part + 1 :]))

    def _position(self, widths: tuple[int, ...], bounds: tuple[int, ...] | None) -> PathPosition:
        return PathPosition(float(np.float32(self._shape.cost_fraction(widths, bounds))), widths, bounds)


def _times(step: int, change: Callable[[int], PathPosition], count: int) -> PathPosition:
    return change(count * step)


@dataclass(frozen=True)
class _SavedStep:
    cost: float
    widths: tuple[int, ...]
    bounds: tuple[int, ...] | None
    loss: float


@dataclass(frozen=True)
class _SavedState:
    """A search as JSON."""

    subject: Mapping[str, Any]
    steps: tuple[_SavedStep, ...]
    prices: Mapping[str, tuple[float, int]]
    measurements: int

    def state(self) -> SearchState:
        steps = (PathStep(PathPosition(step.cost, step.widths, step.bounds), step.loss) for step in self.steps)
        prices = {name: Price(*price) for name, price in self.prices.items()}
        return SearchState(tuple(steps), prices, self.measurements)


class SavedSearch:
    """The steps of a search that is not finished, in a file beside its result."""

    def __init__(self, path: Path, subject: Mapping[str, Any], shape: ModelShape) -> None:
        self._path, self._subject, self._shape = path, dict(subject), shape

    def load(self) -> SearchState | None:
        """The state that an earlier call saved, or None; an error if it is damaged or was another search."""
        try:
            saved = decode_json(read_input(self._path, "saved search"))
        except FileNotFoundError:
            return None
        except (OSError, RheostatError) as error:
            raise CheckpointError(
                f"{self._path} cannot be read ({error}); expected a saved search: delete it"
            ) from None
        if not isinstance(saved, dict) or saved.get("subject") != self._subject:
            raise CheckpointError(
                f"{self._path} belongs to another search; expected one of this model, text and settings: use those, or "
                "delete it to start again"
            )
        try:
            state = from_json(_SavedState, saved, "search").state()
            self._check(state)
        except (RheostatError, ValueError):
            raise CheckpointError(f"{self._path} is damaged; expected a saved search: delete it") from None
        return state

    def _check(self, state: SearchState) -> None:
        check_path(tuple(step.position for step in state.steps), self._shape)
        steps = len(state.steps)
        if state.measurements < steps or any(not 0 < price.measured_at <= steps for price in state.prices.values()):
            raise ValueError("prices of steps that were not measured")

    def save(self, search: Search) -> None:
        steps = [{**step.position._asdict(), "loss": step.loss} for step in search.steps]
        saved = {"subject": self._subject, "steps": steps, "prices": search.prices, "measurements": search.measurements}
        try:
            with replacing(self._path, alone=True) as file:
                file.write(json.dumps(saved).encode())
        except OSError as error:
            raise RheostatError(f"{self._path} cannot be written ({error}); expected room beside the result") from None

    def remove(self) -> None:
        self._path.unlink(missing_ok=True)
