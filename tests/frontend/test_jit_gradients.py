"""jit under torch's automatic differentiation: gradients through loops and branches are those of plain torch."""
# ruff: noqa: ARG005 - bodies are given what they need not use

import pytest
import torch

import plica
import plica.numpy as pnp

AXES = {0: "n"}


def _looped(x):
    return plica.for_loop(0, 4, 1, lambda i, a, b: (a * x + i, pnp.sin(b) + a), x, x * 2)


def _nested(x):
    def inner(i, a):
        return plica.for_loop(0, i, 1, lambda j, b: pnp.tanh(b * x) + a * j, a)

    return plica.for_loop(0, 4, 1, inner, x)


def _until(x):
    return plica.while_loop(lambda a: pnp.sum(a * a) < 50.0, lambda a: a * 1.5 + x * x, x)


def _growing(x):
    return plica.while_loop(lambda a: a.shape[0] < 9, lambda a: pnp.concat([a, a * x[0]]), x)


def _filtered(x):
    return plica.while_loop(lambda a: pnp.any(a > 1), lambda a: pnp.sqrt(a[a > 0.5]) * 0.9, x * 3)


def _branched(x):
    return plica.cond(pnp.sum(x) > 0, lambda: x * x, lambda: plica.cond(x[0] > -5, lambda: pnp.exp(x), lambda: x * 0))


def _branches_in_loops(x):
    return plica.for_loop(0, 5, 1, lambda i, a: plica.cond(i % 2 == 0, lambda: a * x, lambda: pnp.cos(a)), x)


def _scanned(x):
    return plica.scan(lambda c, row: (c * row + 1, {"c": pnp.sin(c), "r": row * x}), pnp.sum(x), x)


def _called(x):
    square = plica.jit(lambda y: y * y)
    return plica.for_loop(0, 2, 1, lambda i, a: square(a) * 0.5 + square(x), x)


def _updated(x):
    return plica.for_loop(0, 3, 1, lambda i, a: pnp.at(a)[i].set(a[i] * a[0]), x)


FUNCTIONS = (
    _looped,
    _nested,
    _until,
    _growing,
    _filtered,
    _branched,
    _branches_in_loops,
    _scanned,
    _called,
    _updated,
)
POINTS = ([0.5, 1.25, 2.0], [-0.5, -1.5, 0.25], [1.0, 1.5, 0.75, 2.0])


def _total(results) -> torch.Tensor:
    """One number that every result has its own part in."""
    leaves = torch.utils._pytree.tree_leaves(results)
    return sum((leaf * torch.arange(1.0, leaf.numel() + 1).reshape(leaf.shape)).sum() for leaf in leaves)


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_gradients_are_those_of_plain_torch(function) -> None:
    compiled = plica.jit(function, abstracted_axes=AXES)
    for point in POINTS:
        x = torch.tensor(point, dtype=torch.float64, requires_grad=True)
        found, expected = _total(compiled(x)), _total(function(x))  # plain: loops are Python's, on tensors
        torch.testing.assert_close(found, expected)
        torch.testing.assert_close(torch.autograd.grad(found, x), torch.autograd.grad(expected, x))
    assert compiled.num_compilations == 1


@pytest.mark.parametrize("function", FUNCTIONS[:6], ids=lambda function: function.__name__)
def test_gradients_are_limits_of_differences(function) -> None:
    compiled = plica.jit(lambda x: function(x), abstracted_axes=AXES)
    x = torch.tensor(POINTS[0], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: _total(compiled(x)), (x,))


def test_second_derivatives() -> None:
    compiled = plica.jit(lambda x: pnp.sum(plica.for_loop(0, 2, 1, lambda i, a: a * x, x)))
    hessian = torch.autograd.functional.hessian(compiled, torch.tensor([1.0, 2.0]))
    assert hessian.tolist() == [[6.0, 0.0], [0.0, 12.0]]


def test_transforms_of_torch() -> None:
    compiled = plica.jit(lambda x: plica.for_loop(0, 2, 1, lambda i, a: a * x, x))
    x = torch.tensor([1.0, 2.0])
    assert torch.func.vmap(compiled)(torch.stack([x, x * 2])).tolist() == [[1.0, 8.0], [8.0, 64.0]]
    assert torch.func.grad(lambda x: compiled(x).sum())(x).tolist() == [3.0, 12.0]


def _each_place(x):
    return plica.for_loop(0, x.shape[0], 1, lambda i, y: y.at[i].set(y[i] * 2 + pnp.sum(y)), x)


