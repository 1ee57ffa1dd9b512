"""Contractions: products of matrices and vectors, Einstein sums, norms, diagonals, and a circuit's sum in log space.

Factorizations of matrices, and the solvers that use them, are in `factorizations.py`.
"""

import math
from math import prod
from typing import Any

import numpy as np

from plica.errors import ShapeError
from plica.ir.op import ALWAYS, Array, Memory, Op, Sample, View, sample
from plica.ir.ranges import NOT_NEGATIVE, as_first, combined
from plica.ir.sizes import Dim, opaque
from plica.ir.types import ArrayType, array_type
from plica.ops.elementwise import NUMERIC
from plica.ops.reduce import log_softmax, softmax
from plica.ops.rules import (
    broadcast,
    normal_axes,
    real_dtype,
    require_equal_sizes,
    require_kind,
    require_operands,
    require_same_dtype,
)

_A = np.asarray([[1.0, -2.0, 0.5], [0.0, 3.0, 1.5]])
_CUBE = np.stack([np.outer([1.0, 2.0, -1.0], _A[0]), np.outer([0.5, 3.0, 1.0], _A[1])])  # (2, 3, 3)


def _matmul_type(a: ArrayType, b: ArrayType) -> ArrayType:
    dtype = require_same_dtype(a, b)
    require_kind([a, b], NUMERIC)
    if not a.shape or not b.shape:
        raise ShapeError(f"matmul takes no scalars, found {a} and {b}.")
    inner = b.shape[-2] if len(b.shape) > 1 else b.shape[0]
    require_equal_sizes(
        a.shape[-1],
        inner,
        f"matmul contracts the last axis of {a} with size {inner} of {b}: {a.shape[-1]} against {inner}.",
    )
    rows = a.shape[-2:-1] if len(a.shape) > 1 else ()
    columns = b.shape[-1:] if len(b.shape) > 1 else ()
    return array_type((*broadcast(a.shape[:-2], b.shape[:-2]), *rows, *columns), dtype)


def einsum_dims(equation: str, shapes: list[tuple[Dim, ...]]) -> tuple[Dim, ...]:
    """The shape of an explicit Einstein sum, `ab,bc->ac`.

    Raises:
        ShapeError: The equation does not fit the operands.
    """
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if not arrow or len(terms) != len(shapes):
        raise ShapeError(f"einsum {equation!r} needs '->' and one term for each of {len(shapes)} operands.")
    sizes: dict[str, Dim] = {}
    for term, shape in zip(terms, shapes, strict=True):
        if len(term) != len(shape) or (not term.isalpha() and term):
            raise ShapeError(f"einsum {equation!r}: the term {term!r} does not fit an operand of shape {shape}.")
        for letter, size in zip(term, shape, strict=True):
            first = sizes.setdefault(letter, size)
            require_equal_sizes(first, size, f"einsum {equation!r}: axis {letter!r} is both {first} and {size}.")
    if any(letter not in sizes for letter in right) or len(set(right)) != len(right):
        raise ShapeError(f"einsum {equation!r}: each letter of the result must occur once there and in an operand.")
    return tuple(sizes[letter] for letter in right)


def _einsum_type(*types: ArrayType, equation: str) -> ArrayType:
    require_operands(types, 1)
    require_kind(types, NUMERIC)
    dtype = require_same_dtype(*types)
    return array_type(einsum_dims(equation, [type_.shape for type_ in types]), dtype)


# How the last operand gives the logarithms of the weight. Another parameter, `lost`, is for backends alone: the error
# of the weight by underflow, in smallest normal numbers.
_LOGS = (None, "log", "log_softmax")


def _with_logs(operands: tuple[Any, ...], logs: str | None) -> tuple[tuple[Any, ...], Any]:
    """The values with the linear weight, and the logarithms or logits of the weight, if they are given."""
    if logs not in _LOGS:
        raise ShapeError(f"logs is one of {_LOGS}, found {logs!r}.")
    return (operands, None) if logs is None else (operands[:-1], operands[-1])


