"""`plica.numpy`: the functions of the Python Array API standard, and more for circuits.

On tracers a function is recorded. On arrays the Program that it would record runs at once: torch tensors in torch,
numpy arrays in the interpreter. So a function means the same whether it is traced or not. Numbers alone make torch
tensors.

>>> import numpy
>>> import plica.numpy as pnp
>>> pnp.logsumexp(numpy.zeros((2, 4)), axis=1).round(4).tolist()
[1.3863, 1.3863]
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, lru_cache, partial, wraps
from types import ModuleType
from typing import TYPE_CHECKING, Any, NoReturn

import array_api_compat
import numpy as np

from plica.eager.packed import PackedArray
from plica.eager.scalars import Scalar, with_scalars
from plica.errors import MissingNameError, ShapeError, TraceError
from plica.ir.dtypes import as_dtype
from plica.ir.interpret import interpret_program
from plica.ir.program import Bound, Program
from plica.ir.types import spec
from plica.ops import ADDED, OPS
from plica.passes.results import own_results
from plica.tracing import namespace as _tracing
from plica.tracing.locations import user_line
from plica.tracing.namespace.literals import array_of_numbers
from plica.tracing.namespace.updating import Updates
from plica.tracing.other_libraries import advice
from plica.tracing.scope import current_trace
from plica.tracing.signatures import signature_of, with_plain_settings
from plica.tracing.trace import TracedFunction, trace_function
from plica.tracing.tracer import Tracer, call_traced, public_names
from plica.tracing.trees import unflatten

_NAMES = frozenset(dir(_tracing))
__array_api_version__ = _tracing.__array_api_version__
__array_namespace_info__ = _tracing.__array_namespace_info__

_PUBLIC = "plica.numpy"  # the public module of the functions
_BACKENDS = {"torch": "plica.backend.torch.eager"}


if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...

else:

    @cache
    def __getattr__(name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"{_PUBLIC} has no {name!r}")
        if name not in _NAMES and name not in ADDED:
            raise _missing(_PUBLIC, name)
        return _public(name, getattr(_tracing, name))


def _missing(module: str, name: str) -> MissingNameError:
    message = f"{user_line()}: {module} has no {name!r}: {advice(name, public_names())}."
    return MissingNameError(message, name=name)


def __dir__() -> list[str]:
    return sorted({*_NAMES, *ADDED})


def _public(name: str, traced: Any) -> Any:
    """A function that runs at once on arrays, a module of such functions, a constant or a dtype."""
    if isinstance(traced, ModuleType):
        module = ModuleType(f"{_PUBLIC}.{name}", traced.__doc__)
        for member in traced.__all__:
            setattr(module, member, _public(f"{name}.{member}", getattr(traced, member)))
        module.__getattr__ = partial(_attribute_of, module)  # type: ignore[method-assign]
        return module
    return _function(name, traced) if inspect.isfunction(traced) else traced


def _attribute_of(module: ModuleType, name: str) -> NoReturn:
    """The `__getattr__` of a submodule: raises for a name that it does not have."""
    raise AttributeError(name) if name.startswith("_") else _missing(module.__name__, name)


def _function(name: str, traced: Callable[..., Any]) -> Callable[..., Any]:
    run = traced if name in _tracing.STATIC else _AT_ONCE.get(name, partial(_eager, traced))

    @wraps(traced)
    def eager(*args: Any, **kwargs: Any) -> Any:
        return run(*args, **kwargs)

    def function(*args: Any, **kwargs: Any) -> Any:
        return call_traced(traced if _is_traced(args, kwargs) else eager, name, args, kwargs)

    return _described(function, name, traced)


def _described(function: Any, name: str, traced: Callable[..., Any]) -> Callable[..., Any]:
    """`function` with the documentation and the signature of the traced one, and a name by which pickle finds it."""
    function.__module__, function.__qualname__, function.__name__ = _PUBLIC, name, name.rpartition(".")[2]
    function.__doc__, function.__signature__ = traced.__doc__, signature_of(traced)
    return function  # type: ignore[no-any-return]


def _is_traced(args: Sequence[Any], kwargs: dict[str, Any]) -> bool:
    """Whether a call is recorded."""
    if current_trace() is not None:  # arrays that the function closes over are captured: they may change later
        return True
    return bool(any(isinstance(argument, Tracer) for argument in _arrays((*args, *kwargs.values()))))


# Functions that run without a Program


def _asarray(obj: Any, /, *, dtype: object = None, device: object = None, copy: bool | None = None) -> Any:
    """A number, a nested list of numbers and arrays, or an array: as an array of its library, by default torch's."""
    arrays = list(_arrays((obj,)))
    if arrays and not _is_array(obj):
        return _eager(_tracing.asarray, obj, dtype=dtype, device=device)
    if not arrays:
        obj = array_of_numbers(obj, dtype)
    library = _library(arrays) if arrays else _torch()
    own = as_dtype(obj.dtype if dtype is None else dtype)
    if own.is_storage:
        return _eager(_tracing.astype, obj if arrays else library.asarray(obj.astype("int8")), own, device=device)
    wanted = getattr(library, own.value)
    if copy is not False and array_api_compat.is_torch_array(obj):  # torch.asarray may lose the gradient
        tensor: Any = obj
        return tensor.to(device=tensor.device if device is None else device, dtype=wanted, copy=bool(copy))
    return library.asarray(obj, dtype=wanted, device=device, copy=copy)


