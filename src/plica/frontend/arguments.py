"""Arguments of compiled functions: split into leaves, described by specs and keys, compared with annotations."""

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
from plica.tracing.locations import user_line
from plica.tracing.namespace.operands import as_tracer, cast
from plica.tracing.scope import record, scope_of
from plica.tracing.trace import NUMBERS, AbstractedAxes, abstracted, axes_of_arguments, axis_names, check_axes
from plica.tracing.trees import flatten, shown, unflatten


class CallArguments:
    """The arguments of one call, split into leaves.

    Args:
        fn: The function.
        args: Its positional arguments.
        kwargs: Its named ones.
        static: The indices of static arguments, which are no arrays.
        exchange: Converts an object that has only the DLPack protocol to an array.

    Attributes:
        leaves: Arrays and numbers.
        structure: The tree of positional and named arguments, without its leaves.
        static: The values of static arguments with their types: 1, 1.0 and True are three values, 0.0 and -0.0 two.
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
        self._static_indices = [index % len(args) for index in static if -len(args) <= index < len(args)]
        self._values = tuple(args[index] for index in self._static_indices)
        self.static = _with_types(self._values)
        try:
            hash(self.static)
        except TypeError:
            raise TraceError(f"{place_of(fn)}: static arguments must be hashable, found {self._values!r}.") from None
        self.trees = [arg for index, arg in enumerate(args) if index not in self._static_indices]
        leaves, self.structure = flatten((tuple(self.trees), dict(kwargs)))
        self.leaves = [leaf if is_array(leaf) or not hasattr(leaf, "__dlpack__") else exchange(leaf) for leaf in leaves]
        self.location = place_of(fn)

    @property
    def names(self) -> list[str | None]:
        """Hints for the names of the leaves."""
        return _names_of(self.parameters, self.trees) + [None] * len(self.leaves)

    @property
    def parameters(self) -> list[str]:
        """The names of the positional parameters that are not static."""
        return [name for index, name in enumerate(parameter_names(self._fn)) if index not in self._static_indices]

    def arguments(self, values: Sequence[Any]) -> tuple[list[Any], Mapping[str, Any]]:
        """The arguments of the function with `values` in place of the leaves."""
        trees, keywords = unflatten(self.structure, values)
        positional = list(trees)
        for index, value in sorted(zip(self._static_indices, self._values, strict=True), key=lambda pair: pair[0]):
            positional.insert(index, value)
        return positional, keywords

    def leaf_axes(self, axes: Any) -> Any:
        """The dynamic axes of each leaf. `axes` has an entry for each argument, static ones too, or is one for all."""
        if isinstance(axes, Mapping) or axes is None or len(axes) < len(self.trees) + len(self._static_indices):
            return axes
        return [entry for entry, tree in zip(self._of_trees(axes), self.trees, strict=False) for _ in flatten(tree)[0]]

    def _of_trees(self, axes: Sequence[Any]) -> list[Any]:
        """The entries of `axes` for arguments that are not static."""
        return [entry for index, entry in enumerate(axes) if index not in self._static_indices]

    def check(self) -> None:
        """Refuse leaves that are neither arrays nor numbers.

        Raises:
            TraceError: A leaf is neither.
        """
        for index, leaf in enumerate(self.leaves):
            if not isinstance(leaf, PYTHON_NUMBERS) and not is_array(leaf):
                raise TraceError(
                    f"{place_of(self._fn)}: argument {self.names[index] or index} is {leaf!r} of type "
                    f"{type(leaf).__name__}; pass an array or a number, or list its position in static_argnums."
                )

    def specs(self, axes: AbstractedAxes) -> tuple[Any, ...]:
        """The spec or type that each leaf is traced as."""
        of_trees = axes if isinstance(axes, Mapping) or axes is None else self._of_trees(axes)
        check_axes(self._fn, of_trees, self.trees, self.leaves)
        axes_of_trees = (
            self._of_trees(axes_of_arguments(axes, len(self.trees) + len(self._static_indices))) if self.trees else []
        )
        of_leaves = [entry for tree, entry in zip(self.trees, axes_of_trees, strict=True) for _ in flatten(tree)[0]]
        shared = axes if isinstance(axes, Mapping) else None
        return tuple(
            _spec_of(leaf, leaf_axes)
            for leaf, leaf_axes in zip(self.leaves, chain(of_leaves, repeat(shared)), strict=False)
        )


def _names_of(names: Sequence[str], trees: Sequence[Any]) -> list[str | None]:
    hints: list[str | None] = []
    for name, tree in zip(names, trees, strict=False):
        count = len(flatten(tree)[0])
        hints += [name] if count == 1 else [f"{name}_{index}" for index in range(count)]
    return hints


def _with_types(value: Any) -> Hashable:
    """A value as a key that differs where types and signs of zeros do, within tuples and sets too."""
    if isinstance(value, tuple | frozenset):
        parts = map(_with_types, value)
        return type(value), tuple(parts) if isinstance(value, tuple) else frozenset(parts)
    return type(value), repr(value) if isinstance(value, float | complex) else value


# Leaves


def leaf_key(leaf: Any, dynamic: Mapping[int, str] | None) -> Hashable:
    """The key of a leaf: its kind, its dtype, and its shape without the dynamic axes. Equal keys share code."""
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
    """The named axes of each leaf, or one entry for all. If an axis is missing here, only more compilations happen."""
    if annotated is not None:
        return [_named_axes(entry.shape) if isinstance(entry, Spec) else None for entry in flatten(tuple(annotated))[0]]
    if axes is None or isinstance(axes, Mapping):
        return axes
    return [entry if entry is None or isinstance(entry, Mapping) else _named_axes(entry) for entry in axes]


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
    """The annotations of all arguments, with the names that `axes` gives to sizes; None unless all are annotated.

    Raises:
        ShapeError: Annotations and `axes` name an axis differently.
        TraceError: `axes` has another number of entries than there are arguments.
    """
    signature = signature_of(fn)
    if signature is None:
        return None
    parameters = list(signature.parameters.values())
    if not parameters or any(
        parameter.kind not in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD) for parameter in parameters
    ):
        return None
    trees = [parameter.annotation for parameter in parameters]
    leaves, _ = flatten(trees)
    is_known = all(isinstance(leaf, Spec) or (isinstance(leaf, type) and leaf in NUMBERS) for leaf in leaves)
    if not is_known or not leaves:
        return None
    check_axes(fn, axes, trees)
    return [abstracted(tree, names) for tree, names in zip(trees, axes_of_arguments(axes, len(trees)), strict=True)]


def signature_of(fn: Callable[..., Any]) -> inspect.Signature | None:
    """The signature of a function, if possible with text annotations evaluated; None if it has no signature."""
    for eval_str in (True, False):
        try:
            return inspect.signature(fn, eval_str=eval_str)
        except (TypeError, ValueError, NameError, SyntaxError, AttributeError):
            continue
    return None


def fit_annotated(trees: list[Any], call: CallArguments) -> list[Any]:
    """The leaves of a recorded call, checked against annotations; sizes that may differ are checked at run time.

    Raises:
        TraceError: The arguments are other trees.
        DTypeError: A dtype does not fit.
        ShapeError: A shape does not fit.
    """
    specs, structure = flatten((tuple(trees), {}))
    if call.structure != structure:
        raise TraceError(f"{call.location}: annotated for arguments {shown(structure)}, found {shown(call.structure)}.")
    sizes: dict[str, Dim] = {}
    return [
        _fitted(annotation, leaf, f"argument {name}", sizes)
        for annotation, leaf, name in zip(specs, call.leaves, call.names, strict=False)
    ]


def _fitted(annotation: Any, leaf: Any, what: str, sizes: dict[str, Dim]) -> Any:
    if not isinstance(annotation, Spec):
        tracer = as_tracer(what, leaf)
        if tracer.ndim or promote(tracer.dtype, NUMBERS[annotation]) != NUMBERS[annotation]:
            raise DTypeError(
                f"{user_line()}: {what} is annotated as {annotation.__name__}, found {tracer.aval}; convert it."
            )
        return cast(tracer, NUMBERS[annotation])
    tracer = scope_of().receive(as_tracer(what, leaf))
    if tracer.dtype != annotation.dtype:
        raise DTypeError(
            f"{user_line()}: {what} is annotated as {annotation.dtype.value}, found {tracer.aval}; use astype."
        )
    if tracer.ndim != len(annotation.shape):
        raise ShapeError(f"{user_line()}: {what} is annotated as {annotation.shape}, found {tracer.aval}.")
    dims = [
        sizes.setdefault(size, dim) if isinstance(size, str) else size
        for size, dim in zip(annotation.shape, tracer.dims, strict=True)
    ]
    if dims == list(tracer.dims):
        return tracer
    return record("assert_shape", tracer, shape=tuple(dims))


def check_annotated(program: Program, trees: list[Any], call: CallArguments) -> None:
    """Check the arguments of a call against annotations.

    Raises:
        TraceError: The arguments are other trees.
        DTypeError: A dtype does not fit.
        InputError: A shape does not fit.
    """
    specs, structure = flatten((tuple(trees), {}))
    if call.structure != structure:
        raise TraceError(
            f"the function is annotated for arguments {shown(structure)}, found {shown(call.structure)}; a list or "
            "tuple is a tree of its entries, so pass an array where one is annotated: numpy.asarray(x)."
        )
    kinds = []
    for annotation, leaf, var in zip(specs, call.leaves, program.arguments, strict=True):
        dtype = dtype_of(leaf)
        if not isinstance(annotation, Spec) and isinstance(leaf, PYTHON_NUMBERS) and not is_array(leaf):
            if _ORDER.index(type(leaf)) > _ORDER.index(annotation):
                raise DTypeError(
                    f"argument {var.name} is annotated as {annotation.__name__}, found {leaf!r}; convert it."
                )
            dtype = var.type.dtype
        kinds.append((shape_of(leaf), dtype.value))
    bind_sizes(program, kinds)


_ORDER = (bool, int, float, complex)
