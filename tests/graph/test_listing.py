import copy
import pickle
from collections.abc import Iterator

import pytest

from plica.graph.listing import Listing


def test_it_is_a_tuple_on_which_next_works() -> None:
    letters = Listing("abc")
    assert isinstance(letters, Iterator)
    assert letters == ("a", "b", "c")
    assert hash(letters) == hash(("a", "b", "c"))
    assert (letters[-1], letters[:2], len(letters), "b" in letters, (*letters, "d")) == (
        *("c", ("a", "b"), 3, True),
        ("a", "b", "c", "d"),
    )
    assert repr(letters) == "('a', 'b', 'c')"


def test_next_goes_on_and_loops_start_over() -> None:
    letters = Listing("abc")
    assert (next(letters), next(letters)) == ("a", "b")
    assert list(letters) == list(letters) == ["a", "b", "c"]
    assert next(letters) == "c"
    with pytest.raises(StopIteration):
        next(letters)
    assert next(Listing(()), None) is None


def test_copies_go_on_by_themselves() -> None:
    letters = Listing("abc")
    next(letters)
    for other in (copy.copy(letters), pickle.loads(pickle.dumps(letters))):
        assert (other, next(other)) == (letters, "a")
    assert next(letters) == "b"
