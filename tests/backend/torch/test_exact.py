"""Results lost to underflow, recomputed term by term: values, gradients, and when nothing is done."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from plica.backend.torch import exact, kernels
from plica.backend.torch.leaves import Leaves
from tests.harness.devices import forbid_branches

WIDE = np.longdouble
F, B, I, O = 2, 3, 4, 2  # noqa: E741
# how far the largest entries of rows lie above those that have weights, in either dtype: the sum underflows
FAR = {torch.float32: 300.0, torch.float64: 2000.0}
FLOATS = pytest.mark.parametrize("dtype", list(FAR), ids=str)


def inputs(dtype: torch.dtype, arity: int, lost: bool = True) -> tuple[list[Tensor], Tensor]:
    """Vectors whose first unit is far above the others, and weights of which the first sum lacks that unit."""
    generator = torch.Generator().manual_seed(0)
    vectors = [torch.randn(F, B, I, generator=generator, dtype=dtype) - 50 for _ in range(arity)]
    for vector in vectors:
        vector[:, 0, 0] += FAR[dtype] if lost else 0.0  # row 0 alone
    return vectors, torch.rand(F, O, I, generator=generator, dtype=dtype)


def dense(vectors: list[Tensor], weight: Tensor) -> tuple[list[Tensor], Tensor]:
    """A sum over several inputs; the first of its units reads no far entry."""
    columns = torch.cat([weight] * len(vectors), -1).clone()
    columns[:, 0, ::I] = 0
    return vectors, columns


def tucker(vectors: list[Tensor], weight: Tensor) -> tuple[list[Tensor], Tensor]:
    core = weight
    for _ in vectors[1:]:
        core = core.unsqueeze(-1) * weight[:, :1].reshape(F, *[1] * (core.ndim - 1), I)
    core = core.clone()
    core[:, 0, 0] = 0
    if len(vectors) == 2:
        core[:, 0, :, 0] = 0
    return vectors, core


def log_dense(vectors: list[Any], weight: Any) -> Any:
    with np.errstate(divide="ignore"):
        return np.logaddexp.reduce(np.concatenate(vectors, -1)[:, :, None] + np.log(weight)[:, None], axis=-1)


def log_tucker(vectors: list[Any], weight: Any) -> Any:
    terms = vectors[0]
    for vector in vectors[1:]:
        terms = (terms[..., :, None] + vector[..., None, :]).reshape(F, B, -1)
    with np.errstate(divide="ignore"):
        return np.logaddexp.reduce(terms[:, :, None] + np.log(weight.reshape(F, 1, O, -1)), axis=-1)


# name: (the kernel, the number of vectors, what makes the weight, the formula)
SUMS: dict[str, tuple[Callable[..., Tensor], int, Any, Any]] = {
    "sum": (kernels.log_matmul_exp, 1, dense, log_dense),
    "sum of 2": (kernels.log_matmul_exp, 2, dense, log_dense),
    "tucker": (lambda *a, **how: kernels.log_einsum_exp("fbi,fbj,foij->fbo", *a, **how), 2, tucker, log_tucker),
    "tucker of 3": (
        lambda *a, **how: kernels.log_einsum_exp("fbi,fbj,fbk,foijk->fbo", *a, **how),
        3,
        tucker,
        log_tucker,
    ),
    "einsum of 1": (lambda *a, **how: kernels.log_einsum_exp("fbi,foi->fbo", *a, **how), 1, dense, log_dense),
}
ALL = pytest.mark.parametrize("name", SUMS)
pytestmark = [
    pytest.mark.usefixtures("may_branch"),
    pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning"),  # of numpy, where there is a NaN
    pytest.mark.filterwarnings("ignore:.*(batching rule|lru_cache):UserWarning"),
]


def case(name: str, dtype: torch.dtype, lost: bool = True) -> tuple[Callable[..., Tensor], list[Tensor], Any]:
    """The kernel, its arguments with gradients, and the formula on arrays."""
    kernel, count, weighted, formula = SUMS[name]
    vectors, weight = weighted(*inputs(dtype, count, lost))
    arguments = [tensor.requires_grad_() for tensor in (*(vector.clone() for vector in vectors), weight)]
    return kernel, arguments, lambda *arrays: formula(list(arrays[:-1]), arrays[-1])


def wide(arguments: list[Tensor]) -> list[Any]:
    return [tensor.detach().numpy().astype(WIDE) for tensor in arguments]


@ALL
@FLOATS
def test_lost_results_are_recomputed(name: str, dtype: torch.dtype) -> None:
    kernel, arguments, formula = case(name, dtype)
    expected = formula(*wide(arguments)).astype(float)
    found = kernel(*arguments).detach().numpy()
    np.testing.assert_allclose(found, expected, rtol=20 * torch.finfo(dtype).eps)
    assert np.isfinite(found).all()


@ALL
@pytest.mark.parametrize("zeros", [False, True])
def test_gradients_are_finite_differences(name: str, zeros: bool) -> None:
    """Also where a whole row is `-inf`, whose gradient is 0."""
    kernel, arguments, formula = case(name, torch.float64)
    if zeros:
        with torch.no_grad():
            arguments[0][0, 1] = -torch.inf
            if "sum of 2" in name:
                arguments[1][0, 1] = -torch.inf
    result = kernel(*arguments)
    weights = torch.linspace(0.5, 1.5, result.numel(), dtype=result.dtype).reshape(result.shape)
    (result.masked_fill(result.isneginf(), 0) * weights).sum().backward()
    arrays = wide(arguments)
    usable = weights.numpy() * np.isfinite(formula(*arrays).astype(float))

    def objective() -> Any:
        return (np.where(usable > 0, formula(*arrays), 0) * usable).sum()

    for array, tensor in zip(arrays, arguments, strict=True):
        assert tensor.grad is not None
        assert tensor.grad.isfinite().all()
        for place in list(np.ndindex(array.shape))[:: max(1, array.size // 24)]:
            if not np.isfinite(array[place]) or array[place] == 0:  # at a weight of 0 the gradient is one-sided
                continue
            before, step = array[place], WIDE(1e-6)
            sides = []
            for sign in (1, -1):
                array[place] = before + sign * step
                sides.append(objective())
            array[place] = before
            expected = float((sides[0] - sides[1]) / (2 * step))
            assert float(tensor.grad[place]) == pytest.approx(expected, rel=1e-6, abs=1e-6)


@ALL
def test_nothing_is_done_where_nothing_is_lost(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact, "_in_log_space", lambda *_: pytest.fail("not needed"))
    kernel, arguments, formula = case(name, torch.float64, lost=False)
    found = kernel(*arguments)
    np.testing.assert_allclose(found.detach().numpy(), formula(*wide(arguments)).astype(float), rtol=1e-13)


@ALL
@pytest.mark.parametrize("lost", [False, True])
def test_sums_without_a_term_are_not_computed_again(name: str, lost: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first sum reads no first unit, and row 1 has nothing else; only what is lost beside it is computed again."""
    recomputed, exactly = [], exact._in_log_space

    def counted(factors: list[Tensor], logs: Tensor) -> Tensor:
        recomputed.append(len(logs))
        return exactly(factors, logs)

    monkeypatch.setattr(exact, "_in_log_space", counted)
    kernel, arguments, formula = case(name, torch.float64, lost=lost)
    with torch.no_grad():
        for vector in arguments[:-1]:
            vector[:, 1, 1:] = -torch.inf
    found = kernel(*arguments)
    expected = formula(*wide(arguments)).astype(float)
    assert (expected[:, 1, 0] == -np.inf).all()
    np.testing.assert_allclose(found.detach().numpy(), expected, rtol=1e-13)
    assert sum(recomputed) <= (F if lost else 0)
    found[:, 1, 0].sum().backward()
    assert all(tensor.grad is not None and not tensor.grad.any() for tensor in arguments)


