"""`sum_of_products` as one dispatch: looked-up rows, products, the weighted sum and the rescaling of a tile of rows.

    dispatch [blocks of folds, blocks of rows]
        for each fold of the block, for each tile of 8 rows, then 4 and 1:
            product[r, :] = factor[r, :] * factor[r, :]            rows of arrays or of tables, read where they lie
            for each piece of the outputs, kept in registers:
                for i: sum[r, piece] += product[r, i] * weight[i, piece]
            the largest of each row, its power of two, the quotients

What linear algebra operations become passes all products through memory, and looks rows up entry by entry.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from plica.backend.native.circuits.operations import EXPONENTS, LOOKED_UP
from plica.backend.native.mlir.rows.row import Call, Row
from plica.backend.native.mlir.types import Value, tensor_type

if TYPE_CHECKING:
    from plica.backend.native.mlir.emit import Emitter

_TILES = ((8, 1), (4, 1), (1, 4))
"""Rows whose sums are in registers together, and in how many parts each sum is, so that additions need not wait."""
_WIDEST = {"f32": 32, "f64": 16}
_GROUPS = 32  # blocks of folds, at most
_ROWS = 64  # of a block of rows
_MANTISSA = {"f32": (23, 253, "i32"), "f64": (52, 2045, "i64")}
"""Bits of a mantissa, the sum of the biased exponents of 2**(e - 1) and 2**-e, and integers as wide."""

_TENSOR = "!iree_tensor_ext.dispatch.tensor"


def _pieces(size: int, widest: int) -> Iterator[tuple[int, int]]:
    """Where vectors begin, and how wide they are: as wide as possible, and powers of two."""
    start = 0
    while start < size:
        width = widest
        while width > size - start:
            width //= 2
        yield start, width
        start += width


def _sum_of_products(emitter: Emitter, call: Call) -> Sequence[Value]:
    operands = [emitter.tensor(one) for one in call.inputs]
    kernel = _Kernel(operands, call.params, rows=call.types[0].shape[1])
    results = [emitter.code.name() for _ in call.types]
    rows = emitter.size(call.types[0].shape[1])
    sizes = {one.text: _braced(emitter, one) for one in operands}
    shapes = [tensor_type(one.shape, one.dtype) for one in call.types]
    braced = ["" if isinstance(one.shape[1], int) else f"{{{rows}}}" for one in call.types]
    given = ", ".join(one.text for one in operands)
    types = ", ".join(f"{one.type}{sizes[one.text]}" for one in operands)
    made = ", ".join(f"{shape}{size}" for shape, size in zip(shapes, braced, strict=True))
    taken = [f"%s{place}: {_TENSOR}<readonly:{one.type}>" for place, one in enumerate(operands)]
    taken += ["%rows: index"]
    taken += [f"%o{place}: {_TENSOR}<writeonly:{shape}>" for place, shape in enumerate(shapes)]
    head = f"{', '.join(results)} = " if len(results) == 1 else f"{results[0]}:{len(results)} = "
    code = emitter.code
    code.put(f"{head}flow.dispatch.workgroups[{rows}]({given}, {rows}) : ({types}, index) -> ({made}) = ({', '.join(taken)}) {{")
    for line in kernel.lines:
        code.put(line)
    code.put("} count(%n: index) -> (index, index, index) {")
    for line in kernel.count():
        code.put(line)
    code.put("}")
    names = [results[0]] if len(results) == 1 else [f"{results[0]}#{place}" for place in range(len(results))]
    return [Value(name, one.shape, one.dtype) for name, one in zip(names, call.types, strict=True)]


def _braced(emitter: Emitter, value: Value) -> str:
    sizes = [emitter.size(dim) for dim in value.shape if not isinstance(dim, int)]
    return f"{{{', '.join(sizes)}}}" if sizes else ""


class _Kernel:
    """The lines of the dispatch; names in it are its own."""

    def __init__(self, operands: Sequence[Value], params: Any, rows: Any) -> None:
        self.lines: list[str] = []
        self._count = 0
        self.operands, self.params = operands, params
        weight = operands[0]
        self.folds, self.units, self.outputs = (int(dim) for dim in weight.shape)  # type: ignore[arg-type]
        self.element = weight.element
        self.block = -(-self.folds // _GROUPS)
        self.rows = rows
        widest = _WIDEST[self.element]
        self.inner, self.outer = list(_pieces(self.units, widest)), list(_pieces(self.outputs, widest))
        self._write()

    def count(self) -> list[str]:
        """The number of blocks of folds, and of rows."""
        return [
            f"%c0 = arith.constant {-(-self.folds // self.block)} : index",
            f"%c1 = arith.constant {_ROWS} : index",
            "%c2 = arith.constant 1 : index",
            "%c3 = arith.ceildivui %n, %c1 : index",
            "%c4 = arith.maxui %c3, %c2 : index",
            "flow.return %c0, %c4, %c2 : index, index, index",
        ]

    def put(self, text: str) -> None:
        self.lines.append("  " + text)

    def op(self, text: str) -> str:
        self._count += 1
        self.put(f"%x{self._count} = {text}")
        return f"%x{self._count}"

    def index(self, value: int) -> str:
        return self.op(f"arith.constant {value} : index")

    def _write(self) -> None:
        self.put(f"%zero = arith.constant 0.0 : {self.element}")
        for value in sorted({0, self.units, *(tile for tile, _ in _TILES)}):
            self.put(f"%k{value} = arith.constant {value} : index")
        self.columns: dict[tuple[int, str], tuple[str, str]] = {}
        self.tensors = ["", *(self._load(place, one) for place, one in enumerate(self.operands) if place)]
        group = self.op("flow.dispatch.workgroup.id[0] : index")
        part = self.op("flow.dispatch.workgroup.id[1] : index")
        size = self.index(_ROWS)
        first_row = self.op(f"arith.muli {part}, {size} : index")
        left = self.op(f"arith.subi %rows, {first_row} : index")
        number = self.op(f"arith.minsi {left}, {size} : index")
        block = self.index(self.block)
        first = self.op(f"arith.muli {group}, {block} : index")
        last = self.op(f"arith.addi {first}, {block} : index")
        last = self.op(f"arith.minsi {last}, {self.index(self.folds)} : index")
        self.put(f"scf.for %f = {first} to {last} step %k1 {{")
        weight = self.operands[0]
        wanted = f"tensor<{self.units}x{self.outputs}x{self.element}>"
        self.weight = self.op(
            f"iree_tensor_ext.dispatch.tensor.load %s0, offsets = [%f, 0, 0], sizes = [1, {self.units}, {self.outputs}], "
            f"strides = [1, 1, 1] : {_TENSOR}<readonly:{weight.type}> -> {wanted}"
        )
        self.weight_type = wanted
        self.places = [self._place(factor) for factor in self.params["factors"]]
        self.made = f"tensor<?x{self.outputs}x{self.element}>"
        self.divided = f"tensor<?x1x{self.element}>"
        starts = [self.op(f"tensor.empty({number}) : {self.made}")]
        if self.params["rescaled"]:
            starts.append(self.op(f"tensor.empty({number}) : {self.divided}"))
        results, begin = starts, "%k0"
        for tile, parts in _TILES:
            rest = self.op(f"arith.remui {number}, %k{tile} : index")
            end = self.op(f"arith.subi {number}, {rest} : index")
            results = self._tiles(tile, parts, begin, end, results, first_row)
            begin = end
        rows = "?" if not isinstance(self.rows, int) else self.rows
        dynamic = "" if isinstance(self.rows, int) else "{%rows}"
        for place, (one, type_, width) in enumerate(
            zip(results, (self.made, self.divided), (self.outputs, 1), strict=False)
        ):
            self.put(
                f"iree_tensor_ext.dispatch.tensor.store {one}, %o{place}, offsets = [%f, {first_row}, 0], "
                f"sizes = [1, {number}, {width}], strides = [1, 1, 1] : {type_} -> "
                f"{_TENSOR}<writeonly:tensor<{self.folds}x{rows}x{width}x{self.element}>>{dynamic}"
            )
        self.put("}")
        self.put("flow.return")

    def _load(self, place: int, value: Value) -> str:
        sizes = ", ".join(str(dim) if isinstance(dim, int) else "%rows" for dim in value.shape)
        zeros, ones = (", ".join([number] * len(value.shape)) for number in ("0", "1"))
        dynamic = "" if all(isinstance(dim, int) for dim in value.shape) else "{%rows}"
        return self.op(
            f"iree_tensor_ext.dispatch.tensor.load %s{place}, offsets = [{zeros}], sizes = [{sizes}], "
            f"strides = [{ones}] : {_TENSOR}<readonly:{value.type}>{dynamic} -> {value.type}"
        )

    def _place(self, factor: Sequence[tuple[int, int, int]]) -> tuple[str, dict[int, str]]:
        """Which fold of its source a factor has at fold `%f`, and whether that source is each of several."""
        ends, at = [], 0
        for _, _, length in factor:
            at += length
            ends.append(at)
        beginnings = [0, *ends[:-1]]
        moves = [start - begin for (_, start, _), begin in zip(factor, beginnings, strict=True)]
        move = self.index(moves[-1])
        sources = list(dict.fromkeys(source for source, _, _ in factor))
        is_source: dict[int, str] = {}
        for end, one in list(zip(ends, moves, strict=True))[-2::-1]:
            inside = self.op(f"arith.cmpi ult, %f, {self.index(end)} : index")
            move = self.op(f"arith.select {inside}, {self.index(one)}, {move} : index")
        for source in sources[:-1]:
            held = self.op(f"arith.constant {'true' if factor[-1][0] == source else 'false'}")
            for (other, _, _), end in list(zip(factor, ends, strict=True))[-2::-1]:
                inside = self.op(f"arith.cmpi ult, %f, {self.index(end)} : index")
                same = self.op(f"arith.constant {'true' if other == source else 'false'}")
                held = self.op(f"arith.select {inside}, {same}, {held} : i1")
            is_source[source] = held
        is_source[sources[-1]] = ""
        fold = self.op(f"arith.addi %f, {move} : index")
        for source in sources:
            if self.params["looked_up"][source]:
                at = self._first(source) + 2
                inside = self._within(fold, self.operands[at])
                found = []
                for place in (at, at + 1):
                    number = self.op(f"tensor.extract {self.tensors[place]}[{inside}] : {self.operands[place].type}")
                    found.append(self.op(f"arith.index_cast {number} : i64 to index"))
                self.columns[source, fold] = found[0], found[1]
        return fold, is_source

    def _tiles(self, tile: int, parts: int, first: str, last: str, starts: Sequence[str], first_row: str) -> list[str]:
        """The rows from `first` to `last`, some together; `starts` are what is written to."""
        types = [self.made, self.divided][: len(starts)]
        self._count += 1
        name = self._count
        carried = ", ".join(f"%a{name}_{place} = {one}" for place, one in enumerate(starts))
        self.put(
            f"%t{name}:{len(starts)} = scf.for %r{name} = {first} to {last} step %k{tile} iter_args({carried}) -> "
            f"({', '.join(types)}) {{"
        )
        into = [f"%a{name}_{place}" for place in range(len(starts))]
        own = [self.op(f"arith.addi %r{name}, {self.index(row)} : index") for row in range(tile)]
        there = [self.op(f"arith.addi {one}, {first_row} : index") for one in own]
        product = self._product(there)
        sums = [self._sums(tile, parts, product, start, width) for start, width in self.outer]
        powers = [self._power([one[row] for one in sums]) for row in range(tile)] if len(starts) > 1 else []
        for row in range(tile):
            for (start, width), vectors in zip(self.outer, sums, strict=True):
                vector, type_ = vectors[row], f"vector<{width}x{self.element}>"
                if powers:
                    factor = self.op(f"vector.broadcast {powers[row][1]} : {self.element} to {type_}")
                    vector = self.op(f"arith.mulf {vector}, {factor} : {type_}")
                into[0] = self.op(
                    f"vector.transfer_write {vector}, {into[0]}[{own[row]}, {self.index(start)}] {{in_bounds = [true]}} : "
                    f"{type_}, {self.made}"
                )
            if powers:
                into[1] = self.op(f"tensor.insert {powers[row][0]} into {into[1]}[{own[row]}, %k0] : {self.divided}")
        self.put(f"scf.yield {', '.join(into)} : {', '.join(types)}")
        self.put("}")
        return [f"%t{name}#{place}" for place in range(len(starts))]

    def _product(self, rows: Sequence[str]) -> str:
        """The products of the factors' rows, `(rows, units)`."""
        type_ = f"tensor<{len(rows)}x{self.units}x{self.element}>"
        made = self.op(f"tensor.empty() : {type_}")
        for row, at in enumerate(rows):
            for start, width in self.inner:
                vector = ""
                for place in self.places:
                    one = self._read(place, at, start, width)
                    vector = self.op(f"arith.mulf {vector}, {one} : vector<{width}x{self.element}>") if vector else one
                made = self.op(
                    f"vector.transfer_write {vector}, {made}[{self.index(row)}, {self.index(start)}] "
                    f"{{in_bounds = [true]}} : vector<{width}x{self.element}>, {type_}"
                )
        return made

    def _read(self, place: tuple[str, dict[int, str]], row: str, start: int, width: int) -> str:
        """A part of one row of a factor."""
        fold, sources = place
        (source, held), *others = sources.items()
        type_ = f"vector<{width}x{self.element}>"
        if not others:
            return self._vector(source, fold, row, start, type_)
        self._count += 1
        name = f"%x{self._count}"
        self.put(f"{name} = scf.if {held} -> ({type_}) {{")
        self.put(f"scf.yield {self._vector(source, fold, row, start, type_)} : {type_}")
        self.put("} else {")
        self.put(f"scf.yield {self._read((fold, dict(others)), row, start, width)} : {type_}")
        self.put("}")
        return name

    def _vector(self, source: int, fold: str, row: str, start: int, type_: str) -> str:
        at = self._first(source)
        value, begin = self.operands[at], self.index(start)
        places = f"{fold}, {row}, {begin}"
        if self.params["looked_up"][source]:
            column, first = self.columns[source, fold]
            states = self.operands[at + 1]
            number = self.op(f"tensor.extract {self.tensors[at + 1]}[{row}, {column}] : {states.type}")
            number = self.op(f"arith.index_cast {number} : {states.element} to index")
            number = self._within(self.op(f"arith.addi {number}, {first} : index"), value)
            places = f"{number}, {begin}"
        return self.op(
            f"vector.transfer_read {self.tensors[at]}[{places}], %zero {{in_bounds = [true]}} : {value.type}, {type_}"
        )

    def _first(self, source: int) -> int:
        """The place of the first operand of a source."""
        return 1 + source + (LOOKED_UP - 1) * sum(self.params["looked_up"][:source])

    def _within(self, place: str, value: Value) -> str:
        """A place along the first axis, moved there if it is none: nothing reads beside an array."""
        place = self.op(f"arith.maxsi {place}, %k0 : index")
        return self.op(f"arith.minsi {place}, {self.index(int(value.shape[0]) - 1)} : index")  # type: ignore[arg-type]

    def _sums(self, tile: int, parts: int, product: str, start: int, width: int) -> list[str]:
        """One piece of the weighted sums of each row."""
        type_ = f"vector<{width}x{self.element}>"
        parts = parts if self.units % parts == 0 else 1
        zeros = self.op(f"arith.constant dense<0.0> : {type_}")
        self._count += 1
        name, count = self._count, tile * parts
        carried = ", ".join(f"%c{name}_{place} = {zeros}" for place in range(count))
        types = ", ".join([type_] * count)
        self.put(
            f"%m{name}:{count} = scf.for %i{name} = %k0 to %k{self.units} step %k{parts} iter_args({carried}) -> ({types}) {{"
        )
        sums = []
        for part in range(parts):
            unit = self.op(f"arith.addi %i{name}, {self.index(part)} : index")
            weight = self.op(
                f"vector.transfer_read {self.weight}[{unit}, {self.index(start)}], %zero {{in_bounds = [true]}} : "
                f"{self.weight_type}, {type_}"
            )
            for row in range(tile):
                place = f"[{self.index(row)}, {unit}] : tensor<{tile}x{self.units}x{self.element}>"
                entry = self.op(f"tensor.extract {product}{place}")
                entry = self.op(f"vector.broadcast {entry} : {self.element} to {type_}")
                sums.append(self.op(f"vector.fma {entry}, {weight}, %c{name}_{part * tile + row} : {type_}"))
        self.put(f"scf.yield {', '.join(sums)} : {types}")
        self.put("}")
        found = [f"%m{name}#{row}" for row in range(tile)]
        for part in range(1, parts):
            found = [
                self.op(f"arith.addf {one}, %m{name}#{part * tile + row} : {type_}") for row, one in enumerate(found)
            ]
        return found

    def _power(self, vectors: Sequence[str]) -> tuple[str, str]:
        """What a row is divided by, or the exponent of that, and its reciprocal: mantissas are not negative, so that their bits have an order."""
        bits, top, integer = _MANTISSA[self.element]
        largest = ""
        for vector, (_, width) in zip(vectors, self.outer, strict=True):
            as_bits = self.op(f"vector.bitcast {vector} : vector<{width}x{self.element}> to vector<{width}x{integer}>")
            one = self.op(f"vector.reduction <maxsi>, {as_bits} : vector<{width}x{integer}> into {integer}")
            largest = self.op(f"arith.maxsi {largest}, {one} : {integer}") if largest else one

        def constant(value: int) -> str:
            return self.op(f"arith.constant {value} : {integer}")

        shift, one, most, none = constant(bits), constant(1), constant(top - 1), constant(top // 2)
        exponent = self.op(f"arith.shrsi {largest}, {shift} : {integer}")
        exponent = self.op(f"arith.minsi {exponent}, {most} : {integer}")
        is_normal = self.op(f"arith.cmpi sge, {exponent}, {one} : {integer}")
        exponent = self.op(f"arith.select {is_normal}, {exponent}, {none} : {integer}")  # 2**0
        divisor = self.op(f"arith.addi {exponent}, {one} : {integer}")
        factor = self.op(f"arith.subi {constant(top)}, {exponent} : {integer}")
        found = []
        for bits_of in (divisor, factor):
            shifted = self.op(f"arith.shli {bits_of}, {shift} : {integer}")
            found.append(self.op(f"arith.bitcast {shifted} : {integer} to {self.element}"))
        if self.params["rescaled"] == EXPONENTS:
            number = self.op(f"arith.subi {exponent}, {none} : {integer}")
            found[0] = self.op(f"arith.sitofp {number} : {integer} to {self.element}")
        return found[0], found[1]


LAYERS = {"sum_of_products": Row(_sum_of_products)}
