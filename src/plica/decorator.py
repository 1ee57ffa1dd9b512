"""`jit`: a Python function of arrays, compiled once for all sizes that are declared dynamic.

>>> import plica, plica.numpy as pnp
>>> @plica.jit
... def ramp(n: int):
...     return pnp.cumulative_sum(pnp.ones([n]))
>>> ramp(3).tolist(), ramp(5).tolist(), ramp.num_compilations
([1.0, 2.0, 3.0], [1.0, 2.0, 3.0, 4.0, 5.0], 1)
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, update_wrapper
from itertools import chain, repeat
from operator import is_
from typing import Any, Protocol
from weakref import WeakKeyDictionary, ref

import array_api_compat
import numpy as np

from plica.errors import DTypeError, InputError, TraceError
from plica.ir.dtypes import DType, as_dtype
from plica.ir.interpret import interpret_program
from plica.ir.program import Bound, Program
from plica.ir.signature import bind_sizes
from plica.ir.types import Spec, spec
from plica.ops import OPS
from plica.tracing.call import trace_call
from plica.tracing.control import parameter_names, place_of
from plica.tracing.scope import Reference, current_trace
from plica.tracing.trace import (
    NUMBERS,
    AbstractedAxes,
    TracedFunction,
    axes_of_arguments,
    axis_names,
    trace_function,
)
from plica.tracing.tracer import Tracer
from plica.tracing.trees import Structure, flatten, unflatten

Run = Callable[[Sequence[Any]], Any]
_NUMBERS = (bool, int, float, complex)


class Executor(Protocol):
    """A backend's function of a Program."""

    @property
    def code(self) -> str:
        """What it runs, as text."""
        ...

    def specialise(self, leaves: Sequence[Any]) -> Run:
        """The function of leaves of these kinds; its result is one array, or a tuple of them."""
        ...


@dataclass(frozen=True, slots=True)
class _Compiled:
    """One compilation.

    Args:
        traced: The Program, what it captures, and the structure of its results.
        executor: What runs it.
    """

    traced: TracedFunction
    executor: Executor


def jit(
    fn: Callable[..., Any] | None = None,
    *,
    abstracted_axes: AbstractedAxes = None,
    static_argnums: int | Sequence[int] = (),
    backend: str = "torch",
) -> Any:
    """Compile a function of arrays.

    It is compiled when it is decorated if annotations give the types of all arguments (`int`, `float`, `bool`,
    `complex`, `plica.spec(...)`, or trees of these), else when it is first called with arguments of new dtypes or
    sizes. Sizes that have names never cause another compilation.

    While another function is traced, a call is recorded as a nested Program.

    Args:
        fn: The function; without it, `jit` is a decorator. Arguments and results may be tuples, lists, dicts and
            dataclasses of torch tensors, numpy arrays, DLPack objects and Python numbers. Results are of the kind of
            the arguments: numpy if all arrays are, objects of their own library if all are DLPack objects of one
            library, else torch. Arrays that the function closes over are captured by reference.
        abstracted_axes: Names of axes whose sizes are dynamic; sizes of one name are equal. `{axis: name}` for all
            arrays, or a sequence with one such mapping, a sequence of names, or None for each positional argument.
        static_argnums: Places of arguments that are no arrays: hashable values, for each of which the function is
            compiled anew. A method counts without `self`, and is compiled for each object.
        backend: "torch" runs generated code; "interpreter" runs the definition of each operation in numpy.

    Raises:
        TraceError: The function does what cannot be recorded.
        ShapeError: Sizes do not fit.
        DTypeError: Dtypes do not fit.
    """
    if fn is None:
        return partial(jit, abstracted_axes=abstracted_axes, static_argnums=static_argnums, backend=backend)
    return CompiledFunction(fn, abstracted_axes, static_argnums, backend)


