"""Results of typing: what suggestions save on several texts, for several predictors."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from rheostat.measure.results.shared import Origins, Provenance
from rheostat.tables import not_stored, stored_if_set

Protocol = Literal["plain", "own"]


@dataclass(frozen=True)
class TypingText:
    """What was typed. units: lines or conversations, which are drawn with replacement for the intervals.

    protocol: "plain" = each line alone, words in lower case (`keystrokes.simulate_plain`); "own" = conversations as
    they are written (`keystrokes.simulate`). slots: suggestions shown at once. sample: what part of the text it is.
    """

    name: str
    protocol: Protocol
    slots: int
    units: int
    words: int
    sample: str


@dataclass(frozen=True)
class TypingPredictor:
    """What suggested. size_bytes: of its file or its tables. cost: share of a model's cost; None for other predictors.

    is_ngram: whether it is an n-gram model of the training text. misspelt: words of a list of misspellings that it
    suggested while all texts were typed; None if there was no list.
    """

    name: str
    size_bytes: int | None = None
    cost: float | None = None
    is_ngram: bool = False
    misspelt: tuple[str, ...] | None = None


@dataclass(frozen=True, kw_only=True)
class TypingRow:
    """One predictor on one text with a number of slots. Intervals: 95 %, by bootstrap over the units.

    over_ngram: saved_share minus that of the best n-gram on this text, and its interval over the same units.
    limit_share: what no suggestions could exceed, if every word were taken with its first keystroke.
    """

    text: str
    slots: int
    predictor: str
    keystrokes_typed: int
    keystrokes_needed: int
    words: int
    saved_share: float
    saved_interval: tuple[float, float]
    next_word_share: float
    never_share: float
    over_ngram: float | None = None
    over_ngram_interval: tuple[float, float] | None = None
    limit_share: float | None = stored_if_set(None)


@dataclass(frozen=True, kw_only=True)
class SlipRow:
    """A model on one text typed with slips, by the simulated typist of `measure.slips`.

    clean, slipped: share of keystrokes saved with every letter right, and with a neighbouring key for the second letter
    of words of four letters or more; as_typed: the same slips without allowing for them. Then the words after automatic
    correction, typed by taps: how many came out wrong on the keys, how many were right in the end, how many were typed
    right and changed; tap_changed_misspelt: how many of these are words of the list of misspellings, so the text itself
    is wrong there, None without a list. changed_clean: as changed, when every letter is right. Ratios: time of
    `complete` with slips over without.
    """

    text: str
    predictor: str
    words: int
    clean_share: float
    slipped_share: float
    as_typed_share: float
    tap_slipped: int
    tap_right_share: float
    tap_changed: int
    tap_changed_share: float
    changed_clean: int
    changed_words: tuple[str, ...]
    p50_ratio: float
    p95_ratio: float
    tap_changed_misspelt: int | None = stored_if_set(None)


@dataclass(frozen=True, kw_only=True)
class MemoryRow:
    """What a memory is worth over the first words of each sender. interval: of the gain, 95 %, over the senders."""

    predictor: str
    senders: int
    first_words: int
    without_share: float
    with_share: float
    gain: float
    gain_interval: tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class MemoryTime:
    """Time of `complete` with a memory, over that without one. phrases: how many it has."""

    predictor: str
    phrases: int
    p50_ratio: float
    p95_ratio: float


@dataclass(frozen=True, kw_only=True)
class Succession:
    """A model beside the one that it replaces, on one text. tokens: predicted ones; shared: those that both know.

    Perplexities are over the shared tokens, line ends included. unknown_share: of the words of the text that the model
    does not know. query_ratio: the time of a query at 100 %, over that of the old model, both on the core.
    """

    old: str
    text: str
    tokens: int
    shared: int
    perplexity: float
    old_perplexity: float
    perplexity_ratio: float
    unknown_share: float
    old_unknown_share: float
    query_ratio: float
    file_bytes: int
    old_file_bytes: int


@dataclass(frozen=True)
class TypingResults:
    """resamples: of the bootstrap, with `seed`. best_ngrams: for each text and number of slots, the name of the n-gram
    that the others are compared with."""

    kind: ClassVar[str] = "typing"

    provenance: Provenance
    corpus: str
    resamples: int
    seed: int
    texts: tuple[TypingText, ...]
    predictors: tuple[TypingPredictor, ...]
    rows: tuple[TypingRow, ...]
    misspellings: str | None = None
    model: str | None = None
    origins: Origins | None = None
    slips: tuple[SlipRow, ...] = ()
    memory: tuple[MemoryRow, ...] = ()
    typos_learned: tuple[int, int] | None = None  # words that the memory learned although they were slips; of how many
    succession: Succession | None = stored_if_set(None)  # noqa: RUF009
    memory_times: tuple[MemoryTime, ...] = stored_if_set(())
    path: Path = not_stored(Path())  # noqa: RUF009

    def limit_share(self, text: TypingText) -> float | None:
        """The largest share of keystrokes that any suggestions could save on a text; None if it was not counted."""
        limits = (row.limit_share for row in self.rows if (row.text, row.slots) == (text.name, text.slots))
        return next((limit for limit in limits if limit is not None), None)

    def row(self, text: TypingText, predictor: TypingPredictor) -> TypingRow | None:
        wanted = (text.name, text.slots, predictor.name)
        return next((row for row in self.rows if (row.text, row.slots, row.predictor) == wanted), None)
