"""A product of matrices without BLAS: packed blocks that fit the caches, and a tile of the result in registers.

    for each block of columns, and of steps:          pack the right factor in panels as wide as a tile
        for each block of rows:                       pack the left factor in panels as high as a tile
            for each panel of columns, and of rows:   tile += the sum over steps of column times row

The order of loops is that of Goto and van de Geijn, "Anatomy of high-performance matrix multiplication" (2008). Panels
at the edges are filled with zeros; their tiles are computed in full, in temporary memory, and then added.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from plica.backend.native.loops.functions import Function, Operand, Registers
from plica.backend.native.loops.support import PRODUCTS
from plica.backend.native.loops.tiles import pieces
from plica.backend.native.scalars.llvm import llvm_type
from plica.ir.dtypes import DType

_ROWS, _COLUMNS = 192, 1024  # of a block: left panels stay in the second cache, right ones in the third
_STEP_BYTES = 1536  # of a row of a block: a panel stays in the first cache
_ALIGNMENT = 64
_TRANSPOSED_STEPS = 4  # steps that are packed together if they are neighbours in memory


@dataclass(frozen=True, slots=True)
class _Tile:
    """A tile of a result.

    Args:
        type: The type of an entry.
        size: Bytes of an entry.
        lanes: Entries of a vector.
        rows: Rows of the tile.
    """

    type: str
    size: int
    lanes: int
    rows: int

    @property
    def columns(self) -> int:
        """Two vectors."""
        return 2 * self.lanes

    @property
    def vector(self) -> str:
        """The type of a vector."""
        return f"<{self.lanes} x {self.type}>"

    @property
    def block(self) -> int:
        """Rows of a block."""
        return _ROWS // self.rows * self.rows

    @property
    def steps(self) -> int:
        """Steps of a block."""
        return _STEP_BYTES // self.size


def blocked_product(dtype: DType, declared: set[str], registers: Registers) -> str:
    """The functions of a product of matrices in row-major order, `(c, a, b, m, n, k, ldc, lda, ldb, left, right)`.

    Rows of c, a and b, as they are stored, lie `ldc`, `lda` and `ldb` entries apart. `left` and `right` say whether a
    factor lies transposed, as for BLAS's product (`support.product_text`).

    Args:
        dtype: That of the entries: float32 or float64.
        declared: Declarations of intrinsics, which it adds to.
        registers: Those of the processor.
    """
    declared |= {"declare ptr @malloc(i64)", "declare void @free(ptr)"}
    name = PRODUCTS[dtype]
    size = dtype.numpy.itemsize
    tile = _Tile(llvm_type(dtype), size, registers.size // size, registers.rows)
    parts = [
        _tile(f"{name}.tile", tile, 2, declared),
        _tile(f"{name}.half", tile, 1, declared),
        _pack(f"{name}.left", tile, tile.rows, declared),
        _pack(f"{name}.right", tile, tile.columns, declared),
        _blocks(name, tile, declared),
        _product(name, tile, declared),
    ]
    return "\n".join(part.text() for part in parts)


def _tile(name: str, tile: _Tile, vectors: int, declared: set[str]) -> Function:
    """`name(c, a, b, k, width, first)`: sets a tile of c (if `first`) or adds to it; its rows are `width` apart.

    `vectors` says how many of the two vectors of each row are computed.
    """
    head = ["ptr noalias %c", "ptr noalias readonly %a", "ptr noalias readonly %b", "i64 %k", "i64 %width", "i1 %first"]
    function, vector = Function(name, head, declared), tile.vector
    sums = [[function.slot(vector) for _ in range(vectors)] for _ in range(tile.rows)]
    for slot in (slot for row in sums for slot in row):
        function.store(vector, "zeroinitializer", slot)
    with function.loop(0, "%k") as step:
        column = function.at(tile.type, "%a", function.multiply(step, tile.rows))
        row = function.at(tile.type, "%b", function.multiply(step, tile.columns))
        parts = [
            function.load(vector, function.at(tile.type, row, half * tile.lanes), tile.size) for half in range(vectors)
        ]
        for row_index, slots in enumerate(sums):
            entry = function.load(tile.type, function.at(tile.type, column, row_index))
            entry = function.op(f"insertelement {vector} poison, {tile.type} {entry}, i64 0")
            spread = f"<{tile.lanes} x i32> zeroinitializer"
            entry = function.op(f"shufflevector {vector} {entry}, {vector} poison, {spread}")
            for slot, part in zip(slots, parts, strict=True):
                kernel = f"llvm.fmuladd.v{tile.lanes}f{8 * tile.size}"
                function.store(vector, function.call(vector, kernel, entry, part, function.load(vector, slot)), slot)

    def written(*, is_first: bool) -> None:
        for row_index, slots in enumerate(sums):
            row = function.at(tile.type, "%c", function.multiply("%width", row_index))
            for half, slot in enumerate(slots):
                where, total = function.at(tile.type, row, half * tile.lanes), function.load(vector, slot)
                if not is_first:
                    total = function.op(f"fadd {vector} {function.load(vector, where, tile.size)}, {total}")
                function.store(vector, total, where, tile.size)

    function.either("%first", lambda: written(is_first=True), lambda: written(is_first=False))
    return function


def _pack(name: str, tile: _Tile, width: int, declared: set[str]) -> Function:
    """`name(to, x, count, k, stride, step)`: panels of `width` of `count` rows of a block, step after step.

    Entry (i, p) of the block is `x[i * stride + p * step]`, and goes to `to[i - i % width][p][i % width]`.
    """
    head = ["ptr noalias %to", "ptr noalias readonly %x", "i64 %count", "i64 %k", "i64 %stride", "i64 %step"]
    function = Function(name, head, declared)
    with function.loop(0, "%count", width) as first:
        to = function.at(tile.type, "%to", function.multiply(first, "%k"))
        x = function.at(tile.type, "%x", function.multiply(first, "%stride"))
        left = function.subtract("%count", first)

        def pack_panel(write: Callable[[str, str], None], begin: Operand = 0, to: str = to, x: str = x) -> None:
            with function.loop(begin, "%k") as step:
                source = function.at(tile.type, x, function.multiply(step, "%step"))
                write(source, function.at(tile.type, to, function.multiply(step, width)))

        def entry(source: str, target: str, index: Operand, offset: Operand) -> None:
            number = function.load(tile.type, function.at(tile.type, source, offset))
            function.store(tile.type, number, function.at(tile.type, target, index))

        def row(source: str, target: str) -> None:
            with function.loop(0, width) as index:
                entry(source, target, index, index)

        def column(source: str, target: str) -> None:
            for index in range(width):  # unrolled: LLVM would compile a loop as a gather
                entry(source, target, index, function.multiply("%stride", index))

        def edge(source: str, target: str, left: Operand = left) -> None:
            with function.loop(0, left) as index:
                entry(source, target, index, function.multiply("%stride", index))
            with function.loop(left, width) as index:
                function.store(tile.type, "0.0", function.at(tile.type, target, index))

        def turn(to: str = to, x: str = x, pack_panel: Callable[..., None] = pack_panel) -> None:
            end = function.op(f"and i64 %k, -{_TRANSPOSED_STEPS}")
            with function.loop(0, end, _TRANSPOSED_STEPS) as step:
                source = function.at(tile.type, x, step)
                _transpose(function, tile, width, source, function.at(tile.type, to, function.multiply(step, width)))
            pack_panel(column, end)

        def full(pack_panel: Callable[..., None] = pack_panel, turn: Callable[[], None] = turn) -> None:
            is_row, is_turned = (function.op(f"icmp eq i64 %{name}, 1") for name in ("stride", "step"))
            function.either(
                is_row,
                lambda: pack_panel(row),
                lambda: function.either(is_turned, turn, lambda: pack_panel(column)),
            )

        is_full = function.op(f"icmp sge i64 {left}, {width}")
        function.either(is_full, full, partial(pack_panel, edge))
    return function


def _transpose(function: Function, tile: _Tile, width: int, source: str, target: str) -> None:
    """Pack some steps of rows that lie `%stride` apart: blocks of a panel are loaded as rows, and stored as columns."""
    for start, height in pieces(width, 8):
        block, size = [], _TRANSPOSED_STEPS
        for row in range(start, start + height):
            entry = function.at(tile.type, source, function.multiply("%stride", row))
            block.append(function.load(f"<{size} x {tile.type}>", entry, tile.size))
        while len(block) > 1:  # join neighbours
            type_, order = f"<{size} x {tile.type}>", _mask(range(2 * size))
            pairs = zip(block[::2], block[1::2], strict=True)
            block = [function.op(f"shufflevector {type_} {a}, {type_} {b}, {order}") for a, b in pairs]
            size *= 2
        type_ = f"<{size} x {tile.type}>"
        for step in range(_TRANSPOSED_STEPS):
            order = _mask(range(step, size, _TRANSPOSED_STEPS))
            column = function.op(f"shufflevector {type_} {block[0]}, {type_} poison, {order}")
            address = function.at(tile.type, target, step * width + start)
            function.store(f"<{height} x {tile.type}>", column, address, tile.size)


def _mask(order: range) -> str:
    """The entries that a vector is made of."""
    return f"<{len(order)} x i32> <{', '.join(f'i32 {entry}' for entry in order)}>"


def _product(name: str, tile: _Tile, declared: set[str]) -> Function:
    """The product: by blocks, or entry by entry if memory for packed blocks cannot be allocated."""
    head = ["ptr noalias %c", "ptr noalias readonly %a", "ptr noalias readonly %b", "i64 %m", "i64 %n", "i64 %k"]
    head += ["i64 %ldc", "i64 %lda", "i64 %ldb"]
    function = Function(name, [*head, "i1 %left", "i1 %right"], declared)
    row, step = (function.op(f"select i1 %left, i64 {own}") for own in ("1, i64 %lda", "%lda, i64 1"))
    down, right = (function.op(f"select i1 %right, i64 {own}") for own in ("1, i64 %ldb", "%ldb, i64 1"))
    with function.loop(0, "%m") as i, function.loop(0, "%n") as j:  # a sum of no terms is 0
        entry = function.add(function.multiply(i, "%ldc"), j)
        function.store(tile.type, "0.0", function.at(tile.type, "%c", entry))
    steps = function.minimum("%k", tile.steps)
    sizes = [
        function.multiply(function.multiply(function.round_up(function.minimum(count, most), width), steps), tile.size)
        for count, most, width in (("%m", tile.block, tile.rows), ("%n", _COLUMNS, tile.columns))
    ]
    sizes[0] = function.round_up(sizes[0], _ALIGNMENT)
    memory = function.op(f"call ptr @malloc(i64 {function.add(function.add(*sizes), _ALIGNMENT)})")

    def by_entries() -> None:
        with function.loop(0, "%m") as i, function.loop(0, "%k") as p, function.loop(0, "%n") as j:
            target = function.at(tile.type, "%c", function.add(function.multiply(i, "%ldc"), j))
            left = function.add(function.multiply(i, row), function.multiply(p, step))
            below = function.add(function.multiply(p, down), function.multiply(j, right))
            factors = [
                function.load(tile.type, function.at(tile.type, *offset)) for offset in (("%a", left), ("%b", below))
            ]
            term = function.op(f"fmul {tile.type} {', '.join(factors)}")
            total = function.op(f"fadd {tile.type} {function.load(tile.type, target)}, {term}")
            function.store(tile.type, total, target)

    def by_blocks() -> None:
        address = function.round_up(function.op(f"ptrtoint ptr {memory} to i64"), _ALIGNMENT)
        panels = function.op(f"inttoptr i64 {address} to ptr")
        numbers = ", ".join(f"i64 {number}" for number in ("%m", "%n", "%k", "%ldc", row, step, down, right))
        pointers = ", ".join(
            f"ptr {pointer}" for pointer in ("%c", "%a", "%b", panels, function.at("i8", panels, sizes[0]))
        )
        function.put(f"call void @{name}.blocks({pointers}, {numbers})")
        function.put(f"call void @free(ptr {memory})")

    function.either(function.op(f"icmp eq ptr {memory}, null"), by_entries, by_blocks)
    return function


def _blocks(name: str, tile: _Tile, declared: set[str]) -> Function:
    """The loops over blocks and panels; strides are `width` (c), `row`, `step` (a), `down`, `right` (b)."""
    pointers = ["ptr noalias %c", *(f"ptr noalias readonly %{factor}" for factor in "ab"), "ptr %lefts", "ptr %rights"]
    numbers = [f"i64 %{number}" for number in ("m", "n", "k", "width", "row", "step", "down", "right")]
    function = Function(f"{name}.blocks", [*pointers, *numbers], declared)
    edge_tile = function.slot(f"[{tile.rows * tile.columns} x {tile.type}]")
    with function.loop(0, "%n", _COLUMNS) as column, function.loop(0, "%k", tile.steps) as begin:
        columns = function.minimum(function.subtract("%n", column), _COLUMNS)
        steps = function.minimum(function.subtract("%k", begin), tile.steps)
        is_first = function.op(f"icmp eq i64 {begin}, 0")
        offset = function.add(function.multiply(begin, "%down"), function.multiply(column, "%right"))
        source = function.at(tile.type, "%b", offset)
        sizes = f"i64 {columns}, i64 {steps}, i64 %right, i64 %down"
        function.put(f"call void @{name}.right(ptr %rights, ptr {source}, {sizes})")
        with function.loop(0, "%m", tile.block) as top:
            rows = function.minimum(function.subtract("%m", top), tile.block)
            offset = function.add(function.multiply(top, "%row"), function.multiply(begin, "%step"))
            source = function.at(tile.type, "%a", offset)
            sizes = f"i64 {rows}, i64 {steps}, i64 %row, i64 %step"
            function.put(f"call void @{name}.left(ptr %lefts, ptr {source}, {sizes})")
            with function.loop(0, columns, tile.columns) as at_column, function.loop(0, rows, tile.rows) as at_row:
                entry = function.add(
                    function.multiply(function.add(top, at_row), "%width"), function.add(column, at_column)
                )
                target = function.at(tile.type, "%c", entry)
                panels = ", ".join(
                    f"ptr {function.at(tile.type, panel, function.multiply(at, steps))}"
                    for panel, at in (("%lefts", at_row), ("%rights", at_column))
                )
                height = function.minimum(function.subtract(rows, at_row), tile.rows)
                width = function.minimum(function.subtract(columns, at_column), tile.columns)

                def full(target: str = target, panels: str = panels) -> None:
                    sizes = f"i64 {steps}, i64 %width, i1 {is_first}"
                    function.put(f"call void @{name}.tile(ptr {target}, {panels}, {sizes})")

                def edge(
                    target: str = target, panels: str = panels, height: Operand = height, width: Operand = width
                ) -> None:
                    operands = f"ptr {edge_tile}, {panels}, i64 {steps}, i64 {tile.columns}, i1 true"
                    function.either(
                        function.op(f"icmp sgt i64 {width}, {tile.lanes}"),
                        lambda: function.put(f"call void @{name}.tile({operands})"),
                        lambda: function.put(f"call void @{name}.half({operands})"),
                    )
                    with function.loop(0, height) as r, function.loop(0, width) as c:
                        source = function.at(tile.type, edge_tile, function.add(function.multiply(r, tile.columns), c))
                        total = function.at(tile.type, target, function.add(function.multiply(r, "%width"), c))
                        terms = [function.load(tile.type, pointer) for pointer in (total, source)]
                        function.store(tile.type, function.op(f"fadd {tile.type} {', '.join(terms)}"), total)

                is_high = function.op(f"icmp eq i64 {height}, {tile.rows}")
                is_wide = function.op(f"icmp eq i64 {width}, {tile.columns}")
                function.either(function.op(f"and i1 {is_high}, {is_wide}"), full, edge)
    return function
