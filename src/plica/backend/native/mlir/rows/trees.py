"""`tree_of_sums` as one dispatch: a traversal of a tree of folds for a block of rows, whose results stay in the cache.

dispatch [blocks of roots, blocks of rows]
    for each root of the block, for each of its steps:
        the form of the step, then as in a layer (`tiles.py`), from slots and sources to a slot
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from plica.backend.native.circuits.operations import LOOKED_UP, SLOT, STEP, Form
from plica.backend.native.mlir.call import Call
from plica.backend.native.mlir.emitter import Emitter, Row
from plica.backend.native.mlir.rows.dispatch import write_dispatch
from plica.backend.native.mlir.rows.tiles import Tiles, Weight
from plica.backend.native.mlir.types import Value
from plica.ir.sizes import Dim

_ROOM = 2**16  # bytes of all slots of a block of rows, on the stack
_LARGEST, _SMALLEST = 64, 8  # rows of a block
_NEAR = 2**20  # bytes of a table that is in the cache after some rows


def _tree_of_sums(emitter: Emitter, call: Call) -> Sequence[Value]:
    operands = [emitter.tensor(value) for value in call.inputs]
    folds, rows, outputs = call.types[0].shape
    assert isinstance(folds, int), "roots are constants"
    assert isinstance(outputs, int), "weights are constants"
    return write_dispatch(emitter, call, rows, _Tree(operands, call.params, folds, rows, outputs))


@dataclass(frozen=True, slots=True)
class _Step:
    """The step that is written.

    Args:
        form: Its form.
        weight: The weight of its fold.
        slot: The slot that its result goes to.
        operands: The fold of a source, or the slot, that each factor reads.
        columns: The columns that sources are looked up by.
    """

    form: Form
    weight: Weight
    slot: str
    operands: Sequence[str]
    columns: Sequence[tuple[str, str] | None]


class _Tree(Tiles):
    """The lines of the dispatch; names in it are its own."""

    def __init__(self, operands: Sequence[Value], params: Any, folds: int, rows: Dim, outputs: int) -> None:
        row = params["num_slots"] * outputs * operands[2].dtype.numpy.itemsize
        most = min(max(_ROOM // row // _SMALLEST * _SMALLEST, _SMALLEST), _LARGEST)
        super().__init__(operands, folds, rows, outputs, most, _SMALLEST)
        self.params = params
        self.forms = [Form(*form) for form in params["forms"]]
        self.is_rescaled = any(form.rescaled for form in self.forms)
        self._first = 2 + max(form.weight for form in self.forms) + 1
        self.types = [f"tensor<{params['num_slots']}x{most}x{outputs}x{self.element}>"]
        if self.is_rescaled:
            self.types.append(f"tensor<{most}x1x{self.element}>")
        self._write()

    def _write(self) -> None:
        self.begin([0, 1, *range(self._first, len(self.operands))])
        first, last = (self._number(1, [at]) for at in ("%f", self.op("arith.addi %f, %k1 : index")))
        state = [self.op(f"tensor.empty() : {type_}") for type_ in self.types]
        if self.is_rescaled:
            state[1] = self._zeros(state[1])
        types = ", ".join(self.types)
        carried = ", ".join(f"%p{index} = {value}" for index, value in enumerate(state))
        self.put(f"%w:{len(state)} = scf.for %t = {first} to {last} step %k1 iter_args({carried}) -> ({types}) {{")
        self._fetch_ahead(last)
        results = self._chosen(self._number(0, ["%t", "%k0"]), 0, [f"%p{index}" for index in range(len(state))])
        self.put(f"scf.yield {', '.join(results)} : {types}")
        self.put("}")
        self.end(self._results())

    def _fetch_ahead(self, last: str) -> None:
        """Prefetch the rows that the next step looks up, while this one multiplies."""
        far = [[(at, factor) for at, factor in enumerate(form.factors) if self._is_far(factor)] for form in self.forms]
        if not any(far):
            return
        end = self.op(f"arith.subi {last}, %k1 : index")
        following = self.op("arith.addi %t, %k1 : index")
        following = self.op(f"arith.minui {following}, {end} : index")
        kind = self._number(0, [following, "%k0"])
        for which, looked_up in enumerate(far):
            if not looked_up:
                continue
            is_kind, name = self.op(f"arith.cmpi eq, {kind}, {self.index(which)} : index"), self.fresh()
            self.put(f"scf.if {is_kind} {{")
            columns = [self._column(source, following, at) for at, source in looked_up]
            self.put(f"scf.for %r{name} = %k0 to {self.number} step %k1 {{")
            row = self.op(f"arith.addi %r{name}, {self.first_row} : index")
            for (_, source), column in zip(looked_up, columns, strict=True):
                operand = self._source(source)
                self.fetch(operand, self.looked_up(operand, row, column))
            self.put("}")
            self.put("}")

    def _zeros(self, empty: str) -> str:
        name, type_ = self.fresh(), self.types[1]
        self.put(
            f"%z{name} = scf.for %r{name} = %k0 to {self.number} step %k1 "
            f"iter_args(%s{name}_ = {empty}) -> ({type_}) {{"
        )
        self.put(f"scf.yield {self.op(f'tensor.insert %zero into %s{name}_[%r{name}, %k0] : {type_}')} : {type_}")
        self.put("}")
        return f"%z{name}"

    def _results(self) -> list[tuple[str, int]]:
        """The values of the root, and the sums, as arrays of the rows of the block."""
        widths = [self.outputs, 1][: 1 + self.is_rescaled]
        types = [f"tensor<?x{width}x{self.element}>" for width in widths]
        empty = [self.op(f"tensor.empty({self.number}) : {type_}") for type_ in types]
        carried = ", ".join(f"%y{index} = {value}" for index, value in enumerate(empty))
        self.put(
            f"%q:{len(types)} = scf.for %r = %k0 to {self.number} step %k1 "
            f"iter_args({carried}) -> ({', '.join(types)}) {{"
        )
        into = [f"%y{index}" for index in range(len(types))]
        for start, width in self.outer:
            type_, begin = f"vector<{width}x{self.element}>", self.index(start)
            row = self.op(
                f"vector.transfer_read %w#0[%k0, %r, {begin}], %zero {{in_bounds = [true]}} : {self.types[0]}, {type_}"
            )
            into[0] = self.op(
                f"vector.transfer_write {row}, {into[0]}[%r, {begin}] {{in_bounds = [true]}} : {type_}, {types[0]}"
            )
        if self.is_rescaled:
            number = self.op(f"tensor.extract %w#1[%r, %k0] : {self.types[1]}")
            into[1] = self.op(f"tensor.insert {number} into {into[1]}[%r, %k0] : {types[1]}")
        self.put(f"scf.yield {', '.join(into)} : {', '.join(types)}")
        self.put("}")
        return [(f"%q#{index}", width) for index, width in enumerate(widths)]

    def _number(self, operand: int, indices: Sequence[str]) -> str:
        """A number of the schedule."""
        value = self.operands[operand]
        number = self.op(f"tensor.extract {self.tensors[operand]}[{', '.join(indices)}] : {value.type}")
        return self.op(f"arith.index_cast {number} : {value.element} to index")

    def _chosen(self, form: str, which: int, state: Sequence[str]) -> list[str]:
        """The values after a step, which has one of the forms from `which` on."""
        if which == len(self.forms) - 1:
            return self._step(self.forms[which], state)
        types = ", ".join(self.types)
        is_chosen, name = self.op(f"arith.cmpi eq, {form}, {self.index(which)} : index"), self.fresh()
        self.put(f"%g{name}:{len(state)} = scf.if {is_chosen} -> ({types}) {{")
        self.put(f"scf.yield {', '.join(self._step(self.forms[which], state))} : {types}")
        self.put("} else {")
        self.put(f"scf.yield {', '.join(self._chosen(form, which + 1, state))} : {types}")
        self.put("}")
        return [f"%g{name}#{index}" for index in range(len(state))]

    def _step(self, form: Form, state: Sequence[str]) -> list[str]:
        weight = self.load_weight(2 + form.weight, self._number(0, ["%t", self.index(1)]))
        step = _Step(
            form,
            weight,
            self._number(0, ["%t", self.index(2)]),
            [self._number(0, ["%t", self.index(STEP + at)]) for at in range(len(form.factors))],
            [
                self._column(source, "%t", at) if self._is_looked_up(source) else None
                for at, source in enumerate(form.factors)
            ],
        )
        results, begin = list(state), "%k0"
        for kind in self.kinds(weight):
            remainder = self.op(f"arith.remui {self.number}, {self.index(kind[0])} : index")
            end = self.op(f"arith.subi {self.number}, {remainder} : index")
            results = self._tiles(step, kind, (begin, end), results)
            begin = end
        return results

    def _is_looked_up(self, source: int) -> bool:
        return source != SLOT and bool(self.params["looked_up"][source])

    def _is_far(self, source: int) -> bool:
        """Whether the rows of a table that is looked up are worth fetching ahead."""
        if not self._is_looked_up(source):
            return False
        table = self.operands[self._source(source)]
        return math.prod(dim for dim in table.shape if isinstance(dim, int)) * table.dtype.numpy.itemsize > _NEAR

    def _column(self, source: int, step: str, at: int) -> tuple[str, str]:
        """The column that a step reads of a source that is looked up, as one of its factors."""
        return self.column(self._source(source), self._number(0, [step, self.index(STEP + at)]))

    def _tiles(self, step: _Step, kind: tuple[int, int], rows: tuple[str, str], state: Sequence[str]) -> list[str]:
        """The rows between two, some together."""
        name = self.fresh()
        carried = ", ".join(f"%a{name}_{index} = {value}" for index, value in enumerate(state))
        head = f"scf.for %r{name} = {rows[0]} to {rows[1]} step {self.index(kind[0])}"
        self.put(f"%t{name}:{len(state)} = {head} iter_args({carried}) -> ({', '.join(self.types)}) {{")
        into = [f"%a{name}_{index}" for index in range(len(state))]
        own = [self.op(f"arith.addi %r{name}, {self.index(row)} : index") for row in range(kind[0])]

        def read(row: str, start: int, width: int) -> list[str]:
            return [
                self._read(source, at, column, into[0], row, start, width)
                for source, at, column in zip(step.form.factors, step.operands, step.columns, strict=True)
            ]

        product = self.product(own, step.weight, read)
        sums = [self.sums(kind, product, step.weight, piece) for piece in self.outer]
        for row, at in enumerate(own):
            self._write_row(step, at, [term[row] for term in sums], into)
        self.put(f"scf.yield {', '.join(into)} : {', '.join(self.types)}")
        self.put("}")
        return [f"%t{name}#{index}" for index in range(len(state))]

    def _write_row(self, step: _Step, row: str, vectors: Sequence[str], into: list[str]) -> None:
        """Write a row of the result to its slot, and add its exponent to the sum of exponents."""
        exponent, factor = self.power(vectors, is_exponent=True) if step.form.rescaled else ("", "")
        for (start, width), part in zip(self.outer, vectors, strict=True):
            vector, type_ = part, f"vector<{width}x{self.element}>"
            if step.form.rescaled:
                vector = self.op(f"arith.mulf {vector}, {self.broadcast(factor, width)[0]} : {type_}")
            into[0] = self.op(
                f"vector.transfer_write {vector}, {into[0]}[{step.slot}, {row}, {self.index(start)}] "
                f"{{in_bounds = [true]}} : {type_}, {self.types[0]}"
            )
        if step.form.rescaled:
            old = self.op(f"tensor.extract {into[1]}[{row}, %k0] : {self.types[1]}")
            new = self.op(f"arith.addf {old}, {exponent} : {self.element}")
            into[1] = self.op(f"tensor.insert {new} into {into[1]}[{row}, %k0] : {self.types[1]}")

    def _read(
        self, source: int, at: str, column: tuple[str, str] | None, state: str, row: str, start: int, width: int
    ) -> str:
        """A part of one row of a factor."""
        begin, type_ = self.index(start), f"vector<{width}x{self.element}>"
        if source == SLOT:
            return self.op(
                f"vector.transfer_read {state}[{at}, {row}, {begin}], %zero {{in_bounds = [true]}} : "
                f"{self.types[0]}, {type_}"
            )
        there, operand = self.op(f"arith.addi {row}, {self.first_row} : index"), self._source(source)
        if column is None:
            return self.read(operand, [at, there, begin], type_)
        return self.read(operand, [self.looked_up(operand, there, column), begin], type_)

    def _source(self, source: int) -> int:
        """The position of the first operand of a source."""
        looked_up: Sequence[bool] = self.params["looked_up"][:source]
        return self._first + source + (LOOKED_UP - 1) * sum(looked_up)


TREES = {"tree_of_sums": Row(_tree_of_sums)}
