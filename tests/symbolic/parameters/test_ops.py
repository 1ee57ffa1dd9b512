"""Every operation of a parameter: shape, config, and value against plain numpy, one fold at a time."""

import copy
import inspect
from typing import Any

import numpy as np
import pytest
from scipy import stats

from plica.errors import DTypeError, InputError, PlicaError, ShapeError
from plica.symbolic import parameters
from plica.symbolic.parameters import (
    BlockKroneckerParameter,
    BlockKroneckerSumParameter,
    ClampParameter,
    ClampSignParameter,
    ClampSizeParameter,
    ConcatParameter,
    ConjugateParameter,
    CountedLogSoftmaxParameter,
    CountedSoftmaxParameter,
    EinsumParameter,
    ExpParameter,
    FlattenParameter,
    GaussianExpectedLog,
    GaussianMoments,
    GaussianProductLogPartition,
    GaussianProductMean,
    GaussianProductStddev,
    HadamardParameter,
    IndexParameter,
    KroneckerParameter,
    KroneckerSumParameter,
    LogAddExpParameter,
    LogEinsumExpParameter,
    LogGaussianProductStddev,
    LogMatMulExpParameter,
    LogOnSupportParameter,
    LogParameter,
    LogSigmoidParameter,
    LogSizeParameter,
    LogSoftmaxParameter,
    LogSoftplusParameter,
    MatMulParameter,
    MixingWeightParameter,
    MultivariateProductFactor,
    MultivariateProductLogPartition,
    MultivariateProductMean,
    OuterProductParameter,
    OuterSumParameter,
    ParameterOp,
    PolynomialDifferential,
    PolynomialProduct,
    PowerOnSupportParameter,
    ReduceLSEParameter,
    ReduceProductParameter,
    ReduceSumParameter,
    ScaledSigmoidParameter,
    SigmoidParameter,
    SignedLogParameter,
    SignParameter,
    SoftmaxParameter,
    SoftplusParameter,
    SquareParameter,
    StackParameter,
    SumParameter,
    SumSignParameter,
    SumSizeParameter,
)
from plica.tracing import namespace
from tests.harness.together import grouped


def softmax(x, axis):
    y = np.exp(x - x.max(axis, keepdims=True))
    return y / y.sum(axis, keepdims=True)


def outer(operation, axis):
    def reference(x, y):
        pairs = operation(np.expand_dims(np.moveaxis(x, axis, -1), -1), np.expand_dims(np.moveaxis(y, axis, -1), -2))
        return np.moveaxis(pairs.reshape(*pairs.shape[:-2], -1), -1, axis)

    return reference


def log_einsum(equation):
    return lambda x, y: np.log(np.einsum(equation, np.exp(x), np.exp(y)))


def gaussian_product(mean1, stddev1, mean2, stddev2):
    """Mean, deviation and logarithm of the integral of the product of each pair, as SciPy has densities."""
    (m, n), (s, t) = np.meshgrid(mean1, mean2, indexing="ij"), np.meshgrid(stddev1, stddev2, indexing="ij")
    stddev = 1 / np.sqrt(1 / s**2 + 1 / t**2)
    mean = (m / s**2 + n / t**2) * stddev**2
    at = 0.3  # the densities agree at any point
    total = stats.norm(m, s).logpdf(at) + stats.norm(n, t).logpdf(at) - stats.norm(mean, stddev).logpdf(at)
    return mean.ravel(), stddev.ravel(), total.ravel()


MULTIVARIATE: tuple[Any, ...] = (
    MultivariateProductMean,
    MultivariateProductFactor,
    MultivariateProductLogPartition,
)


def gaussian_expected_log(mean1, stddev1, mean2, stddev2):
    """The mean of the logarithm of each second density under each first one, by quadrature."""
    points, weights = np.polynomial.hermite_e.hermegauss(5)  # exact for polynomials of degree 9
    x = mean1[:, None, None] + stddev1[:, None, None] * points
    logs = stats.norm.logpdf(x, mean2[:, None], np.abs(stddev2)[:, None]) * np.where(stddev2 > 0, 1, np.nan)[:, None]
    return (logs @ (weights / weights.sum())).ravel()


def gaussian_moment(mean, stddev, power):
    """The mean of a power of a normal variable, by quadrature."""
    points, weights = np.polynomial.hermite_e.hermegauss(5)
    return ((mean[:, None] + stddev[:, None] * points) ** power) @ (weights / weights.sum())


