"""Typing with suggestions, measured for a model, n-grams of the same text, and anyone's own predictor.

Knows which texts are typed, by which protocol, and how sure the figures are; `keystrokes` is the typist.

    class Mine:
        def complete(self, text: str, k: int) -> list[str]:
            ...  # the k best whole words for the text before the cursor

    rheostat.measure_typing(predictors={"mine": Mine()}, aac="talk/aac")
"""

from __future__ import annotations

import importlib
import io
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rheostat.arguments import check_whole, checked
from rheostat.errors import CorpusError, RheostatError, visible
from rheostat.inputs import open_input
from rheostat.measure.keystrokes import (
    Completes,
    KeystrokeCount,
    as_plain,
    first_words,
    last_word,
    offered,
    simulate,
    simulate_plain,
)
from rheostat.measure.ngram import estimate
from rheostat.measure.ngram_baseline import NGramPredictor
from rheostat.measure.personal import FIRST_WORDS, count_typos_learned, type_messages
from rheostat.measure.results import (
    MemoryRow,
    MemoryTime,
    Origins,
    Provenance,
    SlipRow,
    Succession,
    TypingPredictor,
    TypingResults,
    TypingRow,
    TypingText,
    check_results_target,
    write_results,
)
from rheostat.measure.slips import measure_slips, texts_while_typing, time_ratios
from rheostat.measure.succession import compare_models
from rheostat.measure.texts import LINE_END
from rheostat.model.file import ModelFile, open_model
from rheostat.runtime.engine import Cache
from rheostat.runtime.predictor import Predictor, load
from rheostat.text.corpus import CorpusConfig, load_split, locate_splits, part_texts
from rheostat.text.mixture import held_out_senders
from rheostat.words.hidden_words import read_word_list
from rheostat.words.memory import Memory
from rheostat.words.slips import find_key_layout

AAC = "aac"
AAC_SLOTS = (5, 3)
SLOTS = 3  # for conversations, as on a phone
ORDERS = (4, 3, 1)
KNOBS = (1.0, 0.5, 0.25, 0.15)
WORDS = 5000  # of each text of conversations
RESAMPLES = 2000
TYPO_WORDS = 500  # of each sender, typed with slips to count the typos that a memory learns
SEED = 1
PARTS = ("chitchat", "self-dialogue", "topical-chat")  # of a mixture: those that are conversations

_PLAIN_WORD = re.compile(r"[a-z']+")

Progress = Callable[[str, float], None]
Unit = list[str]  # the words of a line or a conversation


class TestedPredictor(NamedTuple):
    """A predictor and what is known of it."""

    predictor: Completes
    about: TypingPredictor


@dataclass(frozen=True)
class TextToType:
    """A text to type, in units that are typed one by one."""

    about: TypingText
    units: list[Unit]

    def type_unit(self, unit: Unit, predictor: Completes, seen: set[str]) -> KeystrokeCount:
        def suggest(text: str) -> list[str]:
            words = offered(predictor, text, self.about.slots)
            typed = as_plain(last_word(text)) if text and not text[-1].isspace() else ""
            seen.update(word for word in words if as_plain(word) != typed)  # what was typed is no suggestion
            return words

        return (simulate_plain if self.about.protocol == "plain" else simulate)(unit, suggest)


