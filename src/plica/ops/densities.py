"""Densities of a circuit's input layers, each as one operation whose derivative stays finite."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from plica.errors import ShapeError
from plica.ir.dtypes import DType
from plica.ir.op import ALWAYS, Array, Op, Sample, sample
from plica.ir.types import ArrayType, array_type
from plica.ops.rules import broadcast, require_kind, require_operands, require_same_dtype


def _log_normal_type(*types: ArrayType) -> ArrayType:
    require_operands(types, 3, 3)
    require_kind(types, ("float",))
    return array_type(broadcast(*[type_.shape for type_ in types]), require_same_dtype(*types))


def _log_normal(x: Array, mean: Array, log_stddev: Array) -> Any:
    # log N(x | m, s) = -((x - m) / s)^2 / 2 - log s - log(2 pi) / 2
    largest = np.finfo(x.dtype).max
    bound = math.log(largest) - 0.5
    standard = (np.clip(x, -largest, largest) - mean) * np.exp(np.clip(-log_stddev, -bound, bound))
    return standard * standard * -0.5 - log_stddev - 0.5 * math.log(2.0 * math.pi)


def _log_normal_samples() -> list[Sample]:
    x, mean, log = np.asarray([[0.5], [-1.25], [3.0]]), np.asarray([0.25, 2.0]), np.asarray([-0.75, 1.5])
    narrow = np.asarray([-80.0, 0.0], "float32"), np.asarray([-100.0, -60.0], "float32")
    return [
        sample(x, mean, log),
        sample(x[:0], mean, log),
        sample(*(array.astype("float32") for array in (x, mean, log))),
        sample(np.asarray([[np.inf], [-80.0], [np.nan]], "float32"), *narrow),
    ]


def _vectors_type(*types: ArrayType) -> ArrayType:
    require_operands(types, 2, 3)
    require_kind(types[:2], ("float",))
    dtype, (scores, factor) = require_same_dtype(*types[:2]), types[:2]
    if len(scores.shape) != 4 or factor.shape != (scores.shape[0], scores.shape[2], *scores.shape[-1:] * 2):
        raise ShapeError(
            f"log_multivariate_normal takes vectors (F, B, K, V) and factors (F, K, V, V), found {scores} and {factor}."
        )
    masks = array_type((*scores.shape[:2], scores.shape[-1]), DType.BOOL)
    if types[2:] and types[2] != masks:
        raise ShapeError(
            f"the mask of missing entries of vectors {scores} is {masks}, found {types[2]}; all units share one mask."
        )
    return array_type(scores.shape[:-1], dtype)


def _log_multivariate_normal(scores: Array, factor: Array, missing: Array | None = None) -> Any:
    # R of (A E)' = Q R; A has the rows of the factor of known variables, E the rows of the identity of the others
    known = np.ones((*scores.shape[:2], scores.shape[-1]), bool) if missing is None else ~missing
    size = scores.shape[-1]
    rows = known[:, :, None, :, None]
    columns = [
        np.where(rows, np.tril(factor)[:, None], 0.0),
        np.where(rows, np.zeros_like(factor)[:, None], np.eye(size)),
    ]
    root = np.linalg.qr(np.swapaxes(np.concatenate(columns, axis=-1).astype("float64"), -1, -2), mode="r")
    # reversed, its transpose is upper triangular again; elimination exchanges no rows of such a matrix
    reversed_root = np.swapaxes(root, -1, -2)[..., ::-1, ::-1]
    white = np.linalg.solve(reversed_root, np.where(known[:, :, None], scores, 0.0)[..., ::-1, None])[..., 0]
    volume = np.log(np.abs(np.diagonal(root, axis1=-2, axis2=-1))).sum(-1)
    constant = 0.5 * math.log(2.0 * math.pi) * known.sum(-1)[..., None]
    return (-0.5 * (white * white).sum(-1) - volume - constant).astype(scores.dtype)


def _vectors_samples() -> list[Sample]:
    rng = np.random.default_rng(0)
    scores, factor = rng.normal(size=(2, 5, 2, 3)), np.tril(rng.normal(size=(2, 2, 3, 3)), -1) + np.eye(3)
    missing = np.asarray([[[0, 0, 0], [1, 0, 1], [0, 0, 1], [1, 1, 1], [1, 0, 1]]] * 2, bool)
    missing[1, 0, 0] = True
    several = np.tile(scores, (1, 3, 1, 1)), np.tile(missing, (1, 3, 1))
    return [
        sample(scores, factor),
        sample(scores, factor, missing),
        sample(several[0], factor, several[1]),
        sample(*(array.astype("float32") for array in (scores, factor)), missing),
        sample(scores[:, :0], factor, missing[:, :0]),
    ]


def _completion_type(*types: ArrayType) -> ArrayType:
    require_operands(types, 2, 2)
    require_kind(types[:1], ("float",))
    factor, missing = types
    if len(factor.shape) != 4 or factor.shape[-2] != factor.shape[-1]:
        raise ShapeError(f"factors of covariances are (F, K, V, V), found {factor}.")
    if missing.dtype != DType.BOOL or (*missing.shape[:1], *missing.shape[2:]) != (factor.shape[0], factor.shape[-1]):
        raise ShapeError(
            f"the mask of missing entries of vectors with factors {factor} is bool[F, B, V], found {missing}."
        )
    return array_type((factor.shape[0], missing.shape[1], *factor.shape[1:]), factor.dtype)


def _of_covariances(factor: Array, missing: Array) -> Iterator[tuple[Any, Array, Array, Array]]:
    """Covariances (V, V) by fold, row and unit, with the entries that are known and those that are not."""
    lower = np.tril(factor).astype("float64")
    for fold, row in np.ndindex(missing.shape[:2]):
        hidden = missing[fold, row]
        for unit in range(factor.shape[1]):
            covariance = lower[fold, unit] @ lower[fold, unit].T
            yield (fold, row, unit), covariance, np.flatnonzero(~hidden), np.flatnonzero(hidden)


def _regression_matrix(factor: Array, missing: Array) -> Any:
    size = factor.shape[-1]
    matrices = np.zeros((*missing.shape[:2], factor.shape[1], size, size), factor.dtype)
    for index, covariance, known, hidden in _of_covariances(factor, missing):
        matrix = np.zeros((size, size))
        matrix[known, known] = 1.0
        slopes = np.linalg.solve(covariance[np.ix_(known, known)], covariance[np.ix_(known, hidden)])
        matrix[np.ix_(hidden, known)] = slopes.T
        matrices[index] = matrix
    return matrices


def _conditional_factor(factor: Array, missing: Array) -> Any:
    size = factor.shape[-1]
    factors = np.zeros((*missing.shape[:2], factor.shape[1], size, size), factor.dtype)
    for index, covariance, known, hidden in _of_covariances(factor, missing):
        across = covariance[np.ix_(known, hidden)]
        explained = across.T @ np.linalg.solve(covariance[np.ix_(known, known)], across)
        matrix = np.zeros((size, size))
        matrix[np.ix_(hidden, hidden)] = np.linalg.cholesky(covariance[np.ix_(hidden, hidden)] - explained)
        factors[index] = matrix
    return factors


def _moments_type(*types: ArrayType) -> tuple[ArrayType, ArrayType]:
    require_operands(types, 4, 4)
    scores, factor, missing, weights = types
    _vectors_type(scores, factor, missing)
    dtype = require_same_dtype(scores, factor, weights)
    if weights.shape != scores.shape[:-1]:
        raise ShapeError(f"the weights of vectors {scores} are (F, B, K), found {weights}.")
    return scores, array_type(factor.shape, dtype)


def _conditional_moments(scores: Array, factor: Array, missing: Array, weights: Array) -> Any:
    known = np.where(missing[:, :, None], 0.0, scores)
    completed = np.einsum("fbkij,fbkj->fbki", _regression_matrix(factor, missing), known)
    left = _conditional_factor(factor, missing)
    covariances = np.einsum("fbk,fbkij,fbklj->fkil", weights, left, left)
    return completed.astype(scores.dtype), covariances.astype(scores.dtype)


def _decomposed_moments(xp: Any, scores: Any, factor: Any, missing: Any, weights: Any) -> tuple[Any, Any]:
    known = xp.expand_dims(xp.where(xp.expand_dims(missing, axis=2), 0.0, scores), axis=-1)
    completed = xp.squeeze(xp.matmul(xp.regression_matrix(factor, missing), known), axis=-1)
    left = xp.conditional_factor(factor, missing)
    products = xp.matmul(left, xp.matrix_transpose(left)) * xp.expand_dims(xp.expand_dims(weights, axis=-1), axis=-1)
    return xp.astype(completed, scores.dtype), xp.sum(products, axis=1)


def _moments_samples() -> list[Sample]:
    (scores, factor, missing), (*_, several) = _vectors_samples()[1].inputs, _vectors_samples()[2].inputs
    weights = np.random.default_rng(1).uniform(size=scores.shape[:-1])
    return [
        sample(scores, factor, missing, weights),
        sample(np.tile(scores, (1, 3, 1, 1)), factor, several, np.tile(weights, (1, 3, 1))),
        sample(*(array.astype("float32") for array in (scores, factor)), missing, weights.astype("float32")),
        sample(scores[:, :0], factor, missing[:, :0], weights[:, :0]),
    ]


def _completion_samples() -> list[Sample]:
    _, factor, missing = _vectors_samples()[1].inputs
    return [
        sample(factor, missing),
        sample(factor, np.tile(missing, (1, 3, 1))),
        sample(factor.astype("float32"), missing),
        sample(factor, missing[:, :0]),
    ]


DENSITIES = (
    Op("log_normal", _log_normal_type, _log_normal, _log_normal_samples, never_raises=ALWAYS),
    Op("log_multivariate_normal", _vectors_type, _log_multivariate_normal, _vectors_samples, tolerance=10.0),
    Op("regression_matrix", _completion_type, _regression_matrix, _completion_samples, tolerance=10.0),
    Op("conditional_factor", _completion_type, _conditional_factor, _completion_samples, tolerance=10.0),
    Op(
        "conditional_moments",
        _moments_type,
        _conditional_moments,
        _moments_samples,
        decompose=_decomposed_moments,
        tolerance=10.0,
    ),
)
