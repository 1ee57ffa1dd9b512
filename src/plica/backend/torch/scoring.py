"""`ScoringModule`: rows of data scored by the Programs of a circuit, in the number formats of its cascade."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple
from weakref import ReferenceType, ref

import torch
from torch import Tensor

from plica.backend.torch.cascade import computed_again, rows_without
from plica.backend.torch.constants import CircuitConstants, Ready
from plica.backend.torch.data import DataCheck
from plica.backend.torch.garbage import without_collection
from plica.backend.torch.given import NOTHING_GIVEN, Givable, GivenNames, GivenTensors, split_rows
from plica.backend.torch.logs import is_abstract
from plica.backend.torch.program_module import ProgramModule
from plica.backend.torch.reals import real_dtype
from plica.backend.torch.sources import constant_result
from plica.backend.torch.watch import Watch
from plica.backend.torch.weights import WeightCheck
from plica.errors import DTypeError
from plica.ir.dtypes import as_dtype
from plica.lower.arrays import InitializerRows
from plica.lower.call_parameters import CallParameters
from plica.lower.compiled import CompiledCircuit
from plica.lower.fold.groups import FoldedCircuit
from plica.lower.queries.score import Lowered
from plica.symbolic.circuit import Circuit
from plica.symbolic.parameters import TensorParameter
from plica.symbolic.semirings import Bound, Semiring, Stage

Key = tuple[str, torch.dtype, torch.dtype, GivenNames]  # semiring, data, parameters, which of them are given
_PART = 2**24
"""Bytes of the widest activation of a batch that is computed as one: arrays that are larger fit no cache, and get their
memory anew from the system at each call."""
_LEAST_ROWS = 16  # of a part: fewer would read the weights too often
_INPUTS = ("bool", "int", "float")


class _Verdict(NamedTuple):
    """Whether constant weights prove the results of a number format right for all rows.

    Args:
        watch: Watches the weights for which this holds.
        key: The key of the Program of the number format.
        ready: Runs that Program; None where the bound fails, or is none of the weights alone.
    """

    watch: ReferenceType[Watch]
    key: Key
    ready: ReferenceType[Ready] | None


class ScoringModule(ProgramModule):
    """A circuit with its tensors that scores rows.

    Args:
        compiled: The circuit as it is computed.
        dtype: The dtype of its real tensors, and of its results.
        drawing: The registry entries of the context for initializers.
        constants: The cache of what eval mode computes once from the tensors.
    """

    _forgotten = (*ProgramModule._forgotten, "_weights", "_verdicts")

    def __init__(
        self, compiled: CompiledCircuit, dtype: torch.dtype, drawing: InitializerRows, constants: CircuitConstants
    ) -> None:
        super().__init__(dtype, drawing, constants)
        self.compiled = compiled
        self._semiring = compiled.semiring
        self._data = DataCheck(compiled.folded)
        self._givable = Givable(compiled)
        self._weights: dict[GivenNames, WeightCheck] = {}
        self._verdicts: dict[tuple[torch.dtype, torch.dtype], _Verdict] = {}  # by dtypes of data and of `_real`
        # Modules of a user's own see all rows of a call together, and once: some compute with statistics of them
        self._holds = bool(compiled.opaque)
        self._widest = max(compiled.activations)

    @property
    def symbolic(self) -> Circuit:
        """The circuit that was compiled."""
        return self.compiled.symbolic

    @property
    def folded(self) -> FoldedCircuit:
        """The groups of layers that are computed as one."""
        return self.compiled.folded

    @property
    def semiring(self) -> Semiring:
        """The number format."""
        return self._semiring

    @property
    def _keys(self) -> Mapping[TensorParameter, str]:
        """The name of each symbolic tensor in a state dict."""
        return self.compiled.keys

    @property
    def _usual_key(self) -> Key:
        return self._semiring.name, self.usual_input(), self.dtype, self._givable.usual

    def usual_input(self) -> torch.dtype:
        """The dtype of data that `program` is for."""
        return torch.int64 if self._data.has_states else self.dtype

    def lowered(self, input_dtype: torch.dtype) -> Lowered:
        """The Program for data of one dtype, made once, with the leaf or constant of each variable that it captures."""
        return self._lower((self._semiring.name, input_dtype, self.dtype, self._givable.usual))

    def prepared(self, input_dtype: torch.dtype) -> Lowered:
        """`lowered`, with its constants among the leaves."""
        key = (self._semiring.name, input_dtype, self.dtype, ())
        self._specialize(key)
        return self._lower(key)

    @without_collection()
    def _lower(self, key: Key) -> Lowered:
        name, kind, real, given = key[0], as_dtype(key[1]), real_dtype(key[2]), self.given_leaves(key[3])
        if kind.kind not in _INPUTS:
            raise DTypeError(f"a circuit takes integers or floats, found {kind.value}; pass real numbers.")
        carrier = next(carrier for carrier in self.compiled.carriers if carrier.name == name)
        return self.compiled.score(real, kind, carrier, given)

    def given_leaves(self, names: GivenNames) -> CallParameters:
        """The symbolic tensors of given names, for lowering."""
        return self._givable.leaves(names)

    def _parts(self, x: Tensor, given: GivenTensors) -> Sequence[tuple[Tensor, GivenTensors]]:
        """Rows on the CPU that are computed together; all of them where gradients are enabled."""
        if len(x) <= _LEAST_ROWS or torch.is_grad_enabled() or self._holds:
            return ((x, given),)
        rows = max(_LEAST_ROWS, _PART // (self._widest * self._real.itemsize))
        count = -(-len(x) // rows)
        return split_rows(x, given, -(-len(x) // count)) if count > 1 else ((x, given),)

    def _carrier(self, names: GivenNames, *, some_zero: bool = True) -> Semiring:
        """The number format of a call: the semiring, or the one with the derivatives at learned weights that are 0.

        Args:
            names: The leaves that the call gives values to.
            some_zero: Whether a weight is 0, or may be 0 unseen.
        """
        at_zeros = self._semiring.at_zeros
        if at_zeros is None or not (some_zero and torch.is_grad_enabled() and self._may_have_zeros(names)):
            return self._semiring
        return at_zeros

    @constant_result
    def _may_have_zeros(self, names: GivenNames) -> bool:
        """Whether a learned weight may be 0, and not by underflow alone."""
        return self._weight_check(names).may_have_zeros

    def _score(self, semiring: Semiring, x: Tensor, watch: Watch | None, given: GivenTensors) -> Tensor:
        """The result of the Program of `semiring`; of scaled numbers wherever their error bound allows it."""
        exact = partial(self._exact, semiring, watch=watch)
        if not semiring.faster or self._holds or is_abstract(x):
            return exact(x, given=given)
        for stage in self.stages(semiring, x, of_weights=watch is not None and not given.names):
            if stage.bound is Bound.OF_WEIGHTS:
                assert watch is not None, "its weights are constant"
                ready = self._bounded(stage.semiring, x, watch)
                if ready is not None:
                    return ready.first(x)
            elif stage.bound is Bound.OF_ROWS:
                result, holds = self._run(stage.semiring, x, watch=watch, given=given)
                if is_abstract(holds):
                    break
                rows = rows_without(holds)
                if len(rows) and not bool((result.detach()[rows] < torch.inf).all()):
                    break  # what has overflowed, or is NaN, would send NaN to the gradients of all rows
                return computed_again([result], [0], rows, lambda rows: [exact(x[rows], given=given.rows(rows))])[0]
        return exact(x, given=given)

    def stages(
        self, semiring: Semiring, x: Tensor, rows: int | None = None, *, of_weights: bool = False
    ) -> Sequence[Stage]:
        """The number formats in which rows are computed, one after another: `CompiledCircuit.stages` says more."""
        smallest, count = torch.finfo(self._real.dtype).tiny, len(x) if rows is None else rows
        return self.compiled.stages(semiring, count, x.device.type, smallest, of_weights=of_weights)

    def _bounded(self, carrier: Semiring, x: Tensor, watch: Watch) -> Ready | None:
        """A Program whose error bound holds for all rows by the constant weights; None if it fails."""
        dtypes = x.dtype, self._real.dtype  # the watched tensors have the dtypes that they had
        verdict = self._verdicts.get(dtypes)
        if verdict is None or verdict.watch() is not watch:
            verdict = self._verdicts[dtypes] = self._verdict((carrier.name, x.dtype, self.dtype, ()), x[:0], watch)
        if verdict.ready is None:
            return None
        return verdict.ready() or self.constants.of(verdict.key, partial(self._lower, verdict.key), self.leaves, watch)

    def _verdict(self, key: Key, no_rows: Tensor, watch: Watch) -> _Verdict:
        """Compute the bound of the Program of a key, whose second result is that of the weights."""
        lowered, fails = self._lower(key), _Verdict(ref(watch), key, None)
        if lowered.program.results[1].type.shape != (1,):
            return fails  # bounds that follow the rows: another number format has tighter ones
        self._keep_constants(lowered)
        ready = self.constants.of(key, lambda: lowered, self.leaves, watch)
        if 1 not in ready.constant:
            return fails  # each call would compute the bound, as the policy has no room for it
        return fails._replace(ready=ref(ready)) if bool(ready(no_rows)[1]) else fails

    def _exact(self, semiring: Semiring, *x: Tensor, watch: Watch | None, given: GivenTensors) -> Tensor:
        """The result of the Program of `semiring`, which is right for all rows."""
        result: Tensor = self._run(semiring, *x, watch=watch, given=given)
        return result

    def _run(
        self, semiring: Semiring, *x: Tensor, watch: Watch | None = None, given: GivenTensors = NOTHING_GIVEN
    ) -> Any:
        """The results of the Program of `semiring`."""
        key = (semiring.name, x[0].dtype if x else self.dtype, self.dtype, given.names)
        return self._call(key, watch, (*given.tensors, *x))

    def _check_weights(self, watch: Watch | None, given: GivenTensors) -> bool:
        """Refuse negative weights; whether one that may be 0 is, where gradients are asked for."""
        if given.num_rows == 0:  # of no numbers none is the least
            return False
        return self._weight_check(given.names).check(self.leaves, watch, given.tensors)

    def _weight_check(self, names: GivenNames) -> WeightCheck:
        """The check of weights for calls that give values to some leaves."""
        check = self._weights.get(names)
        if check is None:
            lowered = self._lower((self._semiring.name, self.usual_input(), self.dtype, names))
            given = self.given_leaves(names)
            check = WeightCheck(self.folded, self._semiring, lowered.weights, given, lowered.zeros)
            self._weights[names] = check
        return check
