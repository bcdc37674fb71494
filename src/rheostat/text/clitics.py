"""Parts of words that prepared corpora write as words of their own: "do n't", "it 's", "don 't".

The only place that lists them. Knows apostrophes and letters; expects plain apostrophes (`tokenizers.fold`). Raw text
(the tokenizer "words") keeps them inside words and has none.
"""

from __future__ import annotations

NEGATION = "n't"
CLITICS = ("'s", "'re", "'ve", "'ll", "'d", "'m")
PTB_CLITICS = (NEGATION, *CLITICS)
# What may follow an apostrophe that stands alone in prepared text: the endings, and the halves of "n't" and "'n'".
AFTER_APOSTROPHE = (*(clitic[1:] for clitic in CLITICS), "t", "n")
# What "n't" follows in Penn Treebank: "ca n't", "wo n't". Behind "can'" nothing else than "n't" is being typed.
NEGATED = frozenset([
    "ai", "are", "ca", "could", "did", "do", "does", "had", "has", "have", "is", "might", "must", "need",
    "should", "was", "were", "wo", "would",
])  # fmt: skip


def attaches(word: str, tokenizer: str) -> bool:
    """Whether a word of a vocabulary is written without a space before it: "n't", "'s", "'Brien"."""
    if tokenizer == "ptb":
        return word in PTB_CLITICS
    return tokenizer == "wikitext" and len(word) > 1 and word[0] == "'" and word[1].isalpha()


def ptb_clitic(word: str) -> str:
    """The clitic that a lower-case word ends in; empty if it ends in none."""
    return next((clitic for clitic in PTB_CLITICS if word.endswith(clitic)), "")


def clitic_length(word: str, tokenizer: str) -> int:
    """How many characters at the end of a typed word begin a part that the model reads as a word of its own."""
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
