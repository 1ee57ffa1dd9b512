"""The memory plan: peaks counted by hand, peaks measured in torch, views, copies, control flow and empty arrays."""
# ruff: noqa: ARG005 - bodies are given what they need not use

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import plica
import plica.numpy as pnp
from plica.backend.torch.compiler import TorchCompiler
from plica.backend.torch.emit import emit
from plica.ir.op import Memory, Op
from plica.ir.program import Program
from plica.ops import OPS
from plica.passes.clean import clean
from plica.passes.memory import MemoryPlan, plan_memory
from tests.harness.allocations import peak_bytes
from tests.harness.circuits import CIRCUITS, data
from tests.harness.programs import one_equation, run_torch, to_torch

ROWS = 64
VECTOR = plica.spec(("n",), "float64")  # 512 bytes at 64 rows
MATRIX = plica.spec(("n", 4), "float64")  # 2048 bytes


def planned(text: str, rows: int = ROWS) -> tuple[int, int, int]:
    """Peak, total and copied bytes of a Program."""
    plan = plan_memory(plica.parse(text), rows)
    return plan.peak, plan.total, plan.copied


def traced(function: Callable[..., Any], *specs: Any) -> Program:
    return clean(plica.trace(function, *specs))


def measured(program: Program, *arguments: Any) -> int:
    """The bytes of results that are alive at once while torch runs the generated code of a Program."""
    run = emit(program, shares=True)
    return peak_bytes(lambda: run(SimpleNamespace(device=torch.device("cpu")), *arguments))


# Counted by hand: rows of text, then peak, total and copied bytes; n is 64, a float64 takes 8 bytes.

BY_HAND = {
    # two of three at a time: each is freed once the next is there
    "a chain": ("a:f64[n] = exp x  b:f64[n] = sin a  c:f64[n] = cos b", "c", (1024, 1536, 0)),
    # a waits for c, so that three are alive
    "a value that is read twice": ("a:f64[n] = exp x  b:f64[n] = sin a  c:f64[n] = add b a", "c", (1536, 1536, 0)),
    # b is never read, and is freed at once
    "a value that nothing reads": ("a:f64[n] = exp x  b:f64[n] = sin a  c:f64[n] = cos a", "c", (1024, 1536, 0)),
    # what is returned stays
    "several results": ("a:f64[n] = exp x  b:f64[n] = sin a  c:f64[n] = cos b", "a, c", (1536, 1536, 0)),
    "arguments do not count": ("a:f64[n,1] = expand_dims[axis=1] x", "a", (0, 0, 0)),
    "views of a result have its memory": (
        "a:f64[n] = exp x  b:f64[n,1] = expand_dims[axis=1] a  c:f64[n,3] = broadcast_to[shape=(n,3)] b",
        "c",
        (512, 512, 0),
    ),
    # a lives as long as c, a view of a view of it: d and e join it
    "a view keeps its owner alive": (
        "a:f64[n] = exp x  b:f64[n,1] = expand_dims[axis=1] a  c:f64[n] = squeeze[axis=(1,)] b"
        "  d:f64[n] = sin x  e:f64[n] = add c d",
        "e",
        (1536, 1536, 0),
    ),
    "a returned view keeps its owner": (
        "a:f64[n] = exp x  b:f64[n,1] = expand_dims[axis=1] a  c:f64[n] = sin x  d:f64[n] = cos c",
        "b, d",
        (1536, 1536, 0),
    ),
    "views of one operation": (
        "a:f64[n,2] = stack[axis=1] x x  b:f64[n] c:f64[n] = unstack[axis=1] a  d:f64[n] = sin b  e:f64[n] = add d c",
        "e",
        (2048, 2048, 1024),
    ),
    "copies": ("a:f64[2*n] = concat[axis=0] x x  b:f64[2,2*n] = stack[axis=0] a a", "b", (3072, 3072, 3072)),
    "small dtypes": ("a:bool[n] = isnan x  b:f32[n] = astype[dtype=f32] x", "a, b", (320, 320, 0)),
    # the axes of what is permuted, and the places of what is broadcast, do not lie one behind the other
    "a reshape copies what was permuted": (
        "a:f64[n,2] = stack[axis=1] x x  b:f64[2,n] = permute_dims[axes=(1,0)] a  c:f64[2*n] = reshape[shape=(2*n,)] b",
        "c",
        (2048, 2048, 2048),
    ),
    "a reshape copies what was expanded": (
        "a:f64[3,n] = broadcast_to[shape=(3,n)] x  b:f64[3*n] = reshape[shape=(3*n,)] a",
        "b",
        (1536, 1536, 1536),
    ),
    "a reshape that joins no axes is a view": (
        "a:f64[n,2] = stack[axis=1] x x  b:f64[2,n] = permute_dims[axes=(1,0)] a"
        "  c:f64[1,2,n,1] = reshape[shape=(1,2,n,1)] b",
        "c",
        (1024, 1024, 1024),
    ),
    "sizes that are sums": ("a:f64[n+1] = full[shape=(n+1,)] 0.0:f64[]", "a", (520, 520, 0)),
    "nothing": ("", "x", (0, 0, 0)),
}


