"""Bounds of slices in loops: bounds that no iteration changes are computed once, before the loop, under a name."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count

from plica.backend.torch.names import variables
from plica.backend.torch.operations.call import size_source
from plica.backend.torch.operations.subscripts import slices
from plica.backend.torch.plan import Plan
from plica.ir.program import Equation, Program, nested, size_variables
from plica.ir.sizes import Dim, Opaque, Size
from plica.ops.control_operands import unchanged_sizes


@dataclass(slots=True)
class Bounds:
    """The names of bounds that are in scope where code is written.

    Args:
        plan: The plan of the function.
    """

    plan: Plan
    _names: dict[str, str] = field(default_factory=dict)
    _entered: dict[Equation, list[tuple[str, str]]] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=lambda: count(1))

    def text(self, size: Dim) -> str:
        """A size as Python text."""
        source = size_source(size)
        return self._names.get(source, source)

    def enter(self, loop: Equation) -> list[tuple[str, str]]:
        """Name constant bounds in the body of `loop`; sums and products get no name, as they cost no more than one.

        Returns:
            Each name and the text that it stands for.
        """
        body: Program = loop.params["body"]
        constant = {var.name for var in (*body.consts, *(inner for inner, _ in unchanged_sizes(loop)))}
        changed = {var.name for var in variables(body)} - constant
        entered = self._entered[loop] = []
        for size in self._bounds(body):
            text = size_source(size)
            if text not in self._names and changed.isdisjoint(var.name for var in size_variables(size)):
                self._names[text] = self._fresh()
                entered.append((self._names[text], text))
        return entered

    def leave(self, loop: Equation) -> None:
        """Forget the names of a loop."""
        for _, text in self._entered.pop(loop):
            del self._names[text]

    def _bounds(self, program: Program) -> Iterator[Size]:
        for equation in program.equations:
            if equation in self.plan.live:
                for _, _, bounds in slices(equation):
                    yield from (bound for bound in bounds if isinstance(bound, Size) and _is_worth_a_name(bound))
                for region in nested(equation.params):
                    yield from self._bounds(region)

    def _fresh(self) -> str:
        used = {var.name for var in variables(self.plan.program)}
        return next(name for number in self._numbers if (name := f"bound_{number}") not in used)


def _is_worth_a_name(size: Size) -> bool:
    """Whether `size` has a function of sizes, and is never an error: the loop may run no iteration."""
    functions = list(_functions(size))
    return bool(functions) and all(atom.function == "max" or isinstance(atom.arguments[1], int) for atom in functions)


def _functions(size: Dim) -> Iterator[Opaque]:
    for powers, _ in () if isinstance(size, int) else size.ordered:
        for atom, _ in powers:
            if isinstance(atom, Opaque):
                yield atom
                for argument in atom.arguments:
                    yield from _functions(argument)
