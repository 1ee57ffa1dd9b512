"""What an operation stands for in terms of others computes what it does."""

import numpy as np
import pytest
import torch

import plica
import plica.numpy as pnp
from plica.backend.torch.operations import ROWS
from plica.frontend.programs import interpret, trace
from plica.ir.op import Unsupported
from plica.ir.types import spec
from plica.ops import OPS
from plica.tracing import namespace
from tests.harness.programs import assert_same, one_equation, run_torch, to_torch
from tests.harness.samples import CASES, Case, over

DECOMPOSED = [case for case in CASES if not isinstance(OPS[case.op].decompose, Unsupported)]


@over(DECOMPOSED)
def test_decompositions_are_what_they_stand_for(case: Case) -> None:
    decompose = OPS[case.op].decompose
    specs = [spec(array.shape, array.dtype) for array in case.inputs]
    program = trace(lambda *arrays: decompose(namespace, *arrays, **case.params), *specs)
    expected = interpret(one_equation(case.op, case.inputs, case.params), *case.inputs)
    for found, one in zip(interpret(program, *case.inputs), expected, strict=True):
        assert_same(found, one)


@over(DECOMPOSED)
def test_torch_computes_them_without_a_row(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(ROWS, case.op, raising=False)
    program = one_equation(case.op, case.inputs, case.params)
    expected = interpret(program, *case.inputs)
    for found, one in zip(run_torch(program, *map(to_torch, case.inputs)), expected, strict=True):
        assert_same(found, one)


def test_torch_computes_them_with_sizes_in_loops_and_with_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    def rolled(x, function_roll_0):
        def step(i, y):
            return pnp.clip(pnp.roll(y * function_roll_0, x.shape[0] // 2 + i), -1.0, 2.0)

        return plica.for_loop(0, 3)(step)(pnp.tril(x, k=x.shape[1] - 3)), pnp.roll(x, x.shape[0])

    x = torch.linspace(-2, 2, 20, dtype=torch.float64).reshape(5, 4).requires_grad_()
    factor = torch.tensor(0.9, dtype=torch.float64)
    expected = plica.jit(rolled)(x, factor)
    (wanted,) = torch.autograd.grad(expected[0].square().sum(), [x])
    for name in ("roll", "clip", "tril"):
        monkeypatch.delitem(ROWS, name)
    jitted = plica.jit(rolled)
    found = jitted(x, factor)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0)
    (slope,) = torch.autograd.grad(found[0].square().sum(), [x])
    torch.testing.assert_close(slope, wanted)
    assert {name.rsplit("_", 1)[0] for name in jitted.code.split() if name.startswith("rolled_")} >= {
        "rolled_roll",
        "rolled_clip",
        "rolled_tril",
    }
    assert np.isfinite(slope.numpy()).all()
