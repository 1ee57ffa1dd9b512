"""`CompiledCircuit`: a circuit resolved, optimized and folded, which every backend computes and every file holds.

>>> from plica.symbolic.layers import CategoricalLayer
>>> layers = [CategoricalLayer([variable], 2, num_categories=3) for variable in (0, 1)]
>>> compiled = CircuitCompiler().compile(Circuit(layers, {}, layers))
>>> compiled.folded.groups
(2 x CategoricalLayer(scope={0}, 2),)
>>> list(compiled.keys.values())
['0.logits', '1.logits']
>>> print(compiled.score(DType.FLOAT32, compiled.usual_input(DType.FLOAT32)).program.results[0].type)
f32[b,2,2]
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias, final

from plica.arguments import flag
from plica.errors import DTypeError, UnsupportedError
from plica.forks import cached_property
from plica.graph.limits import MAX_STEPS, warn_of_limit
from plica.graph.strategy import OptMatchStrategy, Strategy
from plica.ir.dtypes import DType
from plica.lower.cascade import Bound, Stage, cascade
from plica.lower.checks import check_semiring
from plica.lower.data import samples_dtype
from plica.lower.fold.groups import FoldedCircuit, fold_circuit, single_groups
from plica.lower.given import Given
from plica.lower.layer_map import LayerMap
from plica.lower.leaves import Leaf, Owners, leaf_keys, opaque_keys, owners_of
from plica.lower.optimize import (
    DEFAULT_RULES,
    Optimized,
    Provenance,
    Report,
    RuleContext,
    Rules,
    check_rules,
    optimize_circuit,
)
from plica.lower.queries.query import Query
from plica.lower.queries.score import Lowered, lower_score
from plica.lower.queries.table import QUERIES
from plica.lower.registry import CompilationRules
from plica.lower.resolve import Resolver
from plica.single_flight import SingleFlight
from plica.symbolic.circuit import Circuit
from plica.symbolic.parameters import TensorParameter
from plica.symbolic.semirings import LSE_SUM, Semiring

Key: TypeAlias = tuple[str, DType, DType, tuple[tuple[str, bool], ...]]
"""A Program that scores: the name of the number format, the dtypes of parameters and data, and the leaves given."""


@final
class CompiledCircuit:
    """A circuit as it is computed, whatever computes it; immutable, but for the Programs that it remembers.

    Args:
        folded: The groups of layers that are computed as one.
        semiring: How its numbers are carried.
        layer_map: Where each layer as it was described is computed.
        report: What optimizing did, if it was asked for.
        owners: The leaves that exist already, of circuits with which it shares tensors.
        queries: The queries of its context that stand in front of Plica's, by name.
    """

    def __init__(
        self,
        folded: FoldedCircuit,
        semiring: Semiring,
        layer_map: LayerMap,
        report: Report | None = None,
        owners: Owners | None = None,
        queries: Mapping[str, Query[Any]] | None = None,
    ) -> None:
        self.folded = folded
        self.semiring = semiring
        self.layer_map = layer_map
        self.report = report
        self._queries = queries or {}
        self._owners: Owners = owners or {}
        self._programs: dict[Key, Lowered] = {}
        self._flights = SingleFlight()

    def __deepcopy__(self, memo: dict[int, Any]) -> "CompiledCircuit":
        """Itself: it has no numbers."""
        return self

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_programs": {}}  # they are made again

    @property
    def symbolic(self) -> Circuit:
        """The circuit as it was described."""
        return self.layer_map.circuit

    @property
    def keys(self) -> Mapping[TensorParameter, str]:
        """The name of each tensor, by which state dicts and files know it."""
        return leaf_keys(self.folded.described)

    @property
    def opaque(self) -> Mapping[str, Any]:
        """What layers hold of a backend, modules for instance, by keys such as `3.module`."""
        return opaque_keys(self.folded.described)

    @cached_property
    def activations(self) -> tuple[int, ...]:
        """The numbers that each group computes for one row of data."""
        return tuple(group.num_folds * group.representative.num_output_units for group in self.folded.groups)

    @cached_property
    def num_activations(self) -> int:
        """The numbers that all groups compute for one row of data."""
        return sum(self.activations)

    @cached_property
    def depth(self) -> int:
        """The most sums on a way from an output to an input."""
        return self.folded.depth()

    @property
    def queries(self) -> Mapping[str, Query[Any]]:
        """The queries that it answers, by name: those of its context, and Plica's."""
        return {**QUERIES, **self._queries}

    def query(self, name: str) -> Query[Any]:
        """One of `queries`.

        Raises:
            UnsupportedError: There is none of this name.
        """
        query = self._queries.get(name) or QUERIES.get(name)
        if query is None:
            raise UnsupportedError(
                f"there is no query {name!r}; there are {', '.join(self.queries)}. Add your own to the context before "
                "the circuit is compiled: context.add_query_rule(Query(...))."
            )
        return query

    def usual_input(self, dtype: DType) -> DType:
        """The dtype of rows that have a value of every variable, beside real parameters of `dtype`."""
        return samples_dtype(self.folded.described, dtype)

    @property
    def carriers(self) -> tuple[Semiring, ...]:
        """The number formats in which scores may be computed: all of its cascade, and the one at zeros."""
        at_zeros = self.semiring.at_zeros
        others = () if at_zeros is None else (at_zeros,)
        return (*others, *(stage.semiring for stage in cascade(self.semiring)))

    def stages(
        self, semiring: Semiring, rows: int, device: str, smallest: float, *, of_weights: bool = False
    ) -> tuple[Stage, ...]:
        """The stages of a cascade that are worth trying for some rows; the last one is right for all.

        Args:
            semiring: The number format of the last one.
            rows: How many rows are computed.
            device: The kind of device.
            smallest: The smallest normal number of the dtype of the parameters.
            of_weights: Whether weights are constant, so that bounds of theirs are computed once.
        """
        stages, attempt = cascade(semiring), semiring.attempt
        if attempt is None:
            return stages
        if device not in attempt.devices:
            return stages[-1:]
        work, is_shallow = rows * self.num_activations, self.depth <= attempt.deepest(smallest)
        tried = {Bound.OF_WEIGHTS: of_weights, Bound.OF_ROWS: is_shallow, Bound.NONE: True}
        return tuple(stage for stage in stages if tried[stage.bound] and stage.pays(work))

    @cached_property
    def leaves_alone(self) -> Mapping[TensorParameter, Leaf]:
        """The tensors without a value of their own, which calls give, each as a leaf of one fold."""
        return {tensor: Leaf((tensor,)) for tensor in self.keys if tensor.initializer is None}

    def score(
        self, dtype: DType, input_dtype: DType, semiring: Semiring | None = None, given: Given | None = None
    ) -> Lowered:
        """The Program of the circuit's value for each row of data, made once: `lower_score` says more.

        Args:
            dtype: The dtype of its real parameters.
            input_dtype: The dtype of the data; in floats NaN means missing.
            semiring: One of `carriers`; by default its own.
            given: The leaves that the call gives; by default those without a value of their own.
        """
        carrier = semiring or self.semiring
        leaves = dict.fromkeys(self.leaves_alone, False) if given is None else given
        names = tuple((self.keys[leaf], by_row) for leaf, by_row in leaves.items())
        key = (carrier.name, dtype, input_dtype, names)
        while key not in self._programs:
            self._flights.once(key, partial(self._add, key, carrier, leaves))
        return self._programs[key]

    def _add(self, key: Key, carrier: Semiring, given: Given) -> None:
        if key not in self._programs:
            owners = {**self._owners, **self.leaves_alone}
            lowered = lower_score(self.folded, carrier, key[1], key[2], owners, given)
            self._owners = {**owners_of(lowered.captured), **self._owners}
            self._programs[key] = lowered