class CompiledFunction:
    """A function and its compilations; made by `jit`.

    Attributes:
        num_compilations: How often it was compiled.
    """

    def __init__(
        self,
        fn: Callable[..., Any],
        abstracted_axes: AbstractedAxes = None,
        static_argnums: int | Sequence[int] = (),
        backend: str = "torch",
    ) -> None:
        if backend not in _BACKENDS:
            raise InputError(f"jit: there is no backend {backend!r}; there are {', '.join(map(repr, _BACKENDS))}.")
        update_wrapper(self, fn)
        self.num_compilations = 0
        self._fn = fn
        self._backend = backend
        self._axes = abstracted_axes
        self._static = (static_argnums,) if isinstance(static_argnums, int) else tuple(static_argnums)
        self._compiled: dict[Hashable, _Compiled] = {}
        self._runs: dict[Hashable, Callable[[Sequence[Any]], Any]] = {}
        self._last: _Compiled | None = None
        self._methods: WeakKeyDictionary[Any, CompiledFunction] = WeakKeyDictionary()
        self._signature = _signature_of(fn)
        self._annotated = None if self._static else _annotated_specs(fn)
        self._dynamic = _dynamic_axes(abstracted_axes, self._annotated)
        if self._annotated is not None:
            self._compile_annotated(self._annotated)

    # What was compiled

    @property
    def program(self) -> Program:
        """The Program as traced; of the last compilation, where there are several."""
        return self._found().traced.bound.program

    @property
    def bound(self) -> Bound:
        """The Program, and the arrays that it captures."""
        return self._found().traced.bound

    @property
    def code(self) -> str:
        """What the backend runs, as text."""
        return self._found().executor.code

    def _found(self) -> _Compiled:
        if self._last is None:
            raise InputError(
                f"{self.__name__} was not compiled yet; call it, or annotate its arguments with int, float "
                "or plica.spec(...)."
            )
        return self._last

    __name__: str

    def __repr__(self) -> str:
        return f"<plica.jit {self.__name__}, compiled {self.num_compilations} time(s)>"

    def __get__(self, instance: Any, owner: type | None = None) -> CompiledFunction:
        """The function of one object, when it is a method: compiled for that object, which it closes over."""
        if instance is None:
            return self
        try:
            if instance not in self._methods:
                method = _method_of(self._fn, instance)
                self._methods[instance] = CompiledFunction(method, self._axes, self._static, self._backend)
            return self._methods[instance]
        except TypeError:
            raise TraceError(
                f"{place_of(self._fn)}: a method can be compiled for objects with a hash and weak references, found "
                f"{type(instance).__name__}; write a function of arrays, or define __hash__."
            ) from None

    # Calls

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The results of the function.

        Raises:
            InputError: An argument is of another shape than the function was compiled for.
            DTypeError: An argument is of another dtype than the function was compiled for.
            TraceError: An argument is no array, number or tree of them; or the function cannot be traced.
        """
        if not kwargs:
            run = self._runs.get(self._key(args, self._dynamic))
            if run is not None and current_trace() is None:
                return run(args)
        return self._call(args, kwargs)

    def _key(self, leaves: Sequence[Any], axes: Any, structure: Hashable = None, static: Hashable = ()) -> Hashable:
        """What a call depends on: kinds, dtypes and static sizes of leaves; without a structure, of arguments."""
        if isinstance(axes, Mapping) or axes is None:
            return (structure, static, *[_leaf_key(leaf, axes) for leaf in leaves])
        return (structure, static, *map(_leaf_key, leaves, chain(axes, repeat(None))))

    def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        args, kwargs = self._positional(args, kwargs)
        call = _Call(self._fn, args, kwargs, self._static)
        if current_trace() is not None or any(isinstance(leaf, Tracer) for leaf in call.leaves):
            return trace_call(self._fn, call.leaves, lambda found: self._fn_at(call, found), call.names)
        is_flat = not kwargs and not self._static and len(args) == len(call.leaves) and all(map(is_, args, call.leaves))
        if is_flat:
            key = self._key(args, self._dynamic)
        else:
            key = self._key(call.leaves, call.leaf_axes(self._dynamic), call.structure, call.static)
        if key not in self._runs:
            self._runs[key] = self._specialised(call)
        return self._runs[key](call.leaves)

    def _positional(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments by place as far as Python's rules allow; with defaults, where annotations gave the types."""
        if self._signature is None:
            return args, kwargs
        try:
            bound = self._signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TraceError(f"{place_of(self._fn)}: {self.__name__}{self._signature}: {error}.") from None
        if self._annotated is not None:
            bound.apply_defaults()
        return bound.args, bound.kwargs

    def _fn_at(self, call: _Call, found: Sequence[Any]) -> Any:
        positional, keywords = call.arguments(found)
        return self._fn(*positional, **keywords)

    def _specialised(self, call: _Call) -> Run:
        """What runs calls like this one: compiled if it was not yet, and fitted to the kinds of the leaves."""
        call.check()
        compiled = self._for_call(call)
        run = compiled.executor.specialise(call.leaves)
        structure, convert = compiled.traced.structure, _result_converter(call.leaves, self._backend)
        if structure == _LEAF and convert is None:
            return run

        def results(leaves: Sequence[Any]) -> Any:
            found = run(leaves)
            listed = found if isinstance(found, tuple) else (found,)
            return unflatten(structure, listed if convert is None else map(convert, listed))

        return results

    def _for_call(self, call: _Call) -> _Compiled:
        if self._annotated is not None:
            compiled = self._found()
            _check_annotated(compiled.traced.bound.program, self._annotated, call)
            return compiled
        specs = call.specs(self._axes)
        key = (call.structure, call.static, specs)
        if key not in self._compiled:
            self._compiled[key] = self._compile(specs, call.arguments, call.trees)
        self._last = self._compiled[key]
        program = self._last.traced.bound.program
        bind_sizes(program, [(_shape_of(leaf), _dtype_of(leaf).value) for leaf in call.leaves])
        return self._last

    def _compile_annotated(self, trees: list[Any]) -> None:
        leaves, structure = flatten(tuple(trees))
        self._last = self._compile(leaves, lambda found: (unflatten(structure, found), {}), trees)

    def _compile(self, specs: Sequence[Any], arguments: Any, trees: Sequence[Any]) -> _Compiled:
        traced = trace_function(self._fn, specs, arguments, trees)
        executor = _BACKENDS[self._backend](traced.bound, self.__name__)
        self.num_compilations += 1
        return _Compiled(traced, executor)


