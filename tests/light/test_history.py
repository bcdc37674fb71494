"""States of texts already read."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rheostat.runtime.history import NODE_BYTES, History, KnownPrefix

TEXTS = st.lists(st.integers(0, 2), max_size=6)  # few tokens, so texts share beginnings


def known(found: KnownPrefix[Any]) -> tuple[int, Any]:
    return found.length, found.state


def test_a_new_text_has_no_known_prefix() -> None:
    assert known(History[str]().longest([1, 2])) == (0, None)
    assert known(History[str]().longest([])) == (0, None)


def test_the_longest_text_that_was_read_is_found() -> None:
    history = History[str]()
    history.put([1], "a", 1)
    history.put([1, 2, 3], "b", 1)
    assert known(history.longest([1, 2, 3, 4])) == (3, "b")
    assert known(history.longest([1, 2])) == (1, "a")
    assert known(history.longest(np.array([1, 2, 3]))) == (3, "b")
    assert known(history.longest([2, 1])) == (0, None)


@given(st.lists(st.tuples(st.booleans(), TEXTS)))
def test_it_agrees_with_a_dictionary_of_tuples(steps: list[tuple[bool, list[int]]]) -> None:
    history, naive = History[int](), dict[tuple[int, ...], int]()
    for number, (is_put, ids) in enumerate(steps):
        if is_put:
            history.put(ids, number, 10)
            if ids:
                naive[tuple(ids)] = number
        else:
            length = max((n for n in range(1, len(ids) + 1) if tuple(ids[:n]) in naive), default=0)
            assert known(history.longest(ids)) == (length, naive.get(tuple(ids[:length])))
    assert len(history) == len(naive)
    nodes = {ids[:length] for ids in naive for length in range(1, len(ids) + 1)}
    assert history.size_bytes == 10 * len(naive) + NODE_BYTES * len(nodes)


@given(st.lists(TEXTS), st.integers(0, 6 * (NODE_BYTES + 30)))
def test_it_never_holds_more_than_its_limit(texts: list[list[int]], limit_bytes: int) -> None:
    history = History[int](limit_bytes)
    for ids in texts:
        history.put(ids, 0, 20)
        assert history.size_bytes <= limit_bytes


def test_a_text_put_again_takes_the_new_value_and_no_more_room() -> None:
    history = History[str]()
    history.put([1, 2], "old", 100)
    history.put([1, 2], "new", 50)
    assert known(history.longest([1, 2])) == (2, "new")
    assert history.size_bytes == 50 + 2 * NODE_BYTES


def test_a_state_larger_than_the_limit_is_not_kept() -> None:
    history = History[str](2000)
    history.put([1], "small", 100)
    history.put([2], "large", 5000)
    assert known(history.longest([2])) == (0, None)
    assert known(history.longest([1])) == (1, "small")
    history.put([1], "grown", 5000)
    assert known(history.longest([1])) == (0, None)


def test_ids_are_copied() -> None:
    history, ids = History[str](), np.array([1, 2], np.int32)
    history.put(ids, "a", 1)
    ids[:] = 9
    assert known(history.longest([1, 2])) == (2, "a")


def room_for(states: int, nodes: int) -> int:
    return states * 100 + nodes * NODE_BYTES


def type_words(history: History[int], typist: int, words: int) -> int:
    """Type a text word by word; return how many words had to be read more than once."""
    read_again = 0
    for count in range(1, words + 1):
        ids = [typist, *range(count)]
        found, _, _ = history.longest(ids)
        read_again += len(ids) - found - 1
        history.put(ids, 0, 100)
    return read_again


def test_each_of_many_typists_finds_the_newest_state() -> None:
    typists, words = 200, 20
    history = History[int](room_for(typists + 1, typists * (words + 1) + 1))
    read_again = 0
    for count in range(1, words + 1):
        for typist in range(typists):
            ids = [typist, *range(count)]
            found, _, _ = history.longest(ids)
            read_again += len(ids) - found - (2 if count == 1 else 1)
            history.put(ids, 0, 100)
    assert read_again == 0


def test_a_beginning_that_many_texts_share_is_kept() -> None:
    shared = list(range(50))
    history = History[int](room_for(10, 62))
    history.put(shared, 7, 100)
    for typist in range(100, 130):
        found, _, _ = history.longest([*shared, typist])
        assert found == 50
        for count in range(1, 6):
            history.put([*shared, typist, *range(count)], 0, 100)


def test_deleting_words_finds_the_states_before() -> None:
    history = History[int]()
    type_words(history, 1, 30)
    for count in range(29, 0, -1):
        assert history.longest([1, *range(count)])[0] == count + 1


@given(st.lists(st.tuples(TEXTS, TEXTS)))
def test_what_follows_a_node_is_found_as_from_the_start(texts: list[tuple[list[int], list[int]]]) -> None:
    one, other = History[int](), History[int]()
    for number, (beginning, rest) in enumerate(texts):
        whole = beginning + rest
        one.put(whole, number, 10)
        node = other.put(beginning, -1, 10)
        one.put(beginning, -1, 10)
        if node is not None and rest:
            other.put(rest, number, 10, after=node)
            found = other.longest(rest, after=node)
            assert (len(beginning) + found.length, found.state) == known(one.longest(whole))
        else:
            other.put(whole, number, 10)
            one.put(whole, number, 10)


def test_a_state_after_a_node_that_was_dropped_is_not_kept() -> None:
    history = History[int]()
    node = history.put([1, 2], 0, 10)
    assert node is not None
    history.clear()
    assert history.put([3], 1, 10, after=node) is None
    assert known(history.longest([3], after=node)) == (0, None)
    assert (len(history), history.size_bytes) == (0, 0)


def test_clearing_forgets_everything() -> None:
    history = History[int]()
    type_words(history, 1, 5)
    history.clear()
    assert (len(history), history.size_bytes) == (0, 0)
    assert known(history.longest([1, 0])) == (0, None)
    type_words(history, 1, 5)
    assert len(history) == 5


def test_several_threads_can_use_one_history() -> None:
    history = History[int](room_for(40, 80))
    wrong: list[int] = []

    def work(typist: int) -> None:
        for count in range(1, 300):
            ids = [typist, *range(count % 25)]
            found, value, _ = history.longest(ids)
            if found and value != 1000 * typist + found:
                wrong.append(typist)
            history.put(ids, 1000 * typist + len(ids), 100)

    threads = [threading.Thread(target=work, args=(typist,)) for typist in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert 0 < history.size_bytes <= history.limit_bytes


@given(st.lists(st.tuples(st.integers(0, 2), st.lists(st.integers(0, 3), max_size=4)), max_size=40))
def test_parts_of_a_history_are_histories_of_their_own(texts: list[tuple[int, list[int]]]) -> None:
    whole: History[str] = History(1 << 30)
    parts, apart = [whole.part(number) for number in range(3)], [History[str](1 << 30) for _ in range(3)]
    for number, ids in texts:
        for history in (parts[number], apart[number]):
            found = history.longest(ids)
            history.put(ids[found.length :], f"{number} {ids}", 10, found.node)
        for one, other in zip(parts, apart, strict=True):
            assert one.longest(ids)[:2] == other.longest(ids)[:2]
    assert len(whole) == sum(map(len, apart))


def test_parts_of_a_history_share_one_limit() -> None:
    whole: History[str] = History(20 * (NODE_BYTES + 10))
    for number in range(50):
        whole.part(number).put([1], "state", 10)
    assert 0 < whole.size_bytes <= whole.limit_bytes
    assert whole.part(49).longest([1]).state == "state" and whole.part(0).longest([1]).state is None
