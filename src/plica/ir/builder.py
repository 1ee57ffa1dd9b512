"""`Builder`: Programs grow equation by equation, each typed by its operation's row as it is added.

>>> from plica.ops import OPS
>>> builder = Builder(OPS)
>>> x = builder.argument("x", ("b", 3), DType.FLOAT32)
>>> (y,) = builder.add("exp", x)
>>> print(builder.build([y]))
{ lambda ; {b:i64[]} x:f32[b,3] . let
    a:f32[b,3] = exp x
  in (a,) }
"""

from collections.abc import Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import product
from string import ascii_lowercase
from typing import Any

from plica.errors import PlicaError
from plica.ir.dtypes import DType
from plica.ir.op import OpTable
from plica.ir.program import RESERVED, Equation, Literal, Operand, OpRef, Program, Var, is_name
from plica.ir.sizes import Dim, Size
from plica.ir.types import SCALAR_SIZE, ArrayType, array_type


class Names:
    """Fresh names of variables: a hint where it is free, else `a`, `b`, ..., `aa`, ..."""

    def __init__(self) -> None:
        self._taken: set[str] = set(RESERVED)
        self._letters = self._sequence()

    @staticmethod
    def _sequence() -> Iterator[str]:
        length = 1
        while True:
            yield from ("".join(letters) for letters in product(ascii_lowercase, repeat=length))
            length += 1

    def fresh(self, hint: str | None = None) -> str:
        """A name that was not given before."""
        if hint is not None and is_name(hint, reserved=False):
            name, number = hint, 1
            while name in self._taken:
                name, number = f"{hint}_{number}", number + 1
        else:
            name = next(letter for letter in self._letters if letter not in self._taken)
        self._taken.add(name)
        return name


class Builder:
    """A Program under construction.

    Args:
        table: The operations that may be used.
    """

    def __init__(self, table: OpTable) -> None:
        self.table = table
        self.source = ""
        self._names = Names()
        self._sizes: dict[str, Var] = {}
        self._consts: list[Var] = []
        self._arguments: list[Var] = []
        self._equations: list[Equation] = []
        self._references: dict[str, OpRef] = {}
        self._own: set[Var] = set()

    def size(self, name: str) -> Size:
        """The size called `name`, an implicit input."""
        if name not in self._sizes:
            self._sizes[name] = self._define(name, SCALAR_SIZE)
        return Size.of(self._sizes[name])

    def argument(self, name: str | None, shape: Sequence[int | str], dtype: DType) -> Var:
        """A new explicit input; names in `shape` are sizes."""
        dims: list[Dim] = [self.size(dim) if isinstance(dim, str) else dim for dim in shape]
        var = self._define(name, array_type(dims, dtype))
        self._arguments.append(var)
        return var

    def const(self, name: str | None, type_: ArrayType) -> Var:
        """A new captured leaf."""
        var = self._define(name, type_)
        self._consts.append(var)
        return var

    def _define(self, name: str | None, type_: ArrayType) -> Var:
        var = Var(self._names.fresh(name), type_)
        self._own.add(var)
        return var

    def owns(self, operand: Operand) -> bool:
        """Whether `operand` is a literal or a variable of this Program."""
        return isinstance(operand, Literal) or operand in self._own

    def add(self, op: str, *inputs: Operand, **params: Any) -> tuple[Var, ...]:
        """Append `op` applied to `inputs`; its results.

        Raises:
            PlicaError: The types of the inputs or the parameters do not fit the operation.
        """
        row = self.table[op]
        try:
            types = row.types([one.type for one in inputs], params)
        except PlicaError as error:
            operands = ", ".join(str(one.type) for one in inputs)
            where = f" ({self.source})" if self.source else ""
            raise type(error)(f"{op}({operands}){where}: {error}") from None
        reference = self._references.setdefault(op, OpRef(op))
        outputs = tuple(self._define(None, type_) for type_ in types)
        self._equations.append(Equation(reference, inputs, outputs, params, self.source))
        return outputs

    @contextmanager
    def at(self, source: str) -> Iterator[None]:
        """Equations added meanwhile say that they come from `source`."""
        before, self.source = self.source, source
        try:
            yield
        finally:
            self.source = before

    def build(self, results: Iterable[Operand]) -> Program:
        """The Program that returns `results`."""
        implicit = tuple(self._sizes.values())
        outputs = tuple(results)
        return Program(
            tuple(self._consts), (*implicit, *self._arguments), tuple(self._equations), outputs, len(implicit)
        )


def const_key(name: Hashable) -> str:
    """`name` as an identifier, for the variable of a leaf."""
    return "".join(letter if letter.isalnum() else "_" for letter in str(name))
