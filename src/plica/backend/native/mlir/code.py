"""Lines of MLIR: fresh names, indentation, and values that are already computed."""

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count

from plica.backend.native.mlir.types import Value

Mark = tuple[int, int, list[dict[Hashable, str]]]


class Code:
    """The lines of one function, in the order in which they are written.

    Attributes:
        executables: The executables that the function dispatches, each as text.
        branches: Whether the host takes a branch that returns tensors, or runs a loop.
    """

    def __init__(self, indent: int = 2) -> None:
        self.lines: list[str] = []
        self.executables: list[str] = []
        self.branches = False
        self._numbers = count()
        self._indent = indent
        self._known: list[dict[Hashable, str]] = [{}]

    def name(self) -> str:
        """A fresh name."""
        return f"%v{next(self._numbers)}"

    def put(self, text: str) -> None:
        """One line."""
        self.lines.append("  " * self._indent + text)

    def op(self, text: str) -> str:
        """Write a line that computes a value; returns the name of the value."""
        name = self.name()
        self.put(f"{name} = {text}")
        return name

    def several(self, text: str, count: int) -> list[str]:
        """Write a line that computes `count` values; returns their names."""
        if count == 1:
            return [self.op(text)]
        name = self.name()
        self.put(f"{name}:{count} = {text}")
        return [f"{name}#{index}" for index in range(count)]

    def label(self) -> str:
        """A fresh name of a block."""
        return f"^bb{next(self._numbers)}"

    def start(self, label: str, arguments: Sequence[Value] = (), *before: str) -> None:
        """Begin a block with arguments: first those in `before`, of type `index`."""
        self.branches = True
        parameters = [
            *(f"{name}: index" for name in before),
            *(f"{argument.text}: {argument.type}" for argument in arguments),
        ]
        self.lines.append(f"  {label}({', '.join(parameters)}):" if parameters else f"  {label}:")

    def once(self, text: str) -> str:
        """As `op`, but a line that this block or one around it already has is not written again."""
        return self.known(text, lambda: self.op(text))

    def known(self, key: Hashable, make: Callable[[], str]) -> str:
        """The value that is known under `key` in this block or one around it, else the value that `make` writes."""
        for block in self._known:
            if key in block:
                return block[key]
        self._known[-1][key] = value = make()
        return value

    @contextmanager
    def block(self) -> Iterator[None]:
        """Lines within a region, whose values are not visible after it."""
        self._indent += 1
        self._known.append({})
        yield
        self._known.pop()
        self._indent -= 1

    def mark(self) -> Mark:
        """The current end of the code, for `reset`."""
        return len(self.lines), len(self.executables), [dict(block) for block in self._known]

    def reset(self, mark: Mark) -> None:
        """Remove all lines since a mark of this block."""
        length, executables, known = mark
        del self.lines[length:]
        del self.executables[executables:]
        self._known[:] = known
