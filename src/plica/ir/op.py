"""`Op`: everything that Plica knows of one array operation, as one registry entry.

An entry is a type rule, a numpy reference, sample inputs, a decomposition, and facts that passes read. Backends have
tables of their own for faster forms; the verifier, the printer, the interpreter and the tests read only this one.
"""

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plica.errors import UnsupportedError, VerifyError
from plica.ir.dtypes import require_computed
from plica.ir.ranges import ANYTHING, Range, RangeRule
from plica.ir.sizes import Dim, is_nonnegative_by_cases
from plica.ir.types import ArrayType

Array = NDArray[Any]
TypeRule = Callable[..., ArrayType | tuple[ArrayType, ...]]
Reference = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Sample:
    """Inputs on which every backend must agree with the reference."""

    inputs: tuple[Array, ...]
    params: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Unsupported:
    """A column that a registry entry does not have, and why."""

    why: str

    def __repr__(self) -> str:
        return "unsupported"

    def __call__(self, *_: object, **__: object) -> Any:
        """Raises `UnsupportedError`."""
        raise UnsupportedError(self.why)


def unsupported(why: str) -> Unsupported:
    """A column that a registry entry does not have, and why."""
    return Unsupported(why)


ALWAYS = ("bool", "int", "float", "complex")
"""All kinds of dtype."""

PRIMITIVE = unsupported("a primitive: every backend implements it")


class Memory(Enum):
    """Where the results of an operation lie."""

    NEW = "memory of their own"
    COPY = "memory of their own, for numbers that were only moved there"
    VIEW = "the memory of the first operand"
    EITHER = "memory of their own, or that of an operand"


class Derivative(Enum):
    """Which derivative backends give an operation."""

    OF_VALUES = "that of its values, at its samples too"
    BESIDE_KINKS = "that of its values, but for kinks and poles, where its samples may lie"
    OF_SYMMETRIC = "that of its values along symmetric matrices, of which it reads one triangle"
    ITS_OWN = "another than that of its values, on purpose"
    NONE = "none, or none that differences show: indices and conversions"


class View(Enum):
    """Whose entries the results of an operation are: moved, repeated or left out, but never changed."""

    NONE = "entries that it computes"
    MOVED = "all entries of the first operand"
    SELECTED = "some entries of the first operand; further operands say which"
    JOINED = "all entries of all operands"
    CHOSEN = "some entries of the operands after the first, which says which"

    @property
    def operands(self) -> slice:
        """The operands whose entries they are."""
        return _VIEWED[self]

    @property
    def is_whole(self) -> bool:
        """Whether no entry is left out."""
        return self in (View.MOVED, View.JOINED)


_VIEWED = {
    View.NONE: slice(0, 0),
    View.MOVED: slice(0, 1),
    View.SELECTED: slice(0, 1),
    View.JOINED: slice(0, None),
    View.CHOSEN: slice(1, None),
}


