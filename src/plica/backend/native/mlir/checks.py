"""Checks of a function at run time, and the errors with which they fail.

The host checks sizes at once. It checks entries of arrays when the function waits for something anyway, or before it
returns. Until then, rows read within bounds whatever the indices are.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from plica.backend.native.mlir.call import Call
from plica.backend.native.mlir.code import Code
from plica.backend.native.mlir.sizes import index_constant
from plica.backend.native.mlir.structured import entrywise
from plica.backend.native.mlir.types import Value
from plica.backend.native.mlir.value_writer import ValueWriter
from plica.ir.dtypes import DType
from plica.ir.sizes import Dim, Size, is_nonnegative_by_cases
from plica.runtime.faults import VALUES, marked

_MOST_VALUES = 16  # numbers of a message
_AXES = ("size", "length", "num")  # parameters that become the size of one axis


@dataclass(frozen=True, slots=True)
class Fault:
    """The error with which a function fails.

    Args:
        error: The name of a class in `plica.errors`.
        message: A format for the numbers `values`.
        values: Writes the lines that compute the numbers where the function fails; returns integers of no dimension.
        source: Where in the user's code.
    """

    error: str
    message: str
    values: Callable[[], Sequence[Value]] = tuple
    source: str = ""

    @property
    def text(self) -> str:
        """The text as MLIR writes strings."""
        source = self.source.replace("{", "{{").replace("}", "}}")
        text = marked(self.error, f"{source}: {self.message}" if source else self.message)
        plain = (
            character if character.isprintable() and character not in '"\\' and character.isascii() else None
            for character in text
        )
        return "".join(
            known or "".join(f"\\{byte:02X}" for byte in character.encode())
            for character, known in zip(text, plain, strict=True)
        )


class Checks:
    """The checks of one function.

    Attributes:
        reports_numbers: Whether a message has numbers in it.
    """

    def __init__(self, emitter: ValueWriter) -> None:
        self.reports_numbers = False
        self._emitter = emitter
        self._later: list[tuple[Value, Fault]] = []
        self._from_dispatches: list[tuple[Value, Mapping[int, Fault]]] = []

    def require(self, holds: Value, fault: Fault) -> None:
        """Fail here unless a scalar of the host holds."""
        code = self._emitter.code
        condition = holds.text
        if "{0}" in fault.message:
            # The compiler must not know the condition: it would move stores to the end of the block, past the failure.
            condition = code.op(f"util.optimization_barrier {holds.text} : i1")
            code.put(f"scf.if {condition} {{")
            code.put("} else {")
            with code.block():
                self._store_numbers([self._emitter.scalar(value) for value in fault.values()])
            code.put("}")
        code.put(f'cf.assert {condition}, "{fault.text}"')

    def _store_numbers(self, values: Sequence[Value]) -> None:
        """Store the numbers of an error in new memory.

        Not in globals that are numbers: IREE 3.13 merges those that are stored together, and folds them to a constant.
        """
        code, buffer = self._emitter.code, f"!util.buffer{{{index_constant(self._emitter.code, 8 * _MOST_VALUES)}}}"
        assert len(values) <= _MOST_VALUES, "messages have at most so many numbers"
        self.reports_numbers = True
        memory = code.op(f"util.buffer.alloc uninitialized : {buffer}")
        length = index_constant(code, 8)
        for index, value in enumerate(values):
            entry = f"{memory}[{index_constant(code, 8 * index)} for {length}]"
            code.put(f"util.buffer.store {value.text}, {entry} : i64 -> {buffer}")
        code.put(f"util.global.store {memory}, @plica_numbers : !util.buffer")

    def later(self, wrong: Value, fault: Fault) -> None:
        """Fail at the next `settle` if a boolean of no dimension is true."""
        self._later.append((wrong, fault))

    def require_of_dispatch(self, faults: Value, by_number: Mapping[int, Fault]) -> None:
        """Fail at the next `settle` with the fault that a dispatch reports.

        Args:
            faults: Numbers that the dispatch writes: the number of its fault (0 for none), then those of the message.
            by_number: The fault of each number.
        """
        self._from_dispatches.append((faults, by_number))

    def entry(self, values: Value, index: int) -> Value:
        """An entry of a vector, for which the host waits."""
        text = f"tensor.extract {values.text}[{index_constant(self._emitter.code, index)}] : {values.type}"
        return Value(self._emitter.code.op(text), (), values.dtype, is_scalar=True)

    def settle(self) -> None:
        """Perform the checks that were deferred."""
        from_dispatches, self._from_dispatches = self._from_dispatches, []
        for faults, by_number in from_dispatches:
            self._require_none(self.entry(faults, 0), by_number)
        if not self._later:
            return
        later, self._later = self._later, []
        emitter, code = self._emitter, self._emitter.code
        some = later[0][0]
        if len(later) > 1:

            def either(entries: Sequence[str]) -> str:
                text = entries[0]
                for entry in entries[1:]:
                    text = code.op(f"arith.ori {text}, {entry} : i1")
                return text

            some = entrywise(emitter, [wrong for wrong, _ in later], (), DType.BOOL, either)
        wrong = emitter.scalar(some)
        code.put(f"scf.if {wrong.text} {{")
        with code.block():
            for is_wrong, fault in later:
                self.require(self.negated(emitter.scalar(is_wrong)), fault)
        code.put("}")

    def _require_none(self, number: Value, faults: Mapping[int, Fault]) -> None:
        code = self._emitter.code

        def differs(fault_number: int) -> Value:
            other = self._emitter.constant(fault_number, DType.INT64)
            return Value(code.op(f"arith.cmpi ne, {number.text}, {other.text} : i64"), (), DType.BOOL, is_scalar=True)

        code.put(f"scf.if {differs(0).text} {{")
        with code.block():
            for fault_number, fault in faults.items():
                self.require(differs(fault_number), fault)
        code.put("}")

    @contextmanager
    def apart(self) -> Iterator[None]:
        """The checks of a region, which calls `settle` before it ends."""
        before = self._later, self._from_dispatches
        self._later, self._from_dispatches = [], []
        yield
        assert not self._later + self._from_dispatches, "a region settles its checks"
        self._later, self._from_dispatches = before

    def negated(self, value: Value) -> Value:
        """Whether a boolean scalar is false."""
        true = self._emitter.constant(True, DType.BOOL)
        return Value(self._emitter.code.op(f"arith.xori {value.text}, {true.text} : i1"), (), DType.BOOL, True)

    def compare(self, kind: str, first: Dim, second: Dim) -> Value:
        """Whether two sizes compare as `eq`, `sge`, ...: a scalar."""
        emitter = self._emitter
        text = emitter.code.op(f"arith.cmpi {kind}, {emitter.size(first)}, {emitter.size(second)} : index")
        return Value(text, (), DType.BOOL, is_scalar=True)

    def sizes(self, call: Call) -> None:
        """Fail if a size among the parameters of an equation is negative."""
        params = call.params
        for dim in (*params.get("shape", ()), *(params[name] for name in _AXES if name in params)):
            if isinstance(dim, Size) and not is_nonnegative_by_cases(dim):
                self._emitter.code.known(("checked", dim), partial(self._size, dim, call))

    def _size(self, dim: Size, call: Call) -> str:
        """Fail where a size is negative."""
        message = f"the size {{0}} of {call.name} is negative; take 0 or more."
        fault = Fault("InputError", message, lambda: [self._emitter.size_value(dim)], call.source)
        self.require(self.compare("sge", dim, 0), fault)
        return ""


def values_text() -> str:
    """The global with the numbers of the last error, and the function that returns them."""
    code = Code()
    size, length = index_constant(code, 8 * _MOST_VALUES), index_constant(code, 8)
    memory = code.op("util.global.load @plica_numbers : !util.buffer")
    offsets = [index_constant(code, 8 * index) for index in range(_MOST_VALUES)]
    values = [
        code.op(f"util.buffer.load {memory}[{offset} for {length}] : !util.buffer{{{size}}} -> i64")
        for offset in offsets
    ]
    types = ", ".join(["i64"] * _MOST_VALUES)
    code.put(f"return {', '.join(values)} : {types}")
    lines = ["  util.global private mutable @plica_numbers : !util.buffer", f"  func.func @{VALUES}() -> ({types}) {{"]
    return "\n".join([*lines, *code.lines, "  }"]) + "\n"
