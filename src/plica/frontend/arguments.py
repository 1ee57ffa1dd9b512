"""Arguments of compiled functions: taken apart into leaves, described by specs and keys, held against annotations."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable, Mapping, Sequence
from itertools import chain, repeat
from typing import Any

from plica.errors import DTypeError, ShapeError, TraceError
from plica.ir.dtypes import promote
from plica.ir.program import Program
from plica.ir.signature import bind_sizes
from plica.ir.sizes import Dim
from plica.ir.types import Spec, spec
from plica.tracing.control import parameter_names, place_of
from plica.tracing.leaves import PYTHON_NUMBERS, dtype_of, is_array, shape_of
from plica.tracing.namespace.operands import as_tracer, cast
from plica.tracing.places import user_line
from plica.tracing.scope import record, scope_of
from plica.tracing.trace import NUMBERS, AbstractedAxes, abstracted, axes_of_arguments, axis_names, check_axes
from plica.tracing.trees import flatten, shown, unflatten


class Call:
    """The arguments of one call, taken apart.

    Args:
        fn: The function.
        args: Its positional arguments.
        kwargs: Its named ones.
        static: The places of arguments that are no arrays.
        exchange: Makes an array of an object that has nothing but the DLPack protocol.

    Attributes:
        leaves: Arrays and numbers.
        structure: The tree of positional and named arguments that they are the leaves of.
        static: The values of static arguments with their types: 1, 1.0 and True are three values.
        trees: The positional arguments that are not static.
    """

    def __init__(
        self,
        fn: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        static: Sequence[int],
        exchange: Callable[[Any], Any],
    ) -> None:
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
        self.leaves = [leaf if is_array(leaf) or not hasattr(leaf, "__dlpack__") else exchange(leaf) for leaf in leaves]
        self.place = place_of(fn)

    @property
    def names(self) -> list[str | None]:
        """Hints for the names of the leaves."""
        return _names_of(self.parameters, self.trees) + [None] * len(self.leaves)

    @property
    def parameters(self) -> list[str]:
        """The names of the positional parameters that are not static."""
        return [name for place, name in enumerate(parameter_names(self._fn)) if place not in self._places]

    def arguments(self, found: Sequence[Any]) -> tuple[list[Any], Mapping[str, Any]]:
        """The arguments of the function with `found` in the place of the leaves."""
        trees, keywords = unflatten(self.structure, found)
        positional = list(trees)
        for place, value in sorted(zip(self._places, self._values, strict=True), key=lambda one: one[0]):
            positional.insert(place, value)
        return positional, keywords

    def leaf_axes(self, axes: Any) -> Any:
        """The dynamic axes of each leaf, given those of each argument, static ones too, or those of all."""
        if isinstance(axes, Mapping) or axes is None or len(axes) < len(self.trees) + len(self._places):
            return axes
        return [one for one, tree in zip(self._of_trees(axes), self.trees, strict=False) for _ in flatten(tree)[0]]

    def _of_trees(self, axes: Sequence[Any]) -> list[Any]:
        """The entries of arguments that are not static."""
        return [one for place, one in enumerate(axes) if place not in self._places]

    def check(self) -> None:
        """Refuse leaves that are neither arrays nor numbers.

        Raises:
            TraceError: There is one.
        """
        for place, leaf in enumerate(self.leaves):
            if not isinstance(leaf, PYTHON_NUMBERS) and not is_array(leaf):
                raise TraceError(
                    f"{place_of(self._fn)}: argument {self.names[place] or place} is {leaf!r} of type "
                    f"{type(leaf).__name__}; pass an array or a number, or name its place in static_argnums."
                )

    def specs(self, axes: AbstractedAxes) -> tuple[Any, ...]:
        """What to trace each leaf as."""
        of_trees = axes if isinstance(axes, Mapping) or axes is None else self._of_trees(axes)
        check_axes(self._fn, of_trees, self.trees, self.leaves)
        named = self._of_trees(axes_of_arguments(axes, len(self.trees) + len(self._places))) if self.trees else []
        of_leaves = [one for tree, one in zip(self.trees, named, strict=True) for _ in flatten(tree)[0]]
        rest = axes if isinstance(axes, Mapping) else None
        return tuple(
            _spec_of(leaf, one) for leaf, one in zip(self.leaves, chain(of_leaves, repeat(rest)), strict=False)
        )


def _names_of(names: Sequence[str], trees: Sequence[Any]) -> list[str | None]:
    found: list[str | None] = []
    for name, tree in zip(names, trees, strict=False):
        count = len(flatten(tree)[0])
        found += [name] if count == 1 else [f"{name}_{place}" for place in range(count)]
    return found


def _with_types(value: Any) -> Hashable:
    """A value as a key that differs where types do, within tuples too."""
    return (type(value), tuple(map(_with_types, value))) if isinstance(value, tuple) else (type(value), value)


# Leaves


def leaf_key(leaf: Any, dynamic: Mapping[int, str] | None) -> Hashable:
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


def dynamic_axes(axes: AbstractedAxes, annotated: Sequence[Any] | None) -> Any:
    """For each leaf, or alike for all, which axes have names; more may be compared than need be, never fewer."""
    if annotated is not None:
        return [_named_axes(one.shape) if isinstance(one, Spec) else None for one in flatten(tuple(annotated))[0]]
    if axes is None or isinstance(axes, Mapping):
        return axes
    return [one if one is None or isinstance(one, Mapping) else _named_axes(one) for one in axes]


def _named_axes(names: Any) -> dict[int, str]:
    listed = [names] if isinstance(names, str) else list(names)
    return {axis: name for axis, name in enumerate(listed) if isinstance(name, str)}


def _spec_of(leaf: Any, axes: Any) -> Any:
    if isinstance(leaf, PYTHON_NUMBERS) and not is_array(leaf):
        return type(leaf)
    shape = shape_of(leaf)
    return spec([name or size for name, size in zip(axis_names(axes, len(shape)), shape, strict=True)], leaf.dtype)


# Annotations


def annotated_specs(fn: Callable[..., Any], axes: AbstractedAxes = None) -> list[Any] | None:
    """What annotations say of the arguments, if they say it of all, with the names that `axes` gives to sizes.

    Raises:
        ShapeError: Both name an axis, and differently.
        TraceError: `axes` has another number of entries than there are arguments.
    """
    signature = signature_of(fn)
    if signature is None:
        return None
    parameters = list(signature.parameters.values())
    if not parameters or any(one.kind not in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD) for one in parameters):
        return None
    trees = [one.annotation for one in parameters]
    leaves, _ = flatten(trees)
    is_known = all(isinstance(leaf, Spec) or (isinstance(leaf, type) and leaf in NUMBERS) for leaf in leaves)
    if not is_known or not leaves:
        return None
    check_axes(fn, axes, trees)
    return [abstracted(tree, one) for tree, one in zip(trees, axes_of_arguments(axes, len(trees)), strict=True)]


def signature_of(fn: Callable[..., Any]) -> inspect.Signature | None:
    """The signature, with annotations that are text evaluated where that can be done."""
    for eval_str in (True, False):
        try:
            return inspect.signature(fn, eval_str=eval_str)
        except (TypeError, ValueError, NameError, SyntaxError, AttributeError):
            continue
    return None


def fit_annotated(trees: list[Any], call: Call) -> list[Any]:
    """The leaves of a call that is recorded, held against annotations; sizes that may differ are checked at run time.

    Raises:
        TraceError: They are other trees.
        DTypeError: A dtype does not fit.
        ShapeError: A shape does not fit.
    """
    specs, structure = flatten((tuple(trees), {}))
    if call.structure != structure:
        raise TraceError(f"{call.place}: annotated for arguments {shown(structure)}, found {shown(call.structure)}.")
    sizes: dict[str, Dim] = {}
    return [
        _fitted(one, leaf, f"argument {name}", sizes)
        for one, leaf, name in zip(specs, call.leaves, call.names, strict=False)
    ]


def _fitted(one: Any, leaf: Any, what: str, sizes: dict[str, Dim]) -> Any:
    if not isinstance(one, Spec):
        found = as_tracer(what, leaf)
        if found.ndim or promote(found.dtype, NUMBERS[one]) != NUMBERS[one]:
            raise DTypeError(f"{user_line()}: {what} is annotated as {one.__name__}, found {found.aval}; convert it.")
        return cast(found, NUMBERS[one])
    found = scope_of().receive(as_tracer(what, leaf))
    if found.dtype != one.dtype:
        raise DTypeError(f"{user_line()}: {what} is annotated as {one.dtype.value}, found {found.aval}; use astype.")
    if found.ndim != len(one.shape):
        raise ShapeError(f"{user_line()}: {what} is annotated as {one.shape}, found {found.aval}.")
    dims = [
        sizes.setdefault(size, dim) if isinstance(size, str) else size
        for size, dim in zip(one.shape, found.dims, strict=True)
    ]
    if dims == list(found.dims):
        return found
    return record("assert_shape", found, shape=tuple(dims))


def check_annotated(program: Program, trees: list[Any], call: Call) -> None:
    """Check that the arguments of a call are what annotations say.

    Raises:
        TraceError: They are other trees.
        DTypeError: A dtype does not fit.
        InputError: A shape does not fit.
    """
    specs, structure = flatten((tuple(trees), {}))
    if call.structure != structure:
        raise TraceError(f"the function is annotated for arguments {shown(structure)}, found {shown(call.structure)}.")
    found = []
    for one, leaf, var in zip(specs, call.leaves, program.arguments, strict=True):
        dtype = dtype_of(leaf)
        if not isinstance(one, Spec) and isinstance(leaf, PYTHON_NUMBERS) and not is_array(leaf):
            if _ORDER.index(type(leaf)) > _ORDER.index(one):
                raise DTypeError(f"argument {var.name} is annotated as {one.__name__}, found {leaf!r}; convert it.")
            dtype = var.type.dtype
        found.append((shape_of(leaf), dtype.value))
    bind_sizes(program, found)


_ORDER = (bool, int, float, complex)
