"""Where memory of a nest lies within one piece: sizes and places are computed by the host and the dispatch alike."""

from collections.abc import Callable, Iterable, Mapping

from plica.backend.native.loops.nest import Allocate, Compute, Constant, Index, Nest, all_of
from plica.backend.native.loops.support import bytes_of
from plica.backend.native.scalars import Scalar

_ALIGNED = 64
_MOST_ENTRIES = 2**48
"""A number of entries that no memory has room for; some of them together are still a number of 64 bits."""
_ARITHMETIC: Mapping[str, str] = {
    "index_add": "arith.addi",
    "index_subtract": "arith.subi",
    "index_multiply": "arith.muli",
    "minimum": "arith.minsi",
    "maximum": "arith.maxsi",
    "room": "",
}
"""What sizes of memory are computed with."""


class Sizes:
    """Sizes that follow from the scalar parameters of a nest.

    Args:
        nest: The nest.
    """

    def __init__(self, nest: Nest) -> None:
        self._made = {one.result.text: one for one in all_of(nest.body) if isinstance(one, Constant | Compute)}
        self._given = {one.text for one in nest.parameters if isinstance(one, Scalar)}

    def are_known(self, values: Iterable[Index]) -> bool:
        """Whether numbers can be computed before the nest begins."""
        return all(map(self._is_known, values))

    def _is_known(self, value: Index) -> bool:
        if isinstance(value, int) or value.text in self._given:
            return True
        made = self._made.get(value.text)
        return isinstance(made, Constant) or (
            made is not None and made.name in _ARITHMETIC and self.are_known(made.operands)
        )

    def at(self, op: "Op", number: Callable[[int], str], given: Callable[[str], str]) -> "SizesAt":
        """The sizes where lines are written.

        Args:
            op: `op(text)` writes what makes a value, and gives its name.
            number: The name of a number.
            given: The name of a parameter.
        """
        return SizesAt(self._made, self._given, op, number, given)


Op = Callable[[str], str]


class SizesAt:
    """Lines that compute sizes; see `Sizes.at`."""

    def __init__(
        self,
        made: Mapping[str, Constant | Compute],
        parameters: set[str],
        op: Op,
        number: Callable[[int], str],
        given: Callable[[str], str],
    ) -> None:
        self._made, self._parameters = made, parameters
        self._op, self._number, self._given = op, number, given
        self._known: dict[str, str] = {}

    def count(self, value: Index) -> str:
        """A number."""
        if isinstance(value, int):
            return self._number(value)
        if value.text not in self._known:
            self._known[value.text] = self._count(value.text)
        return self._known[value.text]

    def _count(self, name: str) -> str:
        if name in self._parameters:
            return self._given(name)
        made = self._made[name]
        if isinstance(made, Constant):
            return self._number(int(made.value.real))
        operands = [self.count(one) for one in made.operands]
        return self._room(*operands) if made.name == "room" else self._two(_ARITHMETIC[made.name], *operands)

    def places(self, memory: Iterable[Allocate]) -> tuple[list[str], str]:
        """Where each part of some memory begins, and how much it is, in bytes."""
        at, places = self._number(0), []
        for one in memory:
            places.append(at)
            count = self._two("arith.maxsi", self._number(0), self.count(one.count))
            count = self._two("arith.minsi", self._number(_MOST_ENTRIES), count)
            size = self._two("arith.muli", count, self._number(bytes_of(one.buffer.dtype)))
            whole = self._two("arith.addi", size, self._number(_ALIGNED - 1))
            at = self._two("arith.addi", at, self._two("arith.andi", whole, self._number(-_ALIGNED)))
        return places, at

    def _room(self, a: str, b: str) -> str:
        """A product of sizes that is huge where it is too large for a number."""
        most, zero, one = map(self._number, (_MOST_ENTRIES, 0, 1))
        a, b = (self._two("arith.maxsi", each, zero) for each in (a, b))
        fits = self._two("arith.cmpi sle,", a, self._two("arith.divsi", most, self._two("arith.maxsi", b, one)))
        return self._op(f"arith.select {fits}, {self._two('arith.muli', a, b)}, {most} : i64")

    def _two(self, line: str, first: str, second: str) -> str:
        return self._op(f"{line} {first}, {second} : i64")
