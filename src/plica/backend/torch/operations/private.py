"""The operation that generated code has beside Plica's own: `multiply_runs`, which `run_products.py` alone makes.

It multiplies runs, which are neighbours along the first axis: `concat(x[0:2], x[1:3]) * concat(x[2:4], x[0:2])` without
the joins.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from plica.backend.torch.operations.call import Row
from plica.errors import ShapeError
from plica.ir.op import Op, Sample, sample
from plica.ir.sizes import Dim
from plica.ir.types import ArrayType, array_type
from plica.ops import with_private
from plica.ops.rules import require_equal_sizes, require_kind, require_same_dtype


class Run(NamedTuple):
    """Neighbours along the first axis of one array, times as many of another.

    Args:
        left: Which operand.
        left_start: Where the run begins there.
        right: The other operand, or the same.
        right_start: Where the run begins there.
        length: How many there are.
    """

    left: int
    left_start: int
    right: int
    right_start: int
    length: int


Runs = Sequence[tuple[int, int, int, int, int]]


def _multiply_runs_type(*types: ArrayType, runs: Runs) -> ArrayType:
    if not types or not runs:
        raise ShapeError(f"multiply_runs needs at least one array and one run, found {len(types)} and {len(runs)}.")
    require_kind(types, ("float",))
    message = f"{', '.join(map(str, types))} differ in other axes than the first, along which runs are read."
    other_sizes = types[0].shape[1:]
    for array in types:
        if not array.shape or len(array.shape) != len(types[0].shape):
            raise ShapeError(message)
        for size, expected in zip(array.shape[1:], other_sizes, strict=True):
            require_equal_sizes(expected, size, message)
    for run in (Run(*numbers) for numbers in runs):
        for index, start in ((run.left, run.left_start), (run.right, run.right_start)):
            _require_run(types, index, start, run.length)
    return array_type((sum(length for *_, length in runs), *other_sizes), require_same_dtype(*types))


def _require_run(types: Sequence[ArrayType], index: int, start: int, length: int) -> None:
    if not 0 <= index < len(types):
        raise ShapeError(f"multiply_runs: expected an array from 0 to {len(types) - 1}, found {index}.")
    size: Dim = types[index].shape[0]
    if length < 1 or start < 0 or not isinstance(size, int) or start + length > size:
        raise ShapeError(f"multiply_runs: array {index}, {types[index]}, has no run of {length} folds from {start}.")


def _multiply_runs(*arrays: NDArray[Any], runs: Runs) -> Any:
    parts = [arrays[i][at : at + length] * arrays[j][to : to + length] for i, at, j, to, length in runs]
    return np.concatenate(parts)


def _samples() -> list[Sample]:
    x = np.arange(1.0, 9.0, dtype="float32").reshape(4, 2)
    y = np.asarray([[0.5, -2.0], [3.0, 0.0]], dtype="float32")
    return [
        sample(x, runs=((0, 0, 0, 2, 1), (0, 0, 0, 1, 1), (0, 1, 0, 3, 1), (0, 2, 0, 3, 1))),
        sample(x, y, runs=((1, 0, 0, 1, 2), (0, 3, 1, 1, 1))),
        sample(x.astype("float64"), runs=((0, 1, 0, 1, 3),)),
    ]


PRIVATE = (Op("multiply_runs", _multiply_runs_type, _multiply_runs, _samples),)

TORCH_OPS = with_private(PRIVATE)
"""The operations of Programs that become generated code."""

PRIVATE_ROWS: dict[str, Row] = {
    "multiply_runs": Row(lambda call: f"kernels.multiply_runs({call.params['runs']!r}, {call.tensors})"),
}
