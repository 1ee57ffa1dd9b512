"""Linear algebra: traced with unknown sizes, eager, and numpy's own; derivatives; matrices without results."""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch

import plica.numpy as pnp
from plica.errors import DTypeError, InputError, ShapeError, TraceError
from plica.frontend.programs import interpret, trace, verify
from plica.ir.types import spec
from tests.harness.programs import Array, assert_same, run_torch, to_torch

la = pnp.linalg
SIZES = ({"b": 2, "n": 3, "m": 4}, {"b": 3, "n": 4, "m": 2})
EMPTY = {"b": 0, "n": 3, "m": 2}
DTYPES = ("float32", "float64", "complex64", "complex128")
LOOSE = 500.0
"""Times the tolerance of elementary functions: these sum, divide and iterate."""


def numbers(shape: tuple[int, ...], dtype: str, seed: int) -> Array:
    rng = np.random.default_rng(seed)
    found = rng.normal(size=shape)
    return (found + 1j * rng.normal(size=shape) if dtype.startswith("complex") else found).astype(dtype)


def adjoint(x: Any) -> Any:
    return x.conj().swapaxes(-2, -1) if isinstance(x, np.ndarray) else pnp.matrix_transpose(pnp.conj(x))


def _square(sizes: dict[str, int], dtype: str, seed: int) -> Array:
    return numbers((sizes["b"], sizes["n"], sizes["n"]), dtype, seed) + 3 * np.eye(sizes["n"], dtype=dtype)


def _hermitian(sizes: dict[str, int], dtype: str, seed: int) -> Array:
    x = numbers((sizes["b"], sizes["n"], sizes["n"]), dtype, seed)
    return (x @ adjoint(x) / sizes["n"] + np.diag(np.arange(1, sizes["n"] + 1))).astype(dtype)


KINDS: dict[str, tuple[tuple[Any, ...], Callable[[dict[str, int], str, int], Array]]] = {
    "g": (("b", "n", "n"), _square),
    "h": (("b", "n", "n"), _hermitian),
    "r": (("b", "n", "m"), lambda sizes, *a: numbers((sizes["b"], sizes["n"], sizes["m"]), *a)),
    "2": (("n", "m"), lambda sizes, *a: numbers((sizes["n"], sizes["m"]), *a)),
    "v": (("n",), lambda sizes, *a: numbers((sizes["n"],), *a)),
    "w": (("m",), lambda sizes, *a: numbers((sizes["m"],), *a)),
    "3": (("b", 1, 3), lambda sizes, *a: numbers((sizes["b"], 1, 3), *a)),
    "c": (("m", 3), lambda sizes, *a: numbers((sizes["m"], 3), *a)),
    "x": (("n", 3, "m"), lambda sizes, *a: numbers((sizes["n"], 3, sizes["m"]), *a)),
}


@dataclass(frozen=True)
class Example:
    """A call of one function: `kinds` names kinds of arrays, one letter each."""

    name: str
    kinds: str
    call: Callable[..., Any]
    numpy: Callable[..., Any]
    smooth: bool = True

    def __str__(self) -> str:
        return f"{self.name}-{self.kinds}"

    def arrays(self, sizes: dict[str, int], dtype: str) -> list[Array]:
        return [KINDS[letter][1](sizes, dtype, seed) for seed, letter in enumerate(self.kinds)]

    def program(self, dtype: str) -> Any:
        return trace(self.call, *[spec(KINDS[letter][0], dtype) for letter in self.kinds])


def same(name: str, kinds: str, smooth: bool = True, **settings: Any) -> Example:
    """numpy's function of the same name."""
    ours, theirs = getattr(la, name), getattr(np.linalg, name)
    return Example(name, kinds, lambda *xs: ours(*xs, **settings), lambda *xs: theirs(*xs, **settings), smooth)


def _eigh(x: Any) -> Any:
    values, vectors = la.eigh(x)
    return pnp.matmul(vectors * pnp.exp(values)[..., None, :], adjoint(vectors))


def _np_eigh(x: Array) -> Array:
    values, vectors = np.linalg.eigh(x)
    return (vectors * np.exp(values)[..., None, :]) @ adjoint(vectors)


def _qr(x: Any) -> Any:
    q, r = la.qr(x)
    return pnp.matmul(q, r)


def _complete(x: Any) -> Any:
    q, r = la.qr(x, mode="complete")
    return pnp.matmul(pnp.matmul(adjoint(q), q), r) * 0 + pnp.matmul(adjoint(q), x) - r


def _svd(x: Any) -> Any:
    u, s, vh = la.svd(x, full_matrices=False)
    return pnp.matmul(u * (s * s)[..., None, :], vh)


