"""jit: which arrays, numbers and trees go in, and of which kind results are."""

import dataclasses
from collections import namedtuple
from typing import Any

import numpy as np
import pytest
import torch

import plica
import plica.numpy as pnp
from plica.errors import DTypeError
from plica.ir.dtypes import DType
from tests.harness.together import grouped

BACKENDS = ("torch", "interpreter")


class Exchanged:
    """An object with nothing but the exchange protocol."""

    def __init__(self, array: Any) -> None:
        self._array = array

    def __dlpack__(self, **settings: Any) -> Any:
        return self._array.__dlpack__(**settings)

    def __dlpack_device__(self) -> Any:
        return self._array.__dlpack_device__()


def _frozen(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array


ARRAYS = (
    # argument, kind of the result, its dtype
    (torch.ones(2), torch.Tensor, "float32"),
    (torch.ones(2, 3).T, torch.Tensor, "float32"),
    (torch.ones(1).expand(3), torch.Tensor, "float32"),
    (torch.tensor(2.0), torch.Tensor, "float32"),
    (torch.nn.Parameter(torch.ones(2)), torch.Tensor, "float32"),
    (torch.ones(0, 3, dtype=torch.float64), torch.Tensor, "float64"),
    (torch.ones(2, dtype=torch.complex64).conj(), torch.Tensor, "complex64"),
    (np.ones(2, "float32"), np.ndarray, "float32"),
    (np.asarray(2.0), np.ndarray, "float64"),
    (np.float32(2.0), np.ndarray, "float32"),
    (np.int64(2), np.ndarray, "int64"),
    (np.ones((2, 3))[::-1], np.ndarray, "float64"),
    (np.ones((4, 3))[::2, ::-1], np.ndarray, "float64"),
    (np.ones((4, 3)).T, np.ndarray, "float64"),
    (np.broadcast_to(np.ones(1), (3,)), np.ndarray, "float64"),
    (_frozen(np.ones(3)), np.ndarray, "float64"),
    (np.ones(3, ">f4"), np.ndarray, "float32"),
    (np.ones(3, ">i8"), np.ndarray, "int64"),
    (np.ones(3, "<u2"), np.ndarray, "uint16"),
    (2, torch.Tensor, "int64"),
    (2.5, torch.Tensor, "float64"),
    (True, torch.Tensor, "int64"),
    (1j, torch.Tensor, "complex128"),
    (Exchanged(torch.ones(2)), torch.Tensor, "float32"),
    (Exchanged(np.ones(2)), torch.Tensor, "float64"),
)


def _value(argument: Any) -> np.ndarray:
    if isinstance(argument, Exchanged):
        argument = argument._array
    return np.asarray(argument.detach().resolve_conj() if isinstance(argument, torch.Tensor) else argument)


@grouped("backend", BACKENDS)
@grouped(("argument", "kind", "dtype"), ARRAYS, ids=range(len(ARRAYS)))
def test_results_are_of_the_arguments_kind(argument, kind, dtype: str, backend: str) -> None:
    before = _value(argument).copy()
    compiled = plica.jit(lambda x: x * 2, backend=backend)
    for _ in range(2):
        found = compiled(argument)
        assert isinstance(found, kind)
        assert str(found.dtype).removeprefix("torch.") == dtype
        np.testing.assert_array_equal(_value(found), (_value(argument) * 2).astype(dtype))
    np.testing.assert_array_equal(_value(argument), before)
    assert compiled.num_compilations == 1


@grouped("dtype", [dtype for dtype in DType if not dtype.is_storage], ids=lambda dtype: dtype.value)
@grouped("backend", BACKENDS)
def test_every_dtype_goes_through(dtype: DType, backend: str) -> None:
    array = np.asarray([0, 1, 1]).astype(dtype.numpy)
    compiled = plica.jit(lambda x: x[1:], backend=backend)
    for argument in (array, torch.tensor([0, 1, 1], dtype=getattr(torch, dtype.value))):
        found = compiled(argument)
        assert type(found) is type(argument)
        assert (found.dtype, found.tolist()) == (argument.dtype, [1, 1])


MIXED = (
    ((np.ones(2), torch.ones(2)), torch.Tensor),
    ((np.ones(2), 1), np.ndarray),
    ((1, torch.ones(2)), torch.Tensor),
    ((np.ones(2), np.float32(1)), np.ndarray),
    ((Exchanged(torch.ones(2)), np.ones(2)), torch.Tensor),
    ((1, 2.5), torch.Tensor),
)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("arguments", "kind"), MIXED, ids=range(len(MIXED)))
def test_of_several_kinds_torch_wins(arguments, kind, backend: str) -> None:
    assert isinstance(plica.jit(lambda x, y: x + y, backend=backend)(*arguments), kind)


UNKNOWN = (torch.ones(2).to(torch.float8_e5m2), np.asarray(["a"]), np.asarray([object()]), np.ones(2, "longdouble"))


@pytest.mark.parametrize("argument", UNKNOWN, ids=lambda argument: str(argument.dtype))
def test_dtypes_that_do_not_exist_here_are_refused(argument) -> None:
    with pytest.raises(DTypeError, match="is no data type of Plica; choose one of bool, int8"):
        plica.jit(lambda x: x)(argument)


# Trees