@final
class CircuitCompiler:
    """Resolves, optimizes and folds circuits by one set of rules.

    Args:
        semiring: A name or a row.
        fold: Compute alike layers as one.
        optimize: Rewrite circuits and parameters first.
        rules: The four tables of rewrites.
        strategy: Which of the matches of rules that overlap is applied.
        max_steps: How many times to go through the tables at most, and over a Program.
        compilation_rules: How layers and parameters are compiled; Plica's own rules by default.

    Raises:
        UnsupportedError: There is no such semiring.
        DTypeError: `rules` are no tables, `strategy` is no function, or `max_steps` no number of steps.
    """

    def __init__(
        self,
        semiring: str | Semiring = LSE_SUM,
        fold: bool = True,
        optimize: bool = True,
        *,
        rules: Rules = DEFAULT_RULES,
        strategy: Strategy = OptMatchStrategy.LARGEST_MATCH,
        max_steps: int = MAX_STEPS,
        compilation_rules: CompilationRules | None = None,
    ) -> None:
        self.semiring = semiring if isinstance(semiring, Semiring) else Semiring.from_name(semiring)
        self.fold = flag("a compiler", "fold", fold)
        self.optimize = flag("a compiler", "optimize", optimize)
        _check_how(rules, strategy, max_steps)
        self.rules, self.strategy, self.max_steps = rules, strategy, max_steps
        self.compilation_rules = compilation_rules or CompilationRules()
        self.resolver = Resolver(self.compilation_rules.parameters.find)

    def compile(
        self,
        circuit: Circuit,
        dtype: DType = DType.FLOAT32,
        device: str = "cpu",
        owners: Owners | None = None,
        resolved: Circuit | None = None,
    ) -> CompiledCircuit:
        """The circuit as it is computed.

        Args:
            circuit: The circuit.
            dtype: The dtype of its real parameters, which rules may look at.
            device: Where its tensors will lie, likewise.
            owners: The leaves that exist already.
            resolved: What `resolver` makes of the circuit, where that is known.

        Raises:
            UnsupportedError: The semiring cannot carry the circuit's numbers.
            StructuralPropertyError: Missing data is asked for and the circuit cannot sum it out.
        """
        resolved = self.resolver.circuit(circuit) if resolved is None else resolved
        rows = self.compilation_rules.layers.own
        check_semiring(resolved, self.semiring, rows)
        optimized = self._optimized(resolved, self.context(dtype, device)) if self.optimize else None
        computed = resolved if optimized is None else optimized.circuit
        folded = (fold_circuit if self.fold else single_groups)(computed, resolved, rows)
        queries = self.compilation_rules.queries.own
        if optimized is None:
            layer_map = LayerMap(circuit, folded, Provenance())
            return CompiledCircuit(folded, self.semiring, layer_map, None, owners, queries)
        folded = replace(folded, rewriting=optimized.rewriting)
        layer_map = LayerMap(circuit, folded, optimized.provenance)
        return CompiledCircuit(folded, self.semiring, layer_map, optimized.report, owners, queries)

    def context(self, dtype: DType, device: str) -> RuleContext:
        """What rules may know of what they rewrite."""
        return RuleContext(self.semiring, dtype, device)

    def _optimized(self, circuit: Circuit, context: RuleContext) -> Optimized:
        """The circuit after the rules; where a limit ended them the user is told which still fired."""
        optimized = optimize_circuit(
            circuit,
            self.rules,
            self.max_steps,
            context=context,
            strategy=self.strategy,
            overridden=self.compilation_rules.overridden_layers,
        )
        if optimized.report.limit is not None:
            warn_of_limit(optimized.report.limit)
        return optimized


def _check_how(rules: Any, strategy: Any, max_steps: Any) -> None:
    """Refuse what rules could not be applied by, before any circuit is compiled."""
    check_rules(rules)
    if not callable(strategy):
        raise DTypeError(f"strategy must be a function, found {strategy!r}; OptMatchStrategy and cost_guided are some.")
    if not isinstance(max_steps, int) or isinstance(max_steps, bool) or max_steps < 0:
        raise DTypeError(f"max_steps must be a whole number of steps from 0 on, found {max_steps!r}.")