@pytest.mark.parametrize("name", BY_HAND)
def test_small_programs_by_hand(name: str) -> None:
    equations, results, expected = BY_HAND[name]
    lines = "\n    ".join(equations.split("  "))
    shown = f"({results},)" if "," not in results else f"({results})"
    assert planned(f"{{ lambda ; {{n:i64[]}} x:f64[n] . let\n    {lines}\n  in {shown} }}") == expected


def test_no_rows_take_no_memory() -> None:
    equations, results, _ = BY_HAND["a value that is read twice"]
    lines = "\n    ".join(equations.split("  "))
    assert planned(f"{{ lambda ; {{n:i64[]}} x:f64[n] . let\n    {lines}\n  in ({results},) }}", 0) == (0, 0, 0)


def test_leaves_do_not_count() -> None:
    text = "{ lambda w:f64[4] ; {n:i64[]} x:f64[n,4] . let\n    a:f64[n,4] = multiply x w\n  in (a,) }"
    assert planned(text) == (2048, 2048, 0)


# Measured: straight code, where torch allocates nothing but results.

STRAIGHT: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "chain": (lambda x: pnp.cos(pnp.sin(pnp.exp(x))), (VECTOR,)),
    "diamond": (lambda x: pnp.exp(x) * pnp.sin(pnp.exp(x)) + pnp.cos(x), (VECTOR,)),
    "views": (lambda x: pnp.expand_dims(pnp.exp(x), axis=1) + pnp.sum(pnp.permute_dims(pnp.sin(x), (1, 0))), (MATRIX,)),
    "slices": (lambda x: pnp.exp(x)[:, 1:3] * pnp.sin(x)[:, 0:2], (MATRIX,)),
    "parts": (lambda x: pnp.unstack(pnp.exp(x), axis=1)[1] + pnp.unstack(pnp.sin(x), axis=1)[3], (MATRIX,)),
    "copies": (lambda x: pnp.concat([pnp.exp(x), x, pnp.stack([x[:, 0], x[:, 1]], axis=1)], axis=1), (MATRIX,)),
    "permuted, in one row": (lambda x: pnp.sum(pnp.sin(pnp.reshape(pnp.permute_dims(x, (1, 0)), (-1,)))), (MATRIX,)),
    "expanded, in one row": (lambda x: pnp.sum(pnp.sin(pnp.repeat(x, 3, axis=0))), (MATRIX,)),
    "an order that is kept": (lambda x: pnp.sum(pnp.reshape(pnp.sin(pnp.permute_dims(x, (1, 0))), (-1,))), (MATRIX,)),
    "several results": (lambda x: (pnp.exp(x), pnp.sin(pnp.cos(x)), x[:, 0]), (MATRIX,)),
    "a function of a function": (lambda x: plica.jit(lambda y: pnp.sin(pnp.exp(y)))(pnp.cos(x)) + 1.0, (VECTOR,)),
}


@pytest.mark.parametrize("name", STRAIGHT)
@pytest.mark.parametrize("rows", [ROWS, 3, 0])
def test_peaks_are_what_torch_allocates(name: str, rows: int) -> None:
    function, specs = STRAIGHT[name]
    program = traced(function, *specs)
    x = torch.zeros([rows if isinstance(dim, str) else int(dim) for dim in ("n", *specs[0].shape[1:])]).double()
    assert plan_memory(program, rows).peak == measured(program, x)


# Control flow: a loop has what the iteration before left, beside what this one makes.

