"""Joins each layer of products and weighted sums into one operation, `sum_of_products`.

    einsum("fbi,foi->fbo", x * y, w)       -> sum_of_products(w', x, y)         w': (F, I, O), transposed here
    einsum("fba,foac,fbc->fbo", x, w, y)   -> einsum("fba,faco,fbc->fbo", x, w', y), w' transposed here
    rescale(sum_of_products(w, x))         -> sum_of_products[rescaled](w, x)
    split, slice, concat along folds       -> runs, which are read without a copy
    reshape(take(table, reshape(index)))   -> rows that the reader looks up, or look_up

A product or a lookup must have no other reader, so that nothing is computed twice. Views may have many readers.
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
from plica.passes.replacements import names_of
from plica.passes.runs import is_along_first, merged, start_of
from plica.tracing import namespace as xp


@dataclass(frozen=True, slots=True, eq=False)
class _Source:
    """An array of folds, or a lookup of them.

    Args:
        operands: An array `(G, B, I)`; or a table, states, columns and starts.
    """

    operands: tuple[Var, ...]


Pieces = list[tuple[_Source, int, int]]
"""For each piece its source, its first fold there, and its number of folds."""


def join_layers(body: ProgramWithConstants) -> ProgramWithConstants:
    """The Program with `sum_of_products` for layers, without dead code."""
    return _Pass(body).run()


class _Pass:
    def __init__(self, body: ProgramWithConstants) -> None:
        self.body, self.program = body, body.program
        self.producers: dict[Operand, Equation] = {
            var: equation for equation in self.program.equations for var in equation.outputs
        }
        self.readers: Counter[Operand] = Counter(x for equation in self.program.equations for x in equation.inputs)
        self.readers.update(self.program.outputs)
        self.sources: dict[tuple[Var, ...], _Source] = {}
        self.constants: dict[Var, Array] = {}
        self.updatable: dict[Var, UpdatableConstant] = {}
        self.names: Names = names_of(self.program)
        self.columns = Columns(self.program, self.body.constants, self.constants, self.names)

    def run(self) -> ProgramWithConstants:
        replaced: dict[Equation, Equation] = {}
        for equation in self.program.equations:
            layer = self._layer(equation) or self._with_outputs_last(equation)
            if layer is not None:
                replaced[equation] = layer
        replaced.update(
            (equation, lookup) for equation in self.program.equations if (lookup := self._rows(equation)) is not None
        )
        if not replaced:
            return self.body
        joined: dict[Operand | None, Equation] = {
            layer.outputs[0]: equation for equation, layer in replaced.items() if layer.op.name == "sum_of_products"
        }
        rescales: dict[Equation, Equation] = {}
        for equation in self.program.equations:
            operand = equation.inputs[0] if equation.inputs else None
            is_only_reader = operand is not None and self.readers[operand] == 1
            if equation.op.name == "rescale" and operand in joined and is_only_reader:
                layer = replaced.pop(joined[operand])
                params = {**layer.params, "rescaled": POWERS}
                rescales[equation] = replace(layer, outputs=equation.outputs, params=params)
        absorbed = {joined[rescale.inputs[0]]: None for rescale in rescales}
        replacements = {**replaced, **rescales, **self.columns.reductions()}
        equations = [
            replacements.get(equation, equation) for equation in self.program.equations if equation not in absorbed
        ]
        program = replace(self.program, equations=tuple(self.columns.inserted(equations)))
        program = with_exponents(eliminate_dead_code(program, NATIVE_OPS))
        return self.body.rewritten(program, self.constants, self.updatable)

    def _rows(self, equation: Equation) -> Equation | None:
        """The equation of `look_up` that replaces a reshaped `take`; None for other equations."""
        lookup = self._lookup(equation.outputs[0]) if equation.op.name == "reshape" else None
        if lookup is None or lookup[0].type.dtype not in _DTYPES:
            return None
        return Equation(OpRef("look_up"), lookup, equation.outputs, {}, equation.source)

    def _layer(self, equation: Equation) -> Equation | None:
        """The equation of `sum_of_products` that replaces a contraction; None for other equations."""
        match = _CONTRACTIONS.get((equation.op.name, equation.params.get("equation")))
        if match is None or len(equation.inputs) != 2:
            return None
        value, weight = equation.inputs
        is_constant = weight in self.body.constants or weight in self.body.updatable
        if not is_constant or any(
            not isinstance(operand, Var) or len(operand.type.shape) != 3 for operand in (value, weight)
        ):
            return None
        if value.type.dtype not in _DTYPES or not isinstance(value.type.shape[0], int):
            return None
        factors = [merged(self._pieces(factor)) for factor in self._factors(value)]
        sources = list(dict.fromkeys(source for factor in factors for source, _, _ in factor))
        if any(source.operands[0].type.dtype != value.type.dtype for source in sources):
            return None
        return Equation(
            OpRef("sum_of_products"),
            (self._weight(weight, match), *(var for source in sources for var in source.operands)),
            equation.outputs,
            {
                "looked_up": tuple(len(source.operands) == LOOKED_UP for source in sources),
                "factors": tuple(
                    tuple(Run(sources.index(source), start, length) for source, start, length in factor)
                    for factor in factors
                ),
                "rescaled": "",
            },
            equation.source,
        )

    def _with_outputs_last(self, equation: Equation) -> Equation | None:
        """An Einstein sum whose weights have the outputs as their last axis; None if the equation has no others.

        Rows of the result are sums of rows of such weights, which would be transposed at each call else.
        """
        terms, arrow, result = equation.params.get("equation", "").partition("->")
        if equation.op.name != "einsum" or not arrow or not result:
            return None
        inputs, letters = list(equation.inputs), terms.split(",")
        for place, (operand, term) in enumerate(zip(equation.inputs, letters, strict=True)):
            is_weight = operand in self.body.constants or operand in self.body.updatable
            if is_weight and term.count(result[-1]) == 1 and not term.endswith(result[-1]):
                letters[place] = term.replace(result[-1], "") + result[-1]
                inputs[place] = self._weight(operand, tuple(map(term.index, letters[place])))
        if letters == terms.split(","):
            return None
        params = {**equation.params, "equation": f"{','.join(letters)}->{result}"}
        return replace(equation, inputs=tuple(inputs), params=params)

    def _weight(self, var: Operand, axes: tuple[int, ...]) -> Var:
        """A weight with its axes in the order in which a layer reads it: `(F, I, O)`."""
        assert isinstance(var, Var), "weights are constants"
        if axes == tuple(range(len(axes))):
            return var
        transposed = Var(self.names.fresh(), array_type([var.type.shape[axis] for axis in axes], var.type.dtype))
        if var in self.body.updatable:
            self.updatable[transposed] = self.body.updatable[var].mapped(lambda weight: xp.permute_dims(weight, axes))
        else:
            self.constants[transposed] = np.ascontiguousarray(np.transpose(self.body.constants[var], axes))
        return transposed

    def _factors(self, var: Operand) -> Iterator[Var]:
        """The factors of a product; the array itself if it is no product, or if others read the product."""
        assert isinstance(var, Var), "factors are arrays"
        equation = self.producers.get(var)
        if equation is None or equation.op.name != "multiply" or self.readers[var] != 1 or not _have_one_type(equation):
            yield var
            return
        for operand in equation.inputs:
            yield from self._factors(operand)

    def _pieces(self, var: Operand) -> Pieces:
        """The pieces of sources that together are the folds of an array."""
        assert isinstance(var, Var), "only arrays have folds"
        length, equation = var.type.shape[0], self.producers.get(var)
        assert isinstance(length, int), "callers pass arrays with a known number of folds"
        start = start_of(equation, var)
        if equation is not None and start is not None:
            return self._fold_range(equation.inputs[0], start, length)
        if equation is not None and is_along_first(equation, "concat"):
            return [piece for operand in equation.inputs for piece in self._pieces(operand)]
        return [(self._source(self._lookup(var) or (var,)), 0, length)]

    def _fold_range(self, operand: Operand, start: int, length: int) -> Pieces:
        """The pieces of `length` folds of an array, from fold `start` on."""
        pieces: Pieces = []
        position = 0
        for source, begin_in_source, size in self._pieces(operand):
            first, last = max(start, position), min(start + length, position + size)
            if first < last:
                pieces.append((source, begin_in_source + first - position, last - first))
            position += size
        return pieces

    def _source(self, operands: tuple[Var, ...]) -> _Source:
        return self.sources.setdefault(operands, _Source(operands))

    def _lookup(self, var: Var) -> tuple[Var, ...] | None:
        """The table, states, columns and starts of looked-up rows `(G, B, I)`; None for other arrays."""
        rows_reshape = self.producers.get(var)
        take = (
            self.producers.get(rows_reshape.inputs[0])
            if rows_reshape is not None and rows_reshape.op.name == "reshape"
            else None
        )
        if rows_reshape is None or take is None or take.op.name != "take" or take.params["axis"] != 0:
            return None
        table, flat_index = take.inputs
        index_reshape = self.producers.get(flat_index)
        if index_reshape is None or index_reshape.op.name != "reshape" or len(table.type.shape) != 2:
            return None
        (index,) = index_reshape.inputs
        if index.type.shape != var.type.shape[:2] or not isinstance(index, Var) or not isinstance(table, Var):
            return None
        columns = self.columns.of_index(index)
        return None if columns is None else (table, *columns)


_DTYPES = (DType.FLOAT32, DType.FLOAT64)
_CONTRACTIONS: Mapping[tuple[str, str | None], tuple[int, int, int]] = {
    ("einsum", "fbi,foi->fbo"): (0, 2, 1),
    ("einsum", "fbi,fio->fbo"): (0, 1, 2),
    ("matmul", None): (0, 1, 2),
}
"""Contractions of `(F, B, I)` by a weight, with the permutation of its axes to `(F, I, O)`."""


def _have_one_type(equation: Equation) -> bool:
    """Whether both factors have the type of the product."""
    (result,) = equation.outputs
    return all(isinstance(operand, Var) and operand.type == result.type for operand in equation.inputs)
