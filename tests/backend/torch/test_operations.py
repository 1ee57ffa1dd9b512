"""Every row in torch against the interpreter, in value, shape and dtype, and its derivative against differences."""

from typing import Any

import numpy as np
import pytest
import torch

from plica.backend.torch.operations import ROWS
from plica.backend.torch.operations.call import Row
from plica.backend.torch.operations.private import PRIVATE, TORCH_OPS
from plica.ir.interpret import interpret_program
from plica.ir.op import Derivative, Unsupported
from plica.ops.elementwise import ARITIES
from tests.harness.operation_derivatives import check_operation, operations
from tests.harness.programs import assert_same, one_equation, run_torch, to_torch, unique
from tests.harness.samples import CASES, SAMPLES, SCALARS, Case, over, samples_of
from tests.harness.together import grouped

pytestmark = pytest.mark.filterwarnings("ignore:Mean of empty slice")

OWN = samples_of(PRIVATE)


def _compare(case: Case, tensors: list[torch.Tensor], literals: tuple[int, ...] = ()) -> None:
    program = one_equation(case.op, case.inputs, case.params, literals, TORCH_OPS)
    arguments = [array for place, array in enumerate(case.inputs) if place not in literals]
    given = [tensor for place, tensor in enumerate(tensors) if place not in literals]
    results = tuple(one.detach().resolve_conj().numpy() for one in run_torch(program, *given))
    expected_ones = unique(case.op, interpret_program(program, TORCH_OPS, arguments))
    for found, expected in zip(unique(case.op, results), expected_ones, strict=True):
        assert_same(found, expected, TORCH_OPS[case.op].tolerance)


def test_every_row_runs() -> None:
    for op in TORCH_OPS.values():
        assert op.name in ROWS or op.regions or not isinstance(op.decompose, Unsupported), op.name


def test_there_is_no_row_of_an_operation_that_does_not_exist() -> None:
    assert set(ROWS) <= set(TORCH_OPS)


@pytest.mark.one_in(3)
@over((*CASES, *OWN))
def test_torch_is_the_interpreter(case: Case) -> None:
    _compare(case, [to_torch(array) for array in case.inputs])


@pytest.mark.one_in(3)
@over(case for case in (*SAMPLES, *OWN) if case.inputs)
def test_strides_do_not_matter(case: Case) -> None:
    """The same numbers with gaps between them and the axes stored in reverse order."""
    tensors = []
    for array in case.inputs:
        tensor = to_torch(array)
        spread = torch.zeros((*reversed(tensor.shape), 2), dtype=tensor.dtype)[..., 1]
        view = spread.permute(tuple(reversed(range(tensor.ndim))))
        tensors.append(view.copy_(tensor))
    _compare(case, tensors)


@over(case for case in CASES if any(x.ndim == 0 for x in case.inputs))
def test_literals_stand_for_scalars(case: Case) -> None:
    """Each scalar alone written in the program, and all of them."""
    places = [place for place, array in enumerate(case.inputs) if array.ndim == 0]
    tensors = [to_torch(array) for array in case.inputs]
    for literals in (*((place,) for place in places), tuple(places)):
        _compare(case, tensors, literals)


@over(case for case in SCALARS if len(case.inputs) > 1)
def test_literals_meet_arrays(case: Case) -> None:
    """`maximum(x, 0.0)`, `2.0 - x`."""
    first, *others = case.inputs
    wide = np.broadcast_to(first, (2, 3)).copy()
    for inputs, place in (((wide, *others), 1), ((first, *[np.broadcast_to(one, (2, 3)) for one in others]), 0)):
        meets = Case(case.op, case.number, tuple(inputs), case.params)
        _compare(meets, [to_torch(array) for array in inputs], (place,))


SMOOTH = tuple(
    case
    for case in (*SAMPLES, *OWN)
    if case.inputs
    and case.inputs[0].dtype.kind in "f"
    and all(np.all(np.isfinite(array)) for array in case.inputs if array.dtype.kind == "f")
    # where it is another on purpose, this is tested where the operation is used
    and TORCH_OPS[case.op].derivative not in (Derivative.NONE, Derivative.ITS_OWN)
    and all(array.size for array in case.inputs)
)