FLOW: dict[str, tuple[Callable[..., Any], int, int]] = {
    # the state before, exp of it and the product; one iteration makes two arrays, and the loop returns one
    "for": (lambda x: plica.for_loop(0, 5, 1, lambda i, a: pnp.exp(a[:, 0:4]) * 2.0, x), 3 * 2048, 3 * 2048),
    "while": (
        lambda x: plica.while_loop(lambda a: pnp.sum(a) < 9e3, lambda a: pnp.exp(a) * 2.0, x),
        3 * 2048,
        3 * 2048 + 8 + 1,  # the sum, and whether it is small
    ),
    # rows of 32 bytes; at last the stack beside the rows that it is made of, and the state
    "scan": (lambda x: plica.scan(lambda c, row: (c + row, pnp.sin(c)), x[0], x), 2 * 2048 + 32, 2048 + 3 * 32),
    # the larger branch; before it the sum and the truth value, which stays
    "cond": (
        lambda x: plica.cond(pnp.sum(x) > 0, lambda: pnp.sin(pnp.exp(x)) * x, lambda: pnp.exp(x)),
        2 * 2048 + 1,
        2048 + 4 * 2048 + 8 + 1,  # each branch and the result
    ),
    # the inner loop runs beside the state of the outer one
    "for in for": (
        lambda x: plica.for_loop(
            0, 2, 1, lambda i, a: plica.for_loop(0, 2, 1, lambda j, b: pnp.sin(pnp.exp(b)), pnp.cos(a)), x
        ),
        2048 + 4 * 2048,
        2048 + 2048 + 3 * 2048,
    ),
    "copies inside": (
        lambda x: plica.for_loop(0, 3, 1, lambda i, a: pnp.concat([a[:, 2:4], a[:, 0:2]], axis=1), x),
        2 * 2048,
        2 * 2048,
    ),
}


@pytest.mark.parametrize("name", FLOW)
def test_control_flow_by_hand_and_in_torch(name: str) -> None:
    function, peak, total = FLOW[name]
    program = traced(function, MATRIX)
    plan = plan_memory(program, ROWS)
    assert (plan.peak, plan.total) == (peak, total)
    # inner loops hold their first state under two names; numbers of conditions may live longer than planned
    assert plan.peak - 2048 * (name == "for in for") <= measured(program, torch.ones(ROWS, 4).double()) <= peak + 16


def test_copies_of_control_flow_count() -> None:
    program = traced(FLOW["copies inside"][0], MATRIX)
    assert plan_memory(program, ROWS).copied == 2048


def test_a_loop_of_no_iterations_and_no_rows() -> None:
    program = traced(lambda x: plica.for_loop(0, 0, 1, lambda i, a: pnp.exp(a), x), VECTOR)
    assert plan_memory(program, 0) == MemoryPlan(0, 0, 0, 0)
    assert measured(program, torch.ones(0).double()) == 0


# The column that the plan reads


@pytest.mark.parametrize("op", [op for op in OPS.values() if op.memory is Memory.VIEW], ids=lambda op: op.name)
def test_views_share_the_memory_of_their_operand(op: Op) -> None:
    samples = [one for one in op.samples() if one.inputs and one.inputs[0].size]
    assert samples
    for one in samples:
        tensors = [to_torch(array) for array in one.inputs]
        literals = range(1, len(tensors))  # an index that is known
        for result in run_torch(one_equation(op.name, one.inputs, one.params, literals), tensors[0]):
            assert result.untyped_storage().data_ptr() == tensors[0].untyped_storage().data_ptr()


@pytest.mark.parametrize("op", [op for op in OPS.values() if op.memory is Memory.COPY], ids=lambda op: op.name)
def test_copies_have_memory_of_their_own(op: Op) -> None:
    for one in op.samples():
        tensors = [to_torch(array) for array in one.inputs]
        (result,) = run_torch(one_equation(op.name, one.inputs, one.params), *tensors)
        assert all(result.data_ptr() != tensor.data_ptr() for tensor in tensors)
        assert set(result.flatten().tolist()) <= {number for tensor in tensors for number in tensor.flatten().tolist()}


# Circuits, whose explanation shows the plan


@pytest.mark.parametrize("name", CIRCUITS)
def test_circuits_hold_little_more_than_planned(name: str) -> None:
    """Kernels make arrays of their own beside their operands and results: at most three times what is planned."""
    compiled = TorchCompiler(dtype="float64").compile(CIRCUITS[name]())
    x = torch.from_numpy(data(compiled.symbolic, 2 * ROWS))
    compiled(x)
    with torch.no_grad():
        found = peak_bytes(lambda: compiled(x))
    peak = plan_memory(compiled.lowered(x.dtype).program, len(x)).peak
    assert peak <= found <= 4 * peak


def test_the_explanation_has_the_plan() -> None:
    compiled = TorchCompiler().compile(CIRCUITS["hadamard"]())
    plan = plan_memory(compiled.program, 128)
    assert f"memory for 128 rows: {plan.peak:,} bytes at the peak without gradients" in compiled.explain()
