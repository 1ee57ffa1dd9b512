"""Every row of the table: its type rule is what its reference does, and the interpreter computes the reference."""

from typing import Any

import numpy as np
import pytest

from plica.errors import DTypeError, InputError, PlicaError, ShapeError, VerifyError
from plica.frontend.programs import interpret
from plica.ir.dtypes import DType, as_dtype
from plica.ir.op import Unsupported, op_table, unsupported
from plica.ir.types import array_type
from plica.ops import OPS
from plica.ops.elementwise import ELEMENTWISE
from tests.harness.operation_rows import check_samples, check_text, check_types
from tests.harness.programs import one_equation
from tests.harness.samples import CASES, Case, over
from tests.harness.together import grouped

pytestmark = pytest.mark.filterwarnings("ignore:Mean of empty slice")


@over(CASES)
def test_type_rule_and_interpreter_follow_the_reference(case: Case) -> None:
    check_types(case)


@over(CASES)
def test_text_is_read_back(case: Case) -> None:
    check_text(case)


def test_rows_have_samples_with_something_in_them() -> None:
    check_samples(OPS.values())


@over(CASES)
def test_what_must_not_be_negative_is_not_for_what_a_row_computes(case: Case) -> None:
    types = [array_type(array.shape, as_dtype(array.dtype)) for array in case.inputs]
    assert not OPS[case.op].checks_sizes(types, case.params)


def test_names_are_the_keys() -> None:
    assert all(name == op.name for name, op in OPS.items())


def test_two_rows_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="two operations are named 'acos'"):
        op_table(ELEMENTWISE, ELEMENTWISE[:1])


def test_a_missing_column_says_why() -> None:
    with pytest.raises(PlicaError, match="no pictures"):
        unsupported("no pictures")(1, two=2)
    assert all(isinstance(op.decompose, Unsupported) or callable(op.decompose) for op in OPS.values())


