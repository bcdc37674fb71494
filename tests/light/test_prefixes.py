"""The prefix index against a plain search."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rheostat.words.completion import PrefixIndex

FORMS = st.lists(st.text("ab\U0010ffff", max_size=4), max_size=20)


@given(FORMS, st.text("ab\U0010ffff", max_size=4))
def test_the_index_finds_what_a_search_finds(forms: list[str], prefix: str) -> None:
    index = PrefixIndex((form, place) for place, form in enumerate(forms))
    expected = sorted((form, place) for place, form in enumerate(forms) if form.startswith(prefix))
    assert index.with_prefix(prefix).tolist() == [place for _, place in expected]
    assert index.all.tolist() == list(range(len(forms)))


def test_the_returned_arrays_cannot_be_changed() -> None:
    index = PrefixIndex([("a", 0), ("b", 1)])
    with pytest.raises(ValueError, match="read-only"):
        index.with_prefix("a")[0] = 1
