"""Entrywise operations before views: which are moved and which stay, and that no number or gradient changes."""

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings

import plica
import plica.numpy as pnp
import plica.tracing.namespace as xp
from plica.frontend.programs import interpret, trace, verify
from plica.ir.op import Memory
from plica.ir.program import Program
from plica.ir.sizes import evaluate
from plica.ir.types import spec
from plica.ops import OPS
from plica.passes.algebra import Fired, simplify
from plica.passes.clean import clean
from plica.passes.cse import share_equations
from plica.passes.dead_code import eliminate_dead_code
from plica.passes.views import MOVE, move_to_sources
from tests.harness.programs import run_region, run_torch, to_torch
from tests.harness.random_programs import SIZES, arguments, programs_of_views
from tests.harness.spaces import WIDE

N, Y, MASK, INDEX = spec(("n", 3), "float64"), spec((2, 3), "float64"), spec(("n", 3), "bool"), spec(("n", 1), "int64")
LARGE = np.array([[0.0, -900.0, -2000.0], [1500.0, 0.0, -30.0]])
X = {
    "x": LARGE / 1000,
    "y": np.array([[0.5, 2.0, 1.0], [0.25, 0.1, 4.0]]),
    "mask": np.array([[True, False, True], [False, True, True]]),
    "index": np.array([[2], [0]]),
}
LOG = "log(softmax(x)) -> log_softmax(x)"


def without(program: Program) -> Program:
    """The Program after the passes that look at neighbours alone."""
    return eliminate_dead_code(share_equations(simplify(program)))


def operations(program: Program) -> list[str]:
    return sorted(equation.op.name for equation in program.equations)


def mirrored(x: Any) -> Any:
    return xp.matrix_transpose(xp.reshape(xp.flip(x, axis=(0,)), (3, x.shape[0])))


def three_values(x: Any) -> Any:
    first, second, third = xp.unstack(xp.softmax(x), axis=1)
    return xp.log(first) - xp.log(second), xp.log(third)


# what stands between, the function, its arguments, which of the rules on entries fire, and what is left
MOVES: list[tuple[str, Callable[..., Any], tuple[Any, ...], str, list[str]]] = [
    ("slice", lambda x: xp.log(xp.softmax(x)[:, 2]), (N,), LOG, ["log_softmax", "slice", "squeeze"]),
    (
        "permute_dims",
        lambda x: xp.safe_log(xp.matrix_transpose(xp.softmax(x))),
        (N,),
        LOG,
        ["log_softmax", "permute_dims"],
    ),
    (
        "several views",
        lambda x: xp.log(mirrored(xp.softmax(x))),
        (N,),
        LOG,
        ["flip", "log_softmax", "permute_dims", "reshape"],
    ),
    ("expand_dims", lambda x: xp.log(xp.expand_dims(xp.softmax(x), axis=0)), (N,), LOG, ["expand_dims", "log_softmax"]),
    (
        "broadcast_to",
        lambda x: xp.log(xp.broadcast_to(xp.softmax(x), (4, x.shape[0], 3))),
        (N,),
        LOG,
        ["broadcast_to", "log_softmax"],
    ),
    (
        "take_along_axis",
        lambda x, index: -xp.log(xp.take_along_axis(xp.softmax(x), index, axis=1)),
        (N, INDEX),
        LOG,
        ["add", "less", "log_softmax", "negative", "take_along_axis", "where"],
    ),
    (
        "concat",
        lambda x, y: xp.log(xp.concat([xp.softmax(x), xp.softmax(y, axis=0)])),
        (N, Y),
        LOG,
        ["concat", "log_softmax", "log_softmax"],
    ),
    (
        "stack",
        lambda x: xp.log(xp.stack([xp.softmax(x), xp.softmax(x, axis=0)])),
        (N,),
        LOG,
        ["log_softmax", "log_softmax", "stack"],
    ),
    (
        "a join with one that no rule knows",
        lambda x, y: xp.log(xp.concat([xp.softmax(x), y])),
        (N, Y),
        LOG,
        ["concat", "log", "log_softmax"],
    ),
    ("where", lambda x, mask: xp.log(xp.where(mask, xp.softmax(x), 0.0)), (N, MASK), LOG, ["log_softmax", "where"]),
    ("unstack", three_values, (N,), LOG, ["log_softmax", "subtract", "unstack"]),
    (
        "slices that are all entries",
        lambda x: [[xp.log(xp.softmax(x)[:, k]) for k in range(3)], xp.softmax(x)],
        (N,),
        LOG,
        ["log_softmax", *["slice"] * 3, "softmax", *["squeeze"] * 3],
    ),
    (
        "another reader of a view",
        lambda x: (xp.log(xp.matrix_transpose(xp.softmax(x))), xp.matrix_transpose(xp.softmax(x))),
        (N,),
        LOG,
        ["log_softmax", "permute_dims", "permute_dims", "softmax"],
    ),
    (
        "exp of a slice",
        lambda x: xp.exp(xp.log_softmax(x)[:, :2]),
        (N,),
        "exp(log_softmax(x)) -> softmax(x)",
        ["slice", "softmax"],
    ),
    (
        "log of exp",
        lambda x: xp.log(xp.exp(x)[:, :2]) + xp.exp(x)[:, :2],
        (N,),
        "log(exp(x)) -> x",
        ["add", "exp", "slice", "slice"],
    ),
    (
        "exp of log",
        lambda x: xp.exp(xp.matrix_transpose(xp.log(xp.sigmoid(x)))),
        (N,),
        "exp(log(x)) -> x, x >= 0",
        ["permute_dims", "sigmoid"],
    ),
    (
        "negations",
        lambda x: -xp.reshape(-xp.matrix_transpose(-x), (x.shape[0], 3)),
        (N,),
        "-(-x) -> x",
        ["negative", "permute_dims", "reshape"],
    ),
    ("a conjunction", lambda mask: xp.logical_not(xp.logical_not(mask)[:, :1]), (MASK,), "not not x -> x", ["slice"]),
]
LOGS = [row for row in MOVES if row[3] == LOG]

