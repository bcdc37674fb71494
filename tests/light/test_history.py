"""States of texts already read."""

from __future__ import annotations

import threading

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from rheostat.runtime.history import ENTRY_BYTES, History, prefix_hashes

unhurried = settings(deadline=None)
TEXTS = st.lists(st.integers(0, 2), max_size=6)  # few tokens, so texts share beginnings


def test_a_new_text_has_no_known_prefix() -> None:
    assert History[str]().longest([1, 2]) == (0, None)
    assert History[str]().longest([]) == (0, None)


def test_the_longest_text_that_was_read_is_found() -> None:
    history = History[str]()
    history.put([1], "a", 1)
    history.put([1, 2, 3], "b", 1)
    assert history.longest([1, 2, 3, 4]) == (3, "b")
    assert history.longest([1, 2]) == (1, "a")
    assert history.longest(np.array([1, 2, 3])) == (3, "b")
    assert history.longest([2, 1]) == (0, None)


@unhurried
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
            assert history.longest(ids) == (length, naive.get(tuple(ids[:length])))
    assert len(history) == len(naive)
    assert history.size_bytes == sum(10 + 4 * len(ids) + ENTRY_BYTES for ids in naive)


@unhurried
@given(st.lists(TEXTS), st.integers(0, 6 * (ENTRY_BYTES + 30)))
def test_it_never_holds_more_than_its_limit(texts: list[list[int]], limit_bytes: int) -> None:
    history = History[int](limit_bytes)
    for ids in texts:
        history.put(ids, 0, 20)
        assert history.size_bytes <= limit_bytes


def test_texts_with_the_same_hash_are_distinguished() -> None:
    one, other = [0, 0, 0, 2557], [13003, 46612, 11271, 0]  # found by reducing the lattice of the hash's multipliers
    hashes = [prefix_hashes(np.array(ids, np.int32)) for ids in (one, other)]
    assert hashes[0][-1] == hashes[1][-1]
    history = History[str]()
    history.put(one, "a", 1)
    assert history.longest(other) == (0, None)
    history.put(other, "b", 1)
    assert history.longest(other) == (4, "b")
    assert history.longest(one) == (0, None)
    assert history.size_bytes == 1 + 16 + ENTRY_BYTES


def test_a_text_put_again_takes_the_new_value_and_no_more_room() -> None:
    history = History[str]()
    history.put([1, 2], "old", 100)
    history.put([1, 2], "new", 50)
    assert history.longest([1, 2]) == (2, "new")
    assert history.size_bytes == 50 + 8 + ENTRY_BYTES


def test_a_state_larger_than_the_limit_is_not_kept() -> None:
    history = History[str](2000)
    history.put([1], "small", 100)
    history.put([2], "large", 5000)
    assert history.longest([2]) == (0, None)
    assert history.longest([1]) == (1, "small")
    history.put([1], "grown", 5000)
    assert history.longest([1]) == (0, None)


def test_ids_are_copied() -> None:
    history, ids = History[str](), np.array([1, 2], np.int32)
    history.put(ids, "a", 1)
    ids[:] = 9
    assert history.longest([1, 2]) == (2, "a")


def room_for(entries: int, length: int) -> int:
    return entries * (100 + 4 * length + ENTRY_BYTES)


def type_words(history: History[int], typist: int, words: int) -> int:
    """Type a text word by word; return how many words had to be read more than once."""
    read_again = 0
    for count in range(1, words + 1):
        ids = [typist, *range(count)]
        found, _ = history.longest(ids)
        read_again += len(ids) - found - 1
        history.put(ids, 0, 100)
    return read_again


def test_each_of_many_typists_finds_the_newest_state() -> None:
    typists, words = 200, 20
    history = History[int](room_for(typists + 1, words + 1))
    read_again = 0
    for count in range(1, words + 1):
        for typist in range(typists):
            ids = [typist, *range(count)]
            found, _ = history.longest(ids)
            read_again += len(ids) - found - (2 if count == 1 else 1)
            history.put(ids, 0, 100)
    assert read_again == 0


def test_a_beginning_that_many_texts_share_is_kept() -> None:
    shared = list(range(50))
    history = History[int](room_for(10, 80))
    history.put(shared, 7, 100)
    for typist in range(100, 130):
        found, _ = history.longest([*shared, typist])
        assert found == 50
        for count in range(1, 6):
            history.put([*shared, typist, *range(count)], 0, 100)


def test_deleting_words_finds_the_states_before() -> None:
    history = History[int]()
    type_words(history, 1, 30)
    for count in range(29, 0, -1):
        assert history.longest([1, *range(count)])[0] == count + 1


def test_clearing_forgets_everything() -> None:
    history = History[int]()
    type_words(history, 1, 5)
    history.clear()
    assert (len(history), history.size_bytes) == (0, 0)
    assert history.longest([1, 0]) == (0, None)
    type_words(history, 1, 5)
    assert len(history) == 5


def test_several_threads_can_use_one_history() -> None:
    history = History[int](room_for(40, 30))
    wrong: list[int] = []

    def work(typist: int) -> None:
        for count in range(1, 300):
            ids = [typist, *range(count % 25)]
            found, value = history.longest(ids)
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