def _method_of(fn: Callable[..., Any], instance: Any) -> Callable[..., Any]:
    """The method of one object, which it does not keep alive."""
    reference = ref(instance)

    def method(*args: Any, **kwargs: Any) -> Any:
        return fn(reference(), *args, **kwargs)

    found: Any = update_wrapper(method, fn)
    found.__signature__ = _signature_of(fn.__get__(instance))
    return method


class _Call:
    """The arguments of one call, taken apart.

    Attributes:
        leaves: Arrays and numbers.
        structure: The tree of positional and named arguments that they are the leaves of.
        static: The values of static arguments with their types: 1, 1.0 and True are three values.
        trees: The positional arguments that are not static.
        names: Hints for the names of the leaves.
    """

    def __init__(self, fn: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], static: Sequence[int]):
        self._fn = fn
        self._places = [place % len(args) for place in static if -len(args) <= place < len(args)]
        self._values = tuple(args[place] for place in self._places)
        self.static = _with_types(self._values)
        try:
            hash(self.static)
        except TypeError:
            raise TraceError(f"{place_of(fn)}: static arguments must be hashable, found {self._values!r}.") from None
        self.trees = [arg for place, arg in enumerate(args) if place not in self._places]
        leaves, self.structure = flatten((tuple(self.trees), dict(kwargs)))
        self.leaves = [
            leaf if _is_array(leaf) or not hasattr(leaf, "__dlpack__") else _torch("from_dlpack")(leaf)
            for leaf in leaves
        ]
        self.names = _names_of(fn, self.trees, self._places) + [None] * len(self.leaves)

    def arguments(self, found: Sequence[Any]) -> tuple[list[Any], Mapping[str, Any]]:
        """The arguments of the function with `found` in the place of the leaves."""
        trees, keywords = unflatten(self.structure, found)
        positional = list(trees)
        for place, value in sorted(zip(self._places, self._values, strict=True), key=lambda one: one[0]):
            positional.insert(place, value)
        return positional, keywords

    def leaf_axes(self, axes: Any) -> Any:
        """The dynamic axes of each leaf, given those of each argument (or those of all, or of each leaf already)."""
        if isinstance(axes, Mapping) or axes is None or len(axes) != len(self.trees):
            return axes
        return [one for one, tree in zip(axes, self.trees, strict=True) for _ in flatten(tree)[0]]

    def check(self) -> None:
        """Refuse leaves that are neither arrays nor numbers.

        Raises:
            TraceError: There is one.
        """
        for place, leaf in enumerate(self.leaves):
            if not isinstance(leaf, _NUMBERS) and not _is_array(leaf):
                raise TraceError(
                    f"{place_of(self._fn)}: argument {self.names[place] or place} is {leaf!r} of type "
                    f"{type(leaf).__name__}; pass an array or a number, or name its place in static_argnums."
                )

    def specs(self, axes: AbstractedAxes) -> tuple[Any, ...]:
        """What to trace each leaf as."""
        named = axes_of_arguments(axes, len(self.trees)) if self.trees else []
        of_leaves = [one for tree, one in zip(self.trees, named, strict=True) for _ in flatten(tree)[0]]
        rest = axes if isinstance(axes, Mapping) else None
        return tuple(
            _spec_of(leaf, one) for leaf, one in zip(self.leaves, chain(of_leaves, repeat(rest)), strict=False)
        )


