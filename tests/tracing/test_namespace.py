"""Every public name of `plica.numpy`: eager on numpy and on torch, traced and interpreted, and numpy's own function."""
# ruff: noqa: ARG005 - the tables hold functions of a given number of arguments

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import array_api_compat.numpy
import numpy as np
import pytest
import torch

import plica.numpy as pnp
from plica.api import interpret, trace, verify
from plica.errors import DTypeError, TraceError
from plica.ir.dtypes import DType, as_dtype
from plica.ir.types import spec
from tests.harness.programs import Array, assert_same, run_torch, to_torch

SIZES = ((2, 3), (4, 1))


def _floats(n: int, m: int) -> Array:
    return np.sin(np.arange(1.0, n * m + 1)).reshape(n, m).astype("float32")


def _units(n: int, m: int) -> Array:
    return _floats(n, m) * 0.9


def _positive(n: int, m: int) -> Array:
    return np.abs(_floats(n, m)) + np.float32(1.0)


def _integers(n: int, m: int) -> Array:
    return (np.arange(n * m).reshape(n, m) % 5 + 1).astype("int32")


def _truths(n: int, m: int) -> Array:
    return _floats(n, m) > 0


KINDS: Mapping[str, tuple[Callable[[int, int], Array], tuple[str | int, ...]]] = {
    "f": (_floats, ("n", "m")),
    "u": (_units, ("n", "m")),
    "p": (_positive, ("n", "m")),
    "d": (lambda n, m: _floats(n, m).astype("float64"), ("n", "m")),
    "i": (_integers, ("n", "m")),
    "b": (_truths, ("n", "m")),
    "t": (lambda n, m: _floats(m, n), ("m", "n")),
    "v": (lambda n, m: _floats(1, m)[0], ("m",)),
    "1": (lambda n, m: _floats(n, 1), ("n", 1)),
    "0": (lambda n, m: np.asarray([0, 0, n * 0], "int64"), (3,)),
    "g": (lambda n, m: np.zeros((n, 2), "int64"), ("n", 2)),
    "w": (lambda n, m: np.stack([_positive(n, m)]), (1, "n", "m")),
    "c": (lambda n, m: np.cumsum(np.stack([_positive(n, m)]), axis=-1), (1, "n", "m")),
    "r": (lambda n, m: np.stack([np.arange(6) % n]), (1, 6)),
    "s": (lambda n, m: np.stack([np.linspace(0, 0.9, 6, dtype="float32")]), (1, 6)),
    "k": (lambda n, m: np.zeros((1, 4), "int64"), (1, 4)),
}


@dataclass(frozen=True)
class Example:
    """A call of one public function: `arguments` names kinds of arrays, one letter each."""

    name: str
    arguments: str
    call: Callable[..., Any] | None = None
    numpy: Callable[..., Any] | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    eager: bool = True

    def __str__(self) -> str:
        return f"{self.name}-{self.arguments}-{','.join(self.settings)}"

    def apply(self, *arrays: Any) -> Any:
        function = getattr(pnp, self.name)
        return self.call(*arrays) if self.call else function(*arrays, **self.settings)

    def arrays(self, n: int, m: int) -> list[Array]:
        return [KINDS[letter][0](n, m) for letter in self.arguments]

    @property
    def specs(self) -> list[Any]:
        return [spec(KINDS[letter][1], KINDS[letter][0](1, 1).dtype) for letter in self.arguments]


def _examples(names: str, arguments: str, **settings: Any) -> list[Example]:
    return [Example(name, arguments, settings=settings) for name in names.split()]