def _np_svd(x: Array) -> Array:
    u, s, vh = np.linalg.svd(x, full_matrices=False)
    return (u * (s * s)[..., None, :]) @ vh


def _full(x: Any) -> Any:
    u, _, vh = la.svd(x)
    return pnp.abs(pnp.matmul(u, adjoint(u))) + pnp.mean(pnp.abs(pnp.matmul(adjoint(vh), vh)))


EXAMPLES = (
    same("cholesky", "h"),
    same("cholesky", "h", upper=True),
    same("cross", "3c"),
    same("cross", "xx", axis=1),
    Example("cross", "cc", lambda x, y: la.cross(x, y, axis=1), np.cross),
    same("det", "g"),
    same("diagonal", "r"),
    same("diagonal", "r", offset=1),
    same("diagonal", "r", offset=-2),
    same("diagonal", "2", offset=9),
    Example("eigh", "h", _eigh, _np_eigh),
    Example("eigh", "h", lambda x: la.eigh(x).eigenvalues, lambda x: np.linalg.eigh(x).eigenvalues),
    same("eigvalsh", "h"),
    same("inv", "g"),
    same("matmul", "gr"),
    same("matrix_norm", "r"),
    *(same("matrix_norm", "r", ord=order, keepdims=keep) for order in ("fro", "nuc", 2, 1) for keep in (False, True)),
    *(same("matrix_norm", "2", ord=order) for order in (math.inf, -math.inf, -1, -2)),
    *(Example("matrix_power", "g", lambda x, n=n: la.matrix_power(x, n), lambda x, n=n: np.linalg.matrix_power(x, n))
      for n in (0, 1, 2, 3, 5, -1, -2)),
    same("matrix_rank", "r", smooth=False),
    same("matrix_rank", "r", smooth=False, rtol=0.5),
    same("matrix_transpose", "r"),
    same("outer", "vw"),
    same("pinv", "r"),
    same("pinv", "r", rtol=1e-3),
    Example("qr", "r", _qr, lambda x: x),
    Example("qr", "r", _complete, lambda x: x * 0, smooth=False),
    Example("slogdet", "g", lambda x: la.slogdet(x).logabsdet, lambda x: np.linalg.slogdet(x).logabsdet),
    Example("slogdet", "g", lambda x: la.slogdet(x).sign, lambda x: np.linalg.slogdet(x).sign, smooth=False),
    same("solve", "gr"),
    same("solve", "gv"),
    Example("solve", "g2", la.solve, lambda x, y: np.linalg.solve(x, np.broadcast_to(y, (len(x), *y.shape)))),
    Example("svd", "r", _svd, _np_svd),
    Example(
        "svd", "r", _full, lambda x: np.eye(x.shape[-2], dtype=x.real.dtype) + np.zeros_like(x.real[..., :1]) +
        x.real.dtype.type(1 / x.shape[-1]), smooth=False
    ),
    same("svdvals", "r"),
    same("tensordot", "rr", axes=((0, 2), (0, 2))),
    same("trace", "r"),
    same("trace", "g", offset=1, dtype="complex128"),
    same("vecdot", "rr"),
    same("vector_norm", "r"),
    *(same("vector_norm", "r", axis=axis, keepdims=True) for axis in (0, (0, -1))),
    *(same("vector_norm", "r", axis=-2, ord=order) for order in (1, 3, math.inf, -math.inf, 2.5)),
    same("vector_norm", "v", ord=0, smooth=False),
)  # fmt: skip


@pytest.mark.one_in(3)
@pytest.mark.parametrize("example", EXAMPLES, ids=str)
def test_eager_is_traced_is_numpy(example: Example) -> None:
    for dtype in DTYPES:
        program = example.program(dtype)
        verify(program)
        for sizes in (*SIZES, EMPTY):
            if sizes is EMPTY and _reduces_the_batch(example):
                continue
            arrays = example.arrays(sizes, dtype)
            expected = np.asarray(example.numpy(*arrays))
            for found in (
                interpret(program, *arrays)[0],
                run_torch(program, *map(to_torch, arrays))[0],
                example.call(*arrays),
                example.call(*map(to_torch, arrays)),
            ):
                assert_same(found, expected, LOOSE)


def _reduces_the_batch(example: Example) -> bool:
    """Means and smallest numbers of no matrices are not defined."""
    return example.call is _full or (example.name == "vector_norm" and example.kinds == "r")


@pytest.mark.one_in(3)
@pytest.mark.parametrize("example", [one for one in EXAMPLES if one.smooth], ids=str)
def test_derivatives(example: Example) -> None:
    hermitian = "h" in example.kinds
    for dtype in ("float64", "complex128"):
        program = example.program(dtype)
        tensors = [to_torch(array).requires_grad_() for array in example.arrays(SIZES[0], dtype)]

        def function(*xs: torch.Tensor) -> torch.Tensor:
            return run_torch(program, *[(x + x.mH) / 2 if hermitian else x for x in xs])[0]  # noqa: B023

        assert torch.autograd.gradcheck(function, tensors, atol=1e-5, rtol=1e-4)