def multivariate_product(mean1, factor1, mean2, factor2):
    """Mean, factor and logarithm of the integral of the product of each pair, by inverse covariances."""
    found = []
    for mean, factor in zip(mean1, np.tril(factor1), strict=True):
        for other, other_factor in zip(mean2, np.tril(factor2), strict=True):
            first, second = factor @ factor.T, other_factor @ other_factor.T
            inverses = np.linalg.inv(first), np.linalg.inv(second)
            covariance = np.linalg.inv(inverses[0] + inverses[1])
            centre = covariance @ (inverses[0] @ mean + inverses[1] @ other)
            total = stats.multivariate_normal(mean, first + second).logpdf(other)
            found.append((centre, np.linalg.cholesky(covariance), total))
    return [np.stack(column) for column in zip(*found, strict=True)]


def block_kronecker(operation, blocks1, blocks2):
    """One entry after another."""

    def reference(x, y):
        widths = x.shape[1] // blocks1, y.shape[1] // blocks2
        result = np.zeros((len(x) * len(y), x.shape[1] * y.shape[1]))
        for o1, o2, h1, h2, i1, i2 in np.ndindex(len(x), len(y), blocks1, blocks2, *widths):
            column = (h1 * blocks2 + h2) * widths[0] * widths[1] + i1 * widths[1] + i2
            result[o1 * len(y) + o2, column] = operation(x[o1, h1 * widths[0] + i1], y[o2, h2 * widths[1] + i2])
        return result

    return reference


def mixing(x):
    return np.concatenate([np.diag(x[:, h]) for h in range(x.shape[1])], axis=1)


def blocks(x, y):
    """Two blocks of `x` and three of `y`, the Kronecker product of each pair."""
    pairs = [np.kron(a, b) for a in np.split(x, 2, axis=1) for b in np.split(y, 3, axis=1)]
    return np.concatenate(pairs, axis=1)


