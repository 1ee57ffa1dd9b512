"""Names of other libraries: those that we lack are refused with the user's line and what to write instead."""

import warnings
from typing import Any

import numpy as np
import pytest
import torch

import plica.numpy as pnp
from plica.errors import MissingNameError, PlicaError, TraceError
from plica.frontend.programs import trace
from plica.ir.types import spec
from plica.tracing.other_libraries import EQUATIONS, advice
from tests.harness.together import grouped

# Files, the state of the library, and names of dtypes.
_NO_ARRAYS = """info test show_config show_runtime save savez savez_compressed savetxt fromfile genfromtxt loadtxt load
manual_seed set_default_device set_default_dtype set_num_threads set_num_interop_threads set_printoptions compile seed
typename"""
HERE = r"test_other_libraries.py:\d+: "
N = spec(("n",), "float64")
_RNG = np.random.default_rng(0)
ARRAYS: dict[str, Any] = {
    "x": _RNG.uniform(-1, 1, (2, 3)),
    "y": _RNG.uniform(0.5, 1, (2, 3)),
    "v": np.asarray([-0.5, 0.25, 2.0]),
    "w": np.asarray([1.0, -1.5, 3.0]),
    "m": _RNG.uniform(-1, 1, (3, 3)),
    "z": _RNG.uniform(-1, 1, (2, 3)) + 1j,
    "i": np.asarray([2, 0]),
}
_FUNCTIONS = [
    (module, name)
    for module in ("", "linalg", "fft")
    for name in vars(getattr(np, module) if module else np)
    if not name.startswith("_") and callable(getattr(getattr(np, module) if module else np, name))
]


def _leaves(value: Any) -> list[Any]:
    if isinstance(value, list | tuple):
        return [leaf for entry in value for leaf in _leaves(entry)]
    return [value.name if isinstance(value, np.dtype) else getattr(value, "value", value)]


@grouped("left", EQUATIONS)
def test_an_equation_of_the_table_holds(left: str) -> None:
    is_torch = left.startswith("torch.") or ".view(" in left
    arrays = {name: torch.from_numpy(array) for name, array in ARRAYS.items()} if is_torch else ARRAYS
    names = {name: getattr(pnp, name) for name in dir(pnp)}
    expected = _leaves(eval(left, {"np": np, "torch": torch, **arrays}))
    found = _leaves(eval(EQUATIONS[left], {**names, **arrays}))
    for result, wanted in zip(found, expected, strict=True):
        if isinstance(wanted, str):
            assert result == wanted
        else:
            np.testing.assert_allclose(result, wanted, rtol=1e-12)


def test_the_median_of_an_even_number_of_entries() -> None:
    v = np.asarray([4.0, -1.0, 2.0, 7.0])
    assert eval(EQUATIONS["np.median(v)"], {"mean": pnp.mean, "sort": pnp.sort, "v": v}) == np.median(v)


@grouped("left", [left for left in EQUATIONS if not left.startswith("torch.")])
def test_the_error_of_a_name_of_the_table_shows_what_to_write(left: str) -> None:
    *modules, name = left.partition("(")[0].split(".")[1:]
    ours = getattr(pnp, modules[0]) if modules else pnp
    with pytest.raises(MissingNameError) as refused:
        trace(lambda x: getattr(ours if left.startswith("np.") else x, name), N)
    assert EQUATIONS[left] in str(refused.value)
    assert str(refused.value).startswith(__file__)


def test_functions_of_numpy_that_we_lack_are_refused_with_the_line() -> None:
    for module, name in _FUNCTIONS:
        ours = getattr(pnp, module) if module else pnp
        if name in dir(ours):
            continue
        with pytest.raises(MissingNameError, match=f"{HERE}plica.numpy.*has no '{name}': ") as refused:
            getattr(ours, name)
        assert isinstance(refused.value, AttributeError)


@pytest.mark.parametrize("kind", [np.ndarray, torch.Tensor])
def test_an_attribute_that_traced_arrays_lack_is_refused_with_the_line(kind: type) -> None:
    lacking = []

    def function(x: Any) -> Any:
        for name in dir(kind):
            if name.startswith("_") or hasattr(type(x), name):
                continue
            lacking.append(name)
            with pytest.raises(MissingNameError, match=f"{HERE}a traced array has no attribute '{name}': .+\\."):
                getattr(x, name)
        return x

    trace(function, N)
    assert {"flatten", "std", "item", "clip", "squeeze"} <= set(lacking)


def test_numpy_asks_for_shapes_alone() -> None:
    trace(lambda x: x + np.shape(x)[0] + np.size(x) + np.ndim(x), N)


_OF_ONE_ARRAY = "sum mean std transpose sort exp cumsum argmax ravel concatenate linalg.inv linalg.norm fft.fft stack"


@pytest.mark.parametrize("path", _OF_ONE_ARRAY.split())
def test_a_function_of_numpy_is_refused_on_traced_arrays(path: str) -> None:
    *modules, name = path.split(".")
    function = getattr(getattr(np, modules[0]) if modules else np, name)
    argument = (lambda x: [x, x]) if name in ("concatenate", "stack") else (lambda x: x)
    with pytest.raises(TraceError, match=r"elements(.|\n)*plica\.numpy") as refused:
        trace(lambda x: function(argument(x)), spec((4, 4), "float64"))
    assert str(refused.value).startswith(__file__)
    assert name == "exp" or f"numpy's {name} needs" in str(refused.value)


@pytest.mark.parametrize("library", [np, pytest.param(torch, marks=pytest.mark.full)])
def test_every_function_of_a_library_on_a_traced_array_ends_in_our_error_or_in_its_own_check(library: Any) -> None:
    """None reaches elements that are not there: what is raised is ours, with the line, or of the call's arguments."""
    for name in dir(library):
        function = getattr(library, name)
        if name.startswith("_") or isinstance(function, type) or not callable(function) or name in _NO_ARRAYS.split():
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                trace(lambda x: (function(x), x)[1], spec((4, 4), "float64"))  # noqa: B023 - it is called at once
            except PlicaError as error:
                assert str(error).startswith(__file__), (name, str(error))  # noqa: PT017
            except (TypeError, ValueError, RuntimeError, AttributeError, NotImplementedError) as error:
                assert "Tracer.__" not in str(error), (name, str(error))  # noqa: PT017


def test_what_no_library_has_is_no_replacement() -> None:
    assert advice("sun", dir(pnp)) == "perhaps sum is meant"
    assert "dir(plica.numpy)" in advice("kaiser", dir(pnp))
    with pytest.raises(AttributeError, match="has no '_private'"):
        pnp._private  # noqa: B018 - asked for, as doctest does
    assert not hasattr(pnp, "__wrapped__")
