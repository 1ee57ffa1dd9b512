"""The offsets of a nest's arrays within one allocation; the host and the dispatch compute them in the same way."""

from collections.abc import Callable, Iterable, Mapping

from plica.backend.native.loops.nest import Allocate, Compute, Constant, Index, Nest, all_of
from plica.backend.native.loops.support import bytes_of
from plica.backend.native.scalars import Scalar

_ALIGNED = 64
_MOST_ENTRIES = 2**48
"""A number of entries that no memory has room for; sums of some such numbers still fit in 64 bits."""
_ARITHMETIC: Mapping[str, str] = {
    "index_add": "arith.addi",
    "index_subtract": "arith.subi",
    "index_multiply": "arith.muli",
    "minimum": "arith.minsi",
    "maximum": "arith.maxsi",
    "room": "",
}
"""The instructions that sizes of memory are computed with."""


class Sizes:
    """Sizes that follow from the scalar parameters of a nest.

    Args:
        nest: The nest.
    """

    def __init__(self, nest: Nest) -> None:
        self._definitions = {
            statement.result.text: statement
            for statement in all_of(nest.body)
            if isinstance(statement, Constant | Compute)
        }
        self._parameters = {parameter.text for parameter in nest.parameters if isinstance(parameter, Scalar)}

    def are_known(self, values: Iterable[Index]) -> bool:
        """Whether sizes can be computed before the nest runs."""
        return all(map(self._is_known, values))

    def _is_known(self, value: Index) -> bool:
        if isinstance(value, int) or value.text in self._parameters:
            return True
        statement = self._definitions.get(value.text)
        if isinstance(statement, Compute):
            return statement.name in _ARITHMETIC and self.are_known(statement.operands)
        return statement is not None

    def definition(self, value: Scalar) -> Constant | Compute | None:
        """The statement that defines a size that can be computed; None if it is a parameter."""
        return None if value.text in self._parameters else self._definitions[value.text]


class Arithmetic:
    """Lines that compute sizes, each once.

    Args:
        sizes: The sizes.
        op: `op(text)` writes an instruction, and returns the name of its value.
        number: The name of a number.
        parameter: The name of a parameter.
    """

    def __init__(
        self, sizes: Sizes, op: Callable[[str], str], number: Callable[[int], str], parameter: Callable[[str], str]
    ) -> None:
        self._sizes, self._op, self._number, self._parameter = sizes, op, number, parameter
        self._written: dict[str, str] = {}

    def value(self, size: Index) -> str:
        """The name of a size that can be computed."""
        if isinstance(size, int):
            return self._number(size)
        if size.text not in self._written:
            self._written[size.text] = self._value(size)
        return self._written[size.text]

    def _value(self, size: Scalar) -> str:
        match self._sizes.definition(size):
            case None:
                return self._parameter(size.text)
            case Constant(_, number):
                return self._number(int(number.real))
            case Compute(_, name, operands):
                first, second = map(self.value, operands)
                return self._room(first, second) if name == "room" else self._binary(_ARITHMETIC[name], first, second)

    def offsets(self, memory: Iterable[Allocate]) -> tuple[list[str], str]:
        """The offsets of some allocations and the size of all of them, in bytes."""
        offset, offsets = self._number(0), []
        for allocation in memory:
            offsets.append(offset)
            count = self._binary("arith.maxsi", self._number(0), self.value(allocation.count))
            count = self._binary("arith.minsi", self._number(_MOST_ENTRIES), count)
            size = self._binary("arith.muli", count, self._number(bytes_of(allocation.buffer.dtype)))
            padded = self._binary("arith.addi", size, self._number(_ALIGNED - 1))
            offset = self._binary("arith.addi", offset, self._binary("arith.andi", padded, self._number(-_ALIGNED)))
        return offsets, offset

    def _room(self, a: str, b: str) -> str:
        """A product of sizes, at most `_MOST_ENTRIES`."""
        limit, zero, unit = map(self._number, (_MOST_ENTRIES, 0, 1))
        a, b = (self._binary("arith.maxsi", number, zero) for number in (a, b))
        fits = self._binary(
            "arith.cmpi sle,", a, self._binary("arith.divsi", limit, self._binary("arith.maxsi", b, unit))
        )
        return self._op(f"arith.select {fits}, {self._binary('arith.muli', a, b)}, {limit} : i64")

    def _binary(self, line: str, first: str, second: str) -> str:
        return self._op(f"{line} {first}, {second} : i64")
