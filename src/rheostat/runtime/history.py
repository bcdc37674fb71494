"""The states of texts already read: one more word costs one step, and deleting words costs none.

Knows sequences of ids and how many bytes a state takes; does not know what a state is. States of different operating
points must not mix, so each point has its own history, or its own part of one that several share.

Texts are a tree: each word is a `Node` below the word before it. A text that grew is found from the node where it was
before, without looking at the words that led there; any other text is found from the root, word by word.

The next word of a text needs its newest state. Once the text continues, the older state is needed again only if words
are deleted or another text begins the same way; until then it is *spare*. Spare states are dropped first, then the
least recently used. A node without a state and without following words is dropped too.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

State = TypeVar("State")
TokenIds: TypeAlias = Sequence[int] | NDArray[np.integer[Any]]

DEFAULT_LIMIT_BYTES = 64 << 20
NODE_BYTES = 512  # Python's overhead per word of a text, rounded up
# A state counts as abandoned if it was not used while this many times the number of all states were added. Without
# this rule, the last states of abandoned texts would slowly take up the memory of spare states.
_ROUNDS_UNTIL_ABANDONED = 8


class Node(Generic[State]):
    """A word of a text, below the word before it. Only its history changes it. state: after this word, while kept."""

    __slots__ = ("before", "children", "continued", "depth", "last_used", "state", "state_bytes", "token")

    def __init__(self, before: Node[State] | None, token: int, depth: int) -> None:
        self.before, self.token, self.depth = before, token, depth  # before: None once it is dropped
        self.children: dict[int, Node[State]] = {}
        self.state: State | None = None
        self.state_bytes = 0
        self.last_used = 0  # the number of puts at that time
        self.continued = False


class KnownPrefix(NamedTuple, Generic[State]):
    """The length of the longest known prefix of a text, its state and its node; (0, None, None) if there is none."""

    length: int
    state: State | None
    node: Node[State] | None


NOTHING: KnownPrefix[Any] = KnownPrefix(0, None, None)


class History(Generic[State]):
    """States by text (ids), bounded in bytes; safe to use from several threads."""

    def __init__(self, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> None:
        self.limit_bytes = limit_bytes
        self._root: Node[State] = Node(None, -1, 0)
        # Nodes with a state, least recently used first.
        self._recent: OrderedDict[Node[State], None] = OrderedDict()
        self._spare: OrderedDict[Node[State], None] = OrderedDict()
        self._size_bytes = 0
        self._puts = 0
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._recent) + len(self._spare)

    @property
    def size_bytes(self) -> int:
        """Memory of all states and nodes; never above `limit_bytes`."""
        return self._size_bytes

    def longest(self, ids: TokenIds, after: Node[State] | None = None) -> KnownPrefix[State]:
        """The longest prefix of a text, perhaps all of it, whose state is known.

        after: a node found before, if the ids are those after it. Its own state is then the prefix of length 0.
        """
        with self._lock:
            node: Node[State] | None = self._root if after is None else after
            assert node is not None
            best, found, length = (node, 0, 0) if node.state is not None else (None, 0, 0)
            for token in _as_list(ids):
                if (node := node.children.get(token)) is None:
                    break
                length += 1
                if node.state is not None:
                    best, found = node, length
            if best is None:
                return NOTHING
            self._use(best)
            return KnownPrefix(found, best.state, best)

    def put(self, ids: TokenIds, state: State, size_bytes: int, after: Node[State] | None = None) -> Node[State] | None:
        """Keep the state after a text, unless the text is empty or its state alone exceeds the limit; return its node.

        after: a node found before, if the ids are those after it. size_bytes: of everything that stays in memory with
        the state; for a view, that is the whole base array.
        """
        tokens = _as_list(ids)
        if not tokens:
            return None
        with self._lock:
            self._puts += 1
            first = self._root if after is None else after
            if first.before is None and first is not self._root:
                return None  # dropped in the meantime
            if (first.depth + len(tokens)) * NODE_BYTES + size_bytes > self.limit_bytes:
                self._forget(first, tokens)
                return None
            node = self._grow(first, tokens)
            self._drop_state(node)
            node.state, node.state_bytes, node.last_used = state, size_bytes, self._puts
            node.continued = False
            self._recent[node] = None
            self._size_bytes += size_bytes
            while self._size_bytes > self.limit_bytes:
                self._remove(self._least_needed())
            return node

    def part(self, number: int) -> HistoryPart[State]:
        """A part of this history, with texts of its own. All parts share one limit. number: from 0."""
        return HistoryPart(self, number)

    def clear(self) -> None:
        """Forget all texts."""
        with self._lock:
            for node in (*self._recent, *self._spare):
                self._remove(node)

    def _grow(self, node: Node[State], tokens: list[int]) -> Node[State]:
        """The node of a text, made if need be. The last state on the way to it becomes spare."""
        passed = node if node.state is not None else None
        for place, token in enumerate(tokens, 1):
            child = node.children.get(token)
            if child is None:
                child = node.children[token] = Node(node, token, node.depth + 1)
                self._size_bytes += NODE_BYTES
            node = child
            if node.state is not None and place < len(tokens):
                passed = node
        if passed is None:  # after a node without a state
            passed = _with_state(node.before)
        if passed is not None and passed in self._recent and not passed.continued:
            # If it continues again, several texts begin with it: then it stays.
            passed.continued = True
            del self._recent[passed]
            self._spare[passed] = None
        return node

    def _use(self, node: Node[State]) -> None:
        if node in self._spare:
            del self._spare[node]
            self._recent[node] = None
        else:
            self._recent.move_to_end(node)
        node.last_used = self._puts

    def _least_needed(self) -> Node[State]:
        oldest = next(iter(self._recent))  # never empty: it has the node that was put last
        abandoned = self._puts - oldest.last_used > _ROUNDS_UNTIL_ABANDONED * len(self)
        return oldest if abandoned or not self._spare else next(iter(self._spare))

    def _forget(self, node: Node[State], tokens: list[int]) -> None:
        for token in tokens:
            child = node.children.get(token)
            if child is None:
                return
            node = child
        self._remove(node)

    def _remove(self, node: Node[State]) -> None:
        """Drop a state, and the nodes that nothing needs any more."""
        self._drop_state(node)
        while node.state is None and not node.children and (before := node.before) is not None:
            del before.children[node.token]
            node.before = None
            self._size_bytes -= NODE_BYTES
            node = before

    def _drop_state(self, node: Node[State]) -> None:
        if node.state is not None:
            self._recent.pop(node, None)
            self._spare.pop(node, None)
            self._size_bytes -= node.state_bytes
            node.state = None


class HistoryPart(Generic[State]):
    """One of several histories that share a limit: their texts begin with different words that no text has."""

    __slots__ = ("_first", "_whole")

    def __init__(self, whole: History[State], number: int) -> None:
        self._whole, self._first = whole, -2 - number  # the root of the whole has -1

    def longest(self, ids: TokenIds, after: Node[State] | None = None) -> KnownPrefix[State]:
        """As `History.longest`."""
        if after is not None:
            return self._whole.longest(ids, after)
        found = self._whole.longest([self._first, *_as_list(ids)])
        return NOTHING if found.node is None else found._replace(length=found.length - 1)

    def put(self, ids: TokenIds, state: State, size_bytes: int, after: Node[State] | None = None) -> Node[State] | None:
        """As `History.put`."""
        tokens = _as_list(ids)
        if after is not None or not tokens:
            return self._whole.put(tokens, state, size_bytes, after)
        return self._whole.put([self._first, *tokens], state, size_bytes)


def _with_state(node: Node[State] | None) -> Node[State] | None:
    while node is not None and node.state is None:
        node = node.before
    return node


def _as_list(ids: Iterable[Any]) -> list[int]:
    return ids if isinstance(ids, list) else np.asarray(ids).tolist()
