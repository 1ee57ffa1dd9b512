"""`Builder`: Programs grow equation by equation, each typed by its operation's type rule as it is added.

>>> from plica.ops import OPS
>>> builder = Builder(OPS)
>>> x = builder.argument("x", ("b", 3), DType.FLOAT32)
>>> (y,) = builder.add("exp", x)
>>> print(builder.build([y]))
{ lambda ; {b:i64[]} x:f32[b,3] . let
    a:f32[b,3] = exp x
  in (a,) }
"""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import reduce
from itertools import product
from string import ascii_lowercase
from typing import Any

from plica.errors import InternalError, PlicaError, ShapeError, UndecidedSizeError, VerifyError
from plica.ir.dtypes import DType
from plica.ir.op import OpTable
from plica.ir.program import RESERVED, Equation, Literal, Operand, OpRef, Program, Var, is_name, size_value
from plica.ir.sizes import (
    Atom,
    Dim,
    Opaque,
    Size,
    as_size,
    atoms,
    halves,
    is_light,
    signed_parts,
    single_atom,
    sorted_terms,
)
from plica.ir.types import SCALAR_SIZE, ArrayType, OutDBIdx, array_type, resolve


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
        self.equalities: list[tuple[Dim, Dim]] = []
        self._hints: Sequence[str] = ()
        self._names = Names()
        self._reserved: set[str] = set()
        self._sizes: dict[str, Var] = {}
        self._consts: list[Var] = []
        self._arguments: list[Var] = []
        self._equations: list[Equation] = []
        self._references: dict[str, OpRef] = {}
        self._lines: dict[Var, str] = {}
        self._meanings: dict[Operand, Dim] = {}
        self._computed: dict[Size, Var] = {}
        self._lengths: set[Atom] = set()
        self._asserted: dict[tuple[Var, ArrayType], Var] = {}

    def size(self, name: str) -> Size:
        """The size called `name`, an implicit input."""
        if name not in self._sizes:
            self._sizes[name] = self._define(name, SCALAR_SIZE, is_size=True)
        return Size.of(self._sizes[name])

    def implicit(self, name: str | None) -> Var:
        """A new implicit input, called `name` where that is free and a name."""
        var = self._define(name, SCALAR_SIZE, is_size=True)
        self._sizes[var.name] = var
        return var

    def argument(self, name: str | None, shape: Sequence[Dim | str], dtype: DType) -> Var:
        """A new explicit input; names in `shape` are sizes."""
        dims: list[Dim] = [self.size(dim) if isinstance(dim, str) else dim for dim in shape]
        var = self._define(name, array_type(dims, dtype))
        self._arguments.append(var)
        return var

    def reserve(self, name: str) -> str:
        """A free name like `name`; from now on only a `const` that asks for exactly this one gets it."""
        self._reserved.add(reserved := self._names.fresh(name))
        return reserved

    def const(self, name: str | None, type_: ArrayType, *, is_size: bool = False) -> Var:
        """A new captured leaf; `name` is only a hint, unless it is reserved."""
        is_reserved = name in self._reserved
        self._reserved.discard(name or "")
        var = Var(name, type_, is_size) if name and is_reserved else self._define(name, type_, is_size=is_size)
        self._consts.append(var)
        return var

    def _define(self, name: str | None, type_: ArrayType, *, is_size: bool = False) -> Var:
        return Var(self._names.fresh(name), type_, is_size)

    @property
    def equations(self) -> Sequence[Equation]:
        """The equations that were added so far."""
        return self._equations

    def line_of(self, var: Var) -> str:
        """`file:line` of the equation that defines `var`; empty where there is none."""
        return self._lines.get(var, "")

    def size_of(self, operand: Operand) -> Dim | None:
        """The size that a scalar integer stands for; None if `operand` is no such scalar."""
        known = self._meanings.get(operand)
        return as_size(operand) if known is None else known

    def size_operand(self, size: Dim) -> Operand:
        """A scalar whose value is `size`, computed by equations the first time that it is asked for."""
        if isinstance(size, int):
            return Literal(_wrapped(size), SCALAR_SIZE)
        atom = single_atom(size)
        if isinstance(atom, Var):
            return atom
        if size not in self._computed:
            var = self._opaque(atom) if isinstance(atom, Opaque) else self._polynomial(size)
            assert isinstance(var, Var), "a size that is no number is computed by an equation"
            self._computed[size] = var
        return self._computed[size]

    def light(self, size: Dim) -> Dim:
        """`size` in few terms: where it has many, equations compute some of them, and variables stand for those."""
        if is_light(size):
            return size
        operand = self.size_operand(size)
        light = self.size_of(operand)
        assert isinstance(light, Size), "a scalar of 64 bits that an equation computes is a size"
        if all(map(self._is_length, atoms(size))):
            self._lengths.update(atoms(light))
        self._computed.setdefault(light, operand)  # type: ignore[arg-type]  # no literal: an equation computes it
        return light

    def _opaque(self, application: Opaque) -> Operand:
        first, second = application.arguments
        if application.function == "max" and isinstance(first, Size) and not all(map(self._is_length, atoms(first))):
            positive, negative = signed_parts(first)  # whose difference may leave 64 bits
            greater = self.add("maximum", self.size_operand(positive), self.size_operand(negative))[0]
            return greater if negative == 0 else self.add("subtract", greater, self.size_operand(negative))[0]
        operation = {"floordiv": "floor_divide", "mod": "remainder", "max": "maximum", "min": "minimum"}
        return self.add(operation[application.function], self.size_operand(first), self.size_operand(second))[0]

    def _is_length(self, atom: Atom) -> bool:
        """Whether `atom` is the size of an axis, or a variable that stands for one; other atoms may be negative."""
        return bool(getattr(atom, "is_size", False)) or atom in self._lengths

    def _polynomial(self, size: Size) -> Operand:
        first, second = (size, 0) if is_light(size) else halves(size)
        if second != 0:  # each half becomes light where it can; their sum is one variable
            return self.add("add", self.size_operand(first), self.size_operand(second))[0]
        result: Operand | None = None
        for term, factor in sorted_terms(size):
            factors = [self.size_operand(Size.of(atom)) for atom in term]
            if abs(factor) != 1 or not factors or (result is None and factor < 0):
                factors.append(Literal(_wrapped(abs(factor) if result is not None else factor), SCALAR_SIZE))
            value = reduce(lambda first, second: self.add("multiply", first, second)[0], factors)
            result = value if result is None else self.add("add" if factor > 0 else "subtract", result, value)[0]
        assert result is not None, "a size that is no number has a term"
        return result

    def add(self, op: str, *inputs: Operand, **params: Any) -> tuple[Var, ...]:
        """Append `op` applied to `inputs`; its results.

        Where two sizes must be equal and only the run tells whether they are, an equation that checks it comes first.

        Raises:
            PlicaError: The types of the inputs or the parameters do not fit the operation.
        """
        hints, self._hints = self._hints, ()
        inputs, types = self._typed(op, inputs, params)
        outputs: list[Var] = []
        # one of several results may be a size of another
        sizes = _referred(types) if len(types) > 1 else frozenset[int]()
        for position, type_ in enumerate(types):
            if sizes:
                type_ = resolve(type_, lambda position: Size.of(outputs[position]))
            name = hints[position] if position < len(hints) else None
            outputs.append(self._define(name, type_, is_size=position in sizes))
            self._lines[outputs[-1]] = self.source
        reference = self._references.setdefault(op, OpRef(op))
        equation = Equation(reference, inputs, tuple(outputs), params, self.source)
        self._equations.append(equation)
        meaning = size_value(equation, self.size_of)
        if meaning is not None:
            self._meanings[outputs[0]] = meaning
        if op == "assert_shape" or "assert_shape" not in self.table:  # its result has the sizes that were asked for
            return equation.outputs
        return tuple(map(self._with_light_sizes, outputs))

    def _with_light_sizes(self, var: Var) -> Var:
        if all(map(is_light, var.type.shape)):
            return var
        lighter = self.assert_dims(var, [self.light(dim) for dim in var.type.shape])
        assert isinstance(lighter, Var), "what has an axis is a variable"
        return lighter

    def _typed(
        self, op: str, inputs: tuple[Operand, ...], params: dict[str, Any]
    ) -> tuple[tuple[Operand, ...], tuple[ArrayType, ...]]:
        """The operands, each with the sizes that the operation asks for, and the types of the results."""
        operation = self.table[op]
        for _ in range(_MAX_CHECKS):
            try:
                sizes = [self.size_of(operand) for operand in inputs] if operation.regions else ()
                return inputs, operation.types([operand.type for operand in inputs], params, sizes)
            except UndecidedSizeError as error:
                checked = self._checked(op, inputs, error)
                if checked is None:
                    raise self._error(op, inputs, error) from None
                inputs = checked
            except PlicaError as error:
                raise self._error(op, inputs, error) from None
        raise AssertionError("every check makes one size of an operand a known one")

    def _checked(self, op: str, inputs: tuple[Operand, ...], error: UndecidedSizeError) -> tuple[Operand, ...] | None:
        """The operands with an equality of sizes checked; None where no operand has an axis of either size."""
        if "assert_shape" not in self.table or op == "assert_shape":
            return None
        preferred, replaced = error.first, error.second
        if isinstance(replaced, int):
            preferred, replaced = replaced, preferred
        if error.axis is not None:
            dims = list(inputs[error.operand].type.shape)
            dims[error.axis] = error.first
            self.equalities.append((error.first, error.second))
            checked = self.assert_dims(inputs[error.operand], dims)
            return (*inputs[: error.operand], checked, *inputs[error.operand + 1 :])
        for new, old in ((preferred, replaced), (replaced, preferred)):
            has_old = [isinstance(operand, Var) and old in operand.type.shape for operand in inputs]
            if any(has_old):
                self.equalities.append((new, old))
                return tuple(
                    self.assert_dims(operand, [new if dim == old else dim for dim in operand.type.shape])
                    if hit
                    else operand
                    for operand, hit in zip(inputs, has_old, strict=True)
                )
        return None

    def assert_dims(self, operand: Operand, dims: Sequence[Dim]) -> Operand:
        """`operand` with sizes `dims`, which is checked when the Program runs."""
        type_ = array_type(dims, operand.type.dtype)
        if type_ == operand.type:
            return operand
        assert isinstance(operand, Var), "a literal has no axis"
        if (operand, type_) not in self._asserted:
            (self._asserted[operand, type_],) = self.add("assert_shape", operand, shape=type_.shape)
        return self._asserted[operand, type_]

    def _error(self, op: str, inputs: tuple[Operand, ...], error: PlicaError) -> PlicaError:
        operands = ", ".join(str(operand.type) for operand in inputs)
        where = f" ({self.source})" if self.source else ""
        lines = {var: self.line_of(var) for var in inputs if isinstance(var, Var) and self.line_of(var)}
        origins = "".join(f"\n  {var!r} was made at {line}" for var, line in lines.items())
        kind = _SHOWN_AS.get(type(error), type(error))
        return kind(f"{op}({operands}){where}: {error}{origins}")

    @contextmanager
    def at(self, source: str) -> Iterator[None]:
        """Equations added in the block say that they come from `source`."""
        before, self.source = self.source, source
        try:
            yield
        finally:
            self.source = before

    @contextmanager
    def naming(self, names: Sequence[str]) -> Iterator[None]:
        """The results of the equation added in the block are called by these names, where they are free."""
        self._hints = names
        try:
            yield
        finally:
            self._hints = ()

    def build(self, results: Iterable[Operand], implicit: Iterable[Operand] | None = None) -> Program:
        """The Program that returns `results`.

        Args:
            results: The explicit outputs.
            implicit: The implicit ones; by default each size of the results that is no input of the Program.
        """
        outputs = tuple(results)
        sizes = tuple(self._sizes.values())
        if implicit is None:
            known = {*self._consts, *sizes, *self._arguments}
            unknown = dict.fromkeys(
                dim
                for result in outputs
                for dim in result.type.shape
                if isinstance(dim, Size) and single_atom(dim) not in known
            )
            implicit = [self.size_operand(dim) for dim in unknown]
        first = tuple(implicit)
        inputs = (*sizes, *self._arguments)
        return Program(tuple(self._consts), inputs, tuple(self._equations), (*first, *outputs), len(sizes), len(first))


# Callers check equations before they add them: one that breaks a rule of Programs is no mistake of a user.
_SHOWN_AS: Mapping[type[PlicaError], type[PlicaError]] = {
    UndecidedSizeError: ShapeError,
    VerifyError: InternalError,
}


def _referred(types: Iterable[ArrayType]) -> frozenset[int]:
    """The positions of results that are sizes of others."""
    return frozenset(
        atom.val for type_ in types for dim in type_.shape for atom in atoms(dim) if isinstance(atom, OutDBIdx)
    )


_MAX_CHECKS = 100


def _wrapped(value: int) -> int:
    """The 64-bit integer that `value` is modulo 2**64: arithmetic on scalars wraps, and polynomials are exact."""
    return (value + 2**63) % 2**64 - 2**63


def const_key(name: Hashable) -> str:
    """`name` as an identifier, for the variable of a leaf."""
    return "".join(letter if letter.isalnum() else "_" for letter in str(name))