def _moved(op: str, array: np.ndarray) -> np.ndarray:
    """The sample in float64, distinct and away from kinks, poles and the ends of domains."""
    if array.dtype.kind != "f":
        return array
    wide = array.astype("float64")
    steps = np.arange(array.size).reshape(array.shape) * 1e-3
    if op in ("acosh", "safe_log", "log_matmul_exp") or TORCH_OPS[op].derivative is Derivative.BESIDE_KINKS:
        return np.abs(wide) + 0.137 + steps if op != "log_matmul_exp" else wide
    return np.where(wide == 0, 0.01, wide) + (0 if op in ("acos", "asin", "atanh", "erfinv") else steps)


def _differentiated(case: Case) -> tuple[Any, ...]:
    """The operation and its inputs in float64: samples in several dtypes may be alike there."""
    moved = [_moved(case.op, array) for array in case.inputs]
    return case.op, str(case.params), *((array.dtype, array.shape, array.tobytes()) for array in moved)


LONG = ("betainc", "betaincc", "betaincinv", "gammaincinv")  # decompositions of hundreds of operations
DISTINCT = tuple({_differentiated(case): case for case in SMOOTH if not TORCH_OPS[case.op].regions}.values())


# Regions have one dtype, and here it is widened; derivatives of control flow are tested in tests/frontend/test_jit.py.
@pytest.mark.one_in(3)
@over(case for case in DISTINCT if case.op not in LONG)
def test_derivatives_are_limits_of_differences(case: Case) -> None:
    _has_its_derivative(case)


@pytest.mark.full  # the usual suite has them in tests/backend/torch/test_special.py
@over(case for case in DISTINCT if case.op in LONG)
def test_derivatives_of_long_operations_are_limits_of_differences(case: Case) -> None:
    _has_its_derivative(case)


def _has_its_derivative(case: Case) -> None:
    inputs = tuple(_moved(case.op, array) for array in case.inputs)
    program = one_equation(case.op, inputs, case.params, table=TORCH_OPS)
    if program.results[0].type.dtype.kind != "float":
        return
    tensors = [to_torch(array).requires_grad_(array.dtype.kind == "f") for array in inputs]
    derivative = TORCH_OPS[case.op].derivative
    if derivative is Derivative.BESIDE_KINKS and len(tensors) == 2:
        tensors[1] = (tensors[1] * 0.77 + 0.3).detach().requires_grad_()

    def first(*xs: torch.Tensor) -> torch.Tensor:
        symmetric = [(x + x.mT) / 2 for x in xs] if derivative is Derivative.OF_SYMMETRIC else xs
        return run_torch(program, *symmetric)[0]

    assert torch.autograd.gradcheck(first, tensors, atol=1e-5, rtol=1e-4)
    assert torch.autograd.gradgradcheck(first, tensors, atol=1e-4, rtol=1e-3, fast_mode=True)


@grouped("op", operations(TORCH_OPS), ids=lambda op: op.name)
def test_derivatives_over_numbers_of_all_sizes(op) -> None:
    check_operation(op)


NAIVE = {
    "softplus": ("torch.logaddexp({0}, torch.zeros_like({0}))", "no finite second derivative"),
    "hypot": ("torch.hypot({0}, {1})", "no finite first derivative"),
    "pow": ("torch.pow({0}, {1})", "another second derivative"),
    "tanh": ("torch.tanh({0}).detach() + ({0} - {0}.detach())", "another first derivative"),
}


@pytest.mark.parametrize("name", NAIVE)
def test_naive_operations_are_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text, message = NAIVE[name]
    monkeypatch.setitem(
        ROWS, name, Row(lambda call: text.format(*(call.tensor(place) for place in range(ARITIES[name]))))
    )
    with pytest.raises(AssertionError, match=message):
        check_operation(TORCH_OPS[name])
