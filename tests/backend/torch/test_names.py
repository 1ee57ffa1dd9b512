"""Names in generated code: those of variables never meet those of Python or of the code itself."""

import ast
from keyword import kwlist
from types import SimpleNamespace

import numpy as np
import torch

import plica
from plica.backend.torch.emit import emit, source
from plica.backend.torch.leaves import attribute_of
from plica.backend.torch.names import RESERVED
from plica.backend.torch.operations.private import TORCH_OPS
from plica.frontend.programs import interpret, parse
from plica.ir.program import is_name
from tests.harness.programs import assert_same, one_equation, to_torch
from tests.harness.together import grouped


def test_variables_may_be_called_like_what_generated_code_uses() -> None:
    words = [*kwlist, "leaves", "torch", "kernels", "device", "complex", "int", "zip", "range", "_", "__debug__", "run"]
    names = [word for word in words if is_name(word)]
    assert len(names) == len(words) - 5  # words of Program text too
    for const, argument, size, result in zip(names, names[1:], names[2:], names[3:], strict=False):
        program = parse(
            f"""{{ lambda {const}:c128[2] ; {{{size}:i64[]}} {argument}:c128[{size}] . let
            {result}:c128[{size}] = multiply {argument} (1-0j):c128[]
            y:c128[{size}+2] = concat[axis=0] {result} {const}
          in (y,) }}"""
        )
        leaf = np.asarray([1.0 + 2.0j, -0.5j])
        run = emit(program, "run", is_checked=True)
        leaves = SimpleNamespace(**{"device": torch.device("cpu"), attribute_of(const): to_torch(leaf)})
        x = np.asarray([2.0, 1.0j])
        assert_same(run(leaves, to_torch(x)), interpret(program, x, consts=[leaf])[0])


@grouped("name", TORCH_OPS)
def test_names_that_generated_code_uses_are_reserved(name: str) -> None:
    """All that a function does not assign itself, so that no variable takes such a name from it."""
    for sample in TORCH_OPS[name].samples():
        scalars = [place for place, one in enumerate(sample.inputs) if not one.ndim]
        for literals in ([], scalars) if "body" not in sample.params else ([],):
            program = one_equation(name, sample.inputs, sample.params, literals, TORCH_OPS)
            tree = ast.parse(source(program, is_checked=True))
            names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
            own = {node.id for node in names if isinstance(node.ctx, ast.Store)}
            own |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
            assert {node.id for node in names} - own <= RESERVED
            assert not (own - {"leaves", "device", "_"}) & RESERVED


def test_many_captured_arrays_get_the_names_that_are_left() -> None:
    arrays = [torch.tensor(float(place)) for place in range(300)]  # a, b, ..., as, ..., if, ..., is
    total = plica.jit(lambda x: sum(arrays, start=x))
    assert total(torch.tensor(1.0)).item() == 1 + sum(range(300))
    assert "leaves.if_" in total.code
