"""Type rules on sizes that are not known yet, and on operands that do not fit."""

from typing import Any

import pytest

from plica.errors import DTypeError, ShapeError, UndecidedSizeError, VerifyError
from plica.ir.dtypes import DType
from plica.ir.sizes import Dim, Size
from plica.ir.types import ArrayType, DBIdx, array_type
from plica.ops import OPS
from tests.harness.together import grouped

N, M = Size.of(DBIdx(0)), Size.of(DBIdx(1))


def _float(*shape: Dim) -> ArrayType:
    return array_type(shape, DType.FLOAT32)


def _int(*shape: Dim) -> ArrayType:
    return array_type(shape, DType.INT64)


_X = _float(2, 3)
REFUSED: Any = (
    # operation, operands, parameters, error, part of the message
    ("concat", (_X, _float(2)), {"axis": 0}, ShapeError, "must have equal sizes outside axis 0"),
    ("concat", (_float(N), _float(N, 1)), {"axis": 0}, ShapeError, "must have equal sizes outside axis 0"),
    ("concat", (_X, _int(2, 3)), {"axis": 0}, DTypeError, "dtypes differ"),
    ("stack", (_float(N), _float(N + 1)), {"axis": 0}, ShapeError, "different shapes"),
    ("reshape", (_float(N),), {"shape": (N + 1,)}, ShapeError, "has DBIdx.0. elements and cannot become"),
    ("broadcast_to", (_float(N),), {"shape": (N + 1,)}, ShapeError, "does not broadcast"),
    ("broadcast_to", (_float(N, 1),), {"shape": (N,)}, ShapeError, "does not broadcast"),
    ("unstack", (_X,), {"axis": 2}, ShapeError, "axis 2 does not exist"),
    ("unstack", (_float(0, 2),), {"axis": 0}, ShapeError, "needs a known size of at least 1"),
    ("unstack", (_float(N, 2),), {"axis": 0}, ShapeError, "needs a known size of at least 1"),
    ("roll", (_X,), {"shift": (1,), "axis": (0, 1)}, ShapeError, r"1 shift\(s\) for 2 axes"),
    ("roll", (_X,), {"shift": (1,), "axis": (2,)}, ShapeError, "axis 2 does not exist"),
    ("tril", (_float(2),), {"k": 0}, ShapeError, "part of a matrix"),
    ("triu", (_float(2),), {"k": 0}, ShapeError, "part of a matrix"),
    ("conj", (_X,), {}, DTypeError, "found float32, expected complex"),
    ("real", (_X,), {}, DTypeError, "found float32, expected complex"),
    ("imag", (_X,), {}, DTypeError, "found float32, expected complex"),
    ("bitwise_left_shift", (_X, _X), {}, DTypeError, "found float32, expected int"),
    ("nextafter", (_int(2), _int(2)), {}, DTypeError, "found int64, expected float"),
    ("clip", (_X, _X, _int()), {}, DTypeError, "dtypes differ"),
    ("clip", (_X, _float(2), _X), {}, ShapeError, "do not broadcast"),
    ("clip", (_X, _X), {}, VerifyError, "missing a required argument"),
    ("isin", (_X, _int(2)), {}, DTypeError, "dtypes differ"),
    ("isin", (array_type((2,), DType.BOOL),) * 2, {}, DTypeError, "found bool, expected int or float"),
    ("sort", (_X,), {"axis": 2, "descending": False}, ShapeError, "axis 2 does not exist"),
    ("argsort", (_float(),), {"axis": -1, "descending": False}, ShapeError, "axis -1 does not exist"),
    ("sort", (array_type((2,), DType.COMPLEX64),), {"axis": 0, "descending": True}, DTypeError, "found complex64"),
    ("searchsorted", (_X, _X), {"side": "left"}, ShapeError, "an array of one dimension"),
    ("searchsorted", (_float(2), _float(2)), {"side": "middle"}, ShapeError, "'left' or 'right', found 'middle'"),
    ("searchsorted", (_float(2), _int(2)), {"side": "left"}, DTypeError, "dtypes differ"),
    ("cumulative_prod", (_X,), {"axis": 2}, ShapeError, "axis 2 does not exist"),
)


@grouped("row", REFUSED, ids=lambda row: f"{row[0]}-{row[4]}")
def test_type_rules_refuse(row) -> None:
    op, types, params, error, message = row
    with pytest.raises(error, match=message) as caught:
        OPS[op].types(types, params)
    assert not isinstance(caught.value, UndecidedSizeError)


UNDECIDED: Any = (
    # operation, operands, parameters, the sizes of which it is not known whether they are equal
    ("add", (_float(N), _float(M)), {}, (N, M)),
    ("add", (_float(N), _float(3)), {}, (N, 3)),
    ("clip", (_float(N), _float(M), _float()), {}, (N, M)),
    ("reshape", (_float(N),), {"shape": (2, M)}, (2 * M, N)),
    ("reshape", (_float(N),), {"shape": (4,)}, (4, N)),
    ("broadcast_to", (_float(N),), {"shape": (2, M)}, (M, N)),
    ("broadcast_to", (_float(N),), {"shape": (5,)}, (5, N)),
    ("squeeze", (_float(2, N),), {"axis": (1,)}, (1, N)),
    ("concat", (_float(2, N), _float(2, M)), {"axis": 0}, (N, M)),
    ("concat", (_float(2, N), _float(2, 3)), {"axis": 0}, (3, N)),
    ("stack", (_float(N), _float(N), _float(M)), {"axis": 0}, (N, M)),
)


@pytest.mark.parametrize("row", UNDECIDED, ids=lambda row: f"{row[0]}-{row[3][0]}-{row[3][1]}")
def test_type_rules_ask_for_equal_sizes(row) -> None:
    op, types, params, sizes = row
    with pytest.raises(UndecidedSizeError, match="is not known before the program runs") as caught:
        OPS[op].types(types, params)
    assert (caught.value.first, caught.value.second) == sizes


SYMBOLIC: Any = (
    # operation, operands, parameters, the shape of every result
    ("add", (_float(N, 1), _float(M)), {}, (N, M)),
    ("reshape", (_float(2 * N),), {"shape": (2, N)}, (2, N)),
    ("reshape", (_float(N, M),), {"shape": (M * N,)}, (N * M,)),
    ("broadcast_to", (_float(1, N),), {"shape": (M, N)}, (M, N)),
    ("squeeze", (_float(1, N),), {"axis": (0,)}, (N,)),
    ("concat", (_float(N, 2), _float(M, 2), _float(3, 2)), {"axis": 0}, (N + M + 3, 2)),
    ("stack", (_float(N), _float(N)), {"axis": 1}, (N, 2)),
    ("roll", (_float(N),), {"shift": (M,), "axis": (0,)}, (N,)),
    ("tril", (_float(N, M),), {"k": N - 1}, (N, M)),
    ("unstack", (_float(N, 2),), {"axis": 1}, (N,)),
    ("searchsorted", (_float(N), _float(M, N)), {"side": "left"}, (M, N)),
    ("full", (_float(),), {"shape": (N, 2 * M)}, (N, 2 * M)),
)


@pytest.mark.parametrize("row", SYMBOLIC, ids=lambda row: f"{row[0]}-{row[3]}")
def test_type_rules_compute_with_sizes(row) -> None:
    op, types, params, shape = row
    assert all(type_.shape == shape for type_ in OPS[op].types(types, params))