FLOATING = (
    "asinh atan ceil cos cosh erf exp expm1 floor isfinite isinf isnan "
    "round sigmoid signbit sin sinh softplus tan tanh trunc"
)
EXAMPLES = [
    *_examples(FLOATING, "f"),
    *_examples("acos asin atanh erfinv log1p", "u"),
    *_examples("acosh log log10 log2 reciprocal safe_log sqrt", "p"),
    *_examples("abs negative sign square", "f"),
    *_examples("abs negative sign square bitwise_invert", "i"),
    *_examples("logical_not bitwise_invert all any", "b"),
    *_examples("add atan2 copysign divide hypot maximum minimum multiply subtract logaddexp equal not_equal", "fp"),
    *_examples("greater greater_equal less less_equal", "fp"),
    *_examples("add multiply subtract maximum", "fv"),
    *_examples("floor_divide remainder pow", "pp"),
    *_examples("floor_divide remainder bitwise_and bitwise_or bitwise_xor equal", "ii"),
    *_examples("logical_and logical_or logical_xor bitwise_and equal", "bb"),
    *_examples("add multiply", "fd"),
    Example("add", "if", numpy=lambda i, f: np.add(i.astype("float32"), f)),
    Example("add", "f", lambda x: pnp.add(x, 2), lambda x: x + 2),
    Example("maximum", "f", lambda x: pnp.maximum(0.0, x), lambda x: np.maximum(x, 0)),
    Example("logaddexp", "fff", lambda x, y, z: pnp.logaddexp(x, y, z), lambda x, y, z: x + np.float32(np.log(3))),
    *_examples("sum prod max min mean logsumexp", "f", axis=0),
    *_examples("sum prod max min mean", "f"),
    *_examples("sum prod", "i"),
    *_examples("sum prod max min mean std logsumexp", "f", axis=(0, 1), keepdims=True),
    *_examples("all any", "b", axis=1),
    Example("sum", "f", settings={"dtype": "float64"}),
    *_examples("argmax argmin", "f", axis=1),
    *_examples("argmax argmin", "f"),
    *_examples("argmax argmin", "f", keepdims=True),
    *_examples("var std", "f"),
    *_examples("var std", "f", axis=0),
    Example(
        "var",
        "0",
        lambda x: pnp.var(pnp.cumulative_sum(pnp.astype(x, "float64") + 1), correction=1),
        lambda x: np.float64(1),
    ),
    Example("stop_gradient", "f", numpy=lambda x: x),
    Example("rescale", "p", lambda x: pnp.rescale(x)[0], lambda x: x / 2),
    *_examples("softmax log_softmax", "f"),
    *_examples("softmax log_softmax", "f", axis=0),
    Example("cumulative_sum", "v"),
    Example("cumulative_sum", "f", settings={"axis": 1}),
    Example("clip", "f", lambda x: pnp.clip(x, min=-0.5, max=0.5), lambda x: np.clip(x, -0.5, 0.5)),
    Example("clip", "f", lambda x: pnp.clip(x, max=0.5), lambda x: np.clip(x, None, 0.5)),
    Example("clip", "fp", lambda x, y: pnp.clip(x, None, y - 1), lambda x, y: np.minimum(x, y - 1)),
    Example("where", "bfp"),
    Example("where", "bf", lambda b, x: pnp.where(b, x, 0), lambda b, x: np.where(b, x, np.float32(0))),
    Example("where", "b", lambda b: pnp.where(b, 1.0, 0.0), lambda b: b.astype("float64")),
    Example("astype", "f", lambda x: pnp.astype(x, pnp.int32), lambda x: x.astype("int32")),
    Example("astype", "f", lambda x: pnp.astype(x, pnp.float64), lambda x: x.astype("float64")),
    Example("conj", "f"),
    Example("reshape", "f", lambda x: pnp.reshape(x, (-1,)), lambda x: x.reshape(-1)),
    Example("reshape", "f", lambda x: pnp.reshape(x, (1, -1, x.shape[0])), lambda x: x.reshape(1, -1, x.shape[0])),
    Example("permute_dims", "f", settings={"axes": (1, 0)}),
    Example("matrix_transpose", "w"),
    Example("moveaxis", "w", lambda x: pnp.moveaxis(x, 0, -1), lambda x: np.moveaxis(x, 0, -1)),
    Example(
        "broadcast_to", "v", lambda x: pnp.broadcast_to(x, (2, x.shape[0])), lambda x: np.broadcast_to(x, (2, len(x)))
    ),
    Example("expand_dims", "f", settings={"axis": 1}),
    Example("expand_dims", "f", lambda x: pnp.expand_dims(x), lambda x: x[None]),
    Example("squeeze", "1", settings={"axis": 1}),
    Example("squeeze", "w", settings={"axis": (0,)}),
    Example("concat", "f1", lambda x, y: pnp.concat([x, y], axis=1), lambda x, y: np.concatenate([x, y], axis=1)),
    Example("concat", "fd", lambda x, y: pnp.concat((x, y), axis=None), lambda x, y: np.concatenate([x, y], axis=None)),
    Example("stack", "fp", lambda x, y: pnp.stack([x, y], axis=-1), lambda x, y: np.stack([x, y], axis=-1)),
    Example("flip", "f"),
    Example("flip", "f", settings={"axis": -1}),
    Example(
        "full",
        "f",
        lambda x: pnp.full((2, x.shape[0]), 3) * pnp.max(pnp.astype(x > -2, "int64")),
        lambda x: np.full((2, len(x)), 3),
        eager=False,
    ),
    Example(
        "zeros",
        "f",
        lambda x: pnp.zeros(x.shape[1], dtype="int32") * pnp.astype(x, "int32"),
        lambda x: np.zeros_like(x, "int32"),
        eager=False,
    ),
    Example("ones", "f", lambda x: pnp.ones(x.shape) * x, lambda x: x.astype("float64"), eager=False),
    Example("full_like", "f", lambda x: pnp.full_like(x, 2), lambda x: np.full_like(x, 2)),
    Example("zeros_like", "i"),
    Example("zeros_like", "i", settings={"dtype": "float32"}),
    Example("ones_like", "f"),
    Example(
        "arange",
        "v",
        lambda x: pnp.arange(x.shape[0]) + pnp.astype(x, "int64") * 0,
        lambda x: np.arange(len(x)),
        eager=False,
    ),
    Example(
        "arange",
        "f",
        lambda x: pnp.arange(7, 1, -2) * pnp.max(pnp.astype(x > -2, "int64")),
        lambda x: np.arange(7, 1, -2),
        eager=False,
    ),
    Example("take", "10", settings={"axis": 1}),
    Example("take", "f0", lambda x, i: pnp.take(x, i), lambda x, i: x[[0, 0, 0]]),
    Example("take_along_axis", "fg", settings={"axis": 1}),
    Example("lookup", "wk", numpy=lambda t, i: t[0][:, i[0]].T[None]),
    Example("search_cumulative", "crs"),
    Example("matmul", "ft"),
    Example("matmul", "fv"),
    Example("einsum", "ft", lambda x, y: pnp.einsum("ab,bc->ca", x, y), lambda x, y: np.einsum("ab,bc->ca", x, y)),
    Example("einsum", "ff", lambda x, y: pnp.einsum("ab,cb", x, y), lambda x, y: np.einsum("ab,cb", x, y)),
    Example("log_matmul_exp", "fp", numpy=lambda x, w: np.log(np.exp(x) @ w.T)),
    Example(
        "log_matmul_exp",
        "fp",
        lambda x, w: pnp.log_matmul_exp([x, x], pnp.concat([w, w], axis=1)),
        lambda x, w: np.log(2 * np.exp(x) @ w.T),
    ),
    Example(
        "log_einsum_exp",
        "fp",
        lambda x, w: pnp.log_einsum_exp("ab,cb->ac", [x], w),
        lambda x, w: np.log(np.exp(x) @ w.T),
    ),
]
CONSTANTS = {"e": np.e, "pi": np.pi, "inf": np.inf, "nan": np.nan, "newaxis": None}


