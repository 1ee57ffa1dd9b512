"""Tiles of rows whose weighted sums are in registers together: the inner loops of the dispatches of layers.

product[r, :] = factor[r, :] * factor[r, :]            rows of arrays or of tables, read where they lie
for each piece of the outputs, kept in registers:
    for i: sum[r, piece] += product[r, i] * weight[i, piece]
the largest of each row, its power of two
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from plica.backend.native.mlir.rows.dispatch import TENSOR, WIDEST, Dispatch, pieces
from plica.backend.native.mlir.types import Value
from plica.ir.sizes import Dim

TILES = ((8, 1), (4, 1), (1, 4))
"""Rows whose sums are in registers together, and the number of independent partial sums of each."""
_MANTISSA = {"f32": (23, 253, "i32"), "f64": (52, 2045, "i64")}
"""Bits of a mantissa, the sum of the biased exponents of 2**(e - 1) and 2**-e, and integers as wide."""


@dataclass(frozen=True, slots=True)
class Weight:
    """The weight of one fold, `(units, outputs)`.

    Args:
        text: Its name.
        type: Its type.
        units: How many units it has.
    """

    text: str
    type: str
    units: int


class Tiles(Dispatch):
    """The lines of such a dispatch under construction.

    Attributes:
        outputs: The width of the results.
        outer: The pieces of the outputs.

    Args:
        operands: The values that are read.
        folds: How many folds the results have.
        rows: How many rows.
        outputs: The width of the results.
        most: Rows of a block, at most.
        fewest: Rows of a block, at least: those of a tile or more.
    """

    def __init__(
        self, operands: Sequence[Value], folds: int, rows: Dim, outputs: int, most: int = 64, fewest: int = 64
    ) -> None:
        super().__init__(operands, folds, rows, most, fewest)
        self.outputs = outputs
        self.outer = list(pieces(outputs, WIDEST[self.element]))

    def load_weight(self, position: int, fold: str) -> Weight:
        """One fold of an operand `(F, I, O)`."""
        _, units, outputs = self.operands[position].shape
        assert isinstance(units, int), "weights are constants"
        type_ = f"tensor<{units}x{outputs}x{self.element}>"
        text = self.op(
            f"iree_tensor_ext.dispatch.tensor.load %s{position}, offsets = [{fold}, 0, 0], "
            f"sizes = [1, {units}, {outputs}], strides = [1, 1, 1] : "
            f"{TENSOR}<readonly:{self.operands[position].type}> -> {type_}"
        )
        return Weight(text, type_, units)

    def broadcast(self, scalar: str, width: int) -> tuple[str, str]:
        """A vector of one number, and its type."""
        type_ = f"vector<{width}x{self.element}>"
        return self.op(f"vector.broadcast {scalar} : {self.element} to {type_}"), type_

    def kinds(self, weight: Weight) -> list[tuple[int, int]]:
        """The tiles for a weight."""
        return [(tile, parts if weight.units % parts == 0 else 1) for tile, parts in TILES]

    def product(self, rows: Sequence[str], weight: Weight, read: Callable[[str, int, int], Sequence[str]]) -> str:
        """The products of the factors' rows, `(rows, units)`; `read` returns a part of a row of each factor."""
        type_ = f"tensor<{len(rows)}x{weight.units}x{self.element}>"
        block = self.op(f"tensor.empty() : {type_}")
        for row, at in enumerate(rows):
            for start, width in pieces(weight.units, WIDEST[self.element]):
                vector = ""
                for other in read(at, start, width):
                    vector = (
                        self.op(f"arith.mulf {vector}, {other} : vector<{width}x{self.element}>") if vector else other
                    )
                block = self.op(
                    f"vector.transfer_write {vector}, {block}[{self.index(row)}, {self.index(start)}] "
                    f"{{in_bounds = [true]}} : vector<{width}x{self.element}>, {type_}"
                )
        return block

    def sums(self, kind: tuple[int, int], product: str, weight: Weight, piece: tuple[int, int]) -> list[str]:
        """One piece of the weighted sums of each row.

        Args:
            kind: How many rows, and in how many parts each sum is.
            product: The products, as `product` returns them.
            weight: The weight.
            piece: Where the piece of the outputs begins, and how wide it is.
        """
        (tile, parts), (start, width) = kind, piece
        type_ = f"vector<{width}x{self.element}>"
        zeros = self.op(f"arith.constant dense<0.0> : {type_}")
        name, count = self.fresh(), tile * parts
        carried = ", ".join(f"%c{name}_{index} = {zeros}" for index in range(count))
        types = ", ".join([type_] * count)
        head = f"scf.for %i{name} = %k0 to {self.index(weight.units)} step {self.index(parts)}"
        self.put(f"%m{name}:{count} = {head} iter_args({carried}) -> ({types}) {{")
        sums = []
        for part in range(parts):
            unit = self.op(f"arith.addi %i{name}, {self.index(part)} : index")
            entries = self.op(
                f"vector.transfer_read {weight.text}[{unit}, {self.index(start)}], %zero {{in_bounds = [true]}} : "
                f"{weight.type}, {type_}"
            )
            for row in range(tile):
                indices = f"[{self.index(row)}, {unit}] : tensor<{tile}x{weight.units}x{self.element}>"
                entry, _ = self.broadcast(self.op(f"tensor.extract {product}{indices}"), width)
                sums.append(self.op(f"vector.fma {entry}, {entries}, %c{name}_{part * tile + row} : {type_}"))
        self.put(f"scf.yield {', '.join(sums)} : {types}")
        self.put("}")
        totals = [f"%m{name}#{row}" for row in range(tile)]
        for part in range(1, parts):
            totals = [
                self.op(f"arith.addf {total}, %m{name}#{part * tile + row} : {type_}")
                for row, total in enumerate(totals)
            ]
        return totals

    def power(self, vectors: Sequence[str], *, is_exponent: bool) -> tuple[str, str]:
        """The divisor of a row, or its exponent, and its reciprocal. Bits of positive numbers are in order."""
        bits, top, integer = _MANTISSA[self.element]
        largest = ""
        for vector, (_, width) in zip(vectors, self.outer, strict=True):
            as_bits = self.op(f"vector.bitcast {vector} : vector<{width}x{self.element}> to vector<{width}x{integer}>")
            row_top = self.op(f"vector.reduction <maxsi>, {as_bits} : vector<{width}x{integer}> into {integer}")
            largest = self.op(f"arith.maxsi {largest}, {row_top} : {integer}") if largest else row_top

        def constant(value: int) -> str:
            return self.op(f"arith.constant {value} : {integer}")

        shift, one, most, bias = constant(bits), constant(1), constant(top - 1), constant(top // 2)
        exponent = self.op(f"arith.shrsi {largest}, {shift} : {integer}")
        exponent = self.op(f"arith.minsi {exponent}, {most} : {integer}")
        is_normal = self.op(f"arith.cmpi sge, {exponent}, {one} : {integer}")
        exponent = self.op(f"arith.select {is_normal}, {exponent}, {bias} : {integer}")  # 2**0
        divisor = self.op(f"arith.addi {exponent}, {one} : {integer}")
        factor = self.op(f"arith.subi {constant(top)}, {exponent} : {integer}")
        parts = []
        for bits_of in (divisor, factor):
            shifted = self.op(f"arith.shli {bits_of}, {shift} : {integer}")
            parts.append(self.op(f"arith.bitcast {shifted} : {integer} to {self.element}"))
        if is_exponent:
            number = self.op(f"arith.subi {exponent}, {bias} : {integer}")
            parts[0] = self.op(f"arith.sitofp {number} : {integer} to {self.element}")
        return parts[0], parts[1]