@ALL
@pytest.mark.parametrize("at_once", [1, 20, 100])
def test_parts_give_the_same(name: str, at_once: int, may_branch: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel, arguments, _ = case(name, torch.float64)
    whole = kernel(*arguments)
    whole.sum().backward()
    gradients = [tensor.grad for tensor in arguments]
    calls = []
    of_some = "_in_log_space" if may_branch else "_of_all"
    original = getattr(exact, of_some)
    monkeypatch.setattr(exact, "_TERMS_AT_ONCE", at_once)
    monkeypatch.setattr(exact, of_some, lambda *args: (calls.append(1), original(*args))[1])
    for tensor in arguments:
        tensor.grad = None
    parts = kernel(*arguments)
    parts.sum().backward()
    torch.testing.assert_close(parts, whole, rtol=0, atol=0)
    torch.testing.assert_close([tensor.grad for tensor in arguments], gradients, rtol=1e-14, atol=0)
    # row 0 of each fold is lost; without branches, all rows are made, and again by the backward pass
    assert len(calls) == ((F if may_branch else 2 * B) if at_once == 1 else len(calls)) >= 1


@ALL
def test_nan_stays_where_it_is(name: str) -> None:
    kernel, arguments, formula = case(name, torch.float64)
    with torch.no_grad():
        arguments[0][1, 2, 1] = torch.nan
    found = kernel(*arguments).detach()
    assert found[1, 2].isnan().all()
    expected = formula(*wide(arguments)).astype(float)
    rest = torch.ones(F, B, dtype=torch.bool)
    rest[1, 2] = False
    np.testing.assert_allclose(found[rest], expected[rest.numpy()], rtol=1e-13)


def test_a_weight_without_folds_of_its_own_is_shared() -> None:
    """Leading axes broadcast, as in a matrix product."""
    vectors, weight = dense(*inputs(torch.float64, 1))
    expected = log_dense(wide(vectors), np.stack([weight[0].numpy().astype(WIDE)] * F))
    for shared in (weight[0], weight[:1]):
        found = kernels.log_matmul_exp(*vectors, shared)
        np.testing.assert_allclose(found, expected.astype(float), rtol=1e-13)


def test_no_rows() -> None:
    vectors, weight = dense(*inputs(torch.float64, 1))
    assert kernels.log_matmul_exp(vectors[0][:, :0], weight).shape == (F, 0, O)


@pytest.mark.parametrize(
    ("name", "may_branch"),
    [
        pytest.param(name, branches, marks=pytest.mark.full if (place + branches) % 2 else [])  # none may in transforms
        for place, name in enumerate(SUMS)
        for branches in (True, False)
    ],
)
def test_transforms_and_compilation_lose_nothing(name: str, may_branch: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not may_branch:
        forbid_branches(monkeypatch)
    kernel, arguments, formula = case(name, torch.float32)
    expected = formula(*wide(arguments)).astype(float)
    plain = [tensor.detach() for tensor in arguments]
    torch._dynamo.reset()
    compiled = torch.compile(kernel, fullgraph=True, backend="eager")
    stacked = torch.vmap(kernel)(*[tensor.unsqueeze(0) for tensor in plain])[0]
    for found in (compiled(*plain), stacked):
        np.testing.assert_allclose(found, expected, rtol=20 * torch.finfo(torch.float32).eps)


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.full if name == "tucker of 3" else []) for name in SUMS]
)
def test_second_derivatives_at_lost_results(name: str) -> None:
    """Of sums of weights that are exponentials, by `gradgradcheck`: where a weight is 0 there is none."""
    kernel, arguments, _ = case(name, torch.float64)
    *vectors, weight = arguments
    vectors = [vector.detach()[:, :2].requires_grad_() for vector in vectors]  # a row that is lost, and one that is not
    logs = weight.detach().flatten(2).log().clamp(min=-500.0).requires_grad_()

    def of_logs(logs: Tensor, *vectors: Tensor) -> Tensor:
        return kernel(*vectors, logs.exp().reshape(weight.shape), logs, logs="log")

    assert torch.autograd.gradcheck(of_logs, (logs, *vectors))
    assert torch.autograd.gradgradcheck(of_logs, (logs, *vectors))


