"""Rows that read, write, order, contract and draw arrays, against the interpreter at several sizes; errors too."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import pytest

import plica
from plica.frontend.programs import trace
from plica.ir.types import spec
from plica.tracing import namespace as xp
from tests.harness.libraries import LibraryPrograms, assert_interpreted
from tests.harness.programs import Array

X = spec(("m", "n"), "float32")
WIDE = spec(("m", "n"), "float64")
PLACES = spec(("k",), "int64")
TABLE = spec((2, "n", 3), "float32")
ROWS = spec((2, "k"), "int64")
KEY = spec((2,), "int64")
SIZES = ({"m": 4, "n": 5, "k": 3}, {"m": 1, "n": 2, "k": 0}, {"m": 7, "n": 1, "k": 130}, {"m": 0, "n": 3, "k": 1})
_KEY = np.asarray([0x13198A2E, 0x03707344])


def _arrays(function: Callable[..., Any], specs: tuple[Any, ...], sizes: Mapping[str, int]) -> list[Array]:
    """Arguments of some sizes: numbers, and for integers places within the first axis (`BELOW`)."""
    rng = np.random.default_rng(sum(sizes.values()))
    found: list[Array] = []
    for one in specs:
        shape = [sizes.get(dim, dim) for dim in one.shape]
        if one is KEY:
            found.append(_KEY)
        elif one.dtype.kind == "int":
            below = BELOW.get(function, lambda sizes: sizes["m"])(sizes)
            found.append(rng.integers(0, max(1, below), shape) if below else np.zeros((*shape[:-1], 0), "int64"))
        else:
            found.append(rng.normal(size=shape).astype(one.dtype.numpy))
    return found


def _take(x, places):
    return xp.take(x, places, axis=0), xp.take(xp.matrix_transpose(x), places - x.shape[0], axis=1)


def _take_along(x, places):
    order = xp.broadcast_to(places[:, None], (places.shape[0], x.shape[1]))
    return xp.take_along_axis(x, order, axis=0, nonnegative=True)


def _gather(x, places):
    return x[places, -1], x[..., places[:, None] * 0]


def _lookup(table, index):
    return xp.lookup(table, index), xp.lookup(xp.softmax(table, axis=2), index)


def _search(table, index):
    sums = xp.cumulative_sum(xp.abs(table), axis=2)
    uniforms = xp.astype(index, "float32") * 0.0 + 0.7
    return xp.search_cumulative(sums, xp.remainder(index, table.shape[1]), uniforms)


def _updated(x, places):
    rows = x.at[places].add(xp.sum(x, axis=0))
    pairs = x.at[xp.arange(x.shape[0]) // 2].add(x)  # what is written is what is read
    first = x.at[:, 0].set(7.0), x.at[places, 0].max(xp.astype(places, "float32"))
    return rows, pairs, *first, x.at[::2].multiply(3.0)


def _contracted(x, y):
    return xp.matmul(x, xp.matrix_transpose(y)), xp.einsum("ab,ac,ad->bd", x, y, x), xp.einsum("aa->a", x @ y.mT)


def _batches_of_one(x, y):
    """Matrices for all of a batch, in memory and not."""
    return (
        xp.matmul(x[None], y),
        xp.matmul(x.mT[None], y),
        xp.matmul((x + 1.0)[None, 1:], y),
        xp.matmul(y.mT, x.mT[None]),
    )


def _log_contracted(x, y):
    shifted = xp.concat([x * 500.0, x], axis=-1)  # some sums underflow
    weight = xp.concat([xp.softmax(y * 60.0, axis=-1), xp.zeros_like(y)], axis=-1)
    return xp.log_matmul_exp(shifted, weight)


def _beside_branch(x, y):
    """What is made first stands last: the compiler may move what is made later, a branch, in front of it."""
    first = x * 2.0
    return xp.concat([xp.log_matmul_exp(x, xp.softmax(y, axis=-1)), first], axis=0)


def _beside_argument(x):
    """A branch beside what was there before it, along an axis of unknown size."""

    @plica.cond(x.shape[0] <= 1)
    def chosen():
        return x

    @chosen.otherwise
    def chosen():
        return x * 2.0

    return xp.concat([chosen(), x], axis=1)


def _log_softmax_weight(x, y):
    logs = y * 60.0
    value = (x * 100.0)[None]
    return xp.log_einsum_exp("fbi,foi->fbo", [value], xp.softmax(logs, axis=-1)[None], logs[None], "log_softmax")


def _sorted(x):
    return xp.sort(x, axis=0), xp.argsort(x, axis=1, descending=True), xp.argsort(xp.floor(x), axis=0)


def _searched(x):
    flat = xp.sort(xp.reshape(x, (-1,)))
    return xp.searchsorted(flat, x), xp.searchsorted(flat, x, side="right")


def _summed(x):
    return xp.cumulative_sum(x, axis=0), xp.cumulative_prod(x, axis=1)


def _drawn(key, x):
    shape = x.shape
    return (
        xp.random.bits(key, shape, width=33),
        xp.random.uniform(key, shape, dtype="float32"),
        xp.random.permutation(key, shape[1]),
        xp.random.split(xp.random.fold_in(key, shape[0]), shape[1]),
    )


def _found(x):
    return xp.nonzero(x > 0.5), tuple(xp.unique_all(xp.floor(x)))


def _chosen(x, places):
    """Arrays that are computed are read and written within one nest, or not, as the compiler likes."""
    order = xp.arange(x.shape[0])
    picked = xp.take(order * 2, xp.take(places, xp.arange(places.shape[0])))
    return (
        picked,
        xp.flip(picked),
        xp.sort(picked),
        order.at[picked // 2].set(5),
        xp.linalg.diagonal(x[:, :1] * x[:, 0]),
    )


def _kept(x, places):
    """What an array is read at, and how it is written over, leaves the array as it is: an argument, or one between."""
    twice = x * 2
    read = xp.take(twice, places, axis=0)
    written = x.at[places].set(0.0), twice.at[places].set(0.0), twice.at[:, 0].set(5.0)
    return read, *written, x, twice, xp.take(twice, places, axis=0), xp.sum(x, axis=0), xp.cumulative_sum(twice, axis=1)


def _returned(x):
    """An argument that is written over elsewhere, and a view of it: both are returned as they were."""
    return x.at[:, 0].set(5.0), x, xp.reshape(x, (-1,))


def _returned_of_known_size(x):
    return x.at[0].set(5.0), x.at[xp.arange(3) // 2].add(x), x, xp.reshape(x, (-1,))


def _columns(x, places):
    """Columns, whose entries do not lie beside each other."""
    last = x[:, -1]
    turned = xp.flip(last), xp.roll(last, 1), last[::2], xp.sort(last), xp.cumulative_sum(last)
    return *turned, xp.take(last, places), last.at[places].add(2.0), xp.linalg.diagonal(x[:, :1] * x[0])


FUNCTIONS: dict[Callable[..., Any], tuple[Any, ...]] = {
    _take: (X, PLACES),
    _take_along: (X, PLACES),
    _gather: (X, PLACES),
    _lookup: (TABLE, ROWS),
    _search: (TABLE, ROWS),
    _updated: (X, PLACES),
    _contracted: (WIDE, WIDE),
    _batches_of_one: (spec(("m", "m"), "float64"), spec((3, "m", "n"), "float64")),
    _log_contracted: (WIDE, WIDE),
    _beside_branch: (spec((1, "m", 2), "float64"), spec((1, 2, 2), "float64")),
    _beside_argument: (WIDE,),
    _log_softmax_weight: (X, X),
    _sorted: (X,),
    _searched: (X,),
    _summed: (WIDE,),
    _drawn: (KEY, X),
    _found: (X,),
    _chosen: (X, PLACES),
    _columns: (X, PLACES),
    _kept: (X, PLACES),
    _returned: (X,),
    _returned_of_known_size: (spec((3, 2), "float32"),),
}
BELOW: dict[Callable[..., Any], Callable[[Mapping[str, int]], int]] = {_lookup: lambda _: 3, _search: lambda _: 3}


FURTHER = (
    *(_take_along, _search, _log_contracted, _log_softmax_weight, _searched, _found, _chosen, _columns),
    *(_beside_branch, _beside_argument, _sorted, _summed, _drawn),
)
"""Those that are full products: a function takes the compiler some tenths of a second."""


def _compiled(functions: Iterable[Callable[..., Any]]) -> LibraryPrograms:
    return LibraryPrograms({one.__name__.strip("_"): trace(one, *FUNCTIONS[one]) for one in functions})


@pytest.fixture(scope="module")
def modules() -> LibraryPrograms:
    return _compiled(one for one in FUNCTIONS if one not in FURTHER)


@pytest.fixture(scope="module")
def further() -> LibraryPrograms:
    return _compiled(FURTHER)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("function", [one for one in FUNCTIONS if one not in FURTHER], ids=lambda one: one.__name__)
def test_one_function_serves_all_sizes(modules, function) -> None:
    _serves_all_sizes(modules, function)


@pytest.mark.full
@pytest.mark.parametrize("function", FURTHER, ids=lambda one: one.__name__)
def test_one_further_function_serves_all_sizes(further, function) -> None:
    _serves_all_sizes(further, function)


def _serves_all_sizes(modules: LibraryPrograms, function: Callable[..., Any]) -> None:
    for sizes in SIZES:
        assert_interpreted(modules, function.__name__.strip("_"), _arrays(function, FUNCTIONS[function], sizes))


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("take", (np.zeros((3, 2), "float32"), np.asarray([0, 3]))),
        ("take", (np.zeros((3, 2), "float32"), np.asarray([0, -4]))),
        ("gather", (np.zeros((0, 2), "float32"), np.asarray([0]))),
        ("lookup", (np.zeros((2, 2, 3), "float32"), np.asarray([[0, 1], [3, 1]]))),
        ("updated", (np.zeros((3, 2), "float32"), np.asarray([1, 7]))),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_places_beyond_the_end_are_refused(modules, name, arguments) -> None:
    assert_interpreted(modules, name, arguments)