# why it stays, the function, its arguments
STAYS: list[tuple[str, Callable[..., Any], tuple[Any, ...]]] = [
    ("no rule knows the source", lambda x: xp.log(xp.matrix_transpose(xp.square(x))), (N,)),
    ("a rule declines the source", lambda x: xp.exp(xp.matrix_transpose(xp.log(x))), (N,)),
    ("more entries, since the softmax is read", lambda x: (xp.log(xp.softmax(x)[:, :2]), xp.softmax(x)), (N,)),
    (
        "perhaps more entries",
        lambda x, y: (xp.log(xp.concat([xp.softmax(x), y])[: x.shape[0]]), xp.softmax(x)),
        (N, Y),
    ),
    ("more operations", lambda x, y: xp.log(xp.concat([xp.softmax(x), y, xp.square(y)])), (N, Y)),
    ("the source is left out in part", lambda x, y: xp.log(xp.concat([xp.softmax(x), y])[1:]), (N, Y)),
    ("what is between is no view", lambda x: xp.log(xp.matrix_transpose(xp.softmax(x)) + 1.0), (N,)),
]


def arrays(program: Program, scale: float = 1.0) -> list[np.ndarray]:
    return [X[var.name] * scale if var.name == "x" else X[var.name] for var in program.arguments]


def gradients(program: Program, values: list[np.ndarray]) -> list[torch.Tensor]:
    """The results, and the gradients of a weighted sum of them."""
    tensors = [to_torch(one).requires_grad_(one.dtype.kind == "f") for one in values]
    results = run_torch(program, *tensors)
    weighted = [(one * torch.arange(1.0, 1 + one.numel()).sin().reshape(one.shape)).sum() for one in results]
    learned = [one for one in tensors if one.requires_grad]
    total = sum(one for one in weighted if one.requires_grad)
    slopes = torch.autograd.grad(total, learned, allow_unused=True) if isinstance(total, torch.Tensor) else ()
    zeros = (torch.zeros_like(one) if slope is None else slope for slope, one in zip(slopes, learned, strict=False))
    return [*(one.detach() for one in results), *zeros]


@pytest.mark.parametrize(
    ("function", "specs", "rule", "left"), [row[1:] for row in MOVES], ids=[row[0] for row in MOVES]
)
def test_a_rule_fires_behind_views(function: Any, specs: Any, rule: str, left: list[str]) -> None:
    program, fired = trace(function, *specs), Fired()
    moved = clean(program, fired=fired)
    verify(moved)
    assert [name for name in operations(moved) if name != "add" or "add" in left] == left
    assert fired[MOVE]
    assert any(rule in text for text in fired)
    assert operations(without(program)) != operations(moved), "the rule fires because of the move"
    values = arrays(program)
    expected = gradients(program, values)
    for found, wanted in zip(gradients(moved, values), expected, strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("function", "specs"), [row[1:] for row in STAYS], ids=[row[0] for row in STAYS])
