"""`ScoringModule`: rows of data scored by the Programs of a circuit, in the number formats of its cascade."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple
from weakref import ReferenceType, ref

import torch
from torch import Tensor

from plica.backend.torch.cascade import computed_again, rows_without
from plica.backend.torch.constants import CircuitConstants, Ready
from plica.backend.torch.data import DataCheck
from plica.backend.torch.garbage import without_collection
from plica.backend.torch.given import NOTHING_GIVEN, Givable, GivenNames, GivenTensors
from plica.backend.torch.logs import is_abstract
from plica.backend.torch.program_module import ProgramModule
from plica.backend.torch.reals import real_dtype
from plica.backend.torch.sources import constant_result
from plica.backend.torch.watch import Watch
from plica.backend.torch.weights import WeightCheck
from plica.errors import DTypeError
from plica.ir.dtypes import as_dtype
from plica.logger import LOGGER
from plica.lower.arrays import InitializerRows
from plica.lower.call_parameters import CallParameters
from plica.lower.compiled import CompiledCircuit
from plica.lower.data import input_width
from plica.lower.fold.groups import FoldedCircuit
from plica.lower.queries.score import Lowered
from plica.symbolic.circuit import Circuit
from plica.symbolic.parameters import TensorParameter
from plica.symbolic.semirings import Bound, Semiring, Stage

Key = tuple[str, torch.dtype, torch.dtype, GivenNames, bool]
"""Semiring, data, parameters, which of them are given, and whether no variable is missing."""
_PART = 2**24
"""Bytes of the widest activation of a batch that is computed as one: arrays that are larger fit no cache, and get their
memory anew from the system at each call."""
_LEAST_ROWS = 16  # of a part: fewer would read the weights too often
_INPUTS = ("bool", "int", "float")


class Batch(NamedTuple):
    """Rows that are computed together.

    Args:
        x: `(B, D)`; None of circuits without variables.
        given: The parameters of the call.
        complete: Whether no variable is missing in any row.
    """

    x: Tensor | None = None
    given: GivenTensors = NOTHING_GIVEN
    complete: bool = False

    @property
    def arguments(self) -> tuple[Tensor, ...]:
        """The arguments of a Program that scores them."""
        return self.given.tensors if self.x is None else (*self.given.tensors, self.x)

    def rows(self, index: Tensor | slice, *, complete: bool | None = None) -> Batch:
        """Those of some rows."""
        assert self.x is not None, "it has rows"
        return Batch(self.x[index], self.given.rows(index), self.complete if complete is None else complete)


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
        # by dtypes of data and of `_real`, and whether no variable is missing
        self._verdicts: dict[tuple[torch.dtype, torch.dtype, bool], _Verdict] = {}
        # Modules of a user's own see all rows of a call together, and once: some compute with statistics of them
        self._holds = bool(compiled.opaque)
        self._columns = _columns_read(compiled)

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
        return self._key(self._semiring, self.usual_input(), self._givable.usual)

    def _key(
        self, semiring: Semiring, data: torch.dtype, names: GivenNames = (), *, complete: bool | None = None
    ) -> Key:
        """The key of a Program; `complete` is as of `CompiledCircuit.score`."""
        known = not data.is_floating_point if complete is None else complete
        return semiring.name, data, self.dtype, names, known and self.folded.complete is not None

    def usual_input(self) -> torch.dtype:
        """The dtype of data that `program` is for."""
        return torch.int64 if self._data.has_states else self.dtype

    def lowered(self, input_dtype: torch.dtype) -> Lowered:
        """The Program for data of one dtype, made once, with the leaf or constant of each variable that it captures."""
        return self._lower(self._key(self._semiring, input_dtype, self._givable.usual))

    def prepared(self, input_dtype: torch.dtype) -> Lowered:
        """`lowered`, with its constants among the leaves."""
        key = self._key(self._semiring, input_dtype)
        self._specialize(key)
        return self._lower(key)

    @without_collection()
    def _lower(self, key: Key) -> Lowered:
        name, data, parameters, names, complete = key
        kind, real, given = as_dtype(data), real_dtype(parameters), self.given_leaves(names)
        if kind.kind not in _INPUTS:
            raise DTypeError(f"a circuit takes integers or floats, found {kind.value}; pass real numbers.")
        carrier = next(carrier for carrier in self.compiled.carriers if carrier.name == name)
        return self.compiled.score(real, kind, carrier, given, complete=complete)

    def given_leaves(self, names: GivenNames) -> CallParameters:
        """The symbolic tensors of given names, for lowering."""
        return self._givable.leaves(names)

    def _parts(self, batch: Batch) -> Sequence[Batch]:
        """Rows that are computed together: on the CPU in parts, but all of them where gradients are enabled."""
        x = batch.x
        assert x is not None, "it has rows"
        if len(x) <= _LEAST_ROWS or torch.is_grad_enabled() or self._holds or self.leaves.is_sharded:
            return (batch,)
        if not x.is_cpu or batch.given.is_abstract or is_abstract(x):
            return (batch,)
        widest = self.compiled.work_of(complete=batch.complete).widest
        rows = max(_LEAST_ROWS, _PART // (widest * self._real.itemsize))
        count = -(-len(x) // rows)
        size = -(-len(x) // count)
        return [batch.rows(slice(start, start + size)) for start in range(0, len(x), size)] if count > 1 else (batch,)

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
        """The values of rows."""
        batch = Batch(x, given)

        def of_rows(rows: Tensor | None, complete: bool) -> Tensor:
            chosen = batch._replace(complete=complete) if rows is None else batch.rows(rows, complete=complete)
            results = [self._of_part(semiring, part, watch) for part in self._parts(chosen)]
            return results[0] if len(results) == 1 else torch.cat(results)

        return self.by_completeness(x, of_rows)

    def by_completeness(self, x: Tensor, of_rows: Callable[[Tensor | None, bool], Tensor]) -> Tensor:
        """The results for rows; those of products of circuits are computed otherwise where no variable is missing.

        For floats of such circuits this waits for the device.

        Args:
            x: `(B, D)`.
            of_rows: Gives the results of rows of these numbers, or of all; true: no variable is missing in them.
        """
        if self.folded.complete is None or (x.is_floating_point() and not _may_look(x)) or self.leaves.is_sharded:
            return of_rows(None, False)
        if not x.is_floating_point():
            return of_rows(None, True)
        lacking = rows_without(self._have_all(x))
        if len(lacking) == len(x) > 0 or (self._holds and len(lacking)):
            return of_rows(None, False)
        return computed_again([of_rows(None, True)], [0], lacking, lambda rows: [of_rows(rows, False)])[0]

    def _have_all(self, x: Tensor) -> Tensor:
        """Whether no variable is missing, for each row of floats: `(B,)`."""
        read = x if self._columns is None else x[:, self._columns]
        return read.isnan().any(dim=1).logical_not()

    def _of_part(self, semiring: Semiring, batch: Batch, watch: Watch | None) -> Tensor:
        """The result of the Program of `semiring`; of scaled numbers wherever their error bound allows it."""
        x = batch.x
        assert x is not None, "it has rows"
        if not semiring.faster or self._holds or is_abstract(x) or self.leaves.is_sharded:
            return self._exact(semiring, batch, watch)  # of divided leaves all processes run the same Programs
        of_weights = watch is not None and not batch.given.names
        for stage in self.stages(semiring, x, of_weights=of_weights, complete=batch.complete):
            if stage.bound is Bound.OF_WEIGHTS:
                assert watch is not None, "its weights are constant"
                ready = self._bounded(stage.semiring, batch, watch)
                if ready is not None:
                    return ready.first(x)
            elif stage.bound is Bound.OF_ROWS:
                result, holds = self._run(stage.semiring, batch, watch)
                if is_abstract(holds):
                    break
                rows = rows_without(holds)
                if len(rows) and not bool((_sizes(result.detach()[rows]) < torch.inf).all()):
                    break  # what has overflowed, or is NaN, would send NaN to the gradients of all rows
                if len(rows):
                    LOGGER.debug("the bound of %d of %d rows fails; %s computes them", len(rows), len(x), semiring.name)
                return computed_again(
                    [result], [0], rows, lambda rows: [self._exact(semiring, batch.rows(rows), watch)]
                )[0]
        return self._exact(semiring, batch, watch)

    def _of_no_data(self, semiring: Semiring, watch: Watch | None, given: GivenTensors) -> Tensor:
        """The value of a circuit without variables; of scaled numbers if their error bound allows it."""
        batch = Batch(given=given)
        if not semiring.faster or self._holds or is_abstract(self._real) or given.is_abstract:
            return self._exact(semiring, batch, watch)
        for stage in self.stages(semiring, self._real, 1):
            if stage.bound is Bound.OF_ROWS:
                result, holds = self._run(stage.semiring, batch, watch)
                proven: bool = not is_abstract(holds) and bool(holds.all())
                return result if proven else self._exact(semiring, batch, watch)
        return self._exact(semiring, batch, watch)

    def stages(
        self,
        semiring: Semiring,
        x: Tensor,
        rows: int | None = None,
        *,
        of_weights: bool = False,
        complete: bool = False,
    ) -> Sequence[Stage]:
        """The number formats in which rows are computed, one after another: `CompiledCircuit.stages` says more."""
        smallest, count = torch.finfo(self._real.dtype).tiny, len(x) if rows is None else rows
        device = x.device.type
        return self.compiled.stages(semiring, count, device, smallest, of_weights=of_weights, complete=complete)

    def _bounded(self, carrier: Semiring, batch: Batch, watch: Watch) -> Ready | None:
        """A Program whose error bound holds for all rows by the constant weights; None if it fails."""
        x = batch.x
        assert x is not None, "it has rows"
        kind = x.dtype, self._real.dtype, batch.complete  # the watched tensors have the dtypes that they had
        verdict = self._verdicts.get(kind)
        if verdict is None or verdict.watch() is not watch:
            key = self._key(carrier, x.dtype, complete=batch.complete)
            verdict = self._verdicts[kind] = self._verdict(key, x[:0], watch)
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

    def _exact(self, semiring: Semiring, batch: Batch, watch: Watch | None) -> Tensor:
        """The result of the Program of `semiring`, which is right for all rows."""
        result: Tensor = self._run(semiring, batch, watch)
        return result

    def _run(self, semiring: Semiring, batch: Batch, watch: Watch | None = None) -> Any:
        """The results of the Program of `semiring`."""
        data = self.dtype if batch.x is None else batch.x.dtype
        key = self._key(semiring, data, batch.given.names, complete=batch.complete)
        return self._call(key, watch, batch.arguments)

    def _check_weights(self, watch: Watch | None, given: GivenTensors) -> bool:
        """Refuse negative weights; whether one that may be 0 is, where gradients are asked for."""
        if given.num_rows == 0:  # of no numbers none is the least
            return False
        return self._weight_check(given.names).check(self.leaves, watch, given.tensors)

    def _weight_check(self, names: GivenNames) -> WeightCheck:
        """The check of weights for calls that give values to some leaves."""
        check = self._weights.get(names)
        if check is None:
            lowered = self._lower(self._key(self._semiring, self.usual_input(), names))
            given = self.given_leaves(names)
            check = WeightCheck(lowered.folded, self._semiring, lowered.weights, given, lowered.zeros)
            self._weights[names] = check
        return check


def _may_look(x: Tensor) -> bool:
    """Whether the numbers of a tensor may be looked at: they are known, and no graph of CUDA is being recorded."""
    is_recorded = x.is_cuda and torch.cuda.is_current_stream_capturing()
    return not (is_abstract(x) or is_recorded or x.is_meta)


def _sizes(logs: Tensor) -> Tensor:
    return logs.real if logs.is_complex() else logs


def _columns_read(compiled: CompiledCircuit) -> list[int] | None:
    """The columns of the data that the circuit reads; None where it reads all."""
    columns = list(compiled.folded.scope)
    return None if columns == list(range(input_width(compiled.folded.described))) else columns