def _from_dlpack(x: Any, /, *, device: object = None, copy: bool | None = None) -> Any:
    """Anything with `__dlpack__` as a torch tensor, which shares its memory unless `copy` is true."""
    library = _torch()
    return library.asarray(library.from_dlpack(x), device=device, copy=copy)


def _at(x: Any) -> Updates:
    """The object with the update methods of `x`; calls of its methods are recorded or run, but not `at` itself."""
    return Updates(x, _update)


def _update(x: Any, key: Any, values: Any, mode: str) -> Any:
    if not _is_traced((x, key, values), {}) and _is_array(x):
        keys = tuple(_as_array(index, x) for index in (key if isinstance(key, tuple) else (key,)))
        key = keys if isinstance(key, tuple) else keys[0]
    return __getattr__("update")(x, key, values, mode)


def _as_array(key: Any, x: Any) -> Any:
    """An integer as an array of the library of `x`, so that one Program serves all integers."""
    if not isinstance(key, int | np.integer) or isinstance(key, bool):
        return key
    return array_api_compat.array_namespace(x).asarray(int(key))


_AT_ONCE: Mapping[str, Callable[..., Any]] = {
    "asarray": _asarray,
    "at": _at,
    "from_dlpack": _from_dlpack,
    "updates": _at,
}


def _torch() -> Any:
    """The standard's functions over torch, imported when they are first needed."""
    return importlib.import_module("array_api_compat.torch")


# Eager calls


def _is_array(arg: object) -> bool:
    if isinstance(arg, Tracer | PackedArray):
        return True
    return array_api_compat.is_array_api_obj(arg) and not isinstance(arg, type)


def _arrays(args: Sequence[Any]) -> Iterator[Any]:
    """The arrays and the scalars among arguments and within lists and tuples of them, in order."""
    for arg in args:
        if _is_array(arg) or isinstance(arg, Scalar):
            yield arg
        elif isinstance(arg, list | tuple):
            yield from _arrays(arg)


def _library(arrays: list[Any]) -> Any:
    """The library of arrays.

    Raises:
        TraceError: The arrays are of several libraries.
    """
    try:
        return array_api_compat.array_namespace(
            *(array.data if isinstance(array, PackedArray) else array for array in arrays)
        )
    except TypeError:
        kinds = " and ".join(dict.fromkeys(f"{type(array).__module__}.{type(array).__name__}" for array in arrays))
        raise TraceError(
            f"expected arrays of one library, found {kinds}; make them tensors with plica.numpy.from_dlpack(x)."
        ) from None


def _with_scalars(arrays: list[Any]) -> list[Any]:
    """`arrays` with numpy's scalars converted to the library of the other arrays."""
    own_arrays = [array for array in arrays if not isinstance(array, np.generic)]
    library = _library(own_arrays) if own_arrays else np
    if len(own_arrays) == len(arrays) or array_api_compat.is_numpy_namespace(library):
        return arrays
    device = own_arrays[0].device
    return [
        library.asarray(np.asarray(array), device=device) if isinstance(array, np.generic) else array
        for array in arrays
    ]