UPDATES = {
    "set at a place": (lambda x: x.at[0].set(x[1] * 3), lambda x: torch.cat([x[1:2] * 3, x[1:]])),
    "add to a place": (lambda x: x.at[1].add(x[0] * x[2]), lambda x: torch.stack([x[0], x[1] + x[0] * x[2], x[2]])),
    "multiply a slice": (lambda x: x.at[1:].multiply(x[0]), lambda x: torch.cat([x[:1], x[1:] * x[0]])),
    "in a loop": (_each_place, lambda x: _by_place(x)),
}


def _by_place(x: torch.Tensor) -> torch.Tensor:
    parts = list(x.unbind(0))
    for place, part in enumerate(parts):
        parts[place] = part * 2 + sum(parts)
    return torch.stack(parts)


@pytest.mark.parametrize("case", UPDATES)
def test_updates_under_transforms_of_torch(case: str) -> None:
    """Mapped by vmap with the derivative taken outside, torch's select_scatter has wrong gradients."""
    function, plain = UPDATES[case]
    compiled = plica.jit(function)
    rows = torch.tensor([[0.5, -1.0, 2.0], [1.5, 0.25, -0.75]])
    before = rows.clone()
    for transformed in (
        lambda f: torch.vmap(f)(rows),
        lambda f: torch.func.grad(lambda x: torch.vmap(f)(x).sin().sum())(rows),
        lambda f: torch.vmap(torch.func.grad(lambda x: f(x).sin().sum()))(rows),
        lambda f: torch.vmap(torch.func.jacrev(f))(rows),
        lambda f: torch.func.jacfwd(f)(rows[0]),
        lambda f: torch.func.hessian(lambda x: f(x).sin().sum())(rows[1]),
    ):
        torch.testing.assert_close(transformed(compiled), transformed(plain))
    assert torch.equal(rows, before)


def test_a_captured_parameter_is_trained() -> None:
    weight = torch.nn.Parameter(torch.tensor([0.0, 0.0]))
    target = torch.tensor([1.0, -2.0])

    @plica.jit(abstracted_axes=AXES)
    def loss(x):
        return pnp.mean(pnp.square(plica.for_loop(0, 3, 1, lambda i, a: a + weight, x * 0) - target * 3))

    optimizer = torch.optim.SGD([weight], lr=0.1)
    for size in [2] * 30:
        optimizer.zero_grad()
        loss(torch.ones(size)).backward()
        optimizer.step()
    torch.testing.assert_close(weight.detach(), target, rtol=1e-3, atol=1e-3)
    assert loss.num_compilations == 1


def test_a_module_that_calls_a_compiled_function() -> None:
    class Layer(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))

        def forward(self, x):
            return repeated(x, self.weight)

    @plica.jit(abstracted_axes=({0: "n"}, None))
    def repeated(x, weight):
        return plica.for_loop(0, 2, 1, lambda i, a: a @ weight, x)

    layer = Layer()
    for size in (1, 3):
        x = torch.ones(size, 2)
        torch.testing.assert_close(layer(x), x @ layer.weight @ layer.weight)
    layer(torch.ones(1, 2)).sum().backward()
    (expected,) = torch.autograd.grad((torch.ones(1, 2) @ layer.weight @ layer.weight).sum(), layer.weight)
    torch.testing.assert_close(layer.weight.grad, expected)
    assert repeated.num_compilations == 1


def test_what_needs_no_gradient_has_none() -> None:
    compiled = plica.jit(lambda x, y: (x * 2, y + 1, x.shape[0]), abstracted_axes=AXES)
    found = compiled(torch.ones(2, requires_grad=True), torch.ones(2))
    assert [one.requires_grad for one in found] == [True, False, False]
    with torch.no_grad():
        assert not compiled(torch.ones(2, requires_grad=True), torch.ones(2))[0].requires_grad


def test_floats_that_are_given_as_tensors_have_gradients() -> None:
    @plica.jit
    def power(a: float, n: int):
        return plica.for_loop(0, n, 1, lambda i, b: b * a, 1.0)

    a = torch.tensor(3.0, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.grad(power(a, 3), a)[0] == 27.0
    assert power(2.0, 5) == 32.0


def test_numpy_results_of_what_has_gradients_are_detached() -> None:
    import numpy as np

    weight = torch.nn.Parameter(torch.ones(2))
    found = plica.jit(lambda x: x * weight)(np.ones(2, "float32"))
    assert isinstance(found, np.ndarray)


def test_a_loop_that_runs_no_step_hands_gradients_through() -> None:
    compiled = plica.jit(lambda x, n: plica.for_loop(0, n, 1, lambda i, a: a * x, x))
    x = torch.tensor([2.0, 3.0], requires_grad=True)
    assert torch.autograd.grad(compiled(x, 0).sum(), x)[0].tolist() == [1.0, 1.0]