@checked
def measure_typing(
    model: str | Path | None = None,
    *,
    data: str | Path | None = None,
    aac: str | Path | None = None,
    split: str = "test",
    knobs: Sequence[float] = KNOBS,
    orders: Sequence[int] = ORDERS,
    words: int = WORDS,
    predictors: Mapping[str, Completes] | None = None,
    misspellings: str | Path | None = None,
    slips: bool = False,
    senders: int = 0,
    old: str | Path | None = None,
    out: str | Path | None = None,
    progress: Progress = lambda label, share: None,
    on_results: Callable[[TypingResults], None] = lambda results: None,
) -> TypingResults:
    """Type texts with the suggestions of a model at several knob positions, of n-grams and of other predictors.

    model: a model file, or None for `predictors` alone. data: its training corpus, "talk" or any other; its test text
    is typed, and n-grams of these orders are estimated from its training text. aac: a folder with dev.txt and test.txt,
    one message per line. split: of both, "test", or "dev" to tune on. words: typed of each text of conversations.
    predictors: others by name, each with `complete(text, k)`. misspellings: a list of words that should never be
    suggested, one per line, or as codespell's dictionary. slips: also type the AAC messages with slips, and count what
    automatic correction does. senders: chitchat senders, of the 40 that no training text contains, who type with a
    memory and without, at the first and the last of the knobs. old: the model that this one
    replaces, to compare perplexity over the words that both know, and the time of a query. out: the results file to
    write. on_results: called before anything is written, so that results are not lost if the file cannot be written.
    """
    check_whole("words", words, 1)
    target = None if out is None else check_results_target(out)
    if split not in ("test", "dev"):
        raise RheostatError(f"the split is {split!r}; expected 'test', or 'dev' to tune on")
    bad = None if misspellings is None else read_word_list(Path(misspellings))
    with ExitStack() as stack:
        file = None if model is None else stack.enter_context(open_model(model))
        texts = [*_aac_texts(aac, split, data), *_conversation_texts(data, split, words)]
        if not texts:
            raise RheostatError("there is no text to type; expected data, aac or both")
        # First, since it takes seconds: a file that cannot be compared is refused before minutes of typing.
        succession = None if old is None else _succession(model, old, data, split, progress)
        tested = [*_models(model, file, knobs, stack), *_ngrams(file, data, orders, progress)]
        tested += [TestedPredictor(one, TypingPredictor(name)) for name, one in (predictors or {}).items()]
        if not tested:
            raise RheostatError("nothing suggests words; expected a model, a corpus for n-grams, or a predictor")
        counted = [_count_keystrokes(one, texts, bad, progress) for one in tested]
        origins = None if file is None else Origins.of(file)
        slip_rows = tuple(_slip_rows(model, file, knobs, texts, bad, progress)) if slips else ()
        personal = _measure_memory(model, file, knobs, senders, progress) if senders else _MemoryFigures()
    results = TypingResults(
        Provenance.of_this_process(),
        str(data) if data is not None else "none",
        RESAMPLES,
        SEED,
        tuple(text.about for text in texts),
        tuple(about for about, _ in counted),
        tuple(_rows(texts, counted)),
        None if misspellings is None else visible(Path(misspellings).name),
        None if model is None else visible(Path(model).name),
        origins,
        slip_rows,
        personal.rows,
        personal.typos,
        succession,
        personal.times,
    )
    on_results(results)
    if target is not None:
        write_results(target, results)
    return results


def find_predictor(name: str) -> Completes:
    """The predictor that "module:object" names, from the current folder too; a class or function is called."""
    module, _, attribute = name.partition(":")
    sys.path.insert(0, str(Path.cwd()))
    try:
        found: Any = getattr(importlib.import_module(module), attribute) if attribute else None
        if isinstance(found, type) or (callable(found) and not hasattr(found, "complete")):
            found = found()
    except Exception as error:  # it is someone else's code
        why = f"{type(error).__name__}: {str(error)[:200]}"
        raise RheostatError(f"the predictor {name} cannot be loaded ({why}); expected module:object") from error
    finally:
        sys.path.pop(0)
    if not callable(getattr(found, "complete", None)):
        raise RheostatError(f"the predictor {name} has no complete(text, k); expected module:object with that method")
    return found  # type: ignore[no-any-return]


# --- what is typed ----------------------------------------------------------------------------------------


def _aac_texts(folder: str | Path | None, split: str, data: str | Path | None) -> list[TextToType]:
    """The lines, those that no line of the training text equals, and the lines as they are written.

    Each with five slots and with three.
    """
    if folder is None:
        return []
    written = [line for line in _read_lines(Path(folder) / f"{split}.txt") if plain_words(line)]
    lines = [plain_words(line) for line in written]
    plain = {f"{AAC}-{split}": (lines, "all lines")}
    if data is not None:
        known = {tuple(plain_words(line)) for line in _read_lines(_text_of(data, "train"))}
        new = [line for line in lines if tuple(line) not in known]
        plain[f"{AAC}-{split}-new"] = new, f"the {len(new)} of {len(lines)} lines that no training line equals"
    as_written: dict[str, tuple[list[Unit], str]] = {
        f"{AAC}-{split}-as-written": ([line.split() for line in written], "all lines")
    }
    protocols: tuple[tuple[Literal["plain", "own"], dict[str, tuple[list[Unit], str]]], ...] = (
        ("plain", plain),
        ("own", as_written),
    )
    return [
        TextToType(TypingText(name, protocol, slots, len(units), sum(map(len, units)), sample), units)
        for protocol, by_name in protocols
        for name, (units, sample) in by_name.items()
        for slots in AAC_SLOTS
        if units
    ]