# operation, what it computes of one fold
TABLE: list[tuple[ParameterOp, object]] = [
    (SumParameter((2, 3), (2, 3)), np.add),
    (LogAddExpParameter((2, 3), (2, 3)), np.logaddexp),
    (HadamardParameter((2, 3), (2, 3)), np.multiply),
    (KroneckerParameter((2, 3), (4, 5)), np.kron),
    (BlockKroneckerParameter((2, 4), (3, 6), blocks1=2, blocks2=3), blocks),
    (
        BlockKroneckerSumParameter((2, 4), (3, 6), blocks1=2, blocks2=3),
        lambda x, y: np.log(blocks(np.exp(x), np.exp(y))),
    ),
    (KroneckerSumParameter((2, 3), (4, 5)), lambda x, y: np.log(np.kron(np.exp(x), np.exp(y)))),
    (BlockKroneckerParameter((2, 6), (3, 4), blocks1=3, blocks2=2), block_kronecker(np.multiply, 3, 2)),
    (BlockKroneckerParameter((2, 6), (3, 4), blocks1=3, blocks2=1), np.kron),
    (BlockKroneckerParameter((2, 3), (3, 4), blocks1=3, blocks2=2), np.kron),
    (BlockKroneckerSumParameter((2, 6), (3, 4), blocks1=2, blocks2=2), block_kronecker(np.add, 2, 2)),
    (LogMatMulExpParameter((2, 3), (3, 4)), lambda x, y: np.log(np.exp(x) @ np.exp(y))),
    (KroneckerParameter((3,), (2,)), np.kron),
    (OuterProductParameter((2, 3), (2, 4)), outer(np.multiply, -1)),
    (OuterProductParameter((2, 3), (4, 3), axis=0), outer(np.multiply, 0)),
    (OuterSumParameter((2, 3), (2, 4), axis=1), outer(np.add, 1)),
    (OuterSumParameter((2, 3), (4, 3), axis=-2), outer(np.add, -2)),
    (ExpParameter((2, 3)), np.exp),
    (LogParameter((2, 3)), np.log),
    (LogSigmoidParameter((2, 3)), lambda x: -np.log1p(np.exp(-x))),
    (LogSoftplusParameter((2, 3)), lambda x: np.log(np.log1p(np.exp(x)))),
    (LogSizeParameter((2, 3)), lambda x: np.log(np.abs(x))),
    (SignParameter((2, 3)), np.sign),
    (SignedLogParameter((2, 3), (2, 3)), lambda size, sign: np.log(sign) + size),
    (SignedLogParameter((3,), (3,), positive_part=True), lambda size, sign: np.log(np.maximum(sign, 0)) + size),
    (ClampSizeParameter((6,), (6,), below=0.2), lambda size, sign: np.where(sign < 0, np.minimum(size, 0.2), size)),
    (ClampSignParameter((2, 3), (2, 3), above=0.0), lambda size, sign: sign),  # noqa: ARG005
    (StackParameter((2, 3), (2, 3)), lambda x, y: np.stack([x, y], axis=-1)),
    (SumSizeParameter((2, 3), (2, 3)), lambda size, sign: np.log(np.abs((sign * np.exp(size)).sum(-1)))),
    (SumSignParameter((2, 3), (2, 3), axis=0), lambda size, sign: np.sign((sign * np.exp(size)).sum(0))),
    (SquareParameter((2, 3)), np.square),
    (GaussianProductMean((2,), (2,), (3,), (3,)), lambda *four: gaussian_product(*four)[0]),
    (GaussianProductStddev((2,), (3,)), lambda s, t: gaussian_product(s, s, t, t)[1]),
    (LogGaussianProductStddev((2,), (3,)), lambda s, t: np.log(gaussian_product(s, np.exp(s), t, np.exp(t))[1])),
    (GaussianProductLogPartition((2,), (2,), (3,), (3,)), lambda *four: gaussian_product(*four)[2]),
    (GaussianExpectedLog((2,), (2,), (3,), (3,)), gaussian_expected_log),
    (GaussianMoments((2,), (2,), degree=4), lambda m, s: np.stack([gaussian_moment(m, s, n) for n in range(5)], 1)),
    (GaussianMoments((2,), (2,), degree=0), lambda m, s: np.ones((2, 1))),  # noqa: ARG005
    (LogOnSupportParameter((2, 3)), np.log),
    (LogOnSupportParameter((2, 3), log_space=True), lambda x: x),
    (PowerOnSupportParameter((2, 3), exponent=-2), lambda x: np.where(x > 0, x, np.nan) ** -2.0),
    (PowerOnSupportParameter((2, 3), exponent=0), lambda x: np.where(x > 0, 1.0, np.nan)),
    (PowerOnSupportParameter((2, 3), exponent=3, log_space=True), lambda x: 3 * x),
    (GaussianProductStddev((2, 3), (1, 3)), lambda s, t: 1 / np.sqrt(1 / s**2 + 1 / t**2)),
    *(
        (kind((2, 3), (2, 3, 3), (2, 3), (2, 3, 3)), lambda *four, index=index: multivariate_product(*four)[index])
        for index, kind in enumerate(MULTIVARIATE)
    ),
    (PolynomialProduct((2, 3), (3, 2)), lambda x, y: np.stack([np.convolve(a, b) for a in x for b in y])),
    (PolynomialProduct((1, 1), (2, 4)), lambda x, y: x * y),
    (PolynomialDifferential((2, 5)), lambda x: np.stack([np.polynomial.polynomial.polyder(one) for one in x])),
    (PolynomialDifferential((2, 5), order=3), lambda x: np.stack([np.polynomial.polynomial.polyder(a, 3) for a in x])),
    (PolynomialDifferential((2, 3), order=4), lambda x: np.zeros((2, 1))),  # noqa: ARG005
    (SoftplusParameter((2, 3)), lambda x: np.log1p(np.exp(x))),
    (ConjugateParameter((2, 3)), np.conj),
    (SigmoidParameter((2, 3)), lambda x: 1 / (1 + np.exp(-x))),
    (ScaledSigmoidParameter((2, 3), 0.5, 2.0), lambda x: 0.5 + 1.5 / (1 + np.exp(-x))),
    (ClampParameter((2, 3), vmin=0.3), lambda x: np.maximum(x, 0.3)),
    (ClampParameter((2, 3), vmax=0.8), lambda x: np.minimum(x, 0.8)),
    (ClampParameter((2, 3), vmin=0.3, vmax=0.8), lambda x: np.clip(x, 0.3, 0.8)),
    (ReduceSumParameter((2, 3)), lambda x: x.sum(-1)),
    (ReduceSumParameter((2, 3), axis=0), lambda x: x.sum(0)),
    (ReduceProductParameter((2, 3), axis=-2), lambda x: x.prod(0)),
    (ReduceLSEParameter((2, 3), axis=1), lambda x: np.log(np.exp(x).sum(1))),
    (SoftmaxParameter((2, 3)), lambda x: softmax(x, -1)),
    (SoftmaxParameter((2, 3), axis=0), lambda x: softmax(x, 0)),
    (LogSoftmaxParameter((2, 3), axis=0), lambda x: np.log(softmax(x, 0))),
    (CountedSoftmaxParameter((2, 3)), lambda x: softmax(x, -1)),
    (CountedLogSoftmaxParameter((2, 3), axis=0), lambda x: np.log(softmax(x, 0))),
    (IndexParameter((2, 3), indices=[2, 0, 1, 1]), lambda x: x[:, [2, 0, 1, 1]]),
    (IndexParameter((4, 3), indices=[1, 2, 3], axis=0), lambda x: x[1:]),
    (ConcatParameter((2, 3), (2, 4)), lambda x, y: np.concatenate([x, y], axis=1)),
    (ConcatParameter((2, 3), (1, 3), axis=0), lambda x, y: np.concatenate([x, y])),
    (MixingWeightParameter((4, 3)), mixing),
    (MatMulParameter((2, 3), (3, 4)), np.matmul),
    (EinsumParameter((2, 3), (2, 5), equation="rm,rn->mn"), lambda x, y: x.T @ y),
    (EinsumParameter((2, 3), (2, 5), equation="pm,pn->p"), lambda x, y: x.sum(-1) * y.sum(-1)),
    *(
        (LogEinsumExpParameter(*shapes, equation=equation), log_einsum(equation))
        for equation, *shapes in (
            ("rm,rn->mn", (2, 3), (2, 5)),
            ("pm,pn->p", (2, 3), (2, 5)),
            ("arm,ran->nam", (2, 3, 4), (3, 2, 5)),
            ("ab,ba->", (2, 3), (3, 2)),
            ("kmk,m->mk", (2, 3, 2), (3,)),
            ("rm,rn->nrm", (2, 3), (2, 5)),
        )
    ),
    (FlattenParameter((2, 3, 5), start=1, end=2), lambda x: x.reshape(2, 15)),
    (FlattenParameter((2, 3), start=0, end=0), lambda x: x),
]


