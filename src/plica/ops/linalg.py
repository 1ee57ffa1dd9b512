"""Contractions: matrix products, Einstein sums, and the weighted sum of a circuit's layer in log space."""

from typing import Any

import numpy as np

from plica.errors import ShapeError
from plica.ir.op import Array, Op, Sample, sample
from plica.ir.sizes import Dim
from plica.ir.types import ArrayType, array_type
from plica.ops.rules import broadcast, require_kind, require_operands, require_same_dtype

_A = np.asarray([[1.0, -2.0, 0.5], [0.0, 3.0, 1.5]])


def _matmul_type(a: ArrayType, b: ArrayType) -> ArrayType:
    dtype = require_same_dtype(a, b)
    require_kind([a, b], ("int", "float", "complex"))
    if not a.shape or not b.shape:
        raise ShapeError(f"matmul takes no scalars, found {a} and {b}.")
    inner = b.shape[-2] if len(b.shape) > 1 else b.shape[0]
    if a.shape[-1] != inner:
        raise ShapeError(
            f"matmul contracts the last axis of {a} with size {inner} of {b}: {a.shape[-1]} meets {inner}."
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
            if sizes.setdefault(letter, size) != size:
                raise ShapeError(f"einsum {equation!r}: axis {letter!r} is both {sizes[letter]} and {size}.")
    if any(letter not in sizes for letter in right) or len(set(right)) != len(right):
        raise ShapeError(f"einsum {equation!r}: each letter of the result must occur once there and in an operand.")
    return tuple(sizes[letter] for letter in right)


def _einsum_type(*types: ArrayType, equation: str) -> ArrayType:
    require_operands(types, 1)
    require_kind(types, ("int", "float", "complex"))
    dtype = require_same_dtype(*types)
    return array_type(einsum_dims(equation, [type_.shape for type_ in types]), dtype)


def _log_matmul_exp_type(*types: ArrayType) -> ArrayType:
    require_operands(types, 2)
    *inputs, weight = types
    require_kind(types, ("float",))
    dtype = require_same_dtype(*types)
    first = inputs[0].shape
    if any(type_.shape != first for type_ in inputs):
        raise ShapeError(f"the inputs of log_matmul_exp differ in shape: {', '.join(map(str, inputs))}.")
    units = first[-1] * len(inputs)
    if len(first) < 2 or len(weight.shape) < 2 or weight.shape[-1] != units:
        raise ShapeError(
            f"log_matmul_exp of {len(inputs)} input(s) of {first[-1]} units takes a weight (..., O, {units}), "
            f"found {weight}."
        )
    return array_type((*broadcast(first[:-2], weight.shape[:-2]), first[-2], weight.shape[-2]), dtype)


def _log_matmul_exp(*arrays: Array) -> Any:
    *inputs, weight = arrays
    with np.errstate(divide="ignore"):
        terms = np.concatenate(inputs, axis=-1)[..., :, None, :] + np.log(weight)[..., None, :, :]
    largest = np.max(terms, axis=-1, initial=-np.inf)
    shift = np.where(np.isfinite(largest), largest, 0)
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
    ]


def _log_einsum_exp_type(*types: ArrayType, equation: str) -> ArrayType:
    require_operands(types, 2)
    require_kind(types, ("float",))
    return _einsum_type(*types, equation=equation)


def _log_einsum_exp(*arrays: Array, equation: str) -> Any:
    """Every term of the sum on axes of its own, then one `logsumexp`."""
    left, _, result = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    letters = result + "".join(sorted({letter for letter in left if letter.isalpha() and letter not in result}))
    with np.errstate(divide="ignore"):
        factors = [*arrays[:-1], np.log(arrays[-1])]
    total = sum(_spread(factor, term, letters) for factor, term in zip(factors, terms, strict=True))
    summed = tuple(range(len(result), len(letters)))
    largest = np.max(total, axis=summed, keepdims=True, initial=-np.inf)
    shift = np.where(np.isfinite(largest), largest, 0)
    return np.log(np.sum(np.exp(total - shift), axis=summed)) + np.squeeze(shift, axis=summed)


def _spread(x: Array, term: str, letters: str) -> Array:
    """`x` with its axes in the order of `letters`, and axes of size 1 for those that it lacks."""
    ordered = np.einsum(f"{term}->{''.join(letter for letter in letters if letter in term)}", x)
    return np.expand_dims(ordered, tuple(place for place, letter in enumerate(letters) if letter not in term))


def _log_einsum_exp_samples() -> list[Sample]:
    x = np.asarray([[[-1.0, 0.5, -1000.0], [-np.inf, -np.inf, -np.inf], [-5e3, -5e3 + 1, -np.inf]]])
    weight = np.asarray([[[0.2, 0.3, 0.5], [0.0, 1.0, 0.0]]])
    core = np.stack([weight, 2 * weight, weight], axis=2)
    return [
        sample(x, x[:, ::-1], core, equation="fbi,fbj,foij->fbo"),
        sample(x, x[:, ::-1], weight, equation="fbi,fbi,foi->fbo"),
        sample(np.stack([x, x], axis=-1), weight, equation="fbiq,foi->fboq"),
        sample(
            *[x[:, :1].astype("float32")] * 3,
            core[..., None].repeat(3, -1).astype("float32"),
            equation="fbi,fbj,fbk,foijk->fbo",
        ),
        sample(x[:, :0], x[:, :0], core, equation="fbi,fbj,foij->fbo"),
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
    ),
    Op(
        "einsum",
        _einsum_type,
        lambda *xs, equation: np.einsum(equation, *xs),
        lambda: [sample(_A, _A, equation="ab,cb->ac"), sample(_A, equation="ab->b")],
    ),
    Op("log_matmul_exp", _log_matmul_exp_type, _log_matmul_exp, _log_matmul_exp_samples),
    Op("log_einsum_exp", _log_einsum_exp_type, _log_einsum_exp, _log_einsum_exp_samples),
)