def plain_words(line: str) -> list[str]:
    """The words of the plain protocol: lower case, letters and apostrophes."""
    return _PLAIN_WORD.findall(line.lower().replace("’", "'"))


def _conversation_texts(data: str | Path | None, split: str, words: int) -> list[TextToType]:
    """The conversations of a corpus, each typed from its first line; of a mixture, those of its parts."""
    if data is None:
        return []
    texts = []
    for name, path in _corpus_texts(data, split).items():
        units, count = _first_conversations(_read_lines(path), words)
        sample = f"the first {count:,} words of the {_split_of_corpus(split)} text"
        texts.append(TextToType(TypingText(name, "own", SLOTS, len(units), count, sample), units))
    return texts


def _corpus_texts(data: str | Path, split: str) -> dict[str, Path]:
    """The texts to type of a corpus, by name: of a mixture, those of its parts that are conversations."""
    of_corpus, parts = _split_of_corpus(split), part_texts(data, CorpusConfig())
    paths = {part: parts[f"{of_corpus}-{part}"] for part in PARTS if f"{of_corpus}-{part}" in parts}
    return paths or {visible(Path(data).name): _text_of(data, of_corpus)}


def _split_of_corpus(split: str) -> str:
    return "valid" if split == "dev" else split


def _first_conversations(lines: Iterable[str], words: int) -> tuple[list[Unit], int]:
    units, count = [], 0
    for blank, group in groupby(lines, key=lambda line: not line.strip()):
        if blank or count >= words:
            continue
        pieces = [piece for line in group for piece in (*line.split(), LINE_END)]
        units.append(first_words(pieces, words - count))
        count += sum(piece != LINE_END for piece in units[-1])
    return units, count


def _text_of(data: str | Path, split: str) -> Path:
    return locate_splits(data, CorpusConfig())[split]


def _read_lines(path: Path) -> Iterator[str]:
    try:
        with io.TextIOWrapper(open_input(path), encoding="utf-8-sig") as file:
            yield from file
    except (OSError, UnicodeDecodeError) as error:
        found = getattr(error, "strerror", None) or "it is not UTF-8"
        raise CorpusError(f"{path} cannot be read ({found}); expected text, one message per line") from None


# --- who suggests -----------------------------------------------------------------------------------------


def _models(
    path: str | Path | None, file: ModelFile | None, knobs: Sequence[float], stack: ExitStack
) -> Iterator[TestedPredictor]:
    """The model at each position; with and without what it can have beside the network: counts, and a cache."""
    if path is None or file is None:
        return
    counted = (True, False) if file.description.counts_order else (False,)
    cached = (None,) if file.shape.softmax_splits else (None, Cache())
    for knob in knobs if file.description.default_ranking or file.description.points else (1.0,):
        for counts in counted:
            for cache in cached:
                predictor = stack.enter_context(load(path, knob, threads=1, counts=counts, cache=cache))
                extras = "".join([", without counts" if counts < counted[0] else "", ", with a cache" if cache else ""])
                name = f"{Path(path).stem} at {knob:.0%}{extras}"
                yield TestedPredictor(predictor, TypingPredictor(name, file.file_bytes, predictor.flops_fraction))


def _ngrams(
    file: ModelFile | None, data: str | Path | None, orders: Sequence[int], progress: Progress
) -> Iterator[TestedPredictor]:
    if data is None or not orders:
        return
    if file is None:
        raise RheostatError("n-grams need a model file, whose vocabulary they share; give a model, or no orders")
    config = CorpusConfig(tokenizer=file.tokenizer)
    ids = load_split(data, "train", config, file.vocabulary).ids
    for order in orders:
        progress(f"counting {order}-grams", 0.0)
        model = estimate(ids, len(file.vocabulary), order)
        predictor = NGramPredictor(model, file.vocabulary, file.tokenizer, file.casing)
        name = "unigrams" if order == 1 else f"{order}-gram"
        yield TestedPredictor(predictor, TypingPredictor(name, model.size_bytes, is_ngram=True))


# --- slips and a memory -----------------------------------------------------------------------------------


def _positions(file: ModelFile | None, knobs: Sequence[float], what: str) -> Sequence[float]:
    if file is None:
        raise RheostatError(f"{what} were asked for without a model; expected a model file")
    return knobs if file.description.default_ranking or file.description.points else (1.0,)