def _log_weight(weight: Array, given: Array, logs: str | None) -> Array:
    """The logarithms of a weight `(..., O, I, ...)`, from `given (..., O, N)` if there is one."""
    if logs is None:
        with np.errstate(divide="ignore"):
            return np.log(weight)
    if logs == "log_softmax":
        given = log_softmax(given, axis=-1)
    return np.reshape(given, weight.shape)


def _require_logs(weight: ArrayType, given: ArrayType | None, axes: int) -> None:
    """Refuse logarithms unless they have the shape of the weight, with all axes from `axes` on joined to one."""
    if given is None:
        return
    units = prod(weight.shape[axes:])
    message = f"logarithms of a weight {weight} have the shape {(*weight.shape[:axes], units)}, found {given}."
    if len(given.shape) != axes + 1:
        raise ShapeError(message)
    for size, wanted in zip(given.shape, (*weight.shape[:axes], units), strict=True):
        require_equal_sizes(size, wanted, message)


def _log_matmul_exp_type(*types: ArrayType, logs: str | None = None, lost: float = 1.0) -> ArrayType:  # noqa: ARG001
    types, given = _with_logs(types, logs)
    require_operands(types, 2)
    *inputs, weight = types
    _require_logs(weight, given, len(weight.shape) - 1)
    require_kind(types, ("float",))
    dtype = require_same_dtype(*types)
    first = inputs[0].shape
    differ = f"the inputs of log_matmul_exp differ in shape: {', '.join(map(str, inputs))}."
    if len(first) < 2 or len(weight.shape) < 2:
        raise ShapeError(
            f"log_matmul_exp takes inputs (..., B, I) and a weight (..., O, I), found {inputs[0]} and {weight}."
        )
    for type_ in inputs:
        if len(type_.shape) != len(first):
            raise ShapeError(differ)
        for size, wanted in zip(type_.shape, first, strict=True):
            require_equal_sizes(size, wanted, differ)
    units = first[-1] * len(inputs)
    require_equal_sizes(
        weight.shape[-1],
        units,
        f"log_matmul_exp of {len(inputs)} input(s) of {first[-1]} units takes a weight (..., O, {units}), "
        f"found {weight}.",
    )
    return array_type((*broadcast(first[:-2], weight.shape[:-2]), first[-2], weight.shape[-2]), dtype)


def _log_matmul_exp(*arrays: Array, logs: str | None = None, lost: float = 1.0) -> Any:  # noqa: ARG001
    (*inputs, weight), given = _with_logs(arrays, logs)
    terms = np.concatenate(inputs, axis=-1)[..., :, None, :] + _log_weight(weight, given, logs)[..., None, :, :]
    largest = np.max(terms, axis=-1, initial=-np.inf)
    shift = np.where(np.isfinite(largest), largest, 0)
    with np.errstate(divide="ignore"):
        return np.log(np.sum(np.exp(terms - shift[..., None]), axis=-1)) + shift


def _log_matmul_exp_samples() -> list[Sample]:
    x = np.asarray([[[-1.0, 0.5, -1000.0], [-np.inf, -np.inf, -np.inf], [-5e3, -5e3 + 1, -np.inf]]])
    weight = np.asarray([[[0.2, 0.3, 0.5], [0.0, 1.0, 0.0]]])
    wide = np.concatenate([weight, 2 * weight], axis=-1)
    return [
        sample(x, weight),
        sample(x, x[:, ::-1], wide),
        sample(x.astype("float32"), weight.astype("float32")),
        sample(x[:, :0], weight),
        *_with_log_weights(x, None),
    ]


def _with_log_weights(x: Array, equation: str | None) -> list[Sample]:
    """Samples whose weight underflows in part where its logarithms do not."""
    settings = {} if equation is None else {"equation": equation}
    logits = np.asarray([[[-900.0, 0.0, -800.0], [0.0, 1.0, 2.0]]])
    softmaxes = softmax(logits, axis=-1)
    return [
        sample(x, softmaxes, logits, logs="log_softmax", **settings),
        sample(x, np.exp(logits), logits, logs="log", lost=4.0, **settings),
    ]


def _log_einsum_exp_type(
    *types: ArrayType,
    equation: str,
    logs: str | None = None,
    lost: float = 1.0,  # noqa: ARG001
) -> ArrayType:
    types, given = _with_logs(types, logs)
    _require_logs(types[-1], given, 2)
    require_operands(types, 2)
    require_kind(types, ("float",))
    return _einsum_type(*types, equation=equation)