def _eager(traced: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    device = kwargs.pop("device", None)
    arrays = list(_arrays((*args, *kwargs.values())))
    if any(isinstance(array, np.generic) for array in arrays):
        args, kwargs = with_plain_settings(traced, args, kwargs)
        arrays = list(_arrays((*args, *kwargs.values())))
    args, kwargs = with_scalars(traced, args, kwargs, arrays)
    operands = list(_arrays((*args, *kwargs.values())))
    specs = tuple(type(operand.value) if isinstance(operand, Scalar) else _spec_of(operand) for operand in operands)
    function = _traced(traced, specs, _Arguments(args, kwargs))
    results = _run(function.bound, operands, device)
    if arrays and device is not None:
        results = tuple(array_api_compat.to_device(result, device) for result in results)
    return unflatten(function.structure, results)


def _spec_of(array: Any) -> Any:
    """The type for tracing an array; numpy's float64 and complex128 scalars count as Python numbers."""
    number = next((kind for kind in (float, complex) if isinstance(array, kind)), None)
    return number or spec(array.shape, array.dtype)


def run_eagerly(fn: Callable[..., Any], arrays: list[Any]) -> tuple[Any, ...]:
    """The results of a function at `arrays`, traced for their sizes, or for any sizes if that raises a ShapeError."""

    def named(index: int, array: Any) -> list[str]:
        return [f"s{index}_{axis}" for axis in range(len(array.shape))]

    known = [spec(array.shape, array.dtype) for array in arrays]
    unknown = [spec(named(index, array), array.dtype) for index, array in enumerate(arrays)]
    try:
        traced = trace_function(fn, known, lambda tracers: (tracers, {}), ())
    except ShapeError:
        traced = trace_function(fn, unknown, lambda tracers: (tracers, {}), ())
    return _run(Bound(own_results(traced.bound.program), traced.bound.leaves), arrays)


class _Arguments:
    """The arguments of a call with holes for its arrays and scalars; two are equal if all other values are equal."""

    def __init__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._args = tuple(map(_with_holes, args))  # without the arrays, so that a cached key does not keep them alive
        self._kwargs = {key: _with_holes(value) for key, value in kwargs.items()}
        self._key: Hashable = (
            repr(list(map(_shown, self._args))),
            repr([(key, _shown(value)) for key, value in self._kwargs.items()]),
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Arguments) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def fill(self, tracers: Sequence[Tracer]) -> tuple[list[Any], dict[str, Any]]:
        """The arguments with tracers in place of the arrays and scalars, in order."""
        rest = iter(tracers)

        def filled(arg: Any) -> Any:
            if arg is _HOLE:
                return next(rest)
            if isinstance(arg, list | tuple):
                return (list if isinstance(arg, list) else tuple)(map(filled, arg))
            return arg

        return [filled(arg) for arg in self._args], {key: filled(value) for key, value in self._kwargs.items()}


_HOLE = object()


def _with_holes(arg: Any) -> Any:
    """An argument with `_HOLE` in place of each array and each scalar."""
    if _is_array(arg) or isinstance(arg, Scalar):
        return _HOLE
    return (list if isinstance(arg, list) else tuple)(map(_with_holes, arg)) if isinstance(arg, list | tuple) else arg


def _shown(arg: Any) -> Any:
    if arg is _HOLE:
        return "array"
    return type(arg), [_shown(item) for item in arg] if isinstance(arg, list | tuple) else arg


@lru_cache(maxsize=1024)
def _traced(traced: Callable[..., Any], specs: tuple[Any, ...], arguments: _Arguments) -> TracedFunction:
    function = trace_function(traced, specs, arguments.fill, ())
    return replace(function, bound=Bound(own_results(_without_source(function.bound.program)), function.bound.leaves))


def _without_source(program: Program) -> Program:
    """`program` without the source lines of the call that traced it, since other calls share it."""
    return replace(program, equations=tuple(replace(equation, source="") for equation in program.equations))


def _run(bound: Bound, operands: list[Any], device: object = None) -> tuple[Any, ...]:
    """The results of a Program at arrays and scalars: of numpy arrays in the interpreter, of others in torch."""
    program = bound.program
    arrays = _with_scalars([operand for operand in operands if not isinstance(operand, Scalar)])
    rest = iter(arrays)
    values = [operand.value if isinstance(operand, Scalar) else next(rest) for operand in operands]
    if arrays:
        if not array_api_compat.is_torch_namespace(_library(arrays)):
            return interpret_program(program, OPS, values, bound.leaves)
        device = arrays[0].device
    scalars = frozenset(index for index, operand in enumerate(operands) if isinstance(operand, Scalar))
    run: Callable[..., tuple[Any, ...]] = importlib.import_module(_BACKENDS["torch"]).run
    return run(bound, values, scalars, device)