def _slip_rows(
    path: str | Path | None,
    file: ModelFile | None,
    knobs: Sequence[float],
    texts: Sequence[TextToType],
    bad: frozenset[str] | None,
    progress: Progress,
) -> Iterator[SlipRow]:
    """One row per knob position for each text of plain lines, with the most slots."""
    plain = [text for text in texts if text.about.protocol == "plain" and text.about.slots == AAC_SLOTS[0]]
    for knob in _positions(file, knobs, "slips"):
        assert path is not None
        name = f"{Path(path).stem} at {knob:.0%}"
        with load(path, knob, threads=1) as predictor, load(path, knob, threads=1, slips=False) as without:
            for text in plain[:1]:
                progress(f"{name} with slips", 0.0)
                found = measure_slips(predictor, without, text.units, text.about.slots, find_key_layout("qwerty"))
                changed = [typed.lower() for typed, _ in found.taps.changes]
                yield SlipRow(
                    text=text.about.name,
                    predictor=name,
                    words=found.taps.words,
                    clean_share=found.clean.saved_share,
                    slipped_share=found.slipped.saved_share,
                    as_typed_share=found.as_typed.saved_share,
                    tap_slipped=found.taps.slipped,
                    tap_right_share=found.taps.right_share,
                    tap_changed=found.taps.changed,
                    tap_changed_share=found.taps.changed_share,
                    changed_clean=found.untouched.changed,
                    changed_words=tuple(f"{typed} → {shown}" for typed, shown in found.untouched.changes),
                    p50_ratio=found.ratios["p50_ratio"],
                    p95_ratio=found.ratios["p95_ratio"],
                    tap_changed_misspelt=None if bad is None else sum(typed in bad for typed in changed),
                )


def _succession(
    model: str | Path | None, old: str | Path, data: str | Path | None, split: str, progress: Progress
) -> Succession:
    """On the first part of a mixture, chitchat, or on the text of any other corpus."""
    if model is None or data is None:
        raise RheostatError("an old model was given without a model or a corpus; expected both: give data too")
    name, path = next(iter(_corpus_texts(data, split).items()))
    progress(f"comparing with {Path(old).name}", 0.0)
    return compare_models(model, old, path, name)


class _MemoryFigures(NamedTuple):
    """rows, times: for the first and the last knob position. typos: those learned at the first, and the words typed."""

    rows: tuple[MemoryRow, ...] = ()
    typos: tuple[int, int] | None = None
    times: tuple[MemoryTime, ...] = ()


def _measure_memory(
    path: str | Path | None, file: ModelFile | None, knobs: Sequence[float], senders: int, progress: Progress
) -> _MemoryFigures:
    chosen = [[m for talk in talks for m in talk] for talks in list(held_out_senders().messages.values())[:senders]]
    found: list[MemoryRow] = []
    times: list[MemoryTime] = []
    wrong = typed = 0
    positions = _positions(file, knobs, "senders")
    for number, knob in enumerate(dict.fromkeys((positions[0], positions[-1]))):
        assert path is not None
        name = f"{Path(path).stem} at {knob:.0%}"
        pairs: list[tuple[dict[int, KeystrokeCount], dict[int, KeystrokeCount]]] = []
        memory = Memory()
        with load(path, knob, threads=1) as plain, load(path, knob, threads=1, memory=memory) as own:
            for place, messages in enumerate(chosen):
                memory.clear()
                pairs.append((type_messages(plain, messages), type_messages(own, messages)))
                if not number:
                    memory.clear()
                    some = count_typos_learned(own, messages, find_key_layout("qwerty"), SEED + place, TYPO_WORDS)
                    wrong, typed = wrong + some[0], typed + some[1]
                progress(f"{name}, memory", (place + 1) / len(chosen))
            times.append(_time_memory(name, own, plain, chosen))
        found += [_memory_row(name, first, pairs) for first in FIRST_WORDS]
    return _MemoryFigures(tuple(found), (wrong, typed), tuple(times))


def _time_memory(name: str, own: Predictor, plain: Predictor, senders: Sequence[Sequence[str]]) -> MemoryTime:
    """Type a sender's messages with the memory of all others: once, since every text is new to a keyboard."""
    assert own.memory is not None
    own.memory.clear()
    for message in (message for messages in senders[:-1] for message in messages):
        own.watch().end(message)
    texts = texts_while_typing([message.split() for message in senders[-1]])
    ratios = time_ratios(own, plain, texts, rounds=1)
    return MemoryTime(
        predictor=name,
        phrases=len(own.memory),
        p50_ratio=ratios["p50_ratio"],
        p95_ratio=ratios["p95_ratio"],
    )