def _names_of(fn: Callable[..., Any], trees: Sequence[Any], static: Sequence[int]) -> list[str | None]:
    names: list[str | None] = [name for place, name in enumerate(parameter_names(fn)) if place not in static]
    found: list[str | None] = []
    for name, tree in zip(names, trees, strict=False):
        count = len(flatten(tree)[0])
        found += [name] if count == 1 else [f"{name}_{place}" for place in range(count)]
    return found


def _with_types(value: Any) -> Hashable:
    """A value as a key that differs where types do, within tuples too."""
    return (type(value), tuple(map(_with_types, value))) if isinstance(value, tuple) else (type(value), value)


# Leaves


def _leaf_key(leaf: Any, dynamic: Mapping[int, str] | None) -> Hashable:
    """What a call depends on: the kind of a leaf, its dtype, and its shape but for the dynamic axes."""
    kind: type = type(leaf)
    if kind in NUMBERS or not hasattr(leaf, "shape"):
        return (kind,)
    shape = leaf.shape
    if dynamic is None:
        return kind, leaf.dtype, shape
    rank: int = len(shape)
    known = tuple([size for axis, size in enumerate(shape) if axis not in dynamic and axis - rank not in dynamic])
    return kind, leaf.dtype, rank, known


def _dynamic_axes(axes: AbstractedAxes, annotated: Sequence[Any] | None) -> Any:
    """For each leaf, or alike for all, which axes have names; more may be compared than need be, never fewer."""
    if annotated is not None:
        return [_named_axes(one.shape) if isinstance(one, Spec) else None for one in flatten(tuple(annotated))[0]]
    if axes is None or isinstance(axes, Mapping):
        return axes
    return [one if one is None or isinstance(one, Mapping) else _named_axes(one) for one in axes]


def _named_axes(names: Any) -> dict[int, str]:
    listed = [names] if isinstance(names, str) else list(names)
    return {axis: name for axis, name in enumerate(listed) if isinstance(name, str)}


def _is_array(leaf: Any) -> bool:
    return hasattr(leaf, "dtype") and hasattr(leaf, "shape")


def _shape_of(leaf: Any) -> tuple[int, ...]:
    return tuple(getattr(leaf, "shape", ()))


def _dtype_of(leaf: Any) -> DType:
    return as_dtype(leaf.dtype if _is_array(leaf) else type(leaf))


def _spec_of(leaf: Any, axes: Any) -> Any:
    if isinstance(leaf, _NUMBERS) and not _is_array(leaf):
        return type(leaf)
    shape = _shape_of(leaf)
    return spec([name or size for name, size in zip(axis_names(axes, len(shape)), shape, strict=True)], leaf.dtype)