@dataclass(frozen=True, slots=True)
class Op:
    """One array operation.

    Args:
        name: The name in Program text and in the public namespace.
        type_rule: `type_rule(*input_types, **params)` gives the type of the result, or a tuple of them.
        reference: `reference(*arrays, **params)` in numpy, the definition of its meaning.
        samples: Inputs for the tests that run over the tables.
        decompose: `decompose(xp, *arrays, **params)` in terms of other operations, or `unsupported("why")`.
        pure: Whether equal inputs give equal results and nothing else happens.
        regions: Whether parameters hold Programs that it runs. Then the type rule takes, before the types, the size
            that each operand stands for, or None. The reference takes, before the arrays, a function
            `run(program, consts, inputs)` that returns all outputs of a nested Program.
        memory: Where its results lie, for the memory plan; numpy's reference may copy where others need not.
        range: The range of the numbers of a result of floats, NaN apart: `(low, high)`, or a function from the ranges
            of the operands, and the parameters, to it (`plica.ir.ranges`). A `low` of 0.0 also says that no number is
            -0.0. It says nothing of results of integers, which wrap around, or of complex numbers.
        never_raises: The kinds of dtype of a result for which it raises no error whatever the operands hold, so that a
            pass may move it out of a branch or a loop that may not run it.
        repeats: Whether it runs its regions any number of times.
        tolerance: Two implementations may differ by so many times a few units in the last place.
        agreed: Whether results for NaN, infinities and zeros are the same in every backend.
        derivative: Its derivative.
        of_dtype: Whether results depend on the dtype of the operands beside rounding, so that the reference is given no
            wider ones.
        view: Whose entries its results are: an operation on each entry may as well be applied to those.
        converts: Whether it takes dtypes for storage alone, such as int4, though it is no view.
        nonnegative: From the types of the operands and the parameters, the sizes that must be at least 0 for results
            to have the sizes of their types. A run checks sizes of unknown sign, even if nothing reads the results.

    A type rule may write `OutDBIdx(i)` for a size that is the value of result i.
    """

    name: str
    type_rule: TypeRule
    reference: Reference
    samples: Callable[[], Iterable[Sample]]
    decompose: Callable[..., Any] | Unsupported = PRIMITIVE
    pure: bool = True
    regions: bool = False
    memory: Memory = Memory.NEW
    range: RangeRule = ANYTHING
    never_raises: tuple[str, ...] = ()
    repeats: bool = False
    tolerance: float = 1.0
    agreed: bool = True
    derivative: Derivative = Derivative.OF_VALUES
    of_dtype: bool = False
    view: View = View.NONE
    converts: bool = False
    nonnegative: Callable[..., Iterable[Dim]] = lambda *_, **__: ()

    def types(
        self, inputs: Iterable[ArrayType], params: Mapping[str, Any], sizes: Sequence[Dim | None] = ()
    ) -> tuple[ArrayType, ...]:
        """The types of the results; an operation of one result may give its type alone.

        Raises:
            DTypeError: It computes with a dtype for storage alone, such as int4.
        """
        operands = tuple(inputs)
        if any(operand.dtype.is_storage for operand in operands) and not self.converts and not self.regions:
            moved = range(*self.view.operands.indices(len(operands)))
            require_computed(*(operand.dtype for position, operand in enumerate(operands) if position not in moved))
        given = (tuple(sizes), *operands) if self.regions else operands
        try:
            result = self.type_rule(*given, **params)
        except TypeError as error:
            raise self._misfit(given, params, error) from None
        return result if isinstance(result, tuple) else (result,)

    def range_of(self, inputs: Iterable[Range | None], params: Mapping[str, Any]) -> Range:
        """In which range a result of floats lies, for operands in `inputs`: None for those that may be complex."""
        if isinstance(self.range, tuple):
            return self.range
        return self.range(*(ANYTHING if bounds is None else bounds for bounds in inputs), **params)

    def checks_sizes(self, inputs: Iterable[ArrayType], params: Mapping[str, Any]) -> bool:
        """Whether running it may show that its results cannot have the sizes of their types."""
        return not all(map(is_nonnegative_by_cases, self.nonnegative(*inputs, **params)))

    def _misfit(
        self, operands: tuple[Any, ...], params: Mapping[str, Any], error: TypeError
    ) -> TypeError | VerifyError:
        """An error of the number of operands or the names of parameters, in terms of a Program; else `error` itself."""
        signature = inspect.signature(self.type_rule)
        try:
            signature.bind(*operands, **params)
        except TypeError as misfit:
            given = ", ".join([*map(str, operands), *params])
            return VerifyError(f"the operation takes {signature}, found ({given}): {misfit}.")
        return error


OpTable = Mapping[str, Op]


def op_table(*groups: Iterable[Op]) -> dict[str, Op]:
    """One table of all operations.

    Raises:
        ValueError: Two operations have one name.
    """
    table: dict[str, Op] = {}
    for group in groups:
        for op in group:
            if op.name in table:
                raise ValueError(f"two operations are named {op.name!r}")
            table[op.name] = op
    return table


def sample(*inputs: object, **params: Any) -> Sample:
    """A `Sample` of anything that numpy makes an array of."""
    return Sample(tuple(np.asarray(array) for array in inputs), params)
