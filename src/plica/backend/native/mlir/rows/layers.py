"""`sum_of_products` as one dispatch: looked-up rows, products, the weighted sum and the rescaling of a tile of rows.

    dispatch [blocks of folds, blocks of rows]
        for each fold of the block, for each tile of 8 rows, then 4 and 1:
            product[r, :] = factor[r, :] * factor[r, :]            rows of arrays or of tables, read where they lie
            for each piece of the outputs, kept in registers:
                for i: sum[r, piece] += product[r, i] * weight[i, piece]
            the largest of each row, its power of two, the quotients

Linear algebra operations would pass all products through memory, and look rows up entry by entry. `look_up` is a
dispatch of its own as well: a lookup that is fused into its readers is repeated in each of them.
"""

from collections.abc import Sequence
from typing import Any

from plica.backend.native.circuits.operations import EXPONENTS, LOOKED_UP
from plica.backend.native.mlir.call import Call
from plica.backend.native.mlir.emitter import Emitter, Row
from plica.backend.native.mlir.rows.dispatch import WIDEST, Dispatch, pieces, write_dispatch
from plica.backend.native.mlir.rows.tiles import Tiles
from plica.backend.native.mlir.types import Value
from plica.ir.sizes import Dim


def _look_up(emitter: Emitter, call: Call) -> Sequence[Value]:
    operands = [emitter.tensor(value) for value in call.inputs]
    (type_,) = call.types
    folds, rows, units = type_.shape
    assert isinstance(folds, int), "columns are constants"
    assert isinstance(units, int), "tables are constants"
    kernel = Dispatch(operands, folds, rows)
    kernel.begin(range(len(operands)))
    column = kernel.column(0, "%f")
    block = f"tensor<?x{units}x{kernel.element}>"
    empty = kernel.op(f"tensor.empty({kernel.number}) : {block}")
    kernel.put(f"%y = scf.for %r = %k0 to {kernel.number} step %k1 iter_args(%into = {empty}) -> ({block}) {{")
    row = kernel.op(f"arith.addi %r, {kernel.first_row} : index")
    number, into = kernel.looked_up(0, row, column), "%into"
    for start, width in pieces(units, WIDEST[kernel.element]):
        vector, begin = f"vector<{width}x{kernel.element}>", kernel.index(start)
        entries = kernel.read(0, [number, begin], vector)
        into = kernel.op(
            f"vector.transfer_write {entries}, {into}[%r, {begin}] {{in_bounds = [true]}} : {vector}, {block}"
        )
    kernel.put(f"scf.yield {into} : {block}")
    kernel.put("}")
    kernel.end([("%y", units)])
    return write_dispatch(emitter, call, rows, kernel)


def _sum_of_products(emitter: Emitter, call: Call) -> Sequence[Value]:
    operands = [emitter.tensor(value) for value in call.inputs]
    rows = call.types[0].shape[1]
    return write_dispatch(emitter, call, rows, _Layer(operands, call.params, rows))