def test_every_operation_is_in_the_table() -> None:
    classes = [value for value in vars(parameters).values() if inspect.isclass(value)]
    ops = {cls for cls in classes if issubclass(cls, ParameterOp) and not inspect.isabstract(cls)}
    assert {type(op) for op, _ in TABLE} == ops


@grouped(("op", "reference"), TABLE, ids=lambda item: type(item).__name__)
def test_value_and_shape(op: ParameterOp, reference, run_rule) -> None:
    rng = np.random.default_rng(1)
    inputs = [rng.uniform(0.1, 1.5, (5, *shape)) for shape in op.in_shapes]
    found = run_rule(_bound(op), *inputs)
    expected = np.stack([reference(*fold) for fold in zip(*inputs, strict=True)])
    assert found.shape == (5, *op.shape)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@grouped(("op", "reference"), TABLE, ids=lambda item: type(item).__name__)
def test_values_lie_in_the_range_that_the_operation_states(op: ParameterOp, reference) -> None:
    """For inputs of both signs and for inputs from zero on, whose ranges are told."""
    rng = np.random.default_rng(2)
    for low in (-1.5, 0.0):
        inputs = [rng.uniform(low, 1.5, shape) for shape in op.in_shapes]
        with np.errstate(invalid="ignore", divide="ignore"):
            value = np.asarray(reference(*inputs))
        stated = op.range(*[(low, 1.5)] * len(inputs))
        assert stated is not None, "something is known of each of Plica's own operations: their results are real"
        numbers = value[~np.isnan(value)]
        assert (numbers >= stated[0] - 1e-12).all()
        assert (numbers <= stated[1] + 1e-12).all()


def _bound(op: ParameterOp):
    return lambda *arrays: op.evaluate(namespace, *arrays)