def _numpy_of(example: Example) -> Callable[..., Any] | None:
    if example.numpy is not None:
        return example.numpy
    if example.call is not None:
        return None
    function = getattr(array_api_compat.numpy, example.name, None)
    return function and (lambda *arrays: function(*arrays, **example.settings))


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("example", EXAMPLES, ids=str)
def test_eager_is_traced_is_numpy(example: Example, size: tuple[int, int]) -> None:
    program = trace(example.apply, *example.specs)
    verify(program)
    arrays = example.arrays(*size)
    (expected,) = interpret(program, *arrays)
    assert_same(run_torch(program, *map(to_torch, arrays))[0], expected, 5.0)
    if example.eager:  # an array made of sizes alone does not know which library it belongs to
        assert_same(np.asarray(example.apply(*arrays)), expected)
        assert_same(example.apply(*map(to_torch, arrays)), expected, 5.0)
    reference = _numpy_of(example)
    if reference is not None:
        with np.errstate(all="ignore"):
            assert_same(expected, np.asarray(reference(*arrays)), 5.0)


def test_every_public_name_has_an_example() -> None:
    dtypes = {dtype.value for dtype in DType}
    assert set(dir(pnp)) == {example.name for example in EXAMPLES} | set(CONSTANTS) | dtypes


def test_constants_and_dtypes() -> None:
    for name, value in CONSTANTS.items():
        np.testing.assert_equal(getattr(pnp, name), value)
    for dtype in DType:
        assert getattr(pnp, dtype.value) is dtype
    with pytest.raises(AttributeError, match=r"plica\.numpy has no 'frobnicate'"):
        _ = pnp.frobnicate