def _memory_row(
    name: str, first: int, pairs: Sequence[tuple[dict[int, KeystrokeCount], dict[int, KeystrokeCount]]]
) -> MemoryRow:
    both = [(one[first], other[first]) for one, other in pairs if first in one]
    draws = resampled(len(both), RESAMPLES, SEED)
    without, with_memory = [pair[0] for pair in both], [pair[1] for pair in both]
    gains = saved_shares(with_memory, draws) - saved_shares(without, draws)
    low, high = np.percentile(gains, [2.5, 97.5])
    shares = _total(without).saved_share, _total(with_memory).saved_share
    return MemoryRow(
        predictor=name,
        senders=len(both),
        first_words=first,
        without_share=shares[0],
        with_share=shares[1],
        gain=shares[1] - shares[0],
        gain_interval=(float(low), float(high)),
    )


# --- typing, and how sure the figures are -----------------------------------------------------------------


def _count_keystrokes(
    tested: TestedPredictor, texts: Sequence[TextToType], bad: frozenset[str] | None, progress: Progress
) -> tuple[TypingPredictor, list[list[KeystrokeCount]]]:
    """Type every text; for each text, the counts of its units. Units are independent: equal ones are typed once."""
    seen: set[str] = set()
    typed: dict[tuple[str, int, tuple[str, ...]], KeystrokeCount] = {}
    counts: list[list[KeystrokeCount]] = []
    total, done = sum(len(text.units) for text in texts), 0
    for text in texts:
        counts.append([])
        for unit in text.units:
            key = text.about.protocol, text.about.slots, tuple(unit)
            if key not in typed:
                typed[key] = text.type_unit(unit, tested.predictor, seen)
            counts[-1].append(typed[key])
            done += 1
            progress(tested.about.name, done / total)
    misspelt = None if bad is None else tuple(sorted(seen & bad))  # the list is in lower case: "Claus" is a name
    return replace(tested.about, misspelt=misspelt), counts


def _rows(
    texts: Sequence[TextToType], counted: Sequence[tuple[TypingPredictor, list[list[KeystrokeCount]]]]
) -> Iterator[TypingRow]:
    for number, text in enumerate(texts):
        counts = {about.name: counts[number] for about, counts in counted}
        ngrams = {about.name: _total(counts[about.name]).saved_share for about, _ in counted if about.is_ngram}
        best = max(ngrams, key=ngrams.__getitem__) if ngrams else None
        draws = resampled(len(text.units), RESAMPLES, SEED)
        for name, of_units in counts.items():
            yield _row(text.about, name, of_units, counts[best] if best else None, draws)


def _row(
    text: TypingText,
    name: str,
    counts: Sequence[KeystrokeCount],
    baseline: Sequence[KeystrokeCount] | None,
    draws: NDArray[np.int64],
) -> TypingRow:
    total, shares = _total(counts), saved_shares(counts, draws)
    over = None if baseline is None else shares - saved_shares(baseline, draws)
    return TypingRow(
        text=text.name,
        slots=text.slots,
        predictor=name,
        keystrokes_typed=total.typed,
        keystrokes_needed=total.needed,
        words=total.words,
        limit_share=total.limit_share,
        saved_share=total.saved_share,
        saved_interval=_interval(shares),
        next_word_share=total.at_once / max(total.words, 1),
        never_share=1 - total.taken / max(total.words, 1),
        over_ngram=None if baseline is None else total.saved_share - _total(baseline).saved_share,
        over_ngram_interval=None if over is None else _interval(over),
    )


def _total(counts: Iterable[KeystrokeCount]) -> KeystrokeCount:
    columns = zip(
        *((one.typed, one.needed, one.words, one.taken, one.at_once, one.fewest) for one in counts), strict=True
    )
    return KeystrokeCount(*(sum(column) for column in columns))


def resampled(units: int, resamples: int, seed: int) -> NDArray[np.int64]:
    """[resamples, units] how often each unit is drawn. The same draws serve all predictors: that pairs them."""
    rng = np.random.default_rng(seed)
    return np.stack([np.bincount(rng.integers(0, units, units), minlength=units) for _ in range(resamples)])


def saved_shares(counts: Sequence[KeystrokeCount], draws: NDArray[np.int64]) -> NDArray[np.float64]:
    """The share of keystrokes saved in each resample."""
    typed, needed = (np.array([getattr(one, field) for one in counts], float) for field in ("typed", "needed"))
    return np.asarray(1 - (draws @ typed) / (draws @ needed))


def _interval(values: NDArray[np.float64]) -> tuple[float, float]:
    low, high = np.percentile(values, [2.5, 97.5])
    return float(low), float(high)
