"""The operation of this backend alone: its types, text and range, and that no Program outside has it."""

from typing import Any

import pytest
import torch

import plica
import plica.numpy as pnp
from plica.backend.torch.operations.private import PRIVATE, TORCH_OPS
from plica.errors import DTypeError, ParseError, ShapeError
from plica.ir.dtypes import DType
from plica.ir.types import array_type
from plica.ops import OPS
from tests.harness.operation_rows import check_samples, check_text, check_types, outside
from tests.harness.samples import Case, over, samples_of

CASES = samples_of(PRIVATE)
_X, _I = array_type((2, 3), DType.FLOAT32), array_type((2,), DType.INT64)


@over(CASES)
def test_rows_are_what_their_references_are(case: Case) -> None:
    check_types(case, TORCH_OPS)
    check_text(case, TORCH_OPS)
    assert not outside(TORCH_OPS[case.op], case, TORCH_OPS)


def test_rows_have_samples() -> None:
    check_samples(PRIVATE, TORCH_OPS)


REFUSED: Any = (
    ("multiply_runs", (_X,), {"runs": ()}, ShapeError, "found 1 and 0"),
    ("multiply_runs", (_X,), {"runs": ((0, 0, 0, 1, 2),)}, ShapeError, "no run of 2 folds from 1"),
    ("multiply_runs", (_X,), {"runs": ((0, 0, 1, 0, 2),)}, ShapeError, "expected an array from 0 to 0, found 1"),
    (
        "multiply_runs",
        (_X, array_type((2, 4), DType.FLOAT32)),
        {"runs": ((0, 0, 1, 0, 2),)},
        ShapeError,
        "differ in other axes",
    ),
    ("multiply_runs", (_I,), {"runs": ((0, 0, 0, 0, 2),)}, DTypeError, "found int64, expected float"),
)


@pytest.mark.parametrize(("op", "types", "params", "error", "message"), REFUSED)
def test_wrong_operands_are_refused(
    op: str, types: Any, params: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        TORCH_OPS[op].types(types, params)


def test_programs_outside_have_none() -> None:
    """Neither Programs of users nor their text: generated code alone is made of them."""

    function = plica.jit(lambda x: pnp.concat([x[8:], x[:8]]) * pnp.concat([x[4:12], x[:8]]))
    function(torch.ones(16, 3))
    assert "kernels.multiply_runs(" in function.code
    assert "multiply_runs" not in str(function.program)
    assert not {op.name for op in PRIVATE} & {*OPS}
    with pytest.raises(ParseError, match="expected the name of an operation in the table, found 'multiply_runs'"):
        plica.parse("{ lambda ; x:f32[4] . let y:f32[2] = multiply_runs[runs=((0,0,0,1,2))] x in (y,) }")
