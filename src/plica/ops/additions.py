"""What operations from outside must keep to: their columns are functions, and references do what type rules say.

>>> import numpy as np
>>> from plica.ops.elementwise import elementwise
>>> checked(elementwise("total_of", np.sum, ("float",)))
Traceback (most recent call last):
plica.errors.ShapeError: the reference of 'total_of' gives shape (), expected f32[2,3]: change it, or the type rule.
"""

import functools
import keyword
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from plica.errors import DTypeError, PlicaError, ShapeError
from plica.ir.dtypes import as_dtype
from plica.ir.op import ALWAYS, Array, Derivative, Memory, Op, Reference, Sample, TypeRule, View
from plica.ir.types import ArrayType, array_type

# column -> what it must be, and whether a value is that
_COLUMNS: Mapping[str, tuple[str, Callable[[Any], bool]]] = {
    **dict.fromkeys(("type_rule", "reference", "samples", "decompose", "nonnegative"), ("a function", callable)),
    "memory": ("a Memory", lambda value: isinstance(value, Memory)),
    "view": ("a View", lambda value: isinstance(value, View)),
    "derivative": ("a Derivative", lambda value: isinstance(value, Derivative)),
    "range": ("a function, or (low, high)", lambda value: callable(value) or _is_range(value)),
    "never_raises": (
        f"a tuple of some of {ALWAYS}",
        lambda value: isinstance(value, tuple) and all(kind in ALWAYS for kind in value),
    ),
    "tolerance": ("a number", lambda value: isinstance(value, int | float)),
}


def checked(op: Any) -> Op:
    """An operation whose reference is held to its type rule, at its samples now and whenever it runs.

    Raises:
        DTypeError: `op` is no `Op`, its name cannot be that of a function, a column is of a wrong kind, or its
            reference fails at a sample or gives numbers of another kind than the type rule says.
        ShapeError: Its reference gives arrays of other shapes.
    """
    if not isinstance(op, Op) or not _is_name(op.name):
        raise DTypeError(f"add_operation takes an Op whose name is an identifier, found {op!r:.80}.")
    for column, (expected, fits) in _COLUMNS.items():
        value = getattr(op, column)
        if not fits(value):
            raise DTypeError(f"add_operation: the {column} of {op.name!r} is {value!r:.60}, expected {expected}.")
    own = replace(op, type_rule=_ruled(op), reference=_held(op))
    if not op.regions:
        for sample in _samples(op):
            _try(own, sample)
    return own


def _is_name(name: Any) -> bool:
    """Whether a name can be an attribute of `plica.numpy`; Python itself writes identifiers in one normal form."""
    if not isinstance(name, str) or not name.isidentifier() or keyword.iskeyword(name):
        return False
    return not name.startswith("_") and unicodedata.normalize("NFKC", name) == name


def _is_range(value: Any) -> bool:
    return isinstance(value, tuple) and len(value) == 2 and all(isinstance(end, int | float) for end in value)


def _samples(op: Op) -> list[Sample]:
    try:
        return list(op.samples())
    except Exception as error:
        raise DTypeError(f"add_operation: the samples of {op.name!r} fail: {error!r:.100}; correct them.") from error


def _ruled(op: Op) -> TypeRule:
    """The type rule of an operation, which gives types."""

    @functools.wraps(op.type_rule)
    def rule(*types: Any, **params: Any) -> ArrayType | tuple[ArrayType, ...]:
        given = op.type_rule(*types, **params)
        if not all(isinstance(type_, ArrayType) for type_ in (given if isinstance(given, tuple) else (given,))):
            raise DTypeError(f"the type rule of {op.name!r} gives {given!r:.60}, expected the type of each result.")
        return given

    return rule


def _held(op: Op) -> Reference:
    """The reference of an operation, which writes to no operand and gives arrays of the promised shapes."""
    if op.regions:
        return op.reference
    is_new = op.memory in (Memory.NEW, Memory.COPY)

    @functools.wraps(op.reference)
    def reference(*arrays: Array, **params: Any) -> tuple[Array, ...]:
        given = [_read_only(array) for array in arrays]
        returned = op.reference(*given, **params)
        results = [np.asarray(result) for result in (returned if isinstance(returned, tuple) else (returned,))]
        _check_shapes(op, _types_of(op, given, params), results)
        return tuple(
            result.copy() if is_new and any(np.may_share_memory(result, array) for array in given) else result
            for result in results
        )

    return reference


def _read_only(array: Array) -> Array:
    view = np.asarray(array).view()
    view.flags.writeable = False
    return view


def _types_of(op: Op, arrays: Sequence[Array], params: Any) -> tuple[ArrayType, ...] | None:
    """The types of the results; None where the rule does not take such arrays, as where all are widened."""
    try:
        return op.types([array_type(array.shape, as_dtype(array.dtype)) for array in arrays], params)
    except PlicaError:
        return None


def _check_shapes(op: Op, types: tuple[ArrayType, ...] | None, results: Sequence[Array]) -> None:
    if types is None:
        return
    fits = len(types) == len(results) and all(
        len(type_.shape) == result.ndim
        and all(dim == size for dim, size in zip(type_.shape, result.shape, strict=True) if isinstance(dim, int))
        for type_, result in zip(types, results, strict=True)
    )
    if not fits:
        shapes = " and ".join(str(result.shape) for result in results) or "none"
        expected = ", ".join(map(str, types)) or "no result"
        raise ShapeError(
            f"the reference of {op.name!r} gives shape {shapes}, expected {expected}: change it, or the type rule."
        )


def _try(op: Op, sample: Sample) -> None:
    """Run the reference at a sample."""
    types = op.types([array_type(array.shape, as_dtype(array.dtype)) for array in sample.inputs], sample.params)
    try:
        with np.errstate(all="ignore"):
            results = op.reference(*sample.inputs, **sample.params)
    except PlicaError:
        raise
    except Exception as error:
        raise DTypeError(
            f"add_operation: the reference of {op.name!r} fails at a sample: {type(error).__name__}: {error}."
        ) from error
    for type_, result in zip(types, results, strict=True):
        if result.dtype.kind not in "biufcV" or _kind(result) > ALWAYS.index(type_.dtype.kind):
            raise DTypeError(
                f"add_operation: the reference of {op.name!r} gives {result.dtype}, expected {type_}: change it, or "
                "the type rule."
            )


def _kind(array: Array) -> int:
    return ALWAYS.index(as_dtype(array.dtype).kind)
