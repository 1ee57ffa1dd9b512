"""Operations of this backend alone: their types, text and ranges, and that no Program outside has one."""

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
    ("multiply_runs", (_X,), {"runs": ((0, 0, 0, 1, 2),)}, ShapeError, "no run of 2 from 1"),
    ("multiply_runs", (_X,), {"runs": ((0, 0, 1, 0, 2),)}, ShapeError, "reads array 1 of 1"),
    (
        "multiply_runs",
        (_X, array_type((2, 4), DType.FLOAT32)),
        {"runs": ((0, 0, 1, 0, 2),)},
        ShapeError,
        "differ in other axes",
    ),
    ("multiply_runs", (_I,), {"runs": ((0, 0, 0, 0, 2),)}, DTypeError, "found int64, expected float"),
    (
        "lookup_softmax",
        (array_type((1, 2, 3), DType.INT64), array_type((1, 2), DType.INT64)),
        {},
        DTypeError,
        "expected float",
    ),
)


@pytest.mark.parametrize(("op", "types", "params", "error", "message"), REFUSED)
def test_wrong_operands_are_refused(
    op: str, types: Any, params: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        TORCH_OPS[op].types(types, params)


def test_programs_outside_have_none() -> None:
    """Neither Programs of users nor their text: generated code alone is made of them."""

    def both(x: Any, i: Any) -> Any:
        product = pnp.concat([x[8:], x[:8]]) * pnp.concat([x[4:12], x[:8]])
        return product, pnp.lookup(pnp.softmax(x, axis=2), i)

    function = plica.jit(both)
    function(torch.ones(16, 2, 3), torch.zeros(16, 4, dtype=torch.int64))
    for op in PRIVATE:
        assert f"kernels.{op.name}(" in function.code
        assert op.name not in OPS
        assert op.name not in str(function.program)
    with pytest.raises(ParseError, match="expected the name of an operation in the table, found 'lookup_softmax'"):
        plica.parse("{ lambda ; x:f32[1,2,3] i:i64[1,4] . let y:f32[1,4,2] = lookup_softmax x i in (y,) }")