def test_looking_names_up_hides_nothing_of_python() -> None:
    """`any`, `bool`, `sum`, ... are functions and dtypes of the namespace and builtins that it uses itself."""
    for name in dir(pnp):
        getattr(pnp, name)
    x = np.asarray([True, False])
    assert bool(pnp.any(x)) is True
    assert trace(lambda a: pnp.add(a, 1), spec(2, "int64")).results[0].type.dtype == "int64"


def test_functions_have_names_and_documentation() -> None:
    for name in dir(pnp):
        value = getattr(pnp, name)
        if inspect.isfunction(value):
            assert value.__name__ == name
            assert value.__doc__


def test_scalars_may_come_from_python_alone() -> None:
    program = trace(lambda x: x + pnp.exp(1.0) + pnp.add(1, 2.5), spec((), "float64"))
    np.testing.assert_allclose(interpret(program, np.asarray(0.0))[0], np.e + 3.5)


def test_arrays_by_keyword_are_found() -> None:
    x, w = _floats(2, 3), _positive(2, 3)
    assert_same(pnp.log_matmul_exp(x, weight=w), pnp.log_matmul_exp(x, w))
    assert_same(pnp.lookup(table=w[None], index=np.asarray([[1]])), pnp.lookup(w[None], np.asarray([[1]])))


def test_equal_calls_with_other_settings_are_other_programs() -> None:
    x = _floats(2, 3)
    assert [pnp.sum(x, axis=axis).shape for axis in (0, 1, None)] == [(3,), (2,), ()]
    assert pnp.add(x, 1).dtype == np.float32
    assert pnp.add(x > 0, 1).dtype == np.int64
    assert pnp.add(x > 0, 1.0).dtype == np.float64


def test_eager_creation_makes_tensors() -> None:
    for found, expected in (
        (pnp.zeros((2, 3)), torch.zeros(2, 3, dtype=torch.float64)),
        (pnp.arange(3), torch.arange(3)),
        (pnp.full((), 2, dtype=pnp.float32), torch.tensor(2.0)),
    ):
        assert torch.equal(found, expected)
        assert found.dtype == expected.dtype


def test_eager_torch_has_gradients() -> None:
    x = torch.tensor([[-torch.inf, 0.0]], requires_grad=True)
    pnp.logsumexp(x, axis=1).sum().backward()
    assert x.grad.tolist() == [[0.0, 1.0]]


def test_numpy_and_torch_do_not_mix() -> None:
    with pytest.raises(TypeError, match=r"[Mm]ultiple namespaces"):
        pnp.add(np.ones(2), torch.ones(2))


def test_types_without_a_name_here_are_refused() -> None:
    with pytest.raises(DTypeError, match="bfloat16"):
        pnp.exp(torch.ones(2, dtype=torch.bfloat16))
    with pytest.raises(TraceError, match="needs an array, found float"):
        pnp.sum(2.5)
    assert as_dtype(pnp.float32) is DType.FLOAT32