def _log_einsum_exp(*arrays: Array, equation: str, logs: str | None = None, lost: float = 1.0) -> Any:  # noqa: ARG001
    """Every term of the sum on axes of its own, then one `logsumexp`."""
    arrays, given = _with_logs(arrays, logs)
    left, _, result = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    letters = result + "".join(sorted({letter for letter in left if letter.isalpha() and letter not in result}))
    factors = [*arrays[:-1], _log_weight(arrays[-1], given, logs)]
    total = sum(_spread(factor, term, letters) for factor, term in zip(factors, terms, strict=True))
    summed = tuple(range(len(result), len(letters)))
    largest = np.max(total, axis=summed, keepdims=True, initial=-np.inf)
    shift = np.where(np.isfinite(largest), largest, 0)
    with np.errstate(divide="ignore"):
        return np.log(np.sum(np.exp(total - shift), axis=summed)) + np.squeeze(shift, axis=summed)


def _spread(x: Array, term: str, letters: str) -> Array:
    """`x` with its axes in the order of `letters`, and axes of size 1 for those that it lacks."""
    ordered = np.einsum(f"{term}->{''.join(letter for letter in letters if letter in term)}", x)
    return np.expand_dims(ordered, tuple(position for position, letter in enumerate(letters) if letter not in term))


def _log_einsum_exp_samples() -> list[Sample]:
    x = np.asarray([[[-1.0, 0.5, -1000.0], [-np.inf, -np.inf, -np.inf], [-5e3, -5e3 + 1, -np.inf]]])
    weight = np.asarray([[[0.2, 0.3, 0.5], [0.0, 1.0, 0.0]]])
    core = np.stack([weight, 2 * weight, weight], axis=2)
    return [
        sample(x, x[:, ::-1], core, equation="fbi,fbj,foij->fbo"),
        sample(x, x[:, ::-1], weight, equation="fbi,fbi,foi->fbo"),
        sample(np.stack([x, x], axis=-1), weight, equation="fbiq,foi->fboq"),
        sample(np.stack([x, 2 * x], axis=-1), core[:, :, :2].swapaxes(2, 3), equation="fbij,foij->fbo"),
        sample(
            *[x[:, :1].astype("float32")] * 3,
            core[..., None].repeat(3, -1).astype("float32"),
            equation="fbi,fbj,fbk,foijk->fbo",
        ),
        *_with_log_weights(x, "fbi,foi->fbo"),
        sample(x[:, :0], x[:, :0], core, equation="fbi,fbj,foij->fbo"),
    ]


def _cross_type(a: ArrayType, b: ArrayType, *, axis: int) -> ArrayType:
    require_kind([a, b], NUMERIC)
    dtype = require_same_dtype(a, b)
    rank = min(len(a.shape), len(b.shape))
    if not -rank <= axis < 0:
        raise ShapeError(f"cross along axis {axis} of {a} and {b}: count axes from the end, from -1 to {-rank}.")
    shapes = []
    for type_ in (a, b):
        size = type_.shape[axis]
        require_equal_sizes(size, 3, f"cross takes vectors of 3 numbers, found {size} along axis {axis} of {type_}.")
        position = len(type_.shape) + axis
        shapes.append((*type_.shape[:position], 3, *type_.shape[position + 1 :]))
    return array_type(broadcast(*shapes), dtype)


def diagonal_size(rows: Dim, columns: Dim, offset: int) -> Dim:
    """The length of a diagonal, `offset` places above the main one."""
    length = opaque("min", rows, columns - offset) if offset >= 0 else opaque("min", rows + offset, columns)
    return opaque("max", length, 0)


def _diagonal_type(x: ArrayType, *, offset: int) -> ArrayType:
    if len(x.shape) < 2:
        raise ShapeError(f"diagonal takes matrices (..., M, N), found {x}.")
    *batch, rows, columns = x.shape
    return array_type((*batch, diagonal_size(rows, columns, offset)), x.dtype)


