"""Layers of products and weighted sums become one operation each, `sum_of_products`.

    einsum("fbi,foi->fbo", x * y, w)       -> sum_of_products(w', x, y)         w': (F, I, O), made now
    rescale(sum_of_products(w, x))         -> sum_of_products[rescaled](w, x)
    split, slice, concat along folds       -> runs, which are read where they lie
    reshape(take(table, reshape(index)))   -> rows that are looked up where they are read, or look_up

A product, and the looked-up rows, must have no other reader, so that nothing is computed twice; views may have many.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from plica.backend.native.circuits.columns import Columns
from plica.backend.native.circuits.exponents import with_exponents
from plica.backend.native.circuits.operations import LOOKED_UP, NATIVE_OPS, POWERS, Run
from plica.backend.native.circuits.updatable import UpdatableConstant
from plica.backend.native.circuits.with_constants import Array, ProgramWithConstants
from plica.ir.builder import Names
from plica.ir.dtypes import DType
from plica.ir.program import Equation, Operand, OpRef, Var
from plica.ir.types import array_type
from plica.passes.dead_code import eliminate_dead_code
from plica.passes.replaced import names_of
from plica.passes.runs import is_along_first, merged, start_of
from plica.tracing import namespace as xp


@dataclass(frozen=True, slots=True, eq=False)
class _Source:
    """Where rows of folds come from.

    Args:
        operands: An array; or a table, states, columns and starts.
    """

    operands: tuple[Var, ...]


Pieces = list[tuple[_Source, int, int]]
"""Sources, where each piece begins there, and how many folds it has."""


def join_layers(body: ProgramWithConstants) -> ProgramWithConstants:
    """The Program with `sum_of_products` for layers; what nothing reads any more is left out."""
    return _Pass(body).run()


class _Pass:
    def __init__(self, body: ProgramWithConstants) -> None:
        self.body, self.program = body, body.program
        self.made: dict[Operand, Equation] = {var: one for one in self.program.equations for var in one.outputs}
        self.readers: Counter[Operand] = Counter(x for one in self.program.equations for x in one.inputs)
        self.readers.update(self.program.outputs)
        self.sources: dict[tuple[Var, ...], _Source] = {}
        self.constants: dict[Var, Array] = {}
        self.updatable: dict[Var, UpdatableConstant] = {}
        self.names: Names = names_of(self.program)
        self.columns = Columns(self.program, self.body.constants, self.constants, self.names)

    def run(self) -> ProgramWithConstants:
        found: dict[Equation, Equation] = {}
        for equation in self.program.equations:
            layer = self._layer(equation)
            if layer is not None:
                found[equation] = layer
        found.update((one, lookup) for one in self.program.equations if (lookup := self._rows(one)) is not None)
        if not found:
            return self.body
        joined: dict[Operand | None, Equation] = {
            layer.outputs[0]: equation for equation, layer in found.items() if layer.op.name == "sum_of_products"
        }
        rescales: dict[Equation, Equation] = {}
        for equation in self.program.equations:
            operand = equation.inputs[0] if equation.inputs else None
            is_alone = operand is not None and self.readers[operand] == 1
            if equation.op.name == "rescale" and operand in joined and is_alone:
                layer = found.pop(joined[operand])
                params = {**layer.params, "rescaled": POWERS}
                rescales[equation] = replace(layer, outputs=equation.outputs, params=params)
        gone = {joined[one.inputs[0]]: None for one in rescales}
        made = {**found, **rescales, **self.columns.reductions()}
        equations = [made.get(one, one) for one in self.program.equations if one not in gone]
        program = replace(self.program, equations=tuple(self.columns.inserted(equations)))
        program = with_exponents(eliminate_dead_code(program, NATIVE_OPS))
        return self.body.rewritten(program, self.constants, self.updatable)

    def _rows(self, equation: Equation) -> Equation | None:
        """The lookup of rows that a view of the rows of a table is."""
        lookup = self._lookup(equation.outputs[0]) if equation.op.name == "reshape" else None
        if lookup is None or lookup[0].type.dtype not in _DTYPES:
            return None
        return Equation(OpRef("look_up"), lookup, equation.outputs, {}, equation.source)

    def _layer(self, equation: Equation) -> Equation | None:
        """The layer that a contraction is; None where it is none."""
        match = _CONTRACTIONS.get((equation.op.name, equation.params.get("equation")))
        if match is None or len(equation.inputs) != 2:
            return None
        value, weight = equation.inputs
        is_constant = weight in self.body.constants or weight in self.body.updatable
        if not is_constant or any(not isinstance(one, Var) or len(one.type.shape) != 3 for one in (value, weight)):
            return None
        if value.type.dtype not in _DTYPES or not isinstance(value.type.shape[0], int):
            return None
        factors = [merged(self._pieces(one)) for one in self._factors(value)]
        sources = list(dict.fromkeys(source for factor in factors for source, _, _ in factor))
        if any(one.operands[0].type.dtype != value.type.dtype for one in sources):
            return None
        return Equation(
            OpRef("sum_of_products"),
            (self._weight(weight, match), *(var for one in sources for var in one.operands)),
            equation.outputs,
            {
                "looked_up": tuple(len(one.operands) == LOOKED_UP for one in sources),
                "factors": tuple(
                    tuple(Run(sources.index(source), start, length) for source, start, length in factor)
                    for factor in factors
                ),
                "rescaled": "",
            },
            equation.source,
        )

    def _weight(self, var: Operand, axes: tuple[int, int, int]) -> Var:
        """A weight with its axes in the order in which a layer reads it."""
        assert isinstance(var, Var), "weights are constants"
        if axes == (0, 1, 2):
            return var
        made = Var(self.names.fresh(), array_type([var.type.shape[axis] for axis in axes], var.type.dtype))
        if var in self.body.updatable:
            self.updatable[made] = self.body.updatable[var].through(lambda one: xp.permute_dims(one, axes))
        else:
            self.constants[made] = np.ascontiguousarray(np.transpose(self.body.constants[var], axes))
        return made

    def _factors(self, var: Operand) -> Iterator[Var]:
        """What is multiplied."""
        assert isinstance(var, Var), "factors are arrays"
        equation = self.made.get(var)
        if equation is None or equation.op.name != "multiply" or self.readers[var] != 1 or not _is_alike(equation):
            yield var
            return
        for one in equation.inputs:
            yield from self._factors(one)

    def _pieces(self, var: Operand) -> Pieces:
        """Where the folds of an array lie."""
        assert isinstance(var, Var), "what has folds is an array"
        length, equation = var.type.shape[0], self.made.get(var)
        assert isinstance(length, int), "asked of arrays with a known number of folds"
        start = start_of(equation, var)
        if equation is not None and start is not None:
            return self._part(equation.inputs[0], start, length)
        if equation is not None and is_along_first(equation, "concat"):
            return [piece for one in equation.inputs for piece in self._pieces(one)]
        return [(self._source(self._lookup(var) or (var,)), 0, length)]

    def _part(self, operand: Operand, start: int, length: int) -> Pieces:
        """Where some folds of an array lie, from one on."""
        found: Pieces = []
        at = 0
        for source, begin, size in self._pieces(operand):
            first, last = max(start, at), min(start + length, at + size)
            if first < last:
                found.append((source, begin + first - at, last - first))
            at += size
        return found

    def _source(self, operands: tuple[Var, ...]) -> _Source:
        return self.sources.setdefault(operands, _Source(operands))

    def _lookup(self, var: Var) -> tuple[Var, ...] | None:
        """The table, states, columns and starts that the rows `(G, B, I)` are looked up by."""
        shaped = self.made.get(var)
        taken = self.made.get(shaped.inputs[0]) if shaped is not None and shaped.op.name == "reshape" else None
        if shaped is None or taken is None or taken.op.name != "take" or taken.params["axis"] != 0:
            return None
        table, flat = taken.inputs
        index = self.made.get(flat)
        if index is None or index.op.name != "reshape" or len(table.type.shape) != 2:
            return None
        (place,) = index.inputs
        if place.type.shape != var.type.shape[:2] or not isinstance(place, Var) or not isinstance(table, Var):
            return None
        found = self.columns.of_index(place)
        return None if found is None else (table, *found)


_DTYPES = (DType.FLOAT32, DType.FLOAT64)
_CONTRACTIONS: Mapping[tuple[str, str | None], tuple[int, int, int]] = {
    ("einsum", "fbi,foi->fbo"): (0, 2, 1),
    ("einsum", "fbi,fio->fbo"): (0, 1, 2),
    ("matmul", None): (0, 1, 2),
}
"""Contractions of `(F, B, I)` by a weight, with the order of its axes that makes `(F, I, O)` of it."""


def _is_alike(equation: Equation) -> bool:
    """Whether both factors have the shape of the product."""
    (result,) = equation.outputs
    return all(isinstance(one, Var) and one.type == result.type for one in equation.inputs)
