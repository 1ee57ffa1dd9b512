"""Folded functions under `torch.compile`: what is kept is no part of a graph, so that changes are seen."""

import torch

import plica
import plica.numpy as pnp


def test_a_folded_function_in_a_compiled_one() -> None:
    size = 150  # large enough that the weight is not told by its entries
    program = plica.trace(lambda x, w: x @ pnp.softmax(w), plica.spec(("b", size)), plica.spec((size, size)))
    run = plica.fold_constants(program, run_time=("w",)).compile()
    x = torch.ones(2, size)
    weight = torch.nn.Parameter(torch.randn(size, size, generator=torch.Generator().manual_seed(0)))
    torch._dynamo.reset()
    compiled = torch.compile(lambda rows: run(rows, w=weight), backend="eager")
    optimizer = torch.optim.SGD([weight], lr=0.5, fused=True)
    weight.grad = torch.ones_like(weight).cumsum(1)
    with torch.no_grad():
        for _ in range(3):
            torch.testing.assert_close(compiled(x), x @ torch.softmax(weight, 1))
            torch.testing.assert_close(run(x), x @ torch.softmax(weight, 1))
            optimizer.step()
    assert run.num_folds == 3