def test_the_logarithm_of_a_negative_number_is_nan_or_that_of_zero(run_rule) -> None:
    size, sign = np.array([[-200.0, -np.inf, -200.0, 0.5, 0.5, 0.5]]), np.array([[-1.0, 0.0, 1.0, -1.0, 1.0, 0.0]])
    for positive_part, negative in ((False, np.nan), (True, -np.inf)):
        found = run_rule(_bound(SignedLogParameter((6,), (6,), positive_part=positive_part)), size, sign)
        np.testing.assert_array_equal(found, [[negative, -np.inf, -200.0, negative, 0.5, -np.inf]])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_sums_of_any_sign_far_below_what_floats_hold(run_rule, dtype: str) -> None:
    far = np.log(np.array([3.0, 2.0, 1.0])) - 5000.0
    cases = {  # sizes and signs of terms, size and sign of their sum
        "smaller terms": ((far[0], far[1]), (1.0, -1.0), (far[2], 1.0)),
        "negative": ((far[1], far[0]), (1.0, -1.0), (far[2], -1.0)),
        "nothing left": ((far[0], far[0]), (1.0, -1.0), (far[0], 0.0)),
        "zeros of any size": ((900.0, far[0]), (0.0, -1.0), (far[0], -1.0)),
        "terms of no size": ((-np.inf, far[0]), (1.0, 1.0), (far[0], 1.0)),
        "zeros alone": ((0.0, 900.0), (0.0, 0.0), (900.0, 0.0)),
        "nothing at all": ((-np.inf, -np.inf), (1.0, 1.0), (float(np.finfo(dtype).min), 0.0)),
    }
    for name, (sizes, signs, expected) in cases.items():
        arrays = [np.array([one], dtype) for one in (sizes, signs)]
        found = [run_rule(_bound(op((2,), (2,))), *arrays)[0] for op in (SumSizeParameter, SumSignParameter)]
        np.testing.assert_allclose(found, expected, rtol=1e-6 if dtype == "float32" else 1e-12, err_msg=name)


def test_logarithms_that_do_not_underflow(run_rule) -> None:
    x = np.array([[-1000.0, -50.0, -1.0, 0.0, 30.0, 1000.0]])
    found = [run_rule(_bound(op((6,))), x) for op in (LogSigmoidParameter, LogSoftplusParameter)]
    softplus = np.log(np.logaddexp(x[0, 1:], 0))
    np.testing.assert_allclose(found[0], -np.logaddexp(-x, 0), rtol=1e-15)
    np.testing.assert_allclose(found[1], [[-1000.0, *softplus]], rtol=1e-12)


def test_conjugates_of_complex_numbers(run_rule) -> None:
    assert run_rule(_bound(ConjugateParameter((1,))), np.array([[1 - 2j]])).tolist() == [[1 + 2j]]


@grouped(("op", "reference"), TABLE, ids=lambda item: type(item).__name__)
def test_rebuilds_from_shapes_and_config(op: ParameterOp, reference) -> None:  # noqa: ARG001
    again = type(op)(*op.in_shapes, **op.config)
    copied = copy.copy(op)
    for other in (again, copied):
        assert other is not op
        assert other != op, "nodes are compared by identity"
        assert (other.shape, other.in_shapes, other.config) == (op.shape, op.in_shapes, op.config)


def test_numbers_outside_of_the_support_have_no_logarithms_and_powers(run_rule) -> None:
    x = np.array([[0.0, 2.0, -1.0]])
    logs = np.array([[-np.inf, 2.0, -1.0]])
    for op, given, expected in (
        (LogOnSupportParameter((3,)), x, [0.0, np.log(2.0), np.nan]),
        (LogOnSupportParameter((3,), log_space=True), logs, [0.0, 2.0, -1.0]),
        (PowerOnSupportParameter((3,), exponent=-1), x, [0.0, 0.5, np.nan]),
        (PowerOnSupportParameter((3,), exponent=0), x, [0.0, 1.0, np.nan]),
        (PowerOnSupportParameter((3,), exponent=-1, log_space=True), logs, [-np.inf, -2.0, 1.0]),
        (PowerOnSupportParameter((3,), exponent=0, log_space=True), logs, [-np.inf, 0.0, 0.0]),
    ):
        np.testing.assert_array_equal(run_rule(_bound(op), given)[0], expected)


def test_log_of_zero_is_minus_infinity(run_rule) -> None:
    assert run_rule(_bound(LogParameter((2,))), np.array([[0.0, 1.0]])).tolist() == [[-np.inf, 0.0]]