def test_a_weight_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nobody may branch: at its second call, and again once it has another version."""
    forbid_branches(monkeypatch)
    (x,), weight = dense(*inputs(torch.float64, 1, lost=False))
    holder, calls = Leaves(), []
    holder.register_buffer("weight", weight.abs() + 0.1)
    weight = holder.get_buffer("weight")
    sums = exact.of_all_rows
    monkeypatch.setattr(exact, "of_all_rows", lambda *args: (calls.append(1), sums(*args))[1])
    expected = kernels.log_matmul_exp(x, weight)
    for _ in range(3):
        torch.testing.assert_close(kernels.log_matmul_exp(x, weight), expected, rtol=1e-14, atol=0)
    assert len(calls) == 1
    weight.data[0, 0] = weight.data[0, 0].clone()
    weight[0] = 1e-320
    x = torch.where(torch.arange(x.shape[2]) == 0, 0.0, -800.0).expand(x.shape).double()
    for _ in range(3):
        assert kernels.log_matmul_exp(x, weight)[0].isfinite().all()
    assert len(calls) == 4


def test_parts_of_one_tensor_are_compiled_whole() -> None:
    """As the units of a fold are: a compiled branch takes no two views of one tensor."""

    def total(x: Tensor, logits: Tensor) -> Tensor:
        core = torch.softmax(logits, -1).reshape(1, 2, 3, 3)
        return kernels.log_tucker(x[0], x[1], core, logits, logs="log_softmax")

    generator = torch.Generator().manual_seed(0)
    x = torch.randn(2, 1, 4, 3, generator=generator)
    logits = torch.randn(1, 2, 9, generator=generator, requires_grad=True)
    compiled = torch.compile(total, fullgraph=True, backend="eager")
    for given in (x, x - 200 * torch.arange(3)):
        torch.testing.assert_close(compiled(given, logits), total(given, logits))
