"""`Rewriting`: the rules that rewrite Programs, and how these are applied.

>>> from plica.graph.optimize import ORDINARY, Rule
>>> from plica.graph.pattern import Entry, Pattern
>>> from plica.ir.types import spec
>>> from plica.passes.clean import clean
>>> from plica.rules.view import made
>>> from plica.tracing.trace import trace
>>> itself = Pattern(Entry("product", "multiply", ("x", "x")))
>>> squared = Rule("squared", "x * x -> square(x)", itself, lambda match: made(match, "square", "x"), laws=ORDINARY)
>>> print(clean(trace(lambda x: x * x, spec(3)), Rewriting((squared, *ALGEBRA))))
{ lambda ; x:f32[3] . let
    a:f32[3] = square x
  in (a,) }
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from plica.graph.limits import MAX_STEPS
from plica.graph.optimize import Rule
from plica.graph.strategy import OptMatchStrategy, Strategy
from plica.ir.program import Program
from plica.passes.algebra import ALGEBRA, Fired, simplify

_BUILT_IN = {rule.name: rule for rule in ALGEBRA}


@dataclass(frozen=True, slots=True, eq=False)
class Rewriting:
    """The rules that rewrite Programs, and how these are applied.

    Args:
        rules: The rules, the preferred first.
        strategy: Which of the matches that overlap is applied.
        max_steps: How many passes are made at most.
        context: Rules read it as `match.context`.
    """

    rules: tuple[Rule, ...] = ALGEBRA
    strategy: Strategy = OptMatchStrategy.LARGEST_MATCH
    max_steps: int = MAX_STEPS
    context: Any = None

    def simplify(self, program: Program, fired: Fired | None = None) -> Program:
        """The Program after the rules; `fired` collects those that fired."""
        return simplify(
            program,
            self.rules,
            strategy=self.strategy,
            max_steps=self.max_steps,
            context=self.context,
            fired=fired,
        )

    def __reduce__(self) -> "tuple[Callable[..., Rewriting], tuple[Any, ...]]":
        """Pickle built-in rules by name, and custom rules as they are, with the names of their functions."""
        rules = [rule.name if _BUILT_IN.get(rule.name) is rule else rule for rule in self.rules]
        return _unpickled, (rules, self.strategy, self.max_steps, self.context)


def _unpickled(rules: list[str | Rule], *how: Any) -> Rewriting:
    return Rewriting(tuple(_BUILT_IN[rule] if isinstance(rule, str) else rule for rule in rules), *how)
