"""`sum_of_products` as a function of vectors: looked-up rows, products, weighted sums and rescaling of a tile of rows.

In a run of folds, each factor reads one source, at a fixed distance in folds. Runs whose factors read sources of the
same kinds share a function, and each run is a call of it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from plica.backend.native.circuits.operations import EXPONENTS, Run
from plica.backend.native.loops.functions import Function, Operand, Registers
from plica.backend.native.loops.tiles import Source, Tiles
from plica.ir.dtypes import DType


@dataclass(frozen=True, slots=True)
class LayerKernel:
    """The function `(room, y, powers, weight, sources..., rows)`; without rescaling, `powers` is not written.

    Args:
        dtype: The dtype of all numbers.
        shape: The shape of the weight: folds, units, outputs.
        rescaled: "", or which second result there is, as in `sum_of_products`.
        factors: The runs of each factor.
        sources: The sources, in order.
    """

    dtype: DType
    shape: tuple[int, int, int]
    rescaled: str
    factors: tuple[tuple[Run, ...], ...]
    sources: tuple[Source, ...]

    def __call__(self, name: str, declared: set[str], registers: Registers) -> str:
        """The text of the function and of those that it calls."""
        pointers = [
            [f"%s{number}.{part}" for part in range(source.num_pointers)] for number, source in enumerate(self.sources)
        ]
        head = ["%room", "%y", "%powers", "%w", *(pointer for some in pointers for pointer in some)]
        function = Function(name, [*(f"ptr {pointer}" for pointer in head), "i64 %rows"], declared)
        names: dict[tuple[Source, ...], str] = {}
        parts = []
        for lower, upper, runs in self._segments():
            kinds = tuple(self.sources[source] for source, _ in runs)
            if kinds not in names:
                names[kinds] = f"{name}.{len(names)}"
                parts.append(self._folds(names[kinds], kinds, declared, registers))
            arguments = [f"ptr {pointer}" for pointer in head[:4]]
            arguments += [f"ptr {pointer}" for source, _ in runs for pointer in pointers[source]]
            numbers = ["%rows", lower, upper, *(move for _, move in runs)]
            function.put(
                f"call void @{names[kinds]}({', '.join([*arguments, *(f'i64 {number}' for number in numbers)])})"
            )
        return "\n".join([*parts, function.text()])

    def _segments(self) -> Iterator[tuple[int, int, list[tuple[int, int]]]]:
        """The first fold and the end of each run; for each factor its source, and how many folds further it reads."""
        ends = [list(accumulate(run.length for run in factor)) for factor in self.factors]
        for lower, upper in pairwise(sorted({0, *(end for some in ends for end in some)})):
            runs = []
            for factor, some in zip(self.factors, ends, strict=True):
                number = next(index for index, end in enumerate(some) if lower < end)
                runs.append((factor[number].source, factor[number].start - some[number] + factor[number].length))
            yield lower, upper, runs

    def _folds(self, name: str, kinds: Sequence[Source], declared: set[str], registers: Registers) -> str:
        """The function `(room, y, powers, weight, sources..., rows, lower, upper, moves...)` of a run of folds."""
        _, units, outputs = self.shape
        pointers = [[f"%s{number}.{part}" for part in range(kind.num_pointers)] for number, kind in enumerate(kinds)]
        written, read = ["%room", "%y", "%powers"], ["%w", *(pointer for some in pointers for pointer in some)]
        parameters = [f"ptr noalias {pointer}" for pointer in written]
        parameters += [f"ptr noalias readonly {pointer}" for pointer in read]
        numbers = ["%rows", "%lower", "%upper", *(f"%move{number}" for number in range(len(kinds)))]
        tiles = Tiles(
            name, [*parameters, *(f"i64 {number}" for number in numbers)], declared, registers, self.dtype, outputs
        )
        with tiles.loop("%lower", "%upper") as fold:
            weight = tiles.at(tiles.type, "%w", tiles.multiply(fold, units * outputs))
            first_row = tiles.multiply(fold, "%rows")
            factors = [
                tiles.rows_of(kind, some, tiles.add(fold, f"%move{number}"), "%rows")
                for number, (kind, some) in enumerate(zip(kinds, pointers, strict=True))
            ]

            def write(rows: list[Operand], parts: int) -> None:
                tiles.product([[factor(row) for factor in factors] for row in rows], units)
                sums = [tiles.sums(len(rows), parts, weight, units, piece) for piece in tiles.outer]
                for number, row in enumerate(rows):
                    vectors, at, factor = [some[number] for some in sums], tiles.add(first_row, row), ""
                    if self.rescaled:
                        power, factor = tiles.power(vectors, is_exponent=self.rescaled == EXPONENTS)
                        tiles.store(tiles.type, power, tiles.at(tiles.type, "%powers", at))
                    tiles.write_row(vectors, tiles.at(tiles.type, "%y", tiles.multiply(at, outputs)), factor)

            tiles.tiles("%rows", write)
        return tiles.text()
