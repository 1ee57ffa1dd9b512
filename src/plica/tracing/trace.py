"""`trace`: a Python function of arrays becomes a Program.

>>> import plica.tracing.namespace as pnp
>>> from plica.ir.types import spec
>>> print(trace(lambda x: pnp.sum(pnp.exp(x) * 2, axis=1), spec(("n", 3), "float32")))
{ lambda ; {n:i64[]} x:f32[n,3] . let
    a:f32[n,3] = exp x
    b:f32[n,3] = multiply a 2.0:f32[]
    c:f32[n] = sum[axis=(1,) keepdims=False] b
  in (c,) }
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from weakref import WeakKeyDictionary

from plica.errors import AxisError, ShapeError, TraceError
from plica.ir.builder import Builder
from plica.ir.dtypes import DType, as_dtype
from plica.ir.program import Bound, Program, Var
from plica.ir.types import Spec, spec
from plica.ops import OPS
from plica.tracing.control import argument_names, parameter_names, place_of
from plica.tracing.locations import user_line
from plica.tracing.namespace.operands import as_tracer
from plica.tracing.scope import Trace
from plica.tracing.tracer import Tracer
from plica.tracing.trees import Structure, flatten, unflatten

AbstractedAxes = Mapping[int, str] | Sequence[Any] | None
NUMBERS: Mapping[type, DType] = {cls: as_dtype(cls) for cls in (bool, int, float, complex)}


@dataclass(frozen=True, slots=True)
class TracedFunction:
    """A traced function: its Program, and the structure of its results.

    Args:
        bound: The Program, and the arrays that it captures.
        structure: The tree that its results are the leaves of.
    """

    bound: Bound
    structure: Structure


def trace(fn: Callable[..., Any], *specs: Any, abstracted_axes: AbstractedAxes = None) -> Program:
    """Record what `fn` does to arguments of these shapes and dtypes.

    Args:
        fn: A function of arrays, or of trees of them (tuples, lists, dicts, dataclasses); it returns such a tree.
        specs: One for each argument: made by `plica.spec`, or `int`, `float`, `bool`, `complex` for a number, or a tree
            of these.
        abstracted_axes: Names for axes, whose sizes are then not known yet: `{axis: name}` for all arguments, or a
            sequence with one such mapping, a sequence of names or None for each argument.

    Raises:
        TraceError: `fn` needs a value that is known only when the program runs, or returns something else than arrays.
        ShapeError: Sizes do not fit.
        DTypeError: Dtypes do not fit.
    """
    check_axes(fn, abstracted_axes, specs)
    named = [
        abstracted(tree, axes) for tree, axes in zip(specs, axes_of_arguments(abstracted_axes, len(specs)), strict=True)
    ]
    leaves, structure = flatten(tuple(named))
    bound = trace_function(fn, leaves, lambda tracers: (unflatten(structure, tracers), {}), named).bound
    _CAPTURED.update(zip(bound.program.consts, bound.leaves, strict=True))
    return bound.program


_CAPTURED: WeakKeyDictionary[Var, Any] = WeakKeyDictionary()


def captured_values(program: Program) -> dict[str, Any]:
    """The values of the consts of a Program, by name, as far as they were traced in this process.

    The values live as long as the variables do.
    """
    return {var.name: _CAPTURED[var] for var in program.consts if var in _CAPTURED}


def trace_function(
    fn: Callable[..., Any],
    specs: Sequence[Any],
    arguments: Callable[[Sequence[Tracer]], tuple[Sequence[Any], Mapping[str, Any]]],
    trees: Sequence[Any],
) -> TracedFunction:
    """Trace `fn` at leaves of its arguments.

    Args:
        fn: The function.
        specs: A `Spec` for each leaf, or the type of a Python number.
        arguments: The positional arguments and those by name, made of tracers for the leaves.
        trees: The positional arguments as trees, from which the variables take their names.
    """
    builder = Builder(OPS)
    scope = Trace(builder, locate=True, location=place_of(fn))
    names = list(argument_names(fn, 0, trees))
    names += [None] * (len(specs) - len(names))
    tracers = [_argument(builder, scope, name, leaf_spec) for name, leaf_spec in zip(names, specs, strict=True)]
    with scope.active():
        positional, keywords = arguments(tracers)
        _check_call(fn, positional, keywords)
        leaves, structure = flatten(fn(*positional, **keywords))
        results = [scope.receive(as_tracer("the result of a traced function", leaf)).operand for leaf in leaves]
    return TracedFunction(Bound(builder.build(results), tuple(scope.leaves)), structure)


def _argument(builder: Builder, scope: Trace, name: str | None, leaf_spec: Any) -> Tracer:
    if isinstance(leaf_spec, Spec):
        return Tracer(builder.argument(name, leaf_spec.shape, leaf_spec.dtype), scope)
    if leaf_spec in NUMBERS:
        return Tracer(builder.argument(name, (), NUMBERS[leaf_spec]), scope, weak=True)
    raise TraceError(
        f"an argument is described by plica.spec(...) or by int, float, bool or complex, found {leaf_spec!r}."
    )


def _check_call(fn: Callable[..., Any], positional: Sequence[Any], keywords: Mapping[str, Any]) -> None:
    try:
        signature = inspect.signature(fn)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(*positional, **keywords)
    except TypeError as error:
        name = getattr(fn, "__name__", str(fn))
        raise TraceError(f"{place_of(fn)}: {name}{signature} cannot take these arguments: {error}.") from None


# Axes whose sizes are not known yet


def axes_of_arguments(abstracted_axes: AbstractedAxes, count: int) -> list[Any]:
    """For each argument, what `abstracted_axes` says of it.

    Raises:
        TraceError: It has another number of entries than there are arguments.
    """
    if abstracted_axes is None or isinstance(abstracted_axes, Mapping):
        return [abstracted_axes] * count
    if len(abstracted_axes) < count:
        raise TraceError(
            f"abstracted_axes has {len(abstracted_axes)} entries for {count} argument(s); "
            "give one for each, or one mapping {axis: name} for all."
        )
    return list(abstracted_axes[:count])


def check_axes(fn: Callable[..., Any], abstracted_axes: Any, trees: Sequence[Any], leaves: Sequence[Any] = ()) -> None:
    """Check that `abstracted_axes` names axes of the arguments.

    Args:
        fn: The function.
        abstracted_axes: For all arguments, or a sequence with an entry for each of `trees`.
        trees: Its positional arguments: trees of arrays, specs, numbers and types of numbers.
        leaves: The leaves of its other arguments.

    Raises:
        AxisError: An axis is named that no array of the argument has, or of all arguments. Numbers take any.
        TraceError: An axis is no number, its name is no name, or there is an entry for more arguments than there are.
    """
    if abstracted_axes is None:
        return
    names = parameter_names(fn)
    if isinstance(abstracted_axes, Mapping):
        what = f"argument {names[0]!r}" if len(trees) == 1 and names else "every argument"
        _check_mapping(fn, abstracted_axes, what, _ranks((trees, leaves)))
        return
    if isinstance(abstracted_axes, str) or not isinstance(abstracted_axes, Sequence):
        raise TraceError(
            f"{place_of(fn)}: abstracted_axes is {abstracted_axes!r}, expected {{axis: name}} for all arguments, or a "
            "sequence with an entry for each."
        )
    for position, (axes, tree) in enumerate(zip(abstracted_axes, trees, strict=False)):
        if isinstance(axes, Mapping):
            what = f"argument {names[position]!r}" if position < len(names) else f"argument {position}"
            _check_mapping(fn, axes, what, _ranks(tree))


def _ranks(tree: Any) -> list[int]:
    return [len(leaf.shape) for leaf in flatten(tree)[0] if hasattr(leaf, "shape")]


def _check_mapping(fn: Callable[..., Any], axes: Mapping[Any, Any], what: str, ranks: Sequence[int]) -> None:
    for axis, name in axes.items():
        if isinstance(axis, bool) or not isinstance(axis, int) or not isinstance(name, str):
            raise TraceError(
                f"{place_of(fn)}: abstracted_axes has {{{axis!r}: {name!r}}} for {what}, expected the number of an "
                "axis and a name: {0: 'n'}."
            )
        if ranks and not any(-rank <= axis < rank for rank in ranks):
            most = max(ranks)
            hint = f"give an axis from {-most} to {most - 1}" if most else "leave it out"
            raise AxisError(
                f"{place_of(fn)}: abstracted_axes names axis {axis} ({name!r}) of {what}, which has {most} axes; "
                f"{hint}."
            )


def abstracted(tree: Any, axes: Any) -> Any:
    """A tree of specs with names in the place of sizes.

    Raises:
        ShapeError: A size has a name already, and another one.
    """
    leaves, structure = flatten(tree)
    return unflatten(structure, [_named(leaf, axes) if isinstance(leaf, Spec) else leaf for leaf in leaves])


def _named(array_spec: Spec, axes: Any) -> Spec:
    names = axis_names(axes, len(array_spec.shape))
    for axis, (name, size) in enumerate(zip(names, array_spec.shape, strict=True)):
        if name and isinstance(size, str) and size != name:
            raise ShapeError(
                f"{user_line()}: axis {axis} of an array of shape {array_spec.shape} is called {size!r} there and "
                f"{name!r} in abstracted_axes; give it one name."
            )
    return replace(
        array_spec, shape=spec([name or size for name, size in zip(names, array_spec.shape, strict=True)]).shape
    )


def axis_names(axes: Any, rank: int) -> list[str | None]:
    """The name of each axis of an array, None where its size is known.

    Raises:
        ShapeError: A sequence of names has more entries than the array has axes.
    """
    if not axes or not rank:
        return [None] * rank
    if isinstance(axes, Mapping):
        return [axes.get(axis, axes.get(axis - rank)) for axis in range(rank)]
    names = [axes] if isinstance(axes, str) else list(axes)
    if len(names) > rank:
        raise ShapeError(f"abstracted_axes names {len(names)} axes {tuple(names)} of an array with {rank}.")
    return names + [None] * (rank - len(names))
