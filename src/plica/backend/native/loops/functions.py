"""`Function`: LLVM text of a function of pointers, indices and vectors, for kernels that loop nests call.

Variables that change lie in slots on the stack, which LLVM turns into registers.

>>> function = Function("double_all", ["ptr %x", "i64 %n"], set())
>>> with function.loop(0, "%n") as index:
...     entry = function.at("double", "%x", index)
...     function.store("double", function.op(f"fmul double {function.load('double', entry)}, 2.0"), entry)
>>> "fmul double" in function.text()
True
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

Operand = str | int
"""An index: the name of a value, or a number."""


class Function:
    """The lines of a function under construction.

    Args:
        name: Its name.
        parameters: Types and names.
        declared: Declarations of intrinsics, which it adds to.
    """

    def __init__(self, name: str, parameters: Sequence[str], declared: set[str]) -> None:
        self._head = f"define internal void @{name}({', '.join(parameters)}) noinline nounwind {{"
        self._declared = declared
        self._slots: list[str] = []
        self._lines: list[str] = []
        self._count = 0

    def text(self) -> str:
        """The whole function."""
        return "\n".join(
            [self._head, "entry:", *self._slots, "br label %begin", "begin:", *self._lines, "ret void", "}"]
        )

    # Lines

    def _fresh(self) -> str:
        self._count += 1
        return f"t{self._count}"

    def put(self, text: str) -> None:
        """A line."""
        self._lines.append(text)

    def op(self, text: str) -> str:
        """A line that computes a value, and the name of the value."""
        name = f"%{self._fresh()}"
        self.put(f"{name} = {text}")
        return name

    def slot(self, type_: str) -> str:
        """The pointer to memory on the stack, allocated once for the whole function."""
        name = f"%{self._fresh()}"
        self._slots.append(f"{name} = alloca {type_}, align 64")
        return name

    def call(self, type_: str, name: str, *operands: str) -> str:
        """The result of an intrinsic, whose operands and result have one type."""
        self._declared.add(f"declare {type_} @{name}({', '.join([type_] * len(operands))})")
        return self.op(f"call {type_} @{name}({', '.join(f'{type_} {operand}' for operand in operands)})")

    # Indices

    def add(self, a: Operand, b: Operand) -> Operand:
        """The sum."""
        return b if a == 0 else a if b == 0 else self.op(f"add nsw i64 {a}, {b}")

    def subtract(self, a: Operand, b: Operand) -> Operand:
        """The difference."""
        return self.op(f"sub nsw i64 {a}, {b}")

    def multiply(self, a: Operand, b: Operand) -> Operand:
        """The product."""
        return 0 if 0 in (a, b) else self.op(f"mul nsw i64 {a}, {b}")

    def minimum(self, a: Operand, b: Operand) -> Operand:
        """The lesser of two signed integers."""
        return self.op(f"select i1 {self.op(f'icmp slt i64 {a}, {b}')}, i64 {a}, i64 {b}")

    def round_up(self, a: Operand, step: int) -> Operand:
        """The next multiple of a number."""
        return self.multiply(self.op(f"udiv i64 {self.add(a, step - 1)}, {step}"), step)

    # Memory

    def at(self, type_: str, pointer: str, offset: Operand) -> str:
        """The pointer to an entry of a type."""
        return pointer if offset == 0 else self.op(f"getelementptr inbounds {type_}, ptr {pointer}, i64 {offset}")

    def load(self, type_: str, pointer: str, align: int = 0) -> str:
        """The value at a pointer; `align` is its alignment in bytes, by default that of the type."""
        return self.op(f"load {type_}, ptr {pointer}" + (f", align {align}" if align else ""))

    def store(self, type_: str, value: str, pointer: str, align: int = 0) -> None:
        """Write a value to a pointer."""
        self.put(f"store {type_} {value}, ptr {pointer}" + (f", align {align}" if align else ""))

    # Control flow

    @contextmanager
    def loop(self, lower: Operand, upper: Operand, step: int = 1) -> Iterator[str]:
        """A loop over indices; yields the name of the index."""
        counter, head, body, after = self.slot("i64"), self._fresh(), self._fresh(), self._fresh()
        self.store("i64", str(lower), counter)
        self.put(f"br label %{head}")
        self.put(f"{head}:")
        index = self.load("i64", counter)
        self.put(f"br i1 {self.op(f'icmp slt i64 {index}, {upper}')}, label %{body}, label %{after}")
        self.put(f"{body}:")
        yield index
        self.store("i64", str(self.add(index, step)), counter)
        self.put(f"br label %{head}")
        self.put(f"{after}:")

    def either(self, condition: str, then: Callable[[], None], otherwise: Callable[[], None]) -> None:
        """An `if` with two branches."""
        labels = self._fresh(), self._fresh()
        after = self._fresh()
        self.put(f"br i1 {condition}, label %{labels[0]}, label %{labels[1]}")
        for label, write in zip(labels, (then, otherwise), strict=True):
            self.put(f"{label}:")
            write()
            self.put(f"br label %{after}")
        self.put(f"{after}:")
