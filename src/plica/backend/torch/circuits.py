"""`TorchCircuit`: a compiled circuit, an `nn.Module` whose forward pass is a generated function."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from copy import copy
from functools import partial
from typing import Any, final
from weakref import ReferenceType, ref

import torch
from torch import Tensor, nn

from plica.arguments import seed as checked_seed
from plica.backend.torch.cascade import computed_again, rows_without
from plica.backend.torch.constants import CircuitConstants, Ready
from plica.backend.torch.data import DataCheck
from plica.backend.torch.emit import emit, source
from plica.backend.torch.explain import explain, explain_layer
from plica.backend.torch.garbage import without_collection
from plica.backend.torch.given import NOTHING_GIVEN, Givable, GivenNames, GivenTensors, split_rows
from plica.backend.torch.leaves import LeafStore, Leaves, initialize
from plica.backend.torch.logs import is_abstract
from plica.backend.torch.reals import real_dtype
from plica.backend.torch.record import record_call
from plica.backend.torch.sources import constant_result
from plica.backend.torch.state import unfold_states
from plica.backend.torch.watch import Watch
from plica.backend.torch.weights import WeightCheck
from plica.constants.report import FoldReport
from plica.errors import DTypeError, InputError
from plica.ir.dtypes import as_dtype
from plica.ir.program import Program
from plica.lower.arrays import CircuitArrays, Drawing
from plica.lower.cascade import Bound, Stage
from plica.lower.compiled import CompiledCircuit
from plica.lower.fold.groups import FoldedCircuit, FoldedLayer
from plica.lower.given import Given
from plica.lower.layer_map import CompiledLayer, LayerMap
from plica.lower.leaves import Constant, Leaf, name_of
from plica.lower.queries.score import Lowered
from plica.single_flight import SingleFlight
from plica.symbolic.circuit import Circuit, StructuralProperties
from plica.symbolic.layers import Layer
from plica.symbolic.scope import Scope
from plica.symbolic.semirings import Semiring
from plica.tracing.tracer import Tracer

Key = tuple[str, torch.dtype, torch.dtype, GivenNames]  # semiring, data, parameters, which of them are given
_PART = 2**24
"""Bytes of the widest activation of a batch that is computed as one: arrays that are larger fit no cache, and get their
memory anew from the system at each call."""
_LEAST_ROWS = 16  # of a part: fewer would read the weights too often
_INPUTS = ("bool", "int", "float")


_Verdict = tuple[Key, ReferenceType[Watch], ReferenceType[Ready], bool]
"""What was asked, of which tensors, what runs, and what it says."""


@final
class TorchCircuit(nn.Module):
    """A compiled circuit with its tensors; made by `TorchCompiler.compile`.

    Args:
        compiled: The circuit as it is computed.
        dtype: The dtype of its real tensors, and of its results.
        drawing: The rows of the context for initializers.
        constants: What is computed from the tensors once, in eval mode.

    Attributes:
        saved_with: What the file that it was loaded from said beside the circuit, and the next one will say.
    """

    def __init__(
        self,
        compiled: CompiledCircuit,
        dtype: torch.dtype,
        drawing: Drawing,
        constants: CircuitConstants | None = None,
    ) -> None:
        super().__init__()
        self.leaves = Leaves()
        self.compiled = compiled
        self._semiring = compiled.semiring
        self.register_buffer("_real", torch.empty(0, dtype=dtype), persistent=False)  # follows .to(device or dtype)
        self._drawing = drawing
        self._data = DataCheck(compiled.folded)
        self._weights: dict[GivenNames, WeightCheck] = {}  # made where the Program is known
        self.saved_with: Mapping[str, Any] = {}
        self._givable = Givable(compiled)
        self._needs = bool(self._givable.needed)
        # Modules of a user's own see all rows of a call together, and once: some compute with statistics of them
        self._holds = bool(compiled.opaque)
        self._widest = max(compiled.activations)
        self._lowered: dict[Key, Lowered] = {}
        self._functions: dict[Key, Callable[..., Any]] = {}  # shared by `with_parameters`
        self._runs: dict[Key, Callable[..., Any]] = {}
        self._flights = SingleFlight()
        self.constants = CircuitConstants() if constants is None else constants
        # By dtypes of data and of what is no leaf: what was asked whether weights prove all rows right, and its answer
        self._verdicts: dict[tuple[torch.dtype, torch.dtype], _Verdict] = {}
        self.queries: dict[Hashable, Any] = {}  # by key, what answers a question: filled by `queries`
        unfold_states(self)

    backend = "torch"  # whose arrays it takes and gives; by it `plica.queries` finds what answers
    _real: Tensor

    @property
    def symbolic(self) -> Circuit:
        """The circuit that was compiled."""
        return self.compiled.symbolic

    @property
    def folded(self) -> FoldedCircuit:
        """The groups of layers that are computed as one."""
        return self.compiled.folded

    @property
    def layer_map(self) -> LayerMap:
        """Where each layer as it was described is computed."""
        return self.compiled.layer_map

    @property
    def semiring(self) -> Semiring:
        """How numbers are carried."""
        return self._semiring

    @property
    def scope(self) -> Scope:
        """The variables."""
        return self.symbolic.scope

    @property
    def num_variables(self) -> int:
        """The number of variables."""
        return len(self.scope)

    @property
    def properties(self) -> StructuralProperties:
        """The structural properties of the circuit."""
        return self.symbolic.properties

    @property
    def layers(self) -> tuple[FoldedLayer, ...]:
        """The layers as compiled."""
        return self.folded.groups

    def topological_ordering(self) -> tuple[FoldedLayer, ...]:
        """The layers as compiled, each after its inputs."""
        return self.folded.groups

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of real tensors."""
        for leaf, tensor in self.leaves.items():
            if leaf.kind.name == "REAL":
                return tensor.dtype
        return self._real.dtype

    @property
    def program(self) -> Program:
        """The Program for data of the usual dtype: int64 if a variable has states, else the circuit's own."""
        return self.lowered(self.usual_input()).program

    @property
    def code(self) -> str:
        """The generated Python of `program`."""
        return source(self.program)

    def forward(self, x: Tensor | None = None, parameters: Mapping[str, Tensor] | None = None) -> Tensor:
        """The circuit's value for each row of data, computed in its own dtype: under autocast too.

        Args:
            x: `(B, D)`, column v is variable v. Integers, or floats where NaN means missing (the variable is summed
                out). Nothing for a circuit without variables.
            parameters: Tensors that stand for leaves in this call alone, by the keys of the state dict: of the shape
                of the leaf, or `(B, *shape)` with numbers for each row.

        Shapes: (B, outputs, units).
        Values: In the semiring: logarithms under `lse-sum`, ordinary numbers under `sum-product`.

        Raises:
            InputError: The width is wrong or, on the CPU, an entry is no category of its variable. On other devices
                such a row is NaN (see `check`). Or `parameters` are none of the circuit's, or of other shapes.
            UnsupportedError: On the CPU, a weight is negative and the semiring carries no such numbers. On other
                devices the logarithm of one that is given is NaN.
        """
        if isinstance(x, Tracer):
            return record_call(self, x, parameters)
        if self.leaves.is_autocast:  # what weights prove holds in the circuit's own dtype
            with torch.autocast(self.leaves.device.type, enabled=False):
                return self.forward(x, parameters)
        given = NOTHING_GIVEN if parameters is None and not self._needs else self.take_parameters(parameters)
        if x is None or self._data.width == 0:
            return self._constant(x, given)
        x = self.taken(x)
        unknown = is_abstract(x)
        if given.names:
            given.check_rows(len(x))
            unknown = unknown or given.is_abstract
        watch = None if unknown else self.constants.watching(self.leaves, training=self.training)
        if not x.is_cpu or unknown:
            return self._score(self._carrier(given.names), x, watch, given)
        semiring = self._carrier(given.names, some_zero=self._check_weights(watch, given))
        parts = [self._score(semiring, part, watch, some) for part, some in self._parts(x, given)]
        result = parts[0] if len(parts) == 1 else torch.cat(parts)
        # A row with an entry that is no state is NaN: looking at the small result costs less than looking at the data.
        if (watch is not None or not is_abstract(result)) and _may_have_nan(result.detach()):
            self.readable(x)
        return result

    def arrays(self) -> CircuitArrays:
        """The circuit with its tensors as they are now, in whose memory the arrays may lie."""
        leaves = [(leaf, tensor.detach().cpu().numpy()) for leaf, tensor in self.leaves.items()]
        return CircuitArrays(self.compiled, leaves, as_dtype(self.dtype))

    def take_parameters(self, parameters: Mapping[str, Tensor] | None) -> GivenTensors:
        """What a call gives for leaves, checked: for this circuit's Programs and for those of its queries.

        Raises:
            InputError: There is no such leaf, one without a value of its own is not given, tensors are for different
                numbers of rows, or one is on another device.
            ShapeError: A tensor has another shape than its leaf.
            DTypeError: A tensor has numbers of another kind, or of more digits than the circuit.
        """
        return self._givable.take({} if parameters is None else parameters, self.dtype, self.leaves.device)

    def with_parameters(self, parameters: Mapping[str, Tensor]) -> TorchCircuit:
        """The circuit with tensors in place of some of its leaves, one set for all rows: what queries are asked of.

        It shares Programs, modules and all other tensors with this one, and gradients reach what is given. It is for
        questions, and not to be trained, moved or saved itself. What is given is taken as it is now, and so are the
        tensors of layers that are computed with it: make another where one of them has changed.

        Args:
            parameters: Tensors by the keys of the state dict, of the shapes of their leaves.

        Raises:
            InputError: As for calls, or a tensor has sets of numbers for each row.
        """
        given = self.take_parameters(parameters)
        by_row = [name for name, is_by_row in given.names if is_by_row]
        if by_row:
            raise InputError(
                f"parameters[{by_row[0]!r}] has a set of numbers for each row, and with_parameters takes one set for "
                "all rows; ask for each row on its own, or give them in a call: circuit(x, parameters=...)."
            )
        alone = {name_of(self.compiled.keys[tensor]): leaf for tensor, leaf in self.compiled.leaves_alone.items()}
        other = copy(self)
        leaves = self.leaves.with_folds(self._givable.folds(given), alone)
        other._modules = {**self._modules, "leaves": leaves}
        other._givable, other._needs = self._givable.with_all(), False
        other._functions, other.queries = self._functions, self.queries
        other.constants = copy(self.constants)
        return other

    def given_leaves(self, names: GivenNames) -> Given:
        """The symbolic tensors behind the names of what is given, for lowering."""
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
            some_zero: Whether a weight is 0, or may be where nobody may look at it.
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
        if semiring.attempt is None or self._holds or is_abstract(x):
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
        """What computes numbers that constant weights prove right for all rows; None where they do not."""
        kind = x.dtype, self._real.dtype  # beside which the tensors, which are watched, have the dtypes that they had
        seen = self._verdicts.get(kind)
        if seen is not None and seen[1]() is watch:
            key, _, before, is_proven = seen
            return (before() or self.constants.of(key, self._lowered[key], self.leaves, watch)) if is_proven else None
        key = (carrier.name, x.dtype, self.dtype, ())
        if key not in self._lowered:
            self._keep_constants(self._lower(key))
        if self._lowered[key].program.results[1].type.shape != (1,):
            return None  # bounds that follow the rows: another carrier has tighter ones
        ready = self.constants.of(key, self._lowered[key], self.leaves, watch)
        if 1 not in ready.constant:
            return None  # what is proven is computed at each call, as the policy has no room for it
        is_proven = bool(ready(x[:0])[1])
        self._verdicts[kind] = key, ref(watch), ref(ready), is_proven
        return ready if is_proven else None

    def _exact(self, semiring: Semiring, *x: Tensor, watch: Watch | None, given: GivenTensors) -> Tensor:
        """The result of the Program of `semiring`, which is right for all rows."""
        result: Tensor = self._run(semiring, *x, watch=watch, given=given)
        return result

    def _run(
        self, semiring: Semiring, *x: Tensor, watch: Watch | None = None, given: GivenTensors = NOTHING_GIVEN
    ) -> Any:
        key = (semiring.name, x[0].dtype if x else self.dtype, self.dtype, given.names)
        self._specialize(key)
        if watch is None:
            return self._runs[key](self.leaves, *given.tensors, *x)
        return self.constants.of(key, self._lowered[key], self.leaves, watch)(*given.tensors, *x)

    def check(self, x: Tensor, parameters: Mapping[str, Tensor] | None = None) -> None:
        """Raise where `x` does not fit the circuit, on any device (this waits for the device).

        Args:
            x: `(B, D)`.
            parameters: Tensors that stand for leaves, as in `forward`.

        Raises:
            InputError: The width is wrong or an entry is no category of its variable; the first one is named.
            UnsupportedError: A learned weight has become negative, and the semiring carries no such numbers.
        """
        x = self.readable(x)
        given = self.take_parameters(parameters)
        given.check_rows(len(x))
        self._check_weights(None, given)

    def taken(self, x: Tensor) -> Tensor:
        """`x` in a dtype that Programs have, of a shape that fits the circuit."""
        x = self._data.take(x)
        if x.is_meta and self.leaves.device.type != "meta":
            raise InputError(
                f"the data is on the meta device, where tensors have no numbers, and the circuit on "
                f"{self.leaves.device}; give the numbers, or move the circuit too: circuit.to('meta')."
            )
        return x

    def readable(self, x: Tensor, semiring: Semiring | None = None) -> Tensor:
        """`x` in a dtype that Programs have; raises as `check` does, of what computes in `semiring` (else its own)."""
        x = self.taken(x)
        self._data.check(x, self.dtype, semiring or self._semiring)
        return x

    def reset_parameters(self, seed: int | None = None) -> None:
        """Fill every tensor anew from its initializer.

        Args:
            seed: Draws depend on it alone; by default it is drawn from torch's global generator, so that
                `torch.manual_seed` decides.
        """
        self._fill(self.leaves.items(), None if seed is None else checked_seed("reset_parameters", seed))

    def _fill(self, leaves: Iterable[tuple[Leaf, Tensor]], seed: int | None = None) -> None:
        numbers = {tensor: number for number, tensor in enumerate(self.compiled.keys)}
        drawn = int(torch.randint(2**62, (), device="cpu")) if seed is None else seed
        initialize(leaves, numbers, drawn, self._drawing)

    def adopt(self, lowered: Lowered, store: LeafStore) -> None:
        """Take the leaves of the first Program: those in `store` as they are, new ones filled and added there."""
        for key, held in self.compiled.opaque.items():
            if not isinstance(held, nn.Module):
                raise DTypeError(f"{key}: a ModuleLayer runs a torch.nn.Module here, found {type(held).__name__}.")
            self.leaves.hold(name_of(key), key, held)
        self._fill(self.leaves.adopt(lowered.program, lowered.captured, store, self.compiled.keys, self.dtype))

    def get_compiled_layers(self, layer: Layer) -> tuple[CompiledLayer, ...]:
        """Where a layer of the circuit as it was described is computed: `LayerMap.get_compiled_layers` says more."""
        return self.layer_map.get_compiled_layers(layer)

    def get_symbolic_layers(self, group: int, fold: int) -> dict[Layer, tuple[str, ...]]:
        """The layers as they were described that one fold of a group computes, each with its roles in it."""
        return self.layer_map.get_symbolic_layers(group, fold)

    def explain(self, layer: Layer | None = None) -> str:
        """What the compiler did: groups of layers, rules applied, sizes; or what became of one layer.

        Args:
            layer: A layer of the circuit as it was described, which is followed through every stage.
        """
        return explain(self) if layer is None else explain_layer(self, layer)

    def constant_report(self) -> FoldReport:
        """What becomes of each value of `program` that depends on tensors alone, in eval mode, and why."""
        key = (self._semiring.name, self.usual_input(), self.dtype, self._givable.usual)
        return self.constants.report(key, self.program)

    def extra_repr(self) -> str:
        """One line for `print(circuit)`."""
        return f"{self.symbolic!r}, semiring={self._semiring.name}"

    def __getstate__(self) -> dict[str, Any]:
        return {
            **self.__dict__,
            "_lowered": {},
            "_runs": {},
            "_functions": {},
            "_weights": {},
            "queries": {},
            "_verdicts": {},
        }  # generated functions are made again where they are needed

    def usual_input(self) -> torch.dtype:
        """The dtype of data that `program` is for."""
        return torch.int64 if self._data.has_states else self.dtype

    def lowered(self, input_dtype: torch.dtype) -> Lowered:
        """The Program for data of one dtype, made once, with what stands behind its captured variables."""
        return self._lower((self._semiring.name, input_dtype, self.dtype, self._givable.usual))

    def prepared(self, input_dtype: torch.dtype) -> Lowered:
        """`lowered`, with its constants among the leaves."""
        key = (self._semiring.name, input_dtype, self.dtype, ())
        self._specialize(key)
        return self._lower(key)

    def _lower(self, key: Key) -> Lowered:
        found = self._lowered.get(key)
        if found is None:
            self._lowered[key] = found = self._score_program(key)
        return found

    @without_collection()
    def _score_program(self, key: Key) -> Lowered:
        name, kind, real, given = key[0], as_dtype(key[1]), real_dtype(key[2]), self.given_leaves(key[3])
        if kind.kind not in _INPUTS:
            raise DTypeError(f"a circuit takes integers or floats, found {kind.value}; take real numbers.")
        carrier = next(one for one in self.compiled.carriers if one.name == name)
        return self.compiled.score(real, kind, carrier, given)

    @constant_result
    def _specialize(self, key: Key) -> None:
        """Make the function of one semiring, dtype of data and dtype of parameters; no work after the first call."""
        if key not in self._runs:
            self._flights.once(("run", key), partial(self._add_run, key))

    def _add_run(self, key: Key) -> None:
        if key in self._runs:
            return
        lowered = self._lower(key)
        self._keep_constants(lowered)
        if key not in self._functions:
            self._functions[key] = emit(lowered.program, reuses=True)
        self._runs[key] = self._functions[key]

    def _keep_constants(self, lowered: Lowered) -> None:
        """Put the arrays that a Program captures, and that nobody changes, among the leaves."""
        for var, captured in zip(lowered.program.consts, lowered.captured, strict=True):
            if isinstance(captured, Constant):
                self.leaves.keep(var.name, captured)

    def _constant(self, x: Tensor | None, given: GivenTensors) -> Tensor:
        if x is not None:
            raise InputError("the circuit has no variables left; call it without an argument.")
        if self._data.width:
            raise InputError(
                f"the circuit has {self.num_variables} variables; call it with data of shape (B, {self._data.width})."
            )
        unknown = given.is_abstract or is_abstract(self._real)
        watch = None if unknown else self.constants.watching(self.leaves, training=self.training)
        some_zero = not self._real.is_cpu or unknown or self._check_weights(watch, given)
        result = self._exact(self._carrier(given.names, some_zero=some_zero), watch=watch, given=given)
        rows = given.num_rows  # of leaves that no output depends on, maybe
        return result if rows is None else result.expand(rows, *result.shape[1:]).contiguous()

    def _check_weights(self, watch: Watch | None, given: GivenTensors) -> bool:
        """Refuse negative weights; whether one that may be 0 is, where gradients are asked for."""
        if given.num_rows == 0:  # of no numbers none is the least
            return False
        return self._weight_check(given.names).check(self.leaves, watch, given.tensors)

    def _weight_check(self, names: GivenNames) -> WeightCheck:
        """What looks at the weights of calls that give values to some leaves."""
        check = self._weights.get(names)
        if check is None:
            lowered = self._lower((self._semiring.name, self.usual_input(), self.dtype, names))
            given = self.given_leaves(names)
            check = WeightCheck(self.folded, self._semiring, lowered.weights, given, lowered.zeros)
            self._weights[names] = check
        return check


def _may_have_nan(x: Tensor) -> bool:
    """Whether a number is NaN; maybe also where infinities of both signs are there."""
    total = (x if x.numel() == 1 else x.sum()).item()
    return bool(total != total)
