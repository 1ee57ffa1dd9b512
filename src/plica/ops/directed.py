"""Matrix products of numbers that are kept as a direction and a size: `direction * exp(size)`.

A size is a finite real number, a direction a real or complex one of size 1 to a rounding, or 0. Such numbers have any
sign or phase and underflow nowhere.
"""

from typing import Any

import numpy as np

from plica.errors import ShapeError
from plica.ir.op import ALWAYS, Array, Derivative, Op, Sample, sample
from plica.ir.types import ArrayType, array_type
from plica.ops.reduce import log_softmax, softmax
from plica.ops.rules import real_dtype, require_equal_sizes, require_kind, require_operands, require_same_dtype


def _directed_matmul_type(*types: ArrayType, logs: str | None = None) -> tuple[ArrayType, ArrayType]:
    require_operands(types, 3 if logs is None else 4, 3 if logs is None else 4)
    direction, size, weight, *given = types
    require_kind([direction, weight], ("float", "complex"))
    dtype = require_same_dtype(direction, weight)
    require_same_dtype(array_type((), real_dtype(dtype)), size, *given)
    message = (
        "directed_matmul takes directions and sizes (F, B, I) and a weight (F, O, I), "
        f"found {', '.join(map(str, types))}."
    )
    if logs not in (None, "log", "log_softmax") or any(len(type_.shape) != 3 for type_ in types):
        raise ShapeError(message)
    pairs = [(direction, size), *((weight, logarithms) for logarithms in given)]
    for first, second in [pair for a, b in pairs for pair in zip(a.shape, b.shape, strict=True)]:
        require_equal_sizes(first, second, message)
    require_equal_sizes(direction.shape[0], weight.shape[0], message)
    require_equal_sizes(direction.shape[2], weight.shape[2], message)
    shape = (*direction.shape[:2], weight.shape[1])
    return array_type(shape, dtype), array_type(shape, real_dtype(dtype))


def _directed_matmul(
    direction: Array, size: Array, weight: Array, *given: Array, logs: str | None = None
) -> tuple[Any, Any]:
    """Every term on an axis of its own, divided by the largest of its sum."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        log_weight = _logarithms(given[0], logs) if given else np.log(np.abs(weight))
        phase = np.exp(0 * given[0]) if given else np.where(weight == 0, 0, weight * np.exp(-log_weight))
        phases = direction[:, :, None, :] * phase[:, None]
        sizes = size[:, :, None, :] + log_weight[:, None]
        sizes_of_terms = np.where((phases != 0) & (sizes > -np.inf), sizes, -np.inf)
        largest = np.max(sizes_of_terms, axis=-1, keepdims=True, initial=-np.inf)
        shift = np.where(largest > -np.inf, largest, _row_size(direction, size)[:, :, None])
        total = np.sum(np.where(sizes_of_terms > -np.inf, phases * np.exp(sizes_of_terms - shift), 0), axis=-1)
        length = np.abs(total)
        log_length = np.where(length > 0, np.log(length), 0)
        shift = np.where(length > 0, shift[..., 0], _row_size(direction, size))
        return np.where(length > 0, total * np.exp(-log_length), 0), log_length + shift


def _row_size(direction: Array, size: Array) -> Any:
    """The largest size of a row's numbers that are not 0, or of all if all are 0: `(F, B, 1)`."""
    largest = np.max(np.where(direction != 0, size, -np.inf), axis=-1, keepdims=True, initial=-np.inf)
    return np.where(largest > -np.inf, largest, np.max(size, axis=-1, keepdims=True, initial=0.0))


def _logarithms(given: Array, form: str | None) -> Any:
    return given if form == "log" else log_softmax(given, axis=-1)


def _samples() -> list[Sample]:
    direction = np.asarray([[[1.0, -1.0, 1.0], [1.0, 0.0, -1.0], [0.0, 0.0, 0.0], [1.0, 1.0, -1.0]]])
    size = np.asarray([[[-1.0, 0.5, -1e3], [-5e3, 0.0, -5e3 + 1], [1.0, -2.0, 0.0], [900.0, 0.0, 0.5]]])
    weight = np.asarray([[[0.2, -0.3, 0.5], [0.0, 1.0, 1.0]]])
    logits = np.asarray([[[-900.0, 0.0, -800.0], [0.0, 1.0, 2.0]]])
    softmaxes = softmax(logits, axis=-1)
    complex_direction = direction * np.exp(1j * np.arange(3))
    return [
        sample(direction, size, weight),
        sample(*(array.astype("float32") for array in (direction, size / 10, weight))),
        sample(complex_direction, size, weight * np.exp(0.5j)),
        sample(direction, size, softmaxes, logits, logs="log_softmax"),
        sample(complex_direction, size, np.exp(logits) + 0j, logits, logs="log"),
    ]


DIRECTED = (
    Op(
        "directed_matmul",
        _directed_matmul_type,
        _directed_matmul,
        _samples,
        never_raises=ALWAYS,
        tolerance=1e4,
        derivative=Derivative.ITS_OWN,
    ),
)
