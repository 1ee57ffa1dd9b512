"""The cases of the tests over the table of operations: each row's samples, and what the samples alone do not say."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from plica.errors import DTypeError
from plica.ir.dtypes import DType, as_dtype
from plica.ir.op import Op
from plica.ir.types import array_type
from plica.ops import OPS
from tests.harness.programs import Array
from tests.harness.together import in_parts


@dataclass(frozen=True, slots=True)
class Case:
    """One operation on some inputs."""

    op: str
    number: str
    inputs: tuple[Array, ...]
    params: Mapping[str, Any]

    def __str__(self) -> str:
        shown = ",".join(f"{array.dtype}{list(array.shape)}" for array in self.inputs).replace(" ", "")
        return f"{self.op}-{self.number}-{shown}"


def samples_of(ops: Iterable[Op]) -> tuple[Case, ...]:
    """All samples of some operations."""
    return tuple(
        Case(op.name, str(number), one.inputs, one.params) for op in ops for number, one in enumerate(op.samples())
    )


SAMPLES = samples_of(OPS.values())
_FLOAT_SPECIAL = np.asarray([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 2.5, 1e30, -1e-30])


def _is_elementwise(case: Case) -> bool:
    return not case.params and all(array.ndim == 2 and array.shape == (2, 3) for array in case.inputs)


def _special() -> Iterator[Case]:
    """Elementwise rows on NaN, infinities, signed zeros and numbers of extreme size, each with each."""
    for case in SAMPLES:
        dtypes = {array.dtype.name for array in case.inputs}
        if not _is_elementwise(case) or not dtypes <= {"float32", "float64"} or not OPS[case.op].agreed:
            continue
        values = _FLOAT_SPECIAL.astype(case.inputs[0].dtype)
        if len(case.inputs) == 1:
            yield Case(case.op, "special", (values,), {})
        else:
            yield Case(case.op, "special", (values[:, None], values), {})


def _scalars() -> Iterator[Case]:
    """Elementwise rows on arrays of no dimension."""
    for case in SAMPLES:
        if _is_elementwise(case) and not case.op.startswith("search"):
            yield Case(case.op, "scalar", tuple(array[-1, -1].copy() for array in map(np.asarray, case.inputs)), {})


_X = np.arange(6, dtype="float32").reshape(2, 3) - 2.5
_NO = np.zeros((0, 3), "float32")
_KEEP = {"keepdims": True}
_DROP = {"keepdims": False}
_EDGES: tuple[tuple[str, tuple[Any, ...], dict[str, Any]], ...] = (
    *((op, (_X,), {"axis": (), **_DROP}) for op in ("sum", "prod", "mean", "max", "min", "logsumexp")),
    *((op, (_X > 0,), {"axis": (), **_DROP}) for op in ("any", "all")),
    *((op, (np.asarray(2.5, "float32"),), {"axis": (), **_KEEP}) for op in ("sum", "prod", "mean", "max", "logsumexp")),
    *((op, (_NO,), {"axis": axis, **_DROP}) for op in ("sum", "prod", "mean") for axis in ((0,), (1,), (0, 1))),
    *((op, (_NO,), {"axis": axis, **_KEEP}) for op in ("logsumexp",) for axis in ((0,), (1,), (0, 1))),
    *((op, (_NO,), {"axis": (1,), **_DROP}) for op in ("max", "min")),
    *((op, (_NO > 0,), {"axis": axis, **_KEEP}) for op in ("any", "all") for axis in ((0,), (0, 1))),
    *((op, (_X.astype(dtype),), {"axis": (1,), **_DROP}) for op in ("sum", "prod") for dtype in ("int8", "int64")),
    *((op, (np.abs(_X).astype("uint8"),), {"axis": (0, 1), **_DROP}) for op in ("sum", "prod", "max", "min")),
    *((op, (_X > 0,), {"axis": (0,), **_DROP}) for op in ("sum", "prod")),
    *((op, (_X.astype("int8"),), {"axis": (), **_DROP}) for op in ("sum", "prod")),
    *(
        (op, (np.asarray([[np.nan, 1.0], [0.0, np.inf]]),), {"axis": (1,), **_DROP})
        for op in ("sum", "max", "min", "mean")
    ),
    ("logsumexp", (np.asarray([[np.nan, 1.0], [np.inf, 0.0], [-np.inf, np.inf]]),), {"axis": (1,), **_DROP}),
    ("logsumexp", (np.asarray([[1e4, 1e4], [-1e4, -1e4]], "float32"),), {"axis": (0, 1), **_KEEP}),
    *(
        (op, (np.asarray([[2, 1, 2], [0, 0, 1]], dtype),), {"axis": 1, **_DROP})
        for op in ("argmax", "argmin")
        for dtype in ("int32", "float64")
    ),
    *((op, (_NO,), {"axis": axis}) for op in ("softmax", "log_softmax", "cumulative_sum") for axis in (0, 1)),
    ("cumulative_sum", (np.abs(_X).astype("uint8"),), {"axis": 1}),
    ("cumulative_sum", (_X.astype("int8"),), {"axis": 0}),
    ("reshape", (_NO,), {"shape": (3, 0, 7)}),
    ("reshape", (np.float64(1.5).reshape(()),), {"shape": (1, 1)}),
    ("permute_dims", (np.float64(1.5).reshape(()),), {"axes": ()}),
    ("broadcast_to", (np.asarray(1.5),), {"shape": (2, 0, 3)}),
    ("broadcast_to", (np.asarray(1.5),), {"shape": ()}),
    ("expand_dims", (np.asarray(1.5),), {"axis": 0}),
    ("squeeze", (_X,), {"axis": ()}),
    ("concat", (_NO, _X), {"axis": 0}),
    ("concat", (_X,), {"axis": -1}),
    ("stack", (np.asarray(1.5), np.asarray(2.5)), {"axis": 0}),
    ("flip", (_NO,), {"axis": (0, 1)}),
    ("flip", (_X,), {"axis": ()}),
    ("slice", (_X,), {"axis": 1, "start": 3, "stop": 3, "step": 1}),
    ("slice", (_X,), {"axis": 0, "start": 1, "stop": 2, "step": 5}),
    ("slice", (_X,), {"axis": -1, "start": 0, "stop": 3, "step": 2}),
    ("full", (np.asarray(True),), {"shape": (0, 2)}),
    ("arange", (), {"size": 3, "dtype": DType.UINT8}),
    ("index", (_X[0], np.int64(-3)), {"axis": 0}),
    ("gather", (_X, np.asarray([], "uint8")), {"axes": (1,)}),
    ("gather", (_X, np.asarray([[1, -3]], "int8")), {"axes": (-1,)}),
    ("gather", (_X, np.asarray(1), np.asarray([-1, 0], "int32")), {"axes": (0, 1)}),
    ("update", (_NO, np.float32(1)), {"mode": "add", "index": (None, (0, 3, 1))}),
    ("update", (_X, np.float32(1), np.zeros((0, 2), "int64")), {"mode": "max", "index": ("at", None)}),
    ("update", (_X > 0, np.asarray(True), np.asarray([1, -1])), {"mode": "set", "index": (None, "at")}),
    ("update", (_X + 1j, _X[0, :, None] + 0j, np.asarray([1, 1, 1])), {"mode": "multiply", "index": ((1, 2, 1), "at")}),
    ("update", (np.asarray(1), np.asarray(2)), {"mode": "set", "index": ()}),
    (
        "update",
        (np.asarray([np.nan, 0.0, 1.0]), np.asarray(2.0), np.asarray([0, 0])),
        {"mode": "min", "index": ("at",)},
    ),
    ("nonzero", (_NO,), {}),
    ("unique", (_NO,), {"parts": ("values", "indices", "inverse", "counts")}),
    ("take", (_X, np.asarray([], "int64")), {"axis": 1}),
    ("take", (_X, np.asarray([1, 0], "uint8")), {"axis": -1}),
    ("take", (_X, np.asarray([1, 0], "int32")), {"axis": 0}),
    ("take_along_axis", (_X, np.asarray([[1], [0]], "int32")), {"axis": -1}),
    ("take_along_axis", (_NO, np.zeros((0, 1), "int64")), {"axis": 1}),
    ("lookup", (_X[None], np.zeros((1, 0), "int64")), {}),
    ("lookup", (_X[None], np.asarray([[2, 0]], "int32")), {}),
    ("lookup", (_X[None], np.asarray([[2, 0]], "uint8")), {}),
    ("search_cumulative", (np.abs(_X[None]), np.asarray([[1, 0]], "int32"), np.asarray([[0.5, 0.9]], "float32")), {}),
    ("search_cumulative", (np.ones((1, 2, 1)), np.asarray([[1, 0]]), np.asarray([[0.0, 0.9]])), {}),
    ("matmul", (_X.T[:, :0], _NO[:, :1].reshape(0, 1)), {}),
    ("matmul", (_X[0], _X[1]), {}),
    ("matmul", (_X.astype("int64"), _X.T.astype("int64")), {}),
    ("einsum", (_X, _X[0]), {"equation": "ab,b->a"}),
    ("einsum", (_NO, _NO), {"equation": "ab,cb->ac"}),
    ("einsum", (_X, _X), {"equation": "ab,ab->"}),
    ("einsum", (_X.T @ _X,), {"equation": "aa->a"}),
    ("where", (np.asarray(True), np.asarray([1, 2], "uint8"), np.asarray(3, "uint8")), {}),
    ("logaddexp", (_X,), {}),
    ("logaddexp", (np.asarray([np.nan, np.inf, np.inf, -np.inf]), np.asarray([1.0, 2.0, np.inf, np.inf])), {}),
    ("astype", (np.asarray([1.9, -1.9, 0.0]),), {"dtype": DType.INT32}),
    ("astype", (np.asarray([1.5, np.nan, 0.0, -0.0]),), {"dtype": DType.BOOL}),
    *(
        (
            op,
            (np.asarray([[1.0, np.nan, np.inf], [np.nan, np.nan, 0.0], [3.0, 1.0, 3.0]], dtype),),
            {"axis": 1, **_DROP},
        )
        for op in ("argmax", "argmin")
        for dtype in ("float32", "float64")
    ),
    ("astype", (np.asarray([300, -1]),), {"dtype": DType.UINT8}),
    ("astype", (np.asarray([1.5, -2.0]),), {"dtype": DType.COMPLEX64}),
    ("astype", (np.asarray(2**53 + 1),), {"dtype": DType.FLOAT32}),
    ("floor_divide", (np.asarray([7, -7, 7, -7]), np.asarray([2, 2, -2, -2])), {}),
    ("floor_divide", (np.asarray([7.5, -7.5, 7.5]), np.asarray([2.0, 2.0, -2.0])), {}),
    ("remainder", (np.asarray([7, -7, 7, -7]), np.asarray([2, 2, -2, -2])), {}),
    ("remainder", (np.asarray([7.5, -7.5, 7.5]), np.asarray([2.0, 2.0, -2.0])), {}),
    ("round", (np.asarray([0.5, 1.5, 2.5, -0.5, -1.5]),), {}),
    ("log_matmul_exp", (_X[None, :, :0], np.zeros((1, 2, 0), "float32")), {}),
)
EDGES = tuple(Case(op, f"edge{number}", inputs, params) for number, (op, inputs, params) in enumerate(_EDGES))
SPECIAL = tuple(_special())
SCALARS = tuple(_scalars())
CASES = (*SAMPLES, *EDGES, *SPECIAL, *SCALARS)


def _complex() -> Iterator[Case]:
    """Samples of floats as complex numbers, of operations that take these and have no such samples of their own."""
    shown = {case.op for case in CASES if any(array.dtype.kind == "c" for array in case.inputs)}
    for case in (*SAMPLES, *EDGES):
        is_float = any(array.dtype.kind == "f" for array in case.inputs)
        if is_float and case.op not in shown and not OPS[case.op].regions:
            inputs = tuple(map(_as_complex, case.inputs))
            with suppress(DTypeError):
                OPS[case.op].type_rule(*(array_type(one.shape, as_dtype(one.dtype)) for one in inputs), **case.params)
                yield Case(case.op, f"complex{case.number}", inputs, case.params)


def _as_complex(array: Array) -> Array:
    if array.dtype.kind != "f" or array.dtype.itemsize < 4:
        return array
    with np.errstate(all="ignore"):
        return array + np.flip(array) * array.dtype.type(1) * 1j


COMPLEX = tuple(_complex())


_TOGETHER = 6  # operations of one test


def of_some_operations(cases: Iterable[Case]) -> list[list[Case]]:
    """The cases in parts, those of some operations in each."""
    groups: dict[str, list[Case]] = {}
    for case in cases:
        groups.setdefault(case.op, []).append(case)
    every = list(groups.values())
    return [list(chain(*every[start : start + _TOGETHER])) for start in range(0, len(every), _TOGETHER)]


def over(cases: Iterable[Case]) -> Callable[[Callable[..., None]], Any]:
    """Parametrizes a test by `case`; the cases of some operations share a test."""
    return in_parts("case", of_some_operations(cases), ids=str)
