"""One entry of a contraction in log space, by its definition: terms are added in log space, and none is lost."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from plica.backend.native.mlir.contract import Factor
from plica.backend.native.mlir.emitter import Emitter
from plica.backend.native.mlir.structured import apart, entry_at
from plica.backend.native.mlir.types import Value
from plica.backend.native.scalars import Scalar, write_scalar


class Exact:
    """One entry of the result, as a sum of exponentials of terms that are added in log space."""

    def __init__(
        self,
        emitter: Emitter,
        factors: Sequence[Factor],
        weight: Factor,
        given: Value | None,
        form: str | None,
        summed: str,
        bounds: Mapping[str, str],
    ) -> None:
        self._emitter = emitter
        # what makes the values is not made again within the nest
        self._factors = [Factor(apart(emitter, factor.value), factor.labels) for factor in factors]
        self._weight = weight
        self._given = None if given is None else emitter.tensor(given)
        self._form = form
        self._summed = summed
        self._bounds = bounds
        self._dtype = weight.value.dtype
        self._zero = emitter.code.op("arith.constant 0 : index")
        self._start = 0 if given is None else len(given.shape) - 1
        self._columns = "" if given is None else emitter.size(given.shape[-1])

    def entry(self, places: Mapping[str, str]) -> Scalar:
        """The entry at the places of the labels of the result."""
        code, scalars = self._emitter.code, self._emitter.scalars
        count = code.op("arith.constant 1 : index")
        for label in self._summed:
            count = code.op(f"arith.muli {count}, {self._bounds[label]} : index")

        def term(number: str) -> Scalar:
            all_places, rest = dict(places), number
            for label in reversed(self._summed):
                all_places[label] = code.op(f"arith.remui {rest}, {self._bounds[label]} : index")
                rest = code.op(f"arith.divui {rest}, {self._bounds[label]} : index")
            return self._term(all_places)

        shift = self._finite(self._fold(count, "-inf", lambda old, number: scalars.maximum(old, term(number))))
        total = self._fold(count, "0", lambda old, number: scalars.add(old, self._exp(term(number), shift)))
        return scalars.add(write_scalar(scalars, "log", (total,), self._dtype), shift)

    def _exp(self, x: Scalar, shift: Scalar) -> Scalar:
        scalars = self._emitter.scalars
        return write_scalar(scalars, "exp", (scalars.subtract(x, shift),), self._dtype)

    def _finite(self, x: Scalar) -> Scalar:
        """A number that is finite; 0 in the place of others."""
        scalars = self._emitter.scalars
        finite = scalars.compare("less", scalars.absolute(x), scalars.constant(np.inf, self._dtype))
        return scalars.select(finite, x, scalars.constant(0.0, self._dtype))

    def _fold(self, count: str, start: str, step: Callable[[Scalar, str], Scalar]) -> Scalar:
        """What `step` makes of all numbers below `count`, one after the other."""
        code, first = self._emitter.code, self._emitter.scalars.constant(float(start), self._dtype)
        one, name, number, old = code.op("arith.constant 1 : index"), code.name(), code.name(), code.name()
        element = self._weight.value.element
        head = f"scf.for {number} = {self._zero} to {count} step {one} iter_args({old} = {first.text}) -> ({element})"
        code.put(f"{name} = {head} {{")
        with code.block():
            after = step(Scalar(old, self._dtype), number)
            code.put(f"scf.yield {after.text} : {element}")
        code.put("}")
        return Scalar(name, self._dtype)

    def _term(self, places: Mapping[str, str]) -> Scalar:
        """The logarithm of one product."""
        logarithm = self._log_weight(places)
        for factor in self._factors:
            logarithm = self._emitter.scalars.add(logarithm, self._read(factor, places))
        return logarithm

    def _read(self, factor: Factor, places: Mapping[str, str]) -> Scalar:
        at = self._at(factor, places)
        return Scalar(entry_at(self._emitter, factor.value, at), self._dtype)

    def _at(self, factor: Factor, places: Mapping[str, str]) -> list[str]:
        dims = zip(factor.labels, factor.value.shape, strict=True)
        return [self._zero if dim == 1 else places[label] for label, dim in dims]

    def _log_weight(self, places: Mapping[str, str]) -> Scalar:
        code, scalars = self._emitter.code, self._emitter.scalars
        if self._given is None:
            return write_scalar(scalars, "log", (self._read(self._weight, places),), self._dtype)
        at, units = self._at(self._weight, places), self._weight.labels[self._start :]
        row, column = at[: self._start], self._zero
        for label, place in zip(units, at[self._start :], strict=True):
            column = code.op(
                f"arith.addi {code.op(f'arith.muli {column}, {self._bounds[label]} : index')}, {place} : index"
            )
        weight = self._entry(row, column)
        if self._form == "log":
            return weight
        largest = self._fold(self._columns, "-inf", lambda old, number: scalars.maximum(old, self._entry(row, number)))
        total = self._fold(
            self._columns, "0", lambda old, number: scalars.add(old, self._exp(self._entry(row, number), largest))
        )
        logarithm = write_scalar(scalars, "log", (total,), self._dtype)
        return scalars.subtract(scalars.subtract(weight, largest), logarithm)

    def _entry(self, row: Sequence[str], column: str) -> Scalar:
        assert self._given is not None, "there are logarithms"
        return Scalar(entry_at(self._emitter, self._given, [*row, column]), self._dtype)