class _Layer(Tiles):
    """The lines of the dispatch; names in it are its own."""

    def __init__(self, operands: Sequence[Value], params: Any, rows: Dim) -> None:
        folds, _, outputs = (dim for dim in operands[0].shape if isinstance(dim, int))
        super().__init__(operands, folds, rows, outputs)
        self.params = params
        self.columns: dict[tuple[int, str], tuple[str, str]] = {}
        self.block_type, self.powers_type = f"tensor<?x{self.outputs}x{self.element}>", f"tensor<?x1x{self.element}>"
        self._write()

    def _write(self) -> None:
        self.begin(range(1, len(self.operands)))
        self.weight = self.load_weight(0, "%f")
        self.factor_folds = [self._fold_of(factor) for factor in self.params["factors"]]
        types = [self.block_type, self.powers_type] if self.params["rescaled"] else [self.block_type]
        results, begin = [self.op(f"tensor.empty({self.number}) : {type_}") for type_ in types], "%k0"
        for tile, parts in self.kinds(self.weight):
            remainder = self.op(f"arith.remui {self.number}, {self.index(tile)} : index")
            end = self.op(f"arith.subi {self.number}, {remainder} : index")
            results = self._tiles(tile, parts, begin, end, results)
            begin = end
        self.end(list(zip(results, (self.outputs, 1), strict=False)))

    def _fold_of(self, factor: Sequence[tuple[int, int, int]]) -> tuple[str, dict[int, str]]:
        """The fold that a factor reads at fold `%f`, and for each of several sources whether it is read."""
        ends, at = [], 0
        for _, _, length in factor:
            at += length
            ends.append(at)
        beginnings = [0, *ends[:-1]]
        moves = [start - begin for (_, start, _), begin in zip(factor, beginnings, strict=True)]
        move = self.index(moves[-1])
        sources = list(dict.fromkeys(source for source, _, _ in factor))
        is_source: dict[int, str] = {}
        for end, other_move in list(zip(ends, moves, strict=True))[-2::-1]:
            inside = self.op(f"arith.cmpi ult, %f, {self.index(end)} : index")
            move = self.op(f"arith.select {inside}, {self.index(other_move)}, {move} : index")
        for source in sources[:-1]:
            is_here = self.op(f"arith.constant {'true' if factor[-1][0] == source else 'false'}")
            for (other, _, _), end in list(zip(factor, ends, strict=True))[-2::-1]:
                inside = self.op(f"arith.cmpi ult, %f, {self.index(end)} : index")
                same = self.op(f"arith.constant {'true' if other == source else 'false'}")
                is_here = self.op(f"arith.select {inside}, {same}, {is_here} : i1")
            is_source[source] = is_here
        is_source[sources[-1]] = ""
        fold = self.op(f"arith.addi %f, {move} : index")
        for source in sources:
            if self.params["looked_up"][source]:
                self.columns[source, fold] = self.column(self._first(source), fold)
        return fold, is_source

    def _tiles(self, tile: int, parts: int, first: str, last: str, starts: Sequence[str]) -> list[str]:
        """The rows from `first` to `last`, `tile` together, written into the arrays `starts`."""
        types = [self.block_type, self.powers_type][: len(starts)]
        name = self.fresh()
        carried = ", ".join(f"%a{name}_{index} = {start}" for index, start in enumerate(starts))
        head = f"scf.for %r{name} = {first} to {last} step {self.index(tile)}"
        self.put(f"%t{name}:{len(starts)} = {head} iter_args({carried}) -> ({', '.join(types)}) {{")
        into = [f"%a{name}_{index}" for index in range(len(starts))]
        own = [self.op(f"arith.addi %r{name}, {self.index(row)} : index") for row in range(tile)]
        there = [self.op(f"arith.addi {row}, {self.first_row} : index") for row in own]
        product = self.product(there, self.weight, self._factors)
        sums = [self.sums((tile, parts), product, self.weight, piece) for piece in self.outer]
        is_exponent = self.params["rescaled"] == EXPONENTS
        powers = [
            self.power([term[row] for term in sums], is_exponent=is_exponent)
            for row in range(tile)
            if self.params["rescaled"]
        ]
        for row in range(tile):
            for (start, width), vectors in zip(self.outer, sums, strict=True):
                vector, type_ = vectors[row], f"vector<{width}x{self.element}>"
                if powers:
                    factor, _ = self.broadcast(powers[row][1], width)
                    vector = self.op(f"arith.mulf {vector}, {factor} : {type_}")
                into[0] = self.op(
                    f"vector.transfer_write {vector}, {into[0]}[{own[row]}, {self.index(start)}] "
                    f"{{in_bounds = [true]}} : {type_}, {self.block_type}"
                )
            if powers:
                power = powers[row][0]
                into[1] = self.op(f"tensor.insert {power} into {into[1]}[{own[row]}, %k0] : {self.powers_type}")
        self.put(f"scf.yield {', '.join(into)} : {', '.join(types)}")
        self.put("}")
        return [f"%t{name}#{index}" for index in range(len(starts))]

    def _factors(self, row: str, start: int, width: int) -> Sequence[str]:
        """A part of one row of each factor."""
        return [self._read(factor_fold, row, start, width) for factor_fold in self.factor_folds]

    def _read(self, factor_fold: tuple[str, dict[int, str]], row: str, start: int, width: int) -> str:
        """A part of one row of a factor."""
        fold, sources = factor_fold
        (source, is_source), *others = sources.items()
        type_ = f"vector<{width}x{self.element}>"
        if not others:
            return self._vector(source, fold, row, start, type_)
        name = f"%x{self.fresh()}"
        self.put(f"{name} = scf.if {is_source} -> ({type_}) {{")
        self.put(f"scf.yield {self._vector(source, fold, row, start, type_)} : {type_}")
        self.put("} else {")
        self.put(f"scf.yield {self._read((fold, dict(others)), row, start, width)} : {type_}")
        self.put("}")
        return name

    def _vector(self, source: int, fold: str, row: str, start: int, type_: str) -> str:
        at, begin = self._first(source), self.index(start)
        if not self.params["looked_up"][source]:
            return self.read(at, [fold, row, begin], type_)
        return self.read(at, [self.looked_up(at, row, self.columns[source, fold]), begin], type_)

    def _first(self, source: int) -> int:
        """The position of the first operand of a source."""
        looked_up: Sequence[bool] = self.params["looked_up"][:source]
        return 1 + source + (LOOKED_UP - 1) * sum(looked_up)


LAYERS = {"look_up": Row(_look_up), "sum_of_products": Row(_sum_of_products)}
