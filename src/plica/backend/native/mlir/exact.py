"""Computes one entry of a contraction in log space without underflow: each term is a sum of logarithms."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from plica.backend.native.mlir.contract import Factor
from plica.backend.native.mlir.emitter import Emitter
from plica.backend.native.mlir.structured import apart, entry_at
from plica.backend.native.mlir.types import Value
from plica.backend.native.scalars import Scalar, write_scalar


class Exact:
    """Writes one entry of the result: log sum_n exp(t_n - max t) + max t, where each t_n is a sum of logarithms.

    Args:
        emitter: Where the lines go.
        factors: The logarithms, each with a label for each axis.
        weight: Linear numbers.
        log_source: The array from which the weight's logarithms are computed, as in `log_contract`.
        form: How they are computed, as in `log_contract`.
        summed: The labels that are summed over.
        bounds: The size of each label, of type `index`.
    """

    def __init__(
        self,
        emitter: Emitter,
        factors: Sequence[Factor],
        weight: Factor,
        log_source: Value | None,
        form: str | None,
        summed: str,
        bounds: Mapping[str, str],
    ) -> None:
        self._emitter = emitter
        # written to memory first, so that the nest does not compute the factors again for each entry
        self._factors = [Factor(apart(emitter, factor.value), factor.labels) for factor in factors]
        self._weight = weight
        self._log_source = None if log_source is None else emitter.tensor(log_source)
        self._form = form
        self._summed = summed
        self._bounds = bounds
        self._dtype = weight.value.dtype
        self._zero = emitter.code.op("arith.constant 0 : index")
        self._start = 0 if log_source is None else len(log_source.shape) - 1
        self._columns = "" if log_source is None else emitter.size(log_source.shape[-1])

    def entry(self, indices: Mapping[str, str]) -> Scalar:
        """The entry at an index for each label of the result."""
        code, scalars = self._emitter.code, self._emitter.scalars
        count = code.op("arith.constant 1 : index")
        for label in self._summed:
            count = code.op(f"arith.muli {count}, {self._bounds[label]} : index")

        def term(number: str) -> Scalar:
            all_indices, quotient = dict(indices), number
            for label in reversed(self._summed):
                all_indices[label] = code.op(f"arith.remui {quotient}, {self._bounds[label]} : index")
                quotient = code.op(f"arith.divui {quotient}, {self._bounds[label]} : index")
            return self._term(all_indices)

        shift = self._finite(self._fold(count, "-inf", lambda old, number: scalars.maximum(old, term(number))))
        total = self._fold(count, "0", lambda old, number: scalars.add(old, self._exp(term(number), shift)))
        return scalars.add(write_scalar(scalars, "log", (total,), self._dtype), shift)

    def _exp(self, x: Scalar, shift: Scalar) -> Scalar:
        scalars = self._emitter.scalars
        return write_scalar(scalars, "exp", (scalars.subtract(x, shift),), self._dtype)

    def _finite(self, x: Scalar) -> Scalar:
        """The number if it is finite, else 0."""
        scalars = self._emitter.scalars
        finite = scalars.compare("less", scalars.absolute(x), scalars.constant(np.inf, self._dtype))
        return scalars.select(finite, x, scalars.constant(0.0, self._dtype))

    def _fold(self, count: str, start: str, step: Callable[[Scalar, str], Scalar]) -> Scalar:
        """The last value of a loop over the numbers below `count`; `step` makes each value from the one before."""
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

    def _term(self, indices: Mapping[str, str]) -> Scalar:
        """The logarithm of one product, at an index for each label."""
        logarithm = self._log_weight(indices)
        for factor in self._factors:
            logarithm = self._emitter.scalars.add(logarithm, self._read(factor, indices))
        return logarithm

    def _read(self, factor: Factor, indices: Mapping[str, str]) -> Scalar:
        at = self._at(factor, indices)
        return Scalar(entry_at(self._emitter, factor.value, at), self._dtype)

    def _at(self, factor: Factor, indices: Mapping[str, str]) -> list[str]:
        dims = zip(factor.labels, factor.value.shape, strict=True)
        return [self._zero if dim == 1 else indices[label] for label, dim in dims]

    def _log_weight(self, indices: Mapping[str, str]) -> Scalar:
        """The logarithm of an entry of the weight."""
        code, scalars = self._emitter.code, self._emitter.scalars
        if self._log_source is None:
            return write_scalar(scalars, "log", (self._read(self._weight, indices),), self._dtype)
        at, units = self._at(self._weight, indices), self._weight.labels[self._start :]
        row, column = at[: self._start], self._zero
        for label, index in zip(units, at[self._start :], strict=True):
            column = code.op(
                f"arith.addi {code.op(f'arith.muli {column}, {self._bounds[label]} : index')}, {index} : index"
            )
        logit = self._logit(row, column)
        if self._form == "log":
            return logit
        largest = self._fold(self._columns, "-inf", lambda old, number: scalars.maximum(old, self._logit(row, number)))
        total = self._fold(
            self._columns, "0", lambda old, number: scalars.add(old, self._exp(self._logit(row, number), largest))
        )
        logarithm = write_scalar(scalars, "log", (total,), self._dtype)
        return scalars.subtract(scalars.subtract(logit, largest), logarithm)

    def _logit(self, row: Sequence[str], column: str) -> Scalar:
        assert self._log_source is not None, "there are logarithms"
        return Scalar(entry_at(self._emitter, self._log_source, [*row, column]), self._dtype)