@dataclasses.dataclass
class Pair:
    first: Any
    second: Any = None


@dataclasses.dataclass(frozen=True)
class Frozen:
    value: Any
    number: Any = 3


Named = namedtuple("Named", "left right")
X, Y = np.asarray([1.0, 2.0]), np.asarray([3.0])
TREES: Any = (
    (lambda t: t, {"b": X, "a": [Y, (X, None)]}),
    (lambda t: t, Pair(X, Pair(Y))),
    (lambda t: t, Frozen(X, Y)),
    (lambda t: t, Named(X, {"k": Y})),
    (lambda t: t, [X]),
    (lambda t: t, (X,)),
    (lambda t: t, ()),
    (lambda t: t, {}),
    (lambda t: t, None),
    (lambda t: {"s": t[0] * 2, "t": (t[1],)}, (X, Y)),
    (lambda t: Pair(t["x"], [None, t["x"] + 1]), {"x": X}),
    (lambda t: [t, t], X),
)


def _flat(tree: Any) -> Any:
    """Nested lists of numbers in the place of arrays, with the types of what holds them."""
    if dataclasses.is_dataclass(tree):
        return type(tree), [_flat(getattr(tree, one.name)) for one in dataclasses.fields(tree)]
    if isinstance(tree, dict):
        return dict, {key: _flat(value) for key, value in tree.items()}
    if isinstance(tree, list | tuple):
        return type(tree), [_flat(one) for one in tree]
    return tree if tree is None else np.asarray(tree).tolist()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("function", "tree"), TREES, ids=range(len(TREES)))
def test_trees_go_in_and_come_out(function, tree, backend: str) -> None:
    compiled = plica.jit(function, backend=backend)
    for _ in range(2):
        assert _flat(compiled(tree)) == _flat(function(tree))
    assert compiled.num_compilations == 1


def test_numbers_among_the_results_are_arrays() -> None:
    found = plica.jit(lambda x: {"n": 3, "f": 2.5, "b": True, "none": None, "size": x.shape[0]})(torch.ones(2))
    assert found["none"] is None
    kinds = {name: (str(one.dtype), one.tolist()) for name, one in found.items() if one is not None}
    assert kinds == {
        "n": ("torch.int64", 3),
        "f": ("torch.float64", 2.5),
        "b": ("torch.bool", True),
        "size": ("torch.int64", 2),
    }


def test_another_structure_is_another_compilation() -> None:
    compiled = plica.jit(lambda t: t[0] if isinstance(t, tuple) else t["a"])
    assert compiled((X,)).tolist() == compiled({"a": X}).tolist() == X.tolist()
    compiled((X, Y))
    compiled((Y,))
    assert compiled.num_compilations == 4


def test_dicts_are_one_tree_whatever_the_order_of_their_keys() -> None:
    compiled = plica.jit(lambda t: t["a"] - t["b"])
    assert compiled({"a": X, "b": Y}).tolist() == compiled({"b": Y, "a": X}).tolist() == [-2.0, -1.0]
    assert compiled.num_compilations == 1


def test_any_number_of_arguments() -> None:
    compiled = plica.jit(lambda *args, **named: {**named, "total": sum(args[1:], args[0])})
    found = compiled(X, X, Y, z=Y)
    assert {name: one.tolist() for name, one in found.items()} == {"z": [3.0], "total": [5.0, 7.0]}


# Captured arrays


def test_arrays_that_a_function_closes_over_are_captured_by_reference() -> None:
    tensor, array, unused = torch.ones(2), np.ones(2, "float32"), torch.ones(9)
    for backend in BACKENDS:
        compiled = plica.jit(lambda x: (unused, x * tensor + array)[1], backend=backend)
        tensor.fill_(1)
        array[:] = 1
        assert compiled(torch.tensor([1.0, 2.0])).tolist() == [2.0, 3.0]
        tensor.fill_(2)
        array[:] = 5
        assert compiled(torch.tensor([1.0, 2.0])).tolist() == [7.0, 9.0]
        assert compiled.num_compilations == 1
        assert [one is tensor or one is array for one in compiled.bound.leaves] == [True, True]


def test_an_array_is_captured_once_wherever_it_is_used() -> None:
    weight = torch.tensor([1.0, 2.0])

    def function(x):
        y = x * weight

        @plica.for_loop(0, 2)
        def loop(i, a):
            return plica.cond(i > 0, lambda: a * weight, lambda: a + weight)

        return loop(y)

    compiled = plica.jit(function)
    expected = (torch.ones(2) * weight + weight) * weight
    assert compiled(torch.ones(2)).tolist() == expected.tolist()
    assert len(compiled.program.consts) == 1


def test_captured_arrays_may_be_of_any_library() -> None:
    exchanged = np.asarray([1.0, 2.0])
    compiled = plica.jit(lambda x: x + pnp.from_dlpack(exchanged) + pnp.asarray([1.0, 1.0]) + np.float64(1))
    assert compiled(np.zeros(2)).tolist() == [3.0, 4.0]


def test_an_argument_that_is_returned_is_a_copy() -> None:
    x = torch.ones(2)
    found = plica.jit(lambda x: x)(x)
    found += 1
    assert x.tolist() == [1.0, 1.0]
    array = np.ones(2)
    assert not np.shares_memory(plica.jit(lambda x: x)(array), array)