def test_there_is_an_example_of_every_function_of_the_standard() -> None:
    names = (
        "cholesky cross det diagonal eigh eigvalsh inv matmul matrix_norm matrix_power matrix_rank matrix_transpose "
        "outer pinv qr slogdet solve svd svdvals tensordot trace vecdot vector_norm"
    )
    assert {example.name for example in EXAMPLES} == set(names.split())
    assert [name for name in dir(la) if not name.startswith("_")] == sorted(names.split())
    assert all(getattr(la, name).__doc__ for name in names.split())


def test_results_have_names() -> None:
    x = np.asarray([[2.0, 1.0], [1.0, 2.0]])
    for matrix in (x, to_torch(x)):
        assert la.eigh(matrix)._fields == ("eigenvalues", "eigenvectors")
        assert la.qr(matrix)._fields == ("Q", "R")
        assert la.slogdet(matrix)._fields == ("sign", "logabsdet")
        assert la.svd(matrix)._fields == ("U", "S", "Vh")
        np.testing.assert_allclose(la.slogdet(matrix).logabsdet, np.log(3.0))
    fields: list[Any] = []
    trace(lambda a: fields.append(la.svd(a)._fields) or la.svd(a).S, spec((2, 2)))
    assert fields == [("U", "S", "Vh")]


def test_matrices_of_no_rows() -> None:
    x = np.zeros((2, 0, 0))
    for one in (x, to_torch(x)):
        assert la.inv(one).shape == (2, 0, 0)
        assert np.asarray(la.det(one)).tolist() == [1.0, 1.0]
        assert np.asarray(la.matrix_rank(one)).tolist() == [0, 0]
        assert np.asarray(la.matrix_norm(one)).tolist() == [0.0, 0.0]
        assert [part.shape for part in la.svd(one[:, :, :], full_matrices=False)] == [(2, 0, 0), (2, 0), (2, 0, 0)]
        assert la.pinv(one).shape == (2, 0, 0)
        assert la.solve(one, one).shape == (2, 0, 0)
        assert np.asarray(la.trace(one)).tolist() == [0.0, 0.0]
    wide: tuple[Any, ...] = (np.zeros((0, 3)), torch.zeros(0, 3, dtype=torch.float64))
    for one in wide:
        assert [part.shape for part in la.svd(one)] == [(0, 0), (0,), (3, 3)]
        assert [part.shape for part in la.qr(one)] == [(0, 0), (0, 3)]
        assert np.asarray(la.vector_norm(one, axis=0, ord=math.inf)).tolist() == [0.0, 0.0, 0.0]


GOOD = np.asarray([[2.0, 1.0], [1.0, 3.0]])
BAD = {
    "inv": np.asarray([[1.0, 2.0], [2.0, 4.0]]),
    "solve": np.zeros((2, 2)),
    "cholesky": np.asarray([[1.0, 2.0], [2.0, 1.0]]),
    "eigvalsh": np.asarray([[1.0, np.nan], [np.nan, 1.0]]),
    "svdvals": np.asarray([[1.0, np.inf], [0.0, 1.0]]),
    "pinv": np.asarray([[np.nan, 0.0], [0.0, 1.0]]),
}


@pytest.mark.parametrize("name", BAD)
def test_a_matrix_without_a_result_gives_nan_alone_in_its_batch(name: str) -> None:
    def call(x: Any) -> Any:
        return la.solve(x, x * 0 + 1.0) if name == "solve" else getattr(la, name)(x)

    x = np.stack([GOOD, BAD[name], GOOD])
    expected = np.asarray(call(GOOD))
    for found in (call(x), call(to_torch(x)).numpy()):
        np.testing.assert_allclose(found[0], expected, rtol=1e-14)
        assert np.isnan(found[1]).all()
        np.testing.assert_array_equal(found[0], found[2])
    assert np.isnan(np.asarray(call(BAD[name]))).all()


@pytest.mark.parametrize("name", ["inv", "cholesky", "eigvalsh"])
def test_the_gradient_of_the_others_is_not_touched(name: str) -> None:
    x = torch.tensor(np.stack([BAD[name], GOOD]), requires_grad=True)
    alone = torch.tensor(GOOD, requires_grad=True)
    getattr(la, name)(x)[1].sum().backward()
    getattr(la, name)(alone).sum().backward()
    assert x.grad is not None
    torch.testing.assert_close(x.grad[1], alone.grad, rtol=1e-13, atol=1e-15)


