"""Every row of the operations on its samples, in float32 and float64, with its gradient."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.gpu.checks import Check
from benchmarks.gpu.checks.comparison import require_same, waits
from benchmarks.gpu.devices import Device
from plica.backend.torch.operations.private import PRIVATE, TORCH_OPS
from plica.errors import PlicaError
from plica.ops import FACTORIZATIONS
from tests.harness.programs import one_equation, run_torch, to_torch, unique
from tests.harness.samples import CASES, SAMPLES, Case, samples_of

if TYPE_CHECKING:
    from plica.ir.program import Program

OWN = samples_of(PRIVATE)
_OTHER = {"float32": "float64", "float64": "float32", "complex64": "complex128", "complex128": "complex64"}
_NO_DERIVATIVE = ("not differentiable", "derivative for")  # in torch, on any device
_WEIGHTS: Mapping[str, Callable[[Tensor], Tensor]] = {"log": torch.exp, "log_softmax": lambda x: x.softmax(-1)}
_DIFFERENTIABLE = {"qr": 1, "svd": 2}  # of the unique results the first: those after them are constant
_SENSITIVE = frozenset(op.name for op in FACTORIZATIONS)  # errors of inputs grow with the condition of a matrix


def checks() -> Iterator[Check]:
    """One check for each operation."""
    cases: dict[str, list[Case]] = {}
    for case in (*CASES, *OWN):
        cases.setdefault(case.op, []).append(case)
    for op in TORCH_OPS:
        yield Check(f"operation {op}", partial(_check, tuple(cases.get(op, ()))))


def _check(cases: Sequence[Case], device: Device) -> str | None:
    waiting = []
    for case in cases:
        for one in (case, _in_other_precision(case)):
            if one is None:
                continue
            _compare(one, (), device)
            scalars = tuple(place for place, array in enumerate(one.inputs) if array.ndim == 0)
            if scalars:
                _compare(one, scalars, device)
        if case in (*SAMPLES, *OWN):
            _compare_gradients(case, device)
            program, given = _program(case, ()), _on(device, case.inputs)
            if waits(device, lambda program=program, given=given: run_torch(program, *given, device=device.name)):  # type: ignore[misc]
                waiting.append(str(case))
    return f"the host waits: {', '.join(waiting)}" if waiting else None


def _program(case: Case, literals: Sequence[int]) -> Program:
    return one_equation(case.op, case.inputs, case.params, literals, TORCH_OPS)


def _in_other_precision(case: Case) -> Case | None:
    """The case in float64 for float32 and the other way round; None where nothing is floating or it has regions."""
    if TORCH_OPS[case.op].regions or not any(array.dtype.name in _OTHER for array in case.inputs):
        return None
    with np.errstate(over="ignore"):
        inputs = tuple(array.astype(_OTHER.get(array.dtype.name, array.dtype.name)) for array in case.inputs)
    other = replace(case, inputs=inputs)
    try:
        _program(other, ())
    except PlicaError:  # the row takes one precision
        return None
    return other


def _on(device: Device, arrays: Sequence[Any]) -> list[Tensor]:
    return [to_torch(array).to(device.name) for array in arrays]


def _scale(op: str) -> float:
    return TORCH_OPS[op].tolerance * (100.0 if op in _SENSITIVE else 1.0)


def _compare(case: Case, literals: Sequence[int], device: Device) -> None:
    program = _program(case, literals)
    arrays = [array for place, array in enumerate(case.inputs) if place not in literals]
    expected = unique(case.op, run_torch(program, *map(to_torch, arrays)))
    found = unique(case.op, run_torch(program, *_on(device, arrays), device=device.name))
    for place, (one, wanted) in enumerate(zip(found, expected, strict=True)):
        require_same(one, wanted, device, f"{case}, literals {literals}, result {place}", _scale(case.op))


def _compare_gradients(case: Case, device: Device) -> None:
    program = _program(case, ())
    if case.op in _SENSITIVE and any(one.isnan().any() for one in run_torch(program, *map(to_torch, case.inputs))):
        return  # a matrix without a result has no gradient
    try:
        expected = _gradients(case, program, [to_torch(array) for array in case.inputs], "cpu")
    except RuntimeError as error:
        if any(one in str(error) for one in _NO_DERIVATIVE):
            return
        raise
    found = _gradients(case, program, _on(device, case.inputs), device.name)
    for place, (one, wanted) in enumerate(zip(found, expected, strict=True)):
        what = f"{case}, gradient {place}"
        assert (one is None) == (wanted is None), f"{what}: found {one}, expected {wanted}"
        if one is not None and wanted is not None:
            require_same(one, wanted, device, what, 10 * _scale(case.op))


def _gradients(case: Case, program: Program, inputs: list[Tensor], device: str) -> Sequence[Tensor | None]:
    """The gradients of the floating results, weighted, for the inputs that have some."""
    learned = [one.requires_grad_() for one in inputs if one.is_floating_point() or one.is_complex()]
    if logs := case.params.get("logs"):  # what reaches a weight reaches its logarithms
        *learned, weight, given = learned
        learned, inputs[-2] = [*learned, given], _WEIGHTS[logs](given).reshape(weight.shape).to(weight.dtype)
    results = unique(case.op, run_torch(program, *inputs, device=device))[: _DIFFERENTIABLE.get(case.op)]
    results = tuple(one for one in results if one.requires_grad)
    if not results or not learned:
        return ()
    weights = [_weights(one) for one in results]
    return torch.autograd.grad(results, learned, weights, allow_unused=True)


def _weights(result: Tensor) -> Tensor:
    numbers = torch.linspace(-1.0, 2.0, result.numel(), dtype=torch.float64).reshape(result.shape)
    return numbers.to(result.dtype).to(result.device)