F32, I64, BOOL = DType.FLOAT32, DType.INT64, DType.BOOL
_X, _I = array_type((2, 3), F32), array_type((2,), I64)
_VECTORS, _FACTORS = array_type((1, 2, 4, 3), F32), array_type((1, 4, 3, 3), F32)
REFUSED: Any = (
    # operation, operands, parameters, error, part of the message
    ("add", (_X, array_type((2,), F32)), {}, ShapeError, "do not broadcast: 3 against 2"),
    ("add", (_X, array_type((2, 3), I64)), {}, DTypeError, "dtypes differ"),
    ("add", (array_type((2,), BOOL),) * 2, {}, DTypeError, "found bool, expected int or float or complex"),
    ("add", (_X,), {}, VerifyError, "takes 2 operand"),
    ("add", (_X, _X, _X), {}, VerifyError, "takes 2 operand"),
    ("exp", (_I,), {}, DTypeError, "found int64, expected float"),
    ("exp", (), {}, VerifyError, "takes 1 operand"),
    ("matmul", (_X,), {}, VerifyError, "missing a required argument"),
    ("softmax", (_X,), {"axis": 0, "keepdims": True}, VerifyError, "unexpected keyword argument .keepdims"),
    ("logaddexp", (), {}, VerifyError, "at least 1"),
    ("log_normal", (_X, _X), {}, VerifyError, "takes 3 operand"),
    ("log_normal", (_I, _I, _I), {}, DTypeError, "found int64, expected float"),
    ("log_multivariate_normal", (_X, _X), {}, ShapeError, r"takes vectors \(F, B, K, V\) and factors"),
    (
        "log_multivariate_normal",
        (_VECTORS, _FACTORS, array_type((1, 2, 4), BOOL)),
        {},
        ShapeError,
        "missing entries of vectors",
    ),
    ("log_multivariate_normal", (_VECTORS, _FACTORS, _FACTORS), {}, ShapeError, "missing entries of vectors"),
    (
        "regression_matrix",
        (_X, array_type((1, 2, 4), BOOL)),
        {},
        ShapeError,
        r"factors of covariances are \(F, K, V, V",
    ),
    (
        "regression_matrix",
        (_FACTORS, array_type((1, 2, 4), BOOL)),
        {},
        ShapeError,
        "missing entries of vectors with factors",
    ),
    (
        "conditional_moments",
        (array_type((1, 2, 3, 4), F32), array_type((1, 3, 4, 4), F32), array_type((1, 2, 4), BOOL), _X),
        {},
        ShapeError,
        "the weights of vectors",
    ),
    ("conditional_factor", (_FACTORS, _FACTORS), {}, ShapeError, "missing entries of vectors with factors"),
    ("where", (_X, _X, _X), {}, DTypeError, "condition of where is float32"),
    ("where", (array_type((3,), BOOL), _X, _I), {}, ShapeError, "do not broadcast"),
    ("max", (array_type((0, 2), F32),), {"axis": (0,), "keepdims": False}, ShapeError, "axis of size 0"),
    ("argmax", (array_type((0, 2), F32),), {"axis": 0, "keepdims": False}, ShapeError, "axis of size 0"),
    ("sum", (_X,), {"axis": (2,), "keepdims": False}, ShapeError, "axis 2 does not exist"),
    ("sum", (_X,), {"axis": (1, -1), "keepdims": False}, ShapeError, "named twice"),
    ("softmax", (_X,), {"axis": -3}, ShapeError, "axis -3 does not exist"),
    ("reshape", (_X,), {"shape": (4,)}, ShapeError, "6 elements and cannot become"),
    ("reshape", (_X,), {"shape": (-1,)}, ShapeError, "names every size"),
    ("permute_dims", (_X,), {"axes": (0, 0)}, ShapeError, "no permutation"),
    ("broadcast_to", (_X,), {"shape": (3,)}, ShapeError, "does not broadcast"),
    ("broadcast_to", (_X,), {"shape": (2, 6)}, ShapeError, "does not broadcast"),
    ("expand_dims", (_X,), {"axis": 3}, ShapeError, "axis 3 does not exist"),
    ("squeeze", (_X,), {"axis": (0,)}, ShapeError, "has size 2"),
    ("concat", (_X, array_type((3, 2), F32)), {"axis": 0}, ShapeError, "must have equal sizes outside axis 0"),
    ("concat", (), {"axis": 0}, VerifyError, "at least 1"),
    ("stack", (_X, array_type((3, 2), F32)), {"axis": 0}, ShapeError, "different shapes"),
    ("stack", (), {"axis": 0}, VerifyError, "at least 1"),
    ("slice", (_X,), {"axis": 0, "start": 1, "stop": 3, "step": 1}, ShapeError, "does not lie within"),
    ("slice", (_X,), {"axis": 0, "start": 0, "stop": 2, "step": 0}, ShapeError, "does not lie within"),
    ("full", (_X,), {"shape": (2,)}, ShapeError, "takes a scalar"),
    ("take", (_X, _X), {"axis": 0}, DTypeError, "found float32, expected int"),
    ("take", (_X, array_type((1, 1), I64)), {"axis": 0}, ShapeError, "one dimension"),
    ("take_along_axis", (_X, _I), {"axis": 0}, ShapeError, "do not match"),
    ("index", (_X, _I), {"axis": 0}, DTypeError, r"reads at a scalar i64\[\]"),
    ("index", (_X, array_type((), DType.INT32)), {"axis": 0}, DTypeError, r"reads at a scalar i64\[\]"),
    ("index", (_X, array_type((), I64)), {"axis": 2}, ShapeError, "axis 2 does not exist"),
    ("gather", (_X,), {"axes": ()}, VerifyError, "one array of indices for each"),
    ("gather", (_X, _I, _I), {"axes": (0,)}, VerifyError, "one array of indices for each"),
    ("gather", (_X, _I, _I), {"axes": (1, -1)}, ShapeError, "reads an axis twice"),
    ("gather", (_X, _X), {"axes": (0,)}, DTypeError, "found float32, expected int"),
    ("gather", (_X, _I, array_type((3,), I64)), {"axes": (0, 1)}, ShapeError, "do not broadcast"),
    ("update", (_X, _X), {"mode": "set", "index": (None,)}, VerifyError, "an entry for each axis"),
    ("update", (_X, _X), {"mode": "set", "index": (None, "at")}, VerifyError, "an operand for each 'at'"),
    ("update", (_X, _X), {"mode": "set", "index": (None, "all")}, VerifyError, "axis 1 is updated at 'all'"),
    ("update", (_X, _X), {"mode": "subtract", "index": (None, None)}, VerifyError, "no update 'subtract'"),
    ("update", (_X, _I), {"mode": "set", "index": (None, None)}, DTypeError, "the dtypes differ"),
    (
        "update",
        (_X, _X),
        {"mode": "set", "index": (None, (1, 4, 1))},
        ShapeError,
        "slice 1:4 does not lie within axis 1",
    ),
    (
        "update",
        (_X, _X),
        {"mode": "set", "index": (None, (0, 2, 1))},
        ShapeError,
        r"\(2, 3\) do not broadcast to \(2, 2\)",
    ),
    ("nonzero", (array_type((), BOOL),), {}, ShapeError, "nonzero of the scalar"),
    ("unique", (_X,), {"parts": ("counts",)}, VerifyError, "unique returns .values. and possibly others"),
    ("unique", (_X,), {"parts": ("values", "mode")}, VerifyError, "unique returns .values. and possibly others"),
    ("lookup", (_X, _I), {}, ShapeError, r"lookup takes a table \(F, K, C\)"),
    ("search_cumulative", (_X, _I, _X), {}, ShapeError, "search_cumulative takes"),
    ("matmul", (_X, _X), {}, ShapeError, "3 against 2"),
    ("matmul", (_X, array_type((), F32)), {}, ShapeError, "no scalars"),
    ("einsum", (_X,), {"equation": "ab"}, ShapeError, "needs '->'"),
    ("einsum", (_X, _X), {"equation": "ab,bc->ac"}, ShapeError, "axis 'b' is both 3 and 2"),
    ("einsum", (_X,), {"equation": "ab->c"}, ShapeError, "must occur once"),
    ("einsum", (array_type((2,), BOOL),), {"equation": "a->"}, DTypeError, "found bool"),
    ("log_matmul_exp", (_X, array_type((4, 2), F32)), {}, ShapeError, "takes a weight"),
    ("log_matmul_exp", (_X,), {}, VerifyError, "at least 2"),
)


