"""Whether an operation computes each row of its results from one row of its operands, and where rows lie in results.

For example, `x @ w` does if rows lie along the first axis of `x`, and does not if they lie along the second one.

>>> from plica.ir.program import Equation, OpRef, Var
>>> from plica.ir.types import ShapedArray
>>> from plica.ir.dtypes import DType
>>> a, b, c = (Var(name, ShapedArray(shape, DType.FLOAT32)) for name, shape in zip("abc", [(5, 4), (4, 2), (5, 2)]))
>>> product = Equation(OpRef("matmul"), (a, b), (c,))
>>> row_by_row(product, {0: 0}), row_by_row(product, {1: 1})
((0,), None)
"""

from collections.abc import Callable, Mapping, Sequence

from plica.ir.program import Equation
from plica.ir.sizes import Dim
from plica.ops import ELEMENTWISE, OPS

RowAxes = Mapping[int, int]
"""The indices of operands that have rows, and the axis of each that its rows lie along."""


def row_by_row(equation: Equation, rows: RowAxes) -> tuple[int, ...] | None:
    """The axis of each result along which rows lie; None if an operation does not go row by row.

    Operands that `rows` does not name must be the same for all rows.
    """
    rule = _RULES.get(equation.op.name)
    return None if rule is None else rule(equation, rows)


def is_alike(shape: Sequence[Dim], rank: int, row: int) -> bool:
    """Whether a constant that broadcasts with an array of some rank, whose rows lie along axis `row`, has one row."""
    axis = row - rank
    return len(shape) < -axis or shape[axis] == 1


def _each(equation: Equation, rows: RowAxes) -> tuple[int, ...] | None:
    (output,) = equation.outputs
    if output.type.dtype.kind not in OPS[equation.op.name].never_raises:
        return None  # it might raise for a state, a row of the table, that the data does not have
    axes = {row - len(equation.inputs[index].type.shape) for index, row in rows.items()}
    rank = len(output.type.shape)
    row = rank + min(axes)
    others = (operand for index, operand in enumerate(equation.inputs) if index not in rows)
    all_alike = len(axes) == 1 and all(is_alike(operand.type.shape, rank, row) for operand in others)
    return (row,) if all_alike else None


def _matmul(equation: Equation, rows: RowAxes) -> tuple[int, ...] | None:
    a, b = equation.inputs
    if dict(rows) != {0: len(a.type.shape) - 2}:
        return None
    return (len(equation.outputs[0].type.shape) - min(2, len(b.type.shape)),)


def _log_matmul(equation: Equation, rows: RowAxes) -> tuple[int, ...] | None:
    num_weights = 1 if equation.params.get("logs") is None else 2
    inputs = equation.inputs[:-num_weights]
    row = len(inputs[0].type.shape) - 2
    return (row,) if dict(rows) == dict.fromkeys(range(len(inputs)), row) else None


def _einsum(equation: Equation, rows: RowAxes) -> tuple[int, ...] | None:
    left, _, result = equation.params["equation"].replace(" ", "").partition("->")
    terms = left.split(",")
    if any(index >= len(terms) for index in rows):
        return None
    letters = {terms[index][row] for index, row in rows.items()}
    letter = min(letters)
    others = "".join(term for index, term in enumerate(terms) if index not in rows)
    if len(letters) > 1 or letter not in result or letter in others:
        return None
    if any(terms[index].count(letter) > 1 for index in rows):
        return None
    # axes before the rows, such as folds, are the same in terms and result
    return (result.index(letter),) if all(terms[index][:row] == result[:row] for index, row in rows.items()) else None


def _log_einsum(equation: Equation, rows: RowAxes) -> tuple[int, ...] | None:
    num_values = len(equation.params["equation"].split(",")) - 1
    return _einsum(equation, rows) if all(index < num_values for index in rows) else None


def _reduction(equation: Equation, rows: RowAxes) -> tuple[int, ...] | None:
    (row,) = rows.values()
    axes = equation.params["axis"]
    if row in axes:
        return None
    return (row if equation.params["keepdims"] else row - sum(axis < row for axis in axes),)


def _along_one(equation: Equation, rows: RowAxes) -> tuple[int, ...] | None:
    (row,) = rows.values()
    rank = len(equation.inputs[0].type.shape)
    return None if equation.params["axis"] % rank == row else (row,)


def _rescale(equation: Equation, rows: RowAxes) -> tuple[int, ...] | None:
    (row,) = rows.values()
    return None if row == len(equation.inputs[0].type.shape) - 1 else (row, row)


_RULES: Mapping[str, Callable[[Equation, RowAxes], tuple[int, ...] | None]] = {
    **{row.name: _each for row in ELEMENTWISE},
    "matmul": _matmul,
    "einsum": _einsum,
    "log_matmul_exp": _log_matmul,
    "log_einsum_exp": _log_einsum,
    **dict.fromkeys(("sum", "prod", "max", "min", "mean", "logsumexp"), _reduction),
    **dict.fromkeys(("softmax", "log_softmax"), _along_one),
    "rescale": _rescale,
}
