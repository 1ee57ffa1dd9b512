"""Sets of variables, kept as one bit per variable so that unions along a deep circuit stay cheap.

>>> Scope([3, 1]) | Scope([2])
Scope({1, 2, 3})
>>> list(Scope([3, 1])), 3 in Scope([3, 1]), Scope([1]) <= Scope([3, 1])
([1, 3], True, True)
"""

import operator
from collections.abc import Iterable, Iterator
from typing import SupportsIndex, final

from plica.arguments import elements, found
from plica.errors import DTypeError, InputError

MAX_VARIABLE = 2**27 - 1  # a scope has a bit for each variable up to its highest: 16 MiB at most


@final
class Scope:
    """An immutable set of variables (non-negative integers), iterated in ascending order.

    `|`, `&` and `-` return one of their operands when the result equals it, so equal scopes of a circuit tend to be one
    object.

    Args:
        variables: The variables, in any order; repeated ones count once.

    Raises:
        DTypeError: A variable is not an integer, or there is no sequence of them.
        InputError: A variable is negative, or above `MAX_VARIABLE`.
    """

    __slots__ = ("_mask",)
    _mask: int

    def __init__(self, variables: Iterable[int] = ()) -> None:
        if not isinstance(variables, Iterable):
            raise DTypeError(
                f"the variables of a scope are a sequence of integers, found {variables!r}; write [{variables!r}]"
            )
        bits = 0
        if isinstance(variables, Scope):
            bits = variables._mask
        elif isinstance(variables, range) and variables.step == 1 and variables:  # no step for each variable
            bits = (1 << _checked(variables[-1]) + 1) - (1 << _checked(variables[0]))
        else:
            for variable in elements("Scope", "variables", variables):
                bits |= 1 << _checked(variable)
        object.__setattr__(self, "_mask", bits)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a Scope is immutable; build another one instead of setting {name!r}")

    @staticmethod
    def _of(mask: int) -> "Scope":
        scope = Scope()
        object.__setattr__(scope, "_mask", mask)
        return scope

    def __iter__(self) -> Iterator[int]:
        remaining = self._mask
        while remaining:
            lowest = remaining & -remaining
            yield lowest.bit_length() - 1
            remaining ^= lowest

    def __len__(self) -> int:
        return self._mask.bit_count()

    def __bool__(self) -> bool:
        return self._mask != 0

    def __contains__(self, variable: object) -> bool:
        if not isinstance(variable, SupportsIndex):
            return False
        number = operator.index(variable)
        return number >= 0 and bool(self._mask >> number & 1)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Scope) and self._mask == other._mask

    def __hash__(self) -> int:
        return hash((Scope, self._mask))

    def __le__(self, other: "Scope") -> bool:
        return self._mask & ~other._mask == 0

    def __lt__(self, other: "Scope") -> bool:
        return self <= other and self != other

    def __ge__(self, other: "Scope") -> bool:
        return other <= self

    def __gt__(self, other: "Scope") -> bool:
        return other < self

    def __or__(self, other: "Scope") -> "Scope":
        return self._reuse(other, self._mask | other._mask)

    def __and__(self, other: "Scope") -> "Scope":
        return self._reuse(other, self._mask & other._mask)

    def __sub__(self, other: "Scope") -> "Scope":
        return self._reuse(self, self._mask & ~other._mask)

    def _reuse(self, other: "Scope", mask: int) -> "Scope":
        if mask == self._mask:
            return self
        return other if mask == other._mask else Scope._of(mask)

    def union(*scopes: "Scope") -> "Scope":
        """The variables of any of `scopes`: `Scope.union(a, b)` or `a.union(b)`; empty without arguments."""
        total = Scope()
        for scope in scopes:
            total = total | _scope(scope)
        return total

    def intersection(self, other: "Scope") -> "Scope":
        """The variables of both."""
        return self & _scope(other)

    def difference(self, other: "Scope") -> "Scope":
        """The variables of this scope that are not in `other`."""
        return self - _scope(other)

    def isdisjoint(self, other: "Scope") -> bool:
        """Whether no variable is in both."""
        return self._mask & _scope(other)._mask == 0

    def __reduce__(self) -> tuple[type["Scope"], tuple[tuple[int, ...]]]:
        return Scope, (tuple(self),)

    def __repr__(self) -> str:
        return f"Scope({self})"

    def __str__(self) -> str:
        """The variables as runs: `{0..3, 7}`; at most eight runs are shown."""
        runs: list[list[int]] = []
        for variable in self:
            if runs and variable == runs[-1][1] + 1:
                runs[-1][1] = variable
            else:
                runs.append([variable, variable])
        shown = [_run_text(first, last) for first, last in runs]
        if len(shown) > 8:
            shown = [*shown[:6], "...", shown[-1]]
        return "{" + ", ".join(shown) + "}"


def _scope(value: Scope) -> Scope:
    if not isinstance(value, Scope):
        raise DTypeError(f"Scope: expected another scope, {found(value)}; write Scope([...])")
    return value


def _run_text(first: int, last: int) -> str:
    if last - first < 3:
        return ", ".join(str(variable) for variable in range(first, last + 1))
    return f"{first}..{last}"


def _checked(variable: int) -> int:
    if isinstance(variable, bool):
        raise DTypeError(f"a variable of a scope must be an integer, found {variable!r}; write 0 or 1")
    try:
        number = operator.index(variable)
    except TypeError:
        raise DTypeError(
            f"a variable of a scope must be an integer, found {variable!r} of type {type(variable).__name__}; "
            "number the variables by the columns of the data, as in Scope([0, 2])"
        ) from None
    if number < 0:
        raise InputError(
            f"a variable of a scope must not be negative, found {number}; variable v is column v of the data"
        )
    if number > MAX_VARIABLE:
        raise InputError(
            f"a variable of a scope must be at most {MAX_VARIABLE}, found one of {number.bit_length()} bits; "
            "variable v is column v of the data, so number the columns without gaps"
        )
    return number
