"""Formulas in conjunctive normal form, and the files in which DIMACS and the model counting competition write them.

    c lines of comments
    p cnf 3 2               the numbers of variables and of clauses
    c p weight 1 0.4 0      the weight of a literal (optional): both literals of a variable have one
    c p weight -1 0.6 0
    1 -3 0                  a clause: literals, then 0
    2 3 -1 0

>>> CNF([[1, -3], [2, 3, -1]])
CNF(2 clauses, 3 variables)
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any, final

from plica.arguments import elements, found
from plica.arguments import integer as checked_integer
from plica.errors import DTypeError, InputError
from plica.symbolic.scope import MAX_VARIABLE, Scope
from plica.templates.logic.lines import (
    DamageError,
    count_of_variables,
    cut_line,
    damage_of,
    integer,
    is_decimal,
    lines,
    variable_of,
)

Weights = Mapping[int, tuple[Fraction, Fraction]]


@final
@dataclass(frozen=True, slots=True, init=False, repr=False, eq=False)
class CNF:
    """Clauses, of which each must hold; literal v + 1 says that variable v is true, and -(v + 1) that it is false.

    Args:
        clauses: The literals of each clause.
        num_variables: The number of variables, from 0 on; by default the variables are those of the clauses.
        weights: The weights of the negative and of the positive literal of some variables, exactly.

    Raises:
        DTypeError: Clauses are no sequences of integers.
        InputError: A literal is 0, or of a variable that there is not; or there are too many variables.
        ShapeError: The number of variables is negative.
    """

    clauses: tuple[tuple[int, ...], ...]
    scope: Scope
    weights: Weights

    def __init__(
        self, clauses: Iterable[Iterable[int]], num_variables: int | None = None, weights: Weights | None = None
    ) -> None:
        checked = tuple(
            tuple(_literal(literal) for literal in elements("CNF", "a clause", clause))
            for clause in elements("CNF", "clauses", clauses)
        )
        count = MAX_VARIABLE + 1
        if num_variables is not None:
            count = checked_integer("CNF", "num_variables", num_variables, least=0)
            if count > MAX_VARIABLE + 1:
                raise InputError(f"CNF: num_variables must be at most {MAX_VARIABLE + 1}, found {count}")
        for clause in checked:
            for literal in clause:
                try:
                    variable_of(literal, count)
                except DamageError as error:
                    raise InputError(f"CNF: {error}; number the variables of clauses from 1 on") from None
        used = {abs(literal) - 1 for clause in checked for literal in clause} if num_variables is None else range(count)
        object.__setattr__(self, "clauses", checked)
        object.__setattr__(self, "scope", Scope(used))
        object.__setattr__(self, "weights", {} if weights is None else dict(weights))

    @staticmethod
    def load(file: str | Path) -> "CNF":
        """The formula of a file, with the weights of its literals.

        Raises:
            FileFormatError: The file is missing, empty, damaged, of another format, or asks for a projected count.
        """
        reader = _Reader()
        has_ended = lines(file, reader.read)
        with damage_of(str(file)):
            if reader.is_weight_open and not has_ended:
                raise cut_line()
            return reader.result()

    def __repr__(self) -> str:
        return f"CNF({len(self.clauses)} clauses, {len(self.scope)} variables)"


def _literal(value: Any) -> int:
    """A literal, as an integer; true and false are none, although Python counts them as integers."""
    if isinstance(value, bool):
        raise DTypeError(f"CNF: a literal must be an integer such as 1 or -2, {found(value)}")
    return checked_integer("CNF", "a literal", value)


@dataclass(slots=True)
class _Reader:
    """The clauses read so far.

    Args:
        header: The numbers of variables and of clauses that the file announces; None before that line.
        clauses: The clauses that have ended.
        clause: The literals since then.
        weights: The weights by literals.
        is_weight_open: Whether the last line is a weight without a 0 after it, whose digits may have been cut.
    """

    header: tuple[int, int] | None = None
    clauses: list[Sequence[int]] = field(default_factory=list)
    clause: list[int] = field(default_factory=list)
    weights: dict[int, Fraction] = field(default_factory=dict)
    is_weight_open: bool = False
    _shown: dict[int, None] = field(default_factory=dict)
    _has_shown: bool = False
    _has_ended: bool = False

    def read(self, words: list[str]) -> None:
        """Read a line, given as its words."""
        self.is_weight_open = False
        match words:
            case _ if self._has_ended:
                return
            case ["c", "p", "weight", *rest]:
                self._weight(rest)
            case ["c", "p", "show", *rest]:
                self._has_shown = True
                self._shown.update(dict.fromkeys(integer(word) for word in rest))
            case ["c", *_]:
                return
            case ["%"] if self.header is not None:  # SATLIB ends its files with the lines % and 0
                self._has_ended = True
            case ["p", "cnf", variables, clauses] if self.header is None:
                self.header = (count_of_variables(integer(variables)), integer(clauses))
                if self.header[1] < 0:
                    raise DamageError(f"expected a number of clauses from 0 on, found {clauses}")
            case _ if self.header is None or words[0] == "p":
                raise DamageError(
                    f"expected p cnf with the numbers of variables and of clauses, once, found {' '.join(words)[:40]!r}"
                )
            case _:
                self._literals(words)

    def _literals(self, words: list[str]) -> None:
        assert self.header is not None, "the caller has checked it"
        for word in words:
            literal = integer(word)
            if literal == 0:
                self.clauses.append(tuple(self.clause))
                self.clause.clear()
            else:
                variable_of(literal, self.header[0])
                self.clause.append(literal)

    def _weight(self, words: list[str]) -> None:
        """`c p weight literal weight 0`."""
        self.is_weight_open = words[2:] != ["0"]
        if not self.is_weight_open:
            words = words[:2]
        if len(words) != 2:
            raise DamageError(f"expected a literal, its weight and 0, found {' '.join(words)[:40]!r}")
        literal = integer(words[0])
        variable_of(literal)
        if literal in self.weights:
            raise DamageError(f"the literal {literal} has two weights")
        numerator, slash, denominator = words[1].partition("/")
        try:
            if not (is_decimal(numerator) and (denominator.isdecimal() or not slash) and words[1].isascii()):
                raise ValueError
            self.weights[literal] = Fraction(words[1])
        except (ValueError, ZeroDivisionError):
            raise DamageError(f"expected a weight such as 0.4 or 2/5, found {words[1][:40]!r}") from None

    def result(self) -> CNF:
        """The formula."""
        if self.header is None:
            raise DamageError("expected p cnf with the numbers of variables and of clauses, found none")
        variables, clauses = self.header
        if self.clause:
            raise DamageError(f"the last clause, {' '.join(map(str, self.clause[:8]))}, does not end with 0")
        if clauses != len(self.clauses):
            raise DamageError(f"expected {clauses} clauses, found {len(self.clauses)}")
        if self._has_shown and set(self._shown) - {0} != set(range(1, variables + 1)):
            raise DamageError(
                "c p show asks for a count over some variables alone, which is not supported",
                "remove these lines to count over all variables",
            )
        return CNF(self.clauses, variables, self._pairs(variables))

    def _pairs(self, count: int) -> Weights:
        """The weights of both literals of each variable that has some."""
        pairs: dict[int, tuple[Fraction, Fraction]] = {}
        for literal in self.weights:
            variable = variable_of(literal, count)
            if -literal not in self.weights:
                raise DamageError(f"the literal {literal} has a weight and {-literal} has none", "give both")
            pairs[variable] = (self.weights[-variable - 1], self.weights[variable + 1])
        return pairs
