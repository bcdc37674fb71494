"""Clitics: parts of words that prepared corpora write as separate words: "do n't", "it 's", "don 't".

The only place that lists them. Knows apostrophes and letters; expects plain apostrophes (`tokenizers.fold`). Raw text
(the tokenizer "words") has no clitics: it keeps them inside words.
"""

from __future__ import annotations

NEGATION = "n't"
CLITICS = ("'s", "'re", "'ve", "'ll", "'d", "'m")
PTB_CLITICS = (NEGATION, *CLITICS)
# What can follow a separate apostrophe in prepared text: the endings, and the second halves of "n't" and "'n'".
AFTER_APOSTROPHE = (*(clitic[1:] for clitic in CLITICS), "t", "n")
# Words before "n't" in Penn Treebank: "ca n't", "wo n't". Someone who typed "can'" can only be typing "can't".
NEGATED = frozenset([
    "ai", "are", "ca", "could", "did", "do", "does", "had", "has", "have", "is", "might", "must", "need",
    "should", "was", "were", "wo", "would",
])  # fmt: skip


def attaches(word: str, tokenizer: str) -> bool:
    """Whether a vocabulary word is written without a space before it: "n't", "'s", "'Brien"."""
    if tokenizer == "ptb":
        return word in PTB_CLITICS
    return tokenizer == "wikitext" and len(word) > 1 and word[0] == "'" and word[1].isalpha()


def ptb_clitic(word: str) -> str:
    """The clitic at the end of a lower-case word; empty if there is none."""
    return next((clitic for clitic in PTB_CLITICS if word.endswith(clitic)), "")


def clitic_length(word: str, tokenizer: str) -> int:
    """How many characters at the end of a typed word start a clitic, which the model reads as a separate word."""
    stem, apostrophe, rest = word.rpartition("'")
    if tokenizer == "words" or not apostrophe:
        return 0
    if tokenizer == "wikitext":
        return 1 + len(rest)
    ending = (apostrophe + rest).lower()
    negated = stem[-1:] in ("n", "N") and (ending == "'t" or (ending == "'" and stem[:-1].lower() in NEGATED))
    if negated:
        return 1 + len(ending)
    return len(ending) if any(clitic.startswith(ending) for clitic in CLITICS) else 0
