"""Every function of `plica.numpy`: traced and interpreted, in torch, eager on numpy and on torch, and numpy's own."""

import inspect
from types import ModuleType

import array_api_compat.numpy
import numpy as np
import pytest

import plica.numpy as pnp
from plica.errors import DTypeError, TraceError
from plica.frontend.programs import interpret, trace
from plica.ir.dtypes import DType, as_dtype
from plica.ir.types import spec
from plica.ops.special import OPERANDS
from plica.tracing import namespace
from tests.harness.examples import EXAMPLES
from tests.harness.examples.example import Example, check
from tests.harness.programs import Array, assert_same, to_torch
from tests.harness.standard import KINDS
from tests.harness.together import grouped

pytestmark = pytest.mark.filterwarnings("ignore:Mean of empty slice", "ignore:Degrees of freedom")

CONSTANTS = {"e": np.e, "pi": np.pi, "inf": np.inf, "nan": np.nan, "newaxis": None}
# Modules of which every function has an example; the others, and special functions, have tests of their own.
MODULES = ("elementwise", "reductions", "shapes", "creation", "repeating", "sorting")


@pytest.mark.one_in(3)
@grouped("example", EXAMPLES, ids=str)
def test_eager_is_traced_is_numpy(example: Example) -> None:
    check(example)


def test_every_function_has_an_example() -> None:
    named = {example.name for example in EXAMPLES}
    functions = {name: getattr(namespace, name) for name in dir(namespace)}
    asked = {
        name
        for name, value in functions.items()
        if inspect.isfunction(value)
        and name not in (*namespace.STATIC, *OPERANDS)
        and value.__module__.rpartition(".")[2] in MODULES
    }
    assert asked <= named
    assert named <= set(functions)


# Elementwise functions at every dtype that the standard names; torch has few functions of wider unsigned integers.

DTYPES = {
    "bool": ("bool",),
    "int": ("int8", "int16", "int32", "int64", "uint8"),
    "float": ("float32", "float64"),
    "complex": ("complex64", "complex128"),
}
VALUES = np.asarray([1.0, 0.5, 3.0, 2.0, 0.25, 1.0])
BINARY = (
    "add atan2 bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor copysign divide equal "
    "floor_divide greater greater_equal hypot less less_equal logaddexp logical_and logical_or logical_xor maximum "
    "minimum multiply nextafter not_equal pow remainder subtract"
)
FUNCTIONS = [(name, kinds) for kinds, names in KINDS.items() for name in names.split()]


def _of_dtype(dtype: str, step: int) -> Array:
    values = np.roll(VALUES, step).reshape(2, 3)
    if np.dtype(dtype).kind in "iu":
        values = np.ceil(values)
    return (
        values * (0.5 - 0.75j) if np.dtype(dtype).kind == "c" else values > 0.5 if dtype == "bool" else values
    ).astype(dtype)


@grouped(("name", "kinds"), FUNCTIONS)
def test_functions_take_the_dtypes_of_the_standard(name: str, kinds: str) -> None:
    reference = getattr(array_api_compat.numpy, name)
    for dtype in (dtype for kind in kinds.split() for dtype in DTYPES[kind]):
        arrays = [_of_dtype(dtype, step) for step in range(2 if name in BINARY.split() else 1)]
        with np.errstate(all="ignore"):
            expected = np.asarray(reference(*arrays))
        assert_same(np.asarray(getattr(pnp, name)(*arrays)), expected, 10.0)
        assert_same(getattr(pnp, name)(*map(to_torch, arrays)), expected, 10.0)


def test_constants_and_dtypes() -> None:
    for name, value in CONSTANTS.items():
        np.testing.assert_equal(getattr(pnp, name), value)
    for dtype in DType:
        assert getattr(pnp, dtype.value) is dtype
    with pytest.raises(AttributeError, match=r"plica\.numpy has no 'frobnicate'"):
        _ = pnp.frobnicate


def test_looking_names_up_hides_nothing_of_python() -> None:
    """`any`, `bool`, `sum`, ... are functions and dtypes of the namespace and builtins that it uses itself."""
    for name in dir(pnp):
        getattr(pnp, name)
    x = np.asarray([True, False])
    assert bool(pnp.any(x)) is True
    assert trace(lambda a: pnp.add(a, 1), spec(2, "int64")).results[0].type.dtype == "int64"


def test_functions_have_names_and_documentation() -> None:
    for name in dir(pnp):
        value = getattr(pnp, name)
        if inspect.isfunction(value):
            assert value.__name__ == name
            assert value.__doc__
        assert value.__doc__ or not isinstance(value, ModuleType)


def test_scalars_may_come_from_python_alone() -> None:
    program = trace(lambda x: x + pnp.exp(1.0) + pnp.add(1, 2.5), spec((), "float64"))
    np.testing.assert_allclose(interpret(program, np.asarray(0.0))[0], np.e + 3.5)


def test_types_without_a_name_here_are_refused() -> None:
    with pytest.raises(DTypeError, match="is no data type of Plica"):
        pnp.exp(np.zeros(2, "datetime64[s]"))
    with pytest.raises(TraceError, match="needs an array, found str 'x'"):
        pnp.sum("x")
    assert as_dtype(pnp.float32) is DType.FLOAT32
