"""A small array beside a large one follows the views of the large one, or says that it cannot."""

import itertools

import numpy as np
import pytest

from plica.constants.rewrites.broadcast_views import follow
from plica.ir.program import Var
from plica.ir.sizes import Size
from plica.ir.types import SCALAR_SIZE
from plica.ops import OPS
from tests.harness.together import grouped

SHAPE = (2, 6, 4)
PACKED = {"outer_dims_perm": (2, 0, 1), "inner_dims_pos": (1, 2), "inner_tiles": (3, 2)}
VIEWS = {
    "permute_dims": {"axes": (2, 0, 1)},
    "expand_dims": {"axis": -2},
    "flip": {"axis": (0, 2)},
    "roll": {"shift": (1, 5), "axis": (1, 2)},
    "slice": {"axis": 1, "start": 1, "stop": 6, "step": 2},
    "stop_gradient": {},
    "pack": PACKED,
}
BESIDE = list(itertools.product((False, True), repeat=3))  # whether the small array has one entry along each axis


def _arrays(is_one, shape=SHAPE):
    rng = np.random.default_rng(0)
    small = tuple(1 if one else size for one, size in zip(is_one, shape, strict=True))
    return rng.normal(size=shape), rng.normal(size=small)


def _agrees(view, params, large, small) -> bool:
    """Whether the small array follows; what it then is has the right entries."""
    done = follow(view, large.shape, small.shape, params)
    if done is None:
        return False
    found = OPS[view].reference(large, **params) * OPS[done[0]].reference(small, **done[1])
    assert np.array_equal(found, OPS[view].reference(large * small, **params))
    return True


@grouped("is_one", BESIDE)
@grouped("view", VIEWS)
def test_most_views_are_followed_always(view, is_one) -> None:
    assert _agrees(view, VIEWS[view], *_arrays(is_one))


def test_axes_of_one_entry_are_squeezed() -> None:
    for is_one in BESIDE:
        assert _agrees("squeeze", {"axis": (1,)}, *_arrays(is_one, (3, 1, 2)))


@grouped("is_one", list(itertools.product((False, True), repeat=5)))
def test_unpacking_is_followed_where_axes_and_their_tiles_are_of_one_kind(is_one) -> None:
    large, small = _arrays(is_one, OPS["pack"].reference(np.zeros(SHAPE), **PACKED).shape)
    perm, positions = PACKED["outer_dims_perm"], PACKED["inner_dims_pos"]
    is_cut = any(
        is_one[perm.index(axis)] != is_one[3 + place]
        for place, axis in enumerate(positions)
        if large.shape[perm.index(axis)] != 1 != large.shape[3 + place]
    )
    assert _agrees("unpack", PACKED, large, small) is not is_cut


RESHAPES = {
    (2, 3, 2, 4): [],  # axes that are split
    (2, 1, 6, 4, 1): [],
    (12, 4): [(0, 1)],  # axes that are joined, which must be of one kind
    (2, 24): [(1, 2)],
    (3, 4, 4): [(0, 1)],
    (48,): [(0, 1), (1, 2)],
    (4, 3, 2, 2): [(0, 1)],
    (2, 8, 3): [(1, 2)],
}


@grouped("is_one", BESIDE)
@grouped("shape", RESHAPES)
def test_reshaping_is_followed_unless_a_block_is_cut(shape, is_one) -> None:
    is_cut = any(is_one[one] != is_one[other] for one, other in RESHAPES[shape])
    assert _agrees("reshape", {"shape": shape}, *_arrays(is_one)) is not is_cut


@grouped("is_one", BESIDE)
@grouped("axes", [(0,), (1,), (2,), (0, 1), (2, 0), (0, 1, 2)])
def test_reading_at_indices_is_followed_where_its_axes_are_of_one_kind(axes, is_one) -> None:
    large, small = _arrays(is_one)
    places = [np.array([[1, 0], [1, -1]]) % large.shape[axis] for axis in axes]
    done = follow("gather", large.shape, small.shape, {"axes": axes})
    assert (done is None) == (len({is_one[axis] for axis in axes}) > 1)
    if done is not None:
        name, params = done
        rest = OPS[name].reference(small, *(places if name == "gather" else ()), **params)
        expected = OPS["gather"].reference(large * small, *places, axes=axes)
        assert np.array_equal(OPS["gather"].reference(large, *places, axes=axes) * rest, expected)


@pytest.mark.parametrize("is_one", BESIDE)
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_taking_along_an_axis_is_followed_always(axis, is_one) -> None:
    large, small = _arrays(is_one)
    places = np.array([1, 0, 1])
    found = follow("take", large.shape, small.shape, {"axis": axis})
    assert found is not None
    name, params = found
    rest = OPS[name].reference(small, *((places,) if name == "take" else ()), **params)
    expected = OPS["take"].reference(large * small, places, axis=axis)
    assert np.array_equal(OPS["take"].reference(large, places, axis=axis) * rest, expected)


def test_sizes_that_have_names_are_neither_joined_nor_split() -> None:
    n = Size.of(Var("n", SCALAR_SIZE, is_size=True))
    assert follow("reshape", (n, 4), (n, 1), {"shape": (n, 2, 2)}) == ("reshape", {"shape": (n, 1, 1)})
    assert follow("reshape", (n, 4), (n, 1), {"shape": (4 * n,)}) is None
    assert follow("reshape", (4, n), (4, 1), {"shape": (2, 2 * n)}) is None


def test_other_views_are_not_followed() -> None:
    assert follow("diagonal", (3, 3), (3, 1), {}) is None