def _vector_norm_type(x: ArrayType, *, axis: tuple[int, ...], keepdims: bool, ord: float) -> ArrayType:  # noqa: A002
    require_kind([x], ("float", "complex"))
    axes = normal_axes(axis, len(x.shape))
    if ord < 0 and any(x.shape[reduced] == 0 for reduced in axes):
        raise ShapeError(f"the norm of order {ord} of no numbers is not defined: an axis of {x} has size 0.")
    shape = [1 if index in axes else size for index, size in enumerate(x.shape) if keepdims or index not in axes]
    return array_type(shape, real_dtype(x.dtype))


def _vector_norm(x: Array, *, axis: tuple[int, ...], keepdims: bool, ord: float) -> Any:  # noqa: A002
    sizes = np.abs(x)
    along: Any = {"axis": axis, "keepdims": keepdims}
    match ord:
        case math.inf:
            return np.max(sizes, initial=0, **along)
        case 0:
            return np.sum(sizes != 0, dtype=sizes.dtype, **along)
        case 2:
            return np.sqrt(np.sum(sizes * sizes, **along))
        case _ if ord == -math.inf:
            return np.min(sizes, **along)
        case _:
            return np.sum(sizes**ord, **along) ** sizes.dtype.type(1 / ord)


def _vector_norm_samples() -> list[Sample]:
    orders = (2, 1, 0, 3, math.inf, -math.inf, -1, 0.5)
    return [
        *(sample(_A + 0.25, axis=(1,), keepdims=False, ord=order) for order in orders),
        sample(_A.astype("float32"), axis=(0, 1), keepdims=True, ord=2),
        sample(_A + 1j, axis=(0,), keepdims=False, ord=2),
        *(sample(_A[:, :0], axis=(1,), keepdims=False, ord=order) for order in (2, 1, 0, math.inf)),
        *(sample(_A - 1j, axis=(), keepdims=False, ord=order) for order in (2, 0, -math.inf)),
    ]


LINALG = (
    Op(
        "matmul",
        _matmul_type,
        np.matmul,
        lambda: [
            sample(_A, _A.T),
            sample(_A.astype("float32"), np.asarray([1.0, 2.0, 3.0], "float32")),
            sample(np.stack([_A, _A + 1]), _A.T),
        ],
        range=combined,
        never_raises=ALWAYS,
    ),
    Op(
        "einsum",
        _einsum_type,
        lambda *xs, equation: np.einsum(equation, *xs),
        lambda: [
            sample(_A, _A, equation="ab,cb->ac"),
            sample(_A, equation="ab->b"),
            sample(np.stack([_A, 2 * _A])[None], np.stack([_A] * 3)[None], equation="fbij,foij->fbo"),
            *(
                sample(_CUBE, _CUBE + 1, equation=equation)
                for equation in ("fbi,foi->fbo", "fbb,fob->fbo", "fbo,foo->fbo")
            ),
        ],
        memory=Memory.EITHER,
        range=combined,
        never_raises=ALWAYS,
    ),
    Op("log_matmul_exp", _log_matmul_exp_type, _log_matmul_exp, _log_matmul_exp_samples, never_raises=ALWAYS),
    Op("log_einsum_exp", _log_einsum_exp_type, _log_einsum_exp, _log_einsum_exp_samples, never_raises=ALWAYS),
    Op(
        "cross",
        _cross_type,
        lambda a, b, *, axis: np.cross(a, b, axis=axis),
        lambda: [
            sample(_A, _A[0] + 1, axis=-1),
            sample(_A.T, _A.T[:, :1] + 1, axis=-2),
            sample(_A[:0].astype("int64"), np.ones(3, "int64"), axis=-1),
        ],
    ),
    Op(
        "diagonal",
        _diagonal_type,
        lambda x, *, offset: np.diagonal(x, offset, -2, -1).copy(),
        lambda: [sample(np.stack([_A, _A + 1]), offset=offset) for offset in (0, 1, -1, 3, -9)],
        memory=Memory.VIEW,
        range=as_first,
        view=View.SELECTED,
    ),
    Op("vector_norm", _vector_norm_type, _vector_norm, _vector_norm_samples, range=NOT_NEGATIVE),
)