@grouped("row", REFUSED, ids=lambda row: f"{row[0]}-{row[4]}")
def test_type_rules_refuse(row) -> None:
    op, types, params, error, message = row
    with pytest.raises(error, match=message):
        OPS[op].types(types, params)


OUTSIDE: Any = (
    ("take", (np.zeros((2, 3)), np.asarray([0, 2])), {"axis": 0}, "index 2 does not lie within an axis of size 2"),
    ("take", (np.zeros((2, 3)), np.asarray([-1])), {"axis": 0}, "index -1 does not lie"),
    ("take_along_axis", (np.zeros((1, 3)), np.asarray([[3]])), {"axis": 1}, "index 3 does not lie"),
    ("index", (np.zeros((2, 3)), np.int64(2)), {"axis": 0}, "index 2 does not lie within axis 0 of size 2"),
    (
        "gather",
        (np.zeros((2, 3)), np.asarray([0, -4])),
        {"axes": (1,)},
        "index -4 does not lie within axis 1 of size 3",
    ),
    ("lookup", (np.zeros((1, 2, 3)), np.asarray([[3]])), {}, "index 3 does not lie"),
    ("search_cumulative", (np.ones((1, 2, 3)), np.asarray([[2]]), np.zeros((1, 1))), {}, "index 2 does not lie"),
)


@pytest.mark.parametrize("row", OUTSIDE, ids=lambda row: f"{row[0]}-{row[3]}")
def test_the_interpreter_refuses_indices_outside(row) -> None:
    op, inputs, params, message = row
    with pytest.raises(InputError, match=message):
        interpret(one_equation(op, inputs, params), *inputs)
