"""Lines of MLIR: fresh names, indentation, and what is known already where a line stands."""

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count

from plica.backend.native.mlir.types import Value

Mark = tuple[int, int, list[dict[Hashable, str]]]


class Code:
    """The lines of one function, in the order in which they are written.

    Attributes:
        executables: The executables that the function dispatches, each as text.
        branches: Whether the host goes one of several ways in it that leave tensors, or goes round in a loop.
    """

    def __init__(self, indent: int = 2) -> None:
        self.lines: list[str] = []
        self.executables: list[str] = []
        self.branches = False
        self._numbers = count()
        self._indent = indent
        self._known: list[dict[Hashable, str]] = [{}]

    def name(self) -> str:
        """A name that nothing else has."""
        return f"%v{next(self._numbers)}"

    def put(self, text: str) -> None:
        """One line."""
        self.lines.append("  " * self._indent + text)

    def op(self, text: str) -> str:
        """One line that makes one value, and the name of it."""
        name = self.name()
        self.put(f"{name} = {text}")
        return name

    def several(self, text: str, count: int) -> list[str]:
        """One line that makes so many values, and their names."""
        if count == 1:
            return [self.op(text)]
        name = self.name()
        self.put(f"{name}:{count} = {text}")
        return [f"{name}#{index}" for index in range(count)]

    def label(self) -> str:
        """The name of a block that nothing else has."""
        return f"^bb{next(self._numbers)}"

    def start(self, label: str, arguments: Sequence[Value] = (), *before: str) -> None:
        """A block begins, with arguments, after some of type `index`."""
        self.branches = True
        given = [
            *(f"{name}: index" for name in before),
            *(f"{argument.text}: {argument.type}" for argument in arguments),
        ]
        self.lines.append(f"  {label}({', '.join(given)}):" if given else f"  {label}:")

    def once(self, text: str) -> str:
        """The same, but a value that stands already where this line would is not made again."""
        return self.known(text, lambda: self.op(text))

    def known(self, key: Hashable, make: Callable[[], str]) -> str:
        """The value kept under `key` in this block or one around it, else what `make` writes."""
        for block in self._known:
            if key in block:
                return block[key]
        self._known[-1][key] = value = make()
        return value

    @contextmanager
    def block(self) -> Iterator[None]:
        """Lines within a region: what they make is not seen after it."""
        self._indent += 1
        self._known.append({})
        yield
        self._known.pop()
        self._indent -= 1

    def mark(self) -> Mark:
        """Where the code is, to `reset` to it."""
        return len(self.lines), len(self.executables), [dict(block) for block in self._known]

    def reset(self, mark: Mark) -> None:
        """Forget all lines since a mark, which is of this block."""
        length, executables, known = mark
        del self.lines[length:]
        del self.executables[executables:]
        self._known[:] = known
