"""`tree_of_sums` as a vectorized function: a walk through a tree for a block of rows, whose sums stay in the cache.

for each block of rows, for each root, for each of its steps:
    the form of the step, then as in a layer (`tiles.py`), from slots and sources to a slot
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from plica.backend.native.circuits.operations import SLOT, STEP, Form
from plica.backend.native.loops.functions import Operand, Registers
from plica.backend.native.loops.tiles import Rows, Source, Tiles
from plica.ir.dtypes import DType

_SLOT_BYTES = 2**16  # bytes of all slots of a block of rows, on the stack
_MAX_ROWS = 64  # rows of a block
_CACHED_BYTES = 2**20  # bytes of a table that is in the cache after some rows


@dataclass(frozen=True, slots=True)
class TreeKernel:
    """The function `(room, y, exponents, steps, root_starts, weights..., sources..., rows)`.

    Without rescaling, `exponents` is not written.

    Args:
        dtype: The dtype of all numbers.
        roots: How many roots there are.
        outputs: The width of the results.
        units: The units of each weight.
        forms: The forms of steps.
        num_slots: How many slots there are.
        sources: The sources, in order.
    """

    dtype: DType
    roots: int
    outputs: int
    units: tuple[int, ...]
    forms: tuple[Form, ...]
    num_slots: int
    sources: tuple[Source, ...]

    def __call__(self, name: str, declared: set[str], registers: Registers) -> str:
        """The text of the function."""
        return _Walk(self, name, declared, registers).text()


class _Walk(Tiles):
    """The lines of the function."""

    def __init__(self, kernel: TreeKernel, name: str, declared: set[str], registers: Registers) -> None:
        self._kernel = kernel
        self._pointers = [
            [f"%s{number}.{part}" for part in range(source.num_pointers)]
            for number, source in enumerate(kernel.sources)
        ]
        weights = [f"%w{number}" for number in range(len(kernel.units))]
        read = ["%steps", "%root_starts", *weights, *(pointer for some in self._pointers for pointer in some)]
        written = [f"ptr noalias {pointer}" for pointer in ("%room", "%y", "%exponents")]
        parameters = [*written, *(f"ptr noalias readonly {pointer}" for pointer in read), "i64 %rows"]
        super().__init__(name, parameters, declared, registers, kernel.dtype, kernel.outputs)
        row = kernel.num_slots * kernel.outputs * self.size
        most = min(_SLOT_BYTES // row, _MAX_ROWS)
        self._block_rows = max(most // self.height * self.height, self.height)
        self._memory = self.slot(f"[{kernel.num_slots * self._block_rows * kernel.outputs} x {self.type}]")
        self._is_rescaled = any(form.rescaled for form in kernel.forms)
        self._exponents = self.slot(f"[{self._block_rows} x {self.type}]") if self._is_rescaled else ""
        self._width = STEP + max(len(form.factors) for form in kernel.forms)
        with self.loop(0, "%rows", self._block_rows) as first, self.loop(0, kernel.roots) as root:
            self._root(root, first, self.minimum(self.subtract("%rows", first), self._block_rows))

    def _root(self, root: str, first: str, count: str) -> None:
        """The results of a root, for `count` rows from `first` on."""
        begin, end = (self.load("i64", self.at("i64", "%root_starts", at)) for at in (root, self.add(root, 1)))
        if self._is_rescaled:
            with self.loop(0, count) as row:
                self.store(self.type, "0.0", self.at(self.type, self._exponents, row))
        with self.loop(begin, end) as step:
            self._fetch_ahead(self.minimum(self.add(step, 1), self.subtract(end, 1)), first, count)
            form = self._step_number(step, 0)
            for form_index in range(len(self._kernel.forms)):
                is_chosen = self.op(f"icmp eq i64 {form}, {form_index}")
                self.when(is_chosen, partial(self._step, form_index, step, first, count))
        with self.loop(0, count) as row:
            at = self.add(self.multiply(root, "%rows"), self.add(first, row))
            of_root, to = self._slot(0, row), self.at(self.type, "%y", self.multiply(at, self._kernel.outputs))
            self.write_row(
                [
                    self.load(self.vector(width), self.at(self.type, of_root, start), self.size)
                    for start, width in self.outer
                ],
                to,
            )
            if self._is_rescaled:
                total = self.load(self.type, self.at(self.type, self._exponents, row))
                self.store(self.type, total, self.at(self.type, "%exponents", at))

    def _step_number(self, step: Operand, position: int) -> str:
        """A number of a step, at a position in its list of numbers."""
        return self.load("i64", self.at("i64", "%steps", self.add(self.multiply(step, self._width), position)))

    def _slot(self, slot: Operand, row: Operand) -> str:
        """The pointer to a row of a slot."""
        entry = self.multiply(self.add(self.multiply(slot, self._block_rows), row), self._kernel.outputs)
        return self.at(self.type, self._memory, entry)

    def _fetch_ahead(self, step: Operand, first: str, count: str) -> None:
        """Prefetch the rows that a step looks up, while the one before multiplies."""
        uncached = [self._uncached(form) for form in self._kernel.forms]
        if not any(uncached):
            return
        form = self._step_number(step, 0)
        for form_index, positions in enumerate(uncached):
            if positions:
                is_chosen = self.op(f"icmp eq i64 {form}, {form_index}")
                self.when(is_chosen, partial(self._fetch_rows, form_index, positions, step, first, count))

    def _uncached(self, form: Form) -> list[int]:
        """The positions of factors that look up rows in tables too large for the cache, which are prefetched."""
        sources = [None if number == SLOT else self._kernel.sources[number] for number in form.factors]
        return [
            position
            for position, source in enumerate(sources)
            if source is not None
            and source.states is not None
            and source.size * source.units * self.size > _CACHED_BYTES
        ]

    def _fetch_rows(self, form_index: int, positions: Sequence[int], step: Operand, first: str, count: str) -> None:
        form = self._kernel.forms[form_index]
        factors = [(self._factor(form, position, step, first), form.factors[position]) for position in positions]
        with self.loop(0, count) as row:
            for rows, source in factors:
                self.fetch(rows(row), self._kernel.sources[source].units)

    def _factor(self, form: Form, position: int, step: Operand, first: str) -> Rows:
        """The rows of the block that a factor of a step reads."""
        source, number = form.factors[position], self._step_number(step, STEP + position)
        if source == SLOT:
            return lambda row: self._slot(number, row)
        rows = self.rows_of(self._kernel.sources[source], self._pointers[source], number, "%rows")
        return lambda row: rows(self.add(first, row))

    def _step(self, form_index: int, step: str, first: str, count: str) -> None:
        """A step of a form."""
        form = self._kernel.forms[form_index]
        units, slot = self._kernel.units[form.weight], self._step_number(step, 2)
        begin = self.multiply(self._step_number(step, 1), units * self._kernel.outputs)
        weight = self.at(self.type, f"%w{form.weight}", begin)
        factors = [self._factor(form, position, step, first) for position in range(len(form.factors))]

        def write(rows: list[Operand], parts: int) -> None:
            self.product([[factor(row) for factor in factors] for row in rows], units)
            sums = [self.sums(len(rows), parts, weight, units, piece) for piece in self.outer]
            for number, row in enumerate(rows):
                vectors, factor = [some[number] for some in sums], ""
                if form.rescaled:
                    exponent, factor = self.power(vectors, is_exponent=True)
                    total = self.at(self.type, self._exponents, row)
                    added = self.op(f"fadd {self.type} {self.load(self.type, total)}, {exponent}")
                    self.store(self.type, added, total)
                self.write_row(vectors, self._slot(slot, row), factor)

        self.tiles(count, write)
