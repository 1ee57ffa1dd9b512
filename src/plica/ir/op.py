"""`Op`: everything that Plica knows of one array operation, as one row of a table.

A row is a type rule, a numpy reference, purity, sample inputs and a decomposition. Backends add rows of their own
for what they do faster; the verifier, the printer, the interpreter and the tests read only this.
"""

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plica.errors import UnsupportedError, VerifyError
from plica.ir.sizes import Dim
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
    """A column that a row does not have, and why."""

    why: str

    def __call__(self, *_: object, **__: object) -> Any:
        """Raises `UnsupportedError`."""
        raise UnsupportedError(self.why)


def unsupported(why: str) -> Unsupported:
    """A column that a row does not have, and why."""
    return Unsupported(why)


PRIMITIVE = unsupported("a primitive: every backend implements it")


class Memory(Enum):
    """Where the results of an operation lie."""

    NEW = "memory of their own"
    COPY = "memory of their own, for numbers that were only moved there"
    VIEW = "the memory of the first operand"
    EITHER = "memory of their own, or that of an operand"


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
        regions: Whether parameters hold Programs that it runs. Then the type rule is given, before the types, the size
            that each operand stands for (None where it is none), and the reference a function
            `run(program, consts, inputs)` that gives all outputs of a nested Program.
        memory: Where its results lie, for the memory plan; numpy's reference may copy where others need not.

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

    def types(
        self, inputs: Iterable[ArrayType], params: Mapping[str, Any], sizes: Sequence[Dim | None] = ()
    ) -> tuple[ArrayType, ...]:
        """The types of the results; an operation of one result may give its type alone."""
        operands = tuple(inputs)
        given = (tuple(sizes), *operands) if self.regions else operands
        try:
            result = self.type_rule(*given, **params)
        except TypeError as error:
            raise self._misfit(given, params, error) from None
        return result if isinstance(result, tuple) else (result,)

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
    """One table of all rows.

    Raises:
        ValueError: Two rows have one name.
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