@grouped(
    ("make", "error", "message"),
    [
        (lambda: SumParameter((2, 3), (3, 2)), ShapeError, r"one shape, found \(2, 3\) and \(3, 2\)"),
        (lambda: HadamardParameter((2,), (3,)), ShapeError, r"HadamardParameter: expected two inputs of one shape"),
        (lambda: KroneckerParameter((2,), (2, 3)), ShapeError, "as many axes"),
        (
            lambda: BlockKroneckerParameter((2, 3), (2, 3), blocks1=2, blocks2=1),
            ShapeError,
            r"a matrix of 2 block\(s\) of columns, found shape \(2, 3\)",
        ),
        (lambda: OuterProductParameter((2, 3), (3, 3)), ShapeError, "differ at axis -1 at most"),
        (lambda: OuterSumParameter((2, 3), (2, 3, 1)), ShapeError, "OuterSumParameter: expected two inputs"),
        (
            lambda: ConcatParameter((2, 3), (3, 3)),
            ShapeError,
            r"differ at axis -1 at most, found \(2, 3\) and \(3, 3\)",
        ),
        (lambda: SoftmaxParameter((2, 3), axis=2), ShapeError, r"axis 2 is outside .* use an axis in \[-2, 1\]"),
        (lambda: ReduceSumParameter((2, 3), axis=-3), ShapeError, "ReduceSumParameter: axis -3 is outside"),
        (lambda: ReduceSumParameter(()), ShapeError, "axis -1 is outside"),
        (lambda: ExpParameter((2, 0)), ShapeError, r"every size of a shape must be at least 1, found \(2, 0\)"),
        (lambda: ExpParameter((2.5,)), PlicaError, "a shape must be a sequence of integers"),  # type: ignore[arg-type]
        (lambda: IndexParameter((2, 3), indices=[3]), InputError, r"expected indices in \[0, 2\] .* found 3"),
        (lambda: IndexParameter((2, 3), indices=[-1]), InputError, "found -1"),
        (lambda: IndexParameter((2, 3), indices=[]), InputError, "found none"),
        (lambda: MixingWeightParameter((4,)), ShapeError, r"expected an input of shape \(units, arity\), found \(4,\)"),
        (lambda: ScaledSigmoidParameter((2,), 1.0, 1.0), InputError, "needs vmin < vmax"),
        (lambda: MatMulParameter((2, 3), (2, 3)), ShapeError, r"\(m, k\) and \(k, n\), found \(2, 3\) and \(2, 3\)"),
        (lambda: EinsumParameter((2, 3), (2, 4), equation="ab,ab->a"), ShapeError, "'ab,ab->a' does not fit"),
        (lambda: EinsumParameter((2, 3), (2, 3), equation="ab,ab->aa"), ShapeError, "write one small letter"),
        (lambda: EinsumParameter((2, 3), (2, 3), equation="ab,ab"), ShapeError, "and '->' before"),
        (lambda: FlattenParameter((2, 3), start=1, end=2), ShapeError, "axes 1 to 2 are outside"),
        (lambda: GaussianProductStddev((2,), (2, 3)), ShapeError, r"expected shapes \(K1,\) and \(K2,\)"),
        (
            lambda: BlockKroneckerParameter((2, 3), (2, 4), blocks1=2, blocks2=2),
            ShapeError,
            r"matrix of 2 block\(s\) of columns, found shape \(2, 3\)",
        ),
        (
            lambda: MultivariateProductMean((2, 3), (2, 3), (2, 3), (2, 3, 3)),
            ShapeError,
            r"expected mean \(K, V\) and factor \(K, V, V\)",
        ),
        (lambda: GaussianProductMean((2,), (3,), (2,), (3,)), ShapeError, "a deviation for each mean, found shapes"),
        (lambda: PolynomialProduct((2,), (2, 3)), ShapeError, r"coefficients of shape \(K, degree\+1\), found \(2,\)"),
        (lambda: PolynomialDifferential((2, 3), order=0), InputError, "order must be at least 1, found 0"),
        (lambda: PolynomialDifferential((2, 3), order=0.5), DTypeError, "order must be an integer, found 0.5"),  # type: ignore[arg-type]
        (lambda: ClampParameter((2,)), InputError, "at least one bound"),
        (lambda: ClampParameter((2,), vmin=2.0, vmax=1.0), InputError, "needs vmin <= vmax"),
        (lambda: ClampParameter((2,), vmin="0"), DTypeError, "ClampParameter: vmin must be a number, found '0'"),  # type: ignore[arg-type]
        (lambda: ClampParameter((2,), vmax=float("nan")), InputError, "ClampParameter: vmax is NaN"),
        (lambda: ScaledSigmoidParameter((2,), [0.0], 1.0), DTypeError, r"vmin must be a number, found \[0\.0\]"),  # type: ignore[arg-type]
        (lambda: EinsumParameter((2,), (2,), equation="é,é->é"), ShapeError, "write one small letter"),
        (lambda: ExpParameter((1,) * 70), ShapeError, "at most 30 axes, found 70"),
        (lambda: ExpParameter((2**40, 2**40)), ShapeError, "more entries than can be counted in 64 bits"),
    ],
)
def test_refuses(make, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make()
