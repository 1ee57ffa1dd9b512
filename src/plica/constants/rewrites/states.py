r"""Operations that read only a looked-up row and constants run once for each state; their results are looked up.

    f(lookup(T, i), W)              -> lookup(f(T, W), i)                  f: row by row, as contractions are
    f(take(T, i), W)                -> take(f(T, W), i)
    f(where(m, c, lookup(T, i)), W) -> where(m, f(c, W), lookup(f(T, W), i))   m: of whole rows; c: one constant row
    lookup(T, i)                    -> take(T', C * fold + i)              T': states first, so that a row is contiguous
    where(m, c, lookup(T, i))       -> lookup([T, c], where(m, C, i))      one more state, so that rows are read once

The new tables are constants. For example, calls of an image circuit no longer compute the sum layer above its pixels,
which is its widest. Libraries may add in another order: a sum of I terms may differ by I roundings.

>>> from plica.ir.types import spec
>>> from plica.passes.dead_code import eliminate_dead_code
>>> from plica.constants.analysis.origins import find_origins
>>> from plica.tracing import namespace as xp
>>> from plica.tracing.trace import trace
>>> def embed(ids, table, weight):
...     return xp.take(table, ids, axis=0, nonnegative=True) @ weight
>>> program = trace(embed, spec("b", "int64"), spec((9, 4)), spec((4, 2)))
>>> origins = find_origins(program, run_time=("table", "weight"))
>>> print(eliminate_dead_code(by_states(program, origins).program))
{ lambda ; {b:i64[]} ids:i64[b] table:f32[9,4] weight:f32[4,2] . let
    d:f32[9,2] = matmul table weight
    c:f32[b,2] = take[axis=0] d ids
  in (c,) }
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from plica.constants.analysis.origins import Origins
from plica.constants.analysis.row_by_row import is_alike, row_by_row
from plica.ir.dtypes import DType
from plica.ir.program import Equation, Literal, Operand, OpRef, Program, Var
from plica.ir.sizes import Dim
from plica.ir.types import ArrayType, ShapedArray
from plica.ops import OPS
from plica.passes.replacements import names_of

_LOOKUPS = ("lookup", "take", "gather")
LAYOUT, CONTRACTED = 1, 2
"""How far to rewrite a lookup: transpose its table to states first; or also apply operations on rows to the table."""


_MIN_STATES = 8  # a table of fewer states gets no further one


@dataclass(frozen=True, slots=True)
class ByStates:
    """The result of the pass.

    Args:
        program: The Program, still with equations that nothing reads any more.
        tables: The constants that it computes, each with the result of the lookup that reads it.
        moved: The equations that are applied to a table now.
    """

    program: Program
    tables: Mapping[Var, Var]
    moved: Sequence[Equation]


@dataclass(frozen=True, slots=True)
class _Choice:
    """A choice that replaces some looked-up rows by one constant row.

    Args:
        mask: The rows that are chosen; of size 1 along all axes that the index does not have.
        row: The constant row.
        is_first: Whether the constant row is taken where the mask holds, or where it does not.
    """

    mask: Operand
    row: Operand
    is_first: bool


@dataclass(frozen=True, slots=True)
class _Looked:
    """A value whose rows are those of a table.

    Args:
        table: The value of every state; it has an axis of states in place of that of rows.
        row: The axis of the rows.
        index: The state of each row: `(B,)`; of "lookup" `(F, B)`, as each fold, along axis 0, has its own table.
        by: The operation that looks up: "lookup", "take" or "gather".
        root: The result of the lookup.
        source: The line of the user's code.
        original: The equation, if it is unchanged.
        choice: Set if a constant row replaces some rows.
    """

    table: Operand
    row: int
    index: Operand
    by: str
    root: Var
    source: str
    original: Equation | None = None
    choice: "_Choice | None" = None

    @property
    def kept(self) -> tuple[int, ...]:
        """The axes of the value that its index has."""
        return (0, self.row) if self.has_folds else (self.row,)

    @property
    def has_folds(self) -> bool:
        return self.by == "lookup"


def by_states(program: Program, origins: Origins, limits: Mapping[Var, int] | None = None) -> ByStates:
    """The Program with operations on looked-up rows applied to the tables.

    Args:
        program: The Program.
        origins: Where its values come from.
        limits: How far to rewrite some lookups, by their results: 0, `LAYOUT`, or by default `CONTRACTED`.
    """
    return _Pass(program, origins, {} if limits is None else limits).run()


class _Pass:
    """The Program under construction."""

    def __init__(self, program: Program, origins: Origins, limits: Mapping[Var, int]) -> None:
        self.program, self.limits = program, limits
        self.foldable = origins.foldable(program)
        given = (var for var in (*program.consts, *program.inputs) if origins.of[var].is_constant)
        results = (var for equation in self.foldable for var in equation.outputs)
        self.constant: dict[Operand, None] = dict.fromkeys((*given, *results))
        self.looked: dict[Operand, _Looked] = {}
        self.written: dict[Operand, None] = {}
        self.flat_indices: dict[tuple[Operand, int], Operand] = {}
        self.indices: dict[tuple[Operand, Operand, bool, Dim], Operand] = {}
        self.equations: list[Equation] = []
        self.tables: dict[Var, Var] = {}
        self.moved: list[Equation] = []
        self.names = names_of(program)

    def run(self) -> ByStates:
        """Append each equation, or apply it to a table; a lookup is appended before its first reader."""
        for equation in self.program.equations:
            if equation in self.foldable or not self._is_looked_up(equation):
                for operand in equation.inputs:
                    self._write(operand)
                self.equations.append(equation)
        for operand in self.program.outputs:
            self._write(operand)
        return ByStates(replace(self.program, equations=tuple(self.equations)), self.tables, self.moved)

    def _is_constant(self, operand: Operand) -> bool:
        return isinstance(operand, Literal) or operand in self.constant

    def _add(
        self, name: str, inputs: Sequence[Operand], params: Mapping[str, Any], source: str, root: Var | None = None
    ) -> tuple[Var, ...]:
        """Append an equation with new results; `root` is the lookup that an equation of constants belongs to."""
        types = OPS[name].types([operand.type for operand in inputs], params)
        outputs = tuple(Var(self.names.fresh(), type_) for type_ in types)
        self.equations.append(Equation(OpRef(name), tuple(inputs), outputs, params, source))
        if root is not None:
            self.tables.update(dict.fromkeys(outputs, root))
            self.constant.update(dict.fromkeys(outputs))
        return outputs

    # Lookups

    def _is_looked_up(self, equation: Equation) -> bool:
        """Apply an equation to a table if a rule allows; return whether its results are looked up now."""
        if equation.op.name in _LOOKUPS and self._is_root(equation):
            return self._root(equation)
        rows = {index: self.looked[operand] for index, operand in enumerate(equation.inputs) if operand in self.looked}
        if not rows:
            return False
        first = next(iter(rows.values()))
        if self.limits.get(first.root, CONTRACTED) < CONTRACTED:
            return False
        if equation.op.name == "where" and len(rows) == 1 and self._chosen(equation, next(iter(rows)), first):
            return True
        if any(not _is_alike_choice(other, first) for other in rows.values()):
            return False
        others = (operand for index, operand in enumerate(equation.inputs) if index not in rows)
        return all(map(self._is_constant, others)) and self._applied(equation, rows, first)

    def _is_root(self, equation: Equation) -> bool:
        """Whether an equation looks up rows of a constant table of known sizes, at indices that are not constant."""
        table, index, *others = equation.inputs
        if others:
            return False
        is_known = all(isinstance(dim, int) for dim in table.type.shape)
        has_rows = equation.op.name == "lookup" or len(index.type.shape) == 1
        return is_known and has_rows and self._is_constant(table) and not self._is_constant(index)

    def _root(self, equation: Equation) -> bool:
        """Note a lookup; return whether its limit allows to rewrite it."""
        (output,), (table, index) = equation.outputs, equation.inputs
        if not self.limits.get(output, CONTRACTED):
            return False
        name, rank = equation.op.name, len(table.type.shape)
        if name == "lookup":
            (table,) = self._add("permute_dims", (table,), {"axes": (0, 2, 1)}, equation.source, output)
            self.looked[output] = _Looked(table, 1, index, name, output, equation.source)
            return True
        row = (equation.params["axis"] if name == "take" else equation.params["axes"][0]) % rank
        if name == "gather" and row:  # which puts rows first
            axes = (row, *(axis for axis in range(rank) if axis != row))
            (table,) = self._add("permute_dims", (table,), {"axes": axes}, equation.source, output)
            row = 0
        self.looked[output] = _Looked(table, row, index, name, output, equation.source, equation)
        return True

    def _applied(self, equation: Equation, rows: Mapping[int, _Looked], first: _Looked) -> bool:
        """Apply an equation to tables instead of rows; return whether it works row by row, so that it may be."""
        axes = row_by_row(equation, {index: looked.row for index, looked in rows.items()})
        if axes is None or not all(
            self._keeps_index(var.type, row, first) for var, row in zip(equation.outputs, axes, strict=True)
        ):
            return False

        def applied(change: Callable[[_Looked], Operand]) -> tuple[Var, ...]:
            inputs = [
                change(rows[index]) if index in rows else operand for index, operand in enumerate(equation.inputs)
            ]
            return self._add(equation.op.name, inputs, equation.params, equation.source, first.root)

        choices: list[_Choice | None] = [None] * len(axes)
        if first.choice is not None:
            others = applied(self._constant_row)
            choices = [replace(first.choice, row=other) for other in others]
        tables = applied(lambda looked: looked.table)
        for var, table, row, choice in zip(equation.outputs, tables, axes, choices, strict=True):
            self.looked[var] = _Looked(table, row, first.index, first.by, first.root, equation.source, choice=choice)
        self.moved.append(equation)
        return True

    def _keeps_index(self, type_: ArrayType, row: int, first: _Looked) -> bool:
        """Whether the index has one number for each row of a result, and each of its folds."""
        index = first.index.type.shape
        if first.has_folds:
            return row == 1 and type_.shape[:2] == index
        return type_.shape[row] == index[0] and (first.by == "take" or row == 0)

    def _chosen(self, equation: Equation, index: int, looked: _Looked) -> bool:
        """Note a choice between looked-up rows and one constant row; return whether it is such a choice."""
        mask, (output,) = equation.inputs[0], equation.outputs
        if not index or looked.choice is not None or mask in self.looked:
            return False
        other, shape, rank = equation.inputs[3 - index], output.type.shape, len(looked.table.type.shape)
        mask_shape = tuple(size if axis in looked.kept else 1 for axis, size in enumerate(shape))
        if (
            mask.type.shape != mask_shape
            or not self._is_constant(other)
            or not is_alike(other.type.shape, rank, looked.row)
        ):
            return False
        is_as_large = _without(shape, looked.row) == _without(looked.table.type.shape, looked.row)
        if not is_as_large or not self._keeps_index(output.type, looked.row, looked):
            return False
        self._write(mask)
        choice = _Choice(mask, other, is_first=index == 2)
        self.looked[output] = replace(looked, choice=choice, original=None, source=equation.source)
        self.moved.append(equation)
        return True

    def _constant_row(self, looked: _Looked) -> Operand:
        """The constant row that replaces some rows, broadcast to the size of a row."""
        assert looked.choice is not None, "asked where all operands have one"
        row = looked.choice.row
        shape = tuple(1 if axis == looked.row else size for axis, size in enumerate(looked.table.type.shape))
        if row.type.shape == shape:
            return row
        name = "broadcast_to" if row.type.shape else "full"
        return self._add(name, (row,), {"shape": shape}, looked.source, looked.root)[0]

    # Readers of rows

    def _write(self, operand: Operand) -> None:
        """Write the lookup of a value, once."""
        looked = self.looked.get(operand)
        if looked is None or operand in self.written or not isinstance(operand, Var):
            return
        self.written[operand] = None
        self._write(looked.index)
        choice = looked.choice
        if looked.original is not None:
            self.equations.append(looked.original)
        elif choice is None:
            self._write_rows(operand, looked)
        elif self._may_have_state(looked, choice):
            self._write_rows(operand, self._with_state(looked, choice))
        else:
            rows = Var(self.names.fresh(), operand.type)
            self._write_rows(rows, looked)
            shape = tuple(size if axis in looked.kept else 1 for axis, size in enumerate(rows.type.shape))
            mask = choice.mask
            if mask.type.shape != shape:
                (mask,) = self._add("reshape", (mask,), {"shape": shape}, looked.source)
            inputs = (mask, choice.row, rows) if choice.is_first else (mask, rows, choice.row)
            self.equations.append(Equation(OpRef("where"), inputs, (operand,), {}, looked.source))

    def _may_have_state(self, looked: _Looked, choice: _Choice) -> bool:
        """Whether the constant row may become a state of the table, which must have many: one more is then cheap."""
        states = looked.table.type.shape[looked.row]
        same_dtype = choice.row.type.dtype == looked.table.type.dtype
        return looked.has_folds and same_dtype and isinstance(states, int) and states >= _MIN_STATES

    def _with_state(self, looked: _Looked, choice: _Choice) -> _Looked:
        """Append the constant row to the table, as one more state."""
        source, index = looked.source, looked.index
        states = looked.table.type.shape[looked.row]
        inputs = (looked.table, self._constant_row(looked))
        (table,) = self._add("concat", inputs, {"axis": looked.row}, source, looked.root)
        key = (index, choice.mask, choice.is_first, states)
        if key not in self.indices:
            (mask,) = self._add("reshape", (choice.mask,), {"shape": index.type.shape}, source)
            if index.type.dtype != DType.INT64:  # a narrower dtype may not hold the new state
                (index,) = self._add("astype", (index,), {"dtype": DType.INT64}, source)
            last = Literal(int(states), ShapedArray((), DType.INT64))
            chosen = (mask, last, index) if choice.is_first else (mask, index, last)
            (self.indices[key],) = self._add("where", chosen, {}, source)
        return replace(looked, table=table, index=self.indices[key], choice=None)

    def _write_rows(self, output: Var, looked: _Looked) -> None:
        """Append the lookup of rows; the tables of all folds are joined, and the states of fold f begin at C f."""
        source = looked.source
        if not looked.has_folds:
            inputs = looked.table, looked.index
            params = {"axis": looked.row} if looked.by == "take" else {"axes": (0,)}
            self.equations.append(Equation(OpRef(looked.by), inputs, (output,), params, source))
            return
        folds, states, *row_shape = looked.table.type.shape
        (flat,) = self._add("reshape", (looked.table,), {"shape": (folds * states, *row_shape)}, source, looked.root)
        flat_index = self._flat_index(looked, int(folds), int(states))
        (rows,) = self._add("take", (flat, flat_index), {"axis": 0}, source)
        self.equations.append(Equation(OpRef("reshape"), (rows,), (output,), {"shape": output.type.shape}, source))

    def _flat_index(self, looked: _Looked, folds: int, states: int) -> Operand:
        """The indices into the joined table."""
        index, source, root = looked.index, looked.source, looked.root
        if (index, states) not in self.flat_indices:
            dtype = index.type.dtype
            if dtype != DType.INT64:  # indices into the joined table may exceed those into one fold's
                (index,) = self._add("astype", (index,), {"dtype": DType.INT64}, source)
            (fold,) = self._add("arange", (), {"size": folds, "dtype": DType.INT64}, source, root)
            times = Literal(states, ShapedArray((), DType.INT64))
            (start,) = self._add("multiply", (fold, times), {}, source, root)
            (column,) = self._add("reshape", (start,), {"shape": (folds, 1)}, source, root)
            (moved,) = self._add("add", (index, column), {}, source)
            size: Dim = folds * index.type.shape[1]
            (flat_index,) = self._add("reshape", (moved,), {"shape": (size,)}, source)
            self.flat_indices[looked.index, states] = flat_index
        return self.flat_indices[looked.index, states]


def _without(shape: Sequence[Dim], axis: int) -> tuple[Dim, ...]:
    return (*shape[:axis], *shape[axis + 1 :])


def _is_alike_choice(looked: _Looked, other: _Looked) -> bool:
    """Whether two values have rows of the same states, and a constant row for the same rows."""
    same_states = looked.table.type.shape[looked.row] == other.table.type.shape[other.row]
    if looked.index is not other.index or looked.by != other.by or not same_states:
        return False
    if (looked.choice is None) != (other.choice is None):
        return False
    if looked.choice is None or other.choice is None:
        return True
    return looked.choice.mask is other.choice.mask and looked.choice.is_first == other.choice.is_first