def _result_converter(leaves: Sequence[Any], backend: str) -> Any:
    """What makes arrays of the kind of the arguments of a backend's results; None where they are already."""
    arrays = [leaf for leaf in leaves if not isinstance(leaf, _NUMBERS) or _is_array(leaf)]
    numpy = bool(arrays) and all(isinstance(leaf, np.ndarray | np.generic) for leaf in arrays)
    if backend == "interpreter":
        return None if numpy else _torch("from_numpy")
    if numpy:
        return _torch("to_numpy")
    others = dict.fromkeys(map(type, arrays))
    if (
        len(others) != 1
        or array_api_compat.is_torch_array(arrays[0])
        or not array_api_compat.is_array_api_obj(arrays[0])
    ):
        return None
    return array_api_compat.array_namespace(arrays[0]).from_dlpack


# Annotations


def _annotated_specs(fn: Callable[..., Any]) -> list[Any] | None:
    """What annotations say of the arguments, if they say it of all."""
    signature = _signature_of(fn)
    if signature is None:
        return None
    parameters = list(signature.parameters.values())
    if not parameters or any(one.kind not in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD) for one in parameters):
        return None
    trees = [one.annotation for one in parameters]
    leaves, _ = flatten(trees)
    is_known = all(isinstance(leaf, Spec) or (isinstance(leaf, type) and leaf in NUMBERS) for leaf in leaves)
    return trees if is_known and leaves else None


def _signature_of(fn: Callable[..., Any]) -> inspect.Signature | None:
    """The signature, with annotations that are text evaluated where that can be done."""
    for eval_str in (True, False):
        try:
            return inspect.signature(fn, eval_str=eval_str)
        except (TypeError, ValueError, NameError, SyntaxError, AttributeError):
            continue
    return None


def _check_annotated(program: Program, trees: list[Any], call: _Call) -> None:
    """Check that the arguments of a call are what annotations say.

    Raises:
        TraceError: They are other trees.
        DTypeError: A dtype does not fit.
        InputError: A shape does not fit.
    """
    specs, structure = flatten((tuple(trees), {}))
    if call.structure != structure:
        raise TraceError(f"the function is annotated for arguments {structure}, found {call.structure}.")
    found = []
    for one, leaf, var in zip(specs, call.leaves, program.arguments, strict=True):
        dtype = _dtype_of(leaf)
        if not isinstance(one, Spec) and isinstance(leaf, _NUMBERS) and not _is_array(leaf):
            if _ORDER.index(type(leaf)) > _ORDER.index(one):
                raise DTypeError(f"argument {var.name} is annotated as {one.__name__}, found {leaf!r}; convert it.")
            dtype = var.type.dtype
        found.append((_shape_of(leaf), dtype.value))
    bind_sizes(program, found)


_ORDER = (bool, int, float, complex)


# Backends


def _torch(name: str) -> Any:
    return getattr(importlib.import_module("plica.backend.torch.functions"), name)


def _torch_executor(bound: Bound, name: str) -> Executor:
    executor: Executor = _torch("TorchFunction")(bound, name)
    return executor


@dataclass(frozen=True, slots=True)
class _Interpreter:
    """The interpreter as a backend.

    Args:
        bound: The Program, and what it captures.
        name: The name of the function, which this backend does not need.
    """

    bound: Bound
    name: str

    @property
    def code(self) -> str:
        """The Program: it is what is run."""
        return str(self.bound.program)

    def specialise(self, leaves: Sequence[Any]) -> Run:
        """The function of any leaves."""
        del leaves
        program = self.bound.program
        dtypes = [var.type.dtype.numpy for var in program.arguments]

        def run(found: Sequence[Any]) -> tuple[Any, ...]:
            arrays = [_on_host(leaf, dtype) for leaf, dtype in zip(found, dtypes, strict=True)]
            captured = [leaf.read() if isinstance(leaf, Reference) else leaf for leaf in self.bound.leaves]
            return interpret_program(program, OPS, arrays, [_on_host(leaf, None) for leaf in captured])

        return run


def _on_host(leaf: Any, dtype: Any) -> Any:
    if isinstance(leaf, _NUMBERS) and not _is_array(leaf):
        return np.asarray(leaf, dtype=dtype)
    return _torch("to_numpy")(leaf) if array_api_compat.is_torch_array(leaf) else np.asarray(leaf)


_BACKENDS: Mapping[str, Callable[[Bound, str], Executor]] = {"torch": _torch_executor, "interpreter": _Interpreter}
_LEAF: Structure = flatten(0)[1]