def test_what_costs_more_or_is_not_known_stays(function: Any, specs: Any) -> None:
    program = without(trace(function, *specs))
    assert move_to_sources(program) is None
    assert clean(program) == program


@pytest.mark.parametrize(("function", "specs"), [row[1:3] for row in LOGS], ids=[row[0] for row in LOGS])
def test_logarithms_are_right_where_the_softmax_underflows(function: Any, specs: Any) -> None:
    program = trace(function, *specs)
    values = arrays(program, 1000.0)
    sizes = [2] * program.num_implicit_inputs
    wide = [one.astype(WIDE) if one.dtype.kind == "f" else one for one in values]
    expected = run_region(program, (), (*map(np.asarray, sizes), *wide), wide=True)[program.num_implicit_outputs :]
    found = gradients(clean(program), values)
    for one, wanted in zip(found, expected, strict=False):
        np.testing.assert_allclose(one, wanted.astype(float), rtol=1e-12, atol=0)
    assert all(torch.isfinite(one).all() for one in found[len(expected) :])
    neighbours = interpret(without(program), *values)
    assert any(np.isinf(one).sum() > np.isinf(right).sum() for one, right in zip(neighbours, expected, strict=True))


def test_a_loss_of_large_scores_is_right_and_so_is_its_slope() -> None:
    @plica.jit
    def loss(scores, labels):
        return -pnp.mean(pnp.log(pnp.take_along_axis(pnp.softmax(scores), labels, axis=1)))

    scores = torch.tensor(LARGE, dtype=torch.float32, requires_grad=True)
    labels = torch.tensor([[2], [1]])
    found = loss(scores, labels)
    assert found.item() == 1750.0
    found.backward()
    torch.testing.assert_close(scores.grad, torch.tensor([[0.5, 0.0, -0.5], [0.5, -0.5, 0.0]]))


def test_each_literal_is_one_of_its_own() -> None:
    program = clean(
        trace(lambda mask: -xp.where(mask, xp.where(mask, 0.0, -0.0), -xp.exp(xp.astype(mask, "float64"))), MASK)
    )
    assert operations(program).count("negative") == 0
    (found,) = interpret(program, X["mask"])
    np.testing.assert_array_equal(np.signbit(found), X["mask"])


def test_what_is_moved_may_be_the_source_of_another() -> None:
    def function(x):
        logs = xp.log(xp.matrix_transpose(xp.softmax(x)))
        return xp.exp(xp.reshape(logs, (x.shape[0], 3)))

    program = trace(function, N)
    assert operations(clean(program)) == ["permute_dims", "reshape", "softmax"]
    np.testing.assert_allclose(interpret(clean(program), X["x"])[0], interpret(program, X["x"])[0], rtol=1e-12)


def test_many_views_of_many_sources_take_one_pass() -> None:
    def function(x):
        joined = xp.concat([xp.softmax(x * float(k)) for k in range(40)])
        return [xp.log(joined[k : 40 * 2 : 40]) for k in range(40)]

    program = clean(trace(function, spec((2, 3), "float64")))
    counted = operations(program)
    assert (counted.count("log_softmax"), counted.count("slice"), counted.count("log")) == (40, 40, 0)


def work(program: Program, sizes: dict[str, int]) -> int:
    """How many entries operations write that are no views."""

    def size(atom: Any) -> int:
        return sizes[atom.name]

    return sum(
        prod(evaluate(dim, size) for dim in var.type.shape)
        for equation in program.equations
        if OPS[equation.op.name].memory is not Memory.VIEW
        for var in equation.outputs
    )


@settings(max_examples=40)
@given(programs_of_views())
def test_random_programs_keep_their_meaning_and_their_work(program: Program) -> None:
    moved, before = clean(program), without(program)
    verify(moved)
    assert move_to_sources(moved) is None
    assert clean(moved) == moved
    for sizes in SIZES:
        values = arguments(program, sizes)
        for found, expected in zip(interpret(moved, *values), interpret(program, *values), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
        assert work(moved, sizes) <= work(before, sizes)


@settings(max_examples=10)
@given(programs_of_views())
def test_random_programs_keep_their_gradients(program: Program) -> None:
    values = arguments(program, SIZES[1])
    for found, expected in zip(gradients(clean(program), values), gradients(program, values), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)
