"""Python numbers in eager calls: one compilation serves them all, and results are those of constants."""

import gc
import math
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

import plica.numpy as pnp
from plica.backend.torch.eager import emitted
from plica.backend.torch.emit import emit
from plica.eager import scalars
from plica.eager.namespace import _traced
from plica.errors import DTypeError, PlicaError
from plica.frontend.programs import interpret, trace
from plica.ir.program import Program
from plica.ir.types import spec
from tests.harness.programs import run_torch
from tests.harness.together import grouped

Call = Callable[[Any, Any], Any]

X = np.asarray([-2.0, -0.0, 0.0, 0.3, 1.0, 3.0, math.inf, math.nan])


def _call(name: str, x: Any, k: Any) -> Any:
    return getattr(pnp, name)(x, k)


CALLS: dict[str, Call] = {
    **{name: partial(_call, name) for name in ("add", "divide", "floor_divide", "pow", "maximum", "less")},
    "swapped": lambda x, k: pnp.subtract(k, x),
    "atan2": lambda x, k: pnp.atan2(x, k),
    "where": lambda x, k: pnp.where(pnp.not_equal(x, 0), k, x),
    "where of two": lambda x, k: pnp.where(pnp.not_equal(x, 0), k, 2),
    "clip": lambda x, k: pnp.clip(x, k, 5),
    "clip by name": lambda x, k: pnp.clip(x, max=k),
    "full_like": lambda x, k: pnp.full_like(x, k),
    "update": lambda x, k: pnp.at(x)[1].set(k),
    "masked update": lambda x, k: pnp.at(x)[pnp.not_equal(x, 0)].add(k),
}
NUMBERS = (0, 3, -2, 300, 2**70, 0.1, -0.0, 1e39, math.nan, True, 1.5 - 2j)
MORE = pytest.mark.full
DTYPES = (
    "float16",
    "float32",
    "uint8",
    *(pytest.param(one, marks=MORE) for one in ("float64", "int8", "int64", "uint16", "uint64", "bool", "complex64")),
)


def attempt(make: Callable[..., Callable[..., Any]], *args: Any) -> Any:
    """A result as dtype and text of its elements, or the kind of error."""
    try:
        found = make()(*args)
    except PlicaError:
        return PlicaError
    except (RuntimeError, OverflowError, TypeError, ValueError):
        return Exception
    found = np.asarray(found[0] if isinstance(found, tuple) else found)
    return str(found.dtype), found.shape, str(found.tolist())


@pytest.mark.parametrize("dtype", DTYPES)
@grouped("name", CALLS)
def test_results_are_those_of_constants(name: str, dtype: str) -> None:
    with np.errstate(all="ignore"):
        x = X.astype(dtype)

    def program(number: Any) -> Program:
        return trace(lambda y: CALLS[name](y, number), spec(x.shape, dtype))

    for number in NUMBERS:
        found = attempt(lambda: CALLS[name], torch.from_numpy(x), number)
        assert found == attempt(lambda number=number: partial(run_torch, program(number)), torch.from_numpy(x)), number
        found = attempt(lambda: CALLS[name], x, number)
        assert found == attempt(lambda number=number: partial(interpret, program(number)), x), number


def test_ever_new_numbers_compile_once() -> None:
    x = torch.arange(4.0)
    calls: tuple[Callable[[float], Any], ...] = (
        lambda k: pnp.add(x, k),
        lambda k: pnp.multiply(k, x),
        lambda k: pnp.where(x > 1, k, x),
        lambda k: pnp.clip(x, max=k),
        lambda k: pnp.full((2,), k),
        lambda k: pnp.at(x)[0].set(k),
        lambda k: pnp.pow(x.numpy(), k),
        lambda k: pnp.random.key(int(8 * k)),
        lambda k: pnp.random.fold_in(torch.tensor([1, 2]), int(8 * k)),
    )
    for call in calls:
        call(0.125)
        before = _traced.cache_info().misses, emitted.cache_info().misses
        results = {str(call(k / 8).tolist()) for k in range(2, 32)}
        assert len(results) >= 20, "the number counts"
        assert (_traced.cache_info().misses, emitted.cache_info().misses) == before


def test_numbers_stay_python_numbers_in_generated_code() -> None:
    program = trace(lambda x, k: x * k, spec(3), float)
    tensor = torch.ones(3, requires_grad=True)
    run = emit(program, numbers=frozenset({1}), constants=frozenset({1}))
    (gradient,) = torch.autograd.grad(run(None, tensor, 1.5).sum(), tensor)
    assert gradient.tolist() == [1.5] * 3


def test_numbers_that_decide_shapes_are_constants() -> None:
    x = torch.arange(6.0)
    assert [tuple(pnp.full((k,), 1.5).shape) for k in (0, 2)] == [(0,), (2,)]
    assert [tuple(pnp.reshape(x, (k, -1)).shape) for k in (2, 3)] == [(2, 3), (3, 2)]
    assert [pnp.sum(pnp.reshape(x, (2, 3)), axis=axis).tolist() for axis in (0, 1)] == [[3.0, 5.0, 7.0], [3.0, 12.0]]


def test_integers_that_do_not_fit_are_refused() -> None:
    for convert in (np.asarray, torch.from_numpy):
        x = convert(np.asarray([1, 2], "uint8"))
        assert pnp.add(x, 3).tolist() == [4, 5]
        for number in (300, -1):
            with pytest.raises(DTypeError, match=f"the number {number} does not fit uint8"):
                pnp.add(x, number)
        with pytest.raises(DTypeError, match="power -1 is no integer"):
            pnp.pow(x, -1)


def test_calls_do_not_keep_their_arrays() -> None:
    x = torch.ones(3)
    gone = weakref.ref(x)
    pnp.add(x, 17.0)
    pnp.concat([x, x])
    del x
    gc.collect()
    assert gone() is None


def test_the_table_names_functions_of_the_namespace() -> None:
    for function, operands in scalars.OPERANDS.items():
        assert callable(function)
        names = function.__code__.co_varnames[: function.__code__.co_argcount + function.__code__.co_kwonlyargcount]
        assert set(operands.names) <= {*names}