def test_singular_values_and_determinants_of_singular_matrices() -> None:
    x = BAD["inv"]
    for one in (x, to_torch(x)):
        assert la.slogdet(one).sign == 0
        assert la.slogdet(one).logabsdet == -np.inf
        assert la.det(one) == 0
        assert la.matrix_rank(one) == 1
        assert la.matrix_rank(one * np.nan) == 0
        np.testing.assert_allclose(la.pinv(one), np.linalg.pinv(x), rtol=1e-12)


def test_tolerances_may_be_arrays() -> None:
    x = np.diag([1.0, 0.5, 0.01])
    tolerances = np.asarray([0.0, 0.1, 0.7])
    for one, rtol in ((x, tolerances), (to_torch(x), to_torch(tolerances))):
        assert np.asarray(la.matrix_rank(one, rtol=rtol)).tolist() == [3, 2, 1]
        found = np.asarray(la.pinv(one, rtol=rtol))
        np.testing.assert_allclose(found, [np.linalg.pinv(x, rtol=each) for each in tolerances], atol=1e-13)


def test_a_batch_of_matrices_is_no_batch_of_vectors() -> None:
    a = np.stack([GOOD, 2 * GOOD])  # torch's own solve would take the second for two vectors
    for one in (la.solve(a, GOOD), la.solve(to_torch(a), to_torch(GOOD))):
        np.testing.assert_allclose(one, [np.eye(2), np.eye(2) / 2], atol=1e-15)


def test_squareness_that_is_not_known_is_checked_when_the_program_runs() -> None:
    program = trace(la.cholesky, spec(("n", "m"), "float64"))
    np.testing.assert_allclose(interpret(program, GOOD)[0], np.linalg.cholesky(GOOD))
    assert_same(run_torch(program, to_torch(GOOD))[0], np.linalg.cholesky(GOOD))
    for run in (lambda: interpret(program, GOOD[:1]), lambda: run_torch(program, to_torch(GOOD[:1]))):
        with pytest.raises(InputError, match=r"shape \(1, 2\), but \(1, 1\) is needed"):
            run()


F = torch.eye(3)
REFUSED = (
    (lambda: la.inv(F[:2]), ShapeError, "expected square matrices (..., M, M), found f32[2,3]: 2 rows, 3 columns"),
    (lambda: la.inv(F[0]), ShapeError, "expected matrices (..., M, N), found f32[3]"),
    (lambda: la.inv(F.to(torch.int64)), DTypeError, "found int64, expected one of float32"),
    (lambda: la.eigh(F.to(torch.float16)), DTypeError, "found float16, expected one of float32"),
    (lambda: la.solve(F, F[:2]), ShapeError, "solve takes (..., M, M) and (..., M, K), found f32[3,3] and f32[2,3]"),
    (lambda: la.qr(F, mode="full"), ShapeError, "'reduced' or 'complete', found 'full'"),
    (lambda: la.pinv(F, rtol="small"), TraceError, "pinv needs an array, found str"),
    (lambda: la.matrix_power(F, 0.5), TraceError, "an integer that is known now, found 0.5"),
    (lambda: la.matrix_power(F[:2], 0), ShapeError, "3 against 2"),
    (lambda: la.vector_norm(F.to(torch.int64)), DTypeError, "found int64, expected float or complex"),
    (lambda: la.vector_norm(F, axis=2), ShapeError, "axis 2 does not exist"),
    (lambda: la.vector_norm(F[:0], axis=0, ord=-1), ShapeError, "the norm of order -1.0 of no numbers"),
    (lambda: la.matrix_norm(F, ord="max"), ShapeError, "has the orders fro, nuc, 1, 2, inf, -1, -2, -inf, found 'max'"),
    (lambda: la.matrix_norm(F, ord=3), ShapeError, "found 3"),
    (lambda: la.matrix_norm(F[0]), ShapeError, "takes matrices (..., M, N) of floats, found f32[3]"),
    (lambda: la.outer(F, F), ShapeError, "outer takes two vectors, found f32[3,3] and f32[3,3]"),
    (lambda: la.cross(F[:, :2], F[:, :2]), ShapeError, "vectors of 3 numbers, found 2 along axis -1"),
    (lambda: la.cross(F, F[0], axis=0), ShapeError, "count axes from the end"),
    (lambda: la.diagonal(F[0]), ShapeError, "diagonal takes matrices (..., M, N), found f32[3]"),
)


@pytest.mark.parametrize("row", REFUSED, ids=lambda row: row[2])
def test_misfits_are_refused(row) -> None:
    call, error, message = row
    with pytest.raises(error, match=re.escape(message)):
        call()
