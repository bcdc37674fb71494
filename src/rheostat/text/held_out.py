"""Chitchat senders that no training text of a mixture contains, to measure what a personal memory is worth.

Knows who sent which message and how chitchat is split; knows nothing of the mixture that leaves these senders out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import NamedTuple

from rheostat.text.chat import Turn, read_turns, split_conversations

SENDERS = 40
WORDS = range(2000, 6001)  # of one sender: enough to learn from, too few to shape the corpus

_SEED = 1  # as in the corpus "chat", so the test conversations are those that earlier models were tested on


class HeldOut(NamedTuple):
    """messages: what each sender wrote, one list per conversation, oldest first. conversations: the names of theirs."""

    messages: dict[str, list[list[str]]]
    conversations: frozenset[str]

    @property
    def words(self) -> int:
        """The number of words the senders typed, separated by white space."""
        return sum(map(_count_words, self.messages.values()))


def held_out_senders(turns: Mapping[str, list[Turn]] | None = None) -> HeldOut:
    """The held-out senders, always the same ones.

    Test conversations stay test conversations, whoever takes part. They are neither counted nor returned here.
    """
    turns = read_turns() if turns is None else turns
    splits = chat_splits(turns)
    training = [name for name in turns if splits[name] != "test"]
    messages: dict[str, list[list[str]]] = {}
    for name in training:
        for sender in sorted({turn.sender for turn in turns[name]}):
            own = [turn.message for turn in turns[name] if turn.sender == sender]
            messages.setdefault(sender, []).append(own)
    able = [sender for sender in messages if _count_words(messages[sender]) in WORDS]
    chosen = sorted(able, key=lambda sender: draw(_SEED, sender))[:SENDERS]
    together = {name for name in training if {turn.sender for turn in turns[name]} & set(chosen)}
    return HeldOut({sender: messages[sender] for sender in chosen}, frozenset(together))


def chat_splits(turns: Mapping[str, list[Turn]]) -> dict[str, str]:
    """The split of each conversation by its name, as in the corpus "chat"."""
    names = {name: [name] for name in turns}
    return {name: split for split, (name,) in split_conversations(names, _SEED)}


def draw(seed: int, name: str) -> bytes:
    """A key to sort by: a shuffled order that is the same on every machine and in every version of Python."""
    return blake2b(f"{seed} {name}".encode(), digest_size=16).digest()


def _count_words(conversations: Iterable[Iterable[str]]) -> int:
    return sum(len(message.split()) for messages in conversations for message in messages)
