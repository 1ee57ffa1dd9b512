"""Other devices than the CPU, on a machine that has none: the meta device, where no number can be looked at.

What runs there takes the ways of a GPU, makes every array on the device of the data, and never waits for a value.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch

from benchmarks.gpu.checks.circuits import circuit_cases
from plica.backend.torch.circuits import TorchCircuit
from plica.backend.torch.compiler import TorchCompiler
from plica.backend.torch.operations.private import PRIVATE, TORCH_OPS
from plica.errors import UnsupportedError
from plica.ir.program import size_variables
from plica.ops import FACTORIZATIONS
from plica.queries import mpe, sample
from plica.symbolic.semirings import SEMIRINGS
from tests.harness.circuits import data
from tests.harness.programs import one_equation, run_torch, to_torch
from tests.harness.samples import SAMPLES, Case, over, samples_of

CASES = circuit_cases()
META = torch.device("meta")


def forward_and_backward(compiled: TorchCircuit, x: torch.Tensor) -> None:
    result = compiled(x)
    assert result.device == META
    if result.requires_grad:
        (result.real if result.is_complex() else result).sum().backward()
        assert {one.grad.device for one in compiled.parameters() if one.grad is not None} == {META}


PAIRS = [
    # a few of them by default: every second circuit with one semiring, every semiring with some circuits
    pytest.param(name, semiring, marks=() if place % (2 * len(SEMIRINGS)) == 2 * number else pytest.mark.full)
    for place, name in enumerate(CASES)
    for number, semiring in enumerate(SEMIRINGS)
]


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("name", "semiring"), PAIRS)
def test_circuits_never_look_at_a_number(name: str, semiring: str) -> None:
    circuit = CASES[name]()
    try:
        compiled = TorchCompiler(semiring).compile(circuit)
    except UnsupportedError:
        return
    rows = torch.from_numpy(data(circuit, 3))
    rows = rows.float() if compiled.properties.smooth and compiled.properties.decomposable else rows
    forward_and_backward(compiled.to(META), rows.to(META))


@pytest.mark.parametrize("flags", [(False, True), (True, False), (False, False)])
def test_flags_change_nothing_about_it(flags: tuple[bool, bool]) -> None:
    circuit = CASES["quad graph, mixing"]()
    forward_and_backward(TorchCompiler("lse-sum", *flags).compile(circuit).to(META), torch.zeros(2, 4).long().to(META))


def test_what_looks_at_a_number_is_found() -> None:
    compiled = TorchCompiler().compile(CASES["hadamard"]()).to(META)
    result = compiled(torch.zeros(2, 3, dtype=torch.int64, device=META))
    with pytest.raises(RuntimeError, match="meta"):
        bool(result.isnan().any())


@pytest.mark.parametrize(
    "ask", [sample, partial(sample, seed=0), lambda circuit: mpe(circuit, torch.full((1, 3), torch.nan))]
)
def test_queries_without_numbers_are_refused(ask: Callable[[Any], Any]) -> None:
    compiled = TorchCompiler().compile(CASES["hadamard"]()).to(META)
    with pytest.raises(UnsupportedError, match=r"the device meta, where tensors have no numbers; .*load_state_dict"):
        ask(compiled)


def waits_by_nature(case: Case) -> bool:
    """Whether sizes or branches depend on numbers, or torch itself looks whether a matrix can be factorized."""
    results = one_equation(case.op, case.inputs, case.params, table=TORCH_OPS).results
    data_dependent = any(True for one in results for _ in size_variables(one.type))
    return data_dependent or TORCH_OPS[case.op].regions or TORCH_OPS[case.op] in FACTORIZATIONS


def kind_of(case: Case) -> tuple[Any, ...]:
    """What is not the same on the meta device: numbers are where they are scalars, which may stand in the Program."""
    arrays = [(one.shape, one.dtype, one.tolist() if one.ndim == 0 else None) for one in case.inputs]
    return case.op, str(case.params), str(arrays)


LONG = ("betaincinv", "gammaincinv")  # decompositions of hundreds of operations that others use too
_CASES = (*SAMPLES, *samples_of(PRIVATE))
SEEN = list({kind_of(case): case for case in _CASES if case.inputs and not waits_by_nature(case)}.values())


@pytest.mark.one_in(3)
@over(case for case in SEEN if case.op not in LONG)
def test_operations_never_look_at_a_number(case: Case) -> None:
    _on_meta(case)


@pytest.mark.full
@over(case for case in SEEN if case.op in LONG)
def test_long_operations_never_look_at_a_number(case: Case) -> None:
    _on_meta(case)


def _on_meta(case: Case) -> None:
    scalars = tuple(place for place, array in enumerate(case.inputs) if array.ndim == 0)
    for literals in ((), scalars) if scalars else ((),):
        program = one_equation(case.op, case.inputs, case.params, literals, TORCH_OPS)
        given = [to_torch(array).to(META) for place, array in enumerate(case.inputs) if place not in literals]
        for one in run_torch(program, *given, device="meta"):
            assert one.device == META
