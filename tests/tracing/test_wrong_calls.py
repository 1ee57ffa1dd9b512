"""Whatever is wrong with a call of an array function or a method, the error is Plica's and names the user's line."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest

import plica
from plica.errors import InternalError, PlicaError
from plica.frontend.programs import trace
from plica.ir.types import spec
from tests.harness.array_calls import FUNCTIONS, METHODS, WRONG, right_call, wrong_calls
from tests.harness.together import grouped

HERE = "test_wrong_calls.py:"
ARRAYS = {"dynamic": spec(("n", "m"), "float64"), "static": spec((2, 3), "float64"), "scalar": spec((), "int64")}


def _complaints(calls: Iterator[tuple[str, Callable[[], Any]]], file: str) -> list[str]:
    """The calls that end in an error that is not Plica's, or whose message does not name the line."""
    found = []
    for what, run in calls:
        try:
            run()
        except InternalError as error:
            found.append(f"{what}: InternalError: {error}")
        except PlicaError as error:
            if file not in str(error):
                found.append(f"{what}: {type(error).__name__} without a line: {error}")
        except Exception as error:
            found.append(f"{what}: {type(error).__name__}: {error}".splitlines()[0])
    return found


KINDS = ["dynamic", *(pytest.param(kind, marks=pytest.mark.full) for kind in ("static", "scalar"))]


@pytest.mark.parametrize("kind", KINDS)
@grouped("name", FUNCTIONS)
def test_a_traced_call_of_a_function(name: str, kind: str) -> None:
    found: list[str] = []

    def function(x: Any) -> Any:
        found.extend(_complaints(wrong_calls(name, x), HERE))
        return x

    trace(function, ARRAYS[kind])
    assert not found, "\n".join(found)


@pytest.mark.full
@grouped("name", FUNCTIONS)
def test_a_call_of_a_function_on_arrays(name: str) -> None:
    found = _complaints(wrong_calls(name, np.ones((2, 3))), HERE)
    assert not found, "\n".join(found)


@grouped("kind", ARRAYS)
@grouped("name", METHODS)
def test_a_method_of_a_traced_array(name: str, kind: str) -> None:
    found: list[str] = []

    def function(x: Any) -> Any:
        calls = (
            (f"x.{name}({', '.join(map(repr, given))})", lambda given=given: getattr(x, name)(*given))
            for given in [(wrong,) for wrong in WRONG]
        )
        found.extend(_complaints(calls, HERE))
        return x

    trace(function, ARRAYS[kind])
    assert not found, "\n".join(found)


SHAPES = ((0, 0), (0, 3), (3, 0), (1, 1), (2, 3), (3, 3))


@pytest.mark.parametrize(
    "backend", ["interpreter", *(pytest.param(backend, marks=pytest.mark.full) for backend in ("torch", "native"))]
)
@grouped("name", FUNCTIONS)
def test_a_call_that_turns_out_wrong_when_it_runs(name: str, backend: str) -> None:
    """Sizes and values that no type rule knows: empty axes, sizes that do not meet, NaN, indices and shapes below 0."""

    def function(x: Any) -> Any:
        given, named = right_call(name, x)
        result = FUNCTIONS[name](*given, **named)
        return result if hasattr(result, "trace") else x

    run = plica.jit(function, abstracted_axes={0: "n", 1: "m"}, backend=backend)
    calls = (
        (f"{name} of {dtype}{shape}", partial(run, np.full(shape, -2).astype(dtype)))
        for dtype in ("float64", "int64", "bool")
        for shape in SHAPES
    )
    found = _complaints(calls, HERE)
    assert not found, "\n".join(found)
