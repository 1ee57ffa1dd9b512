"""`CompiledCircuit`: a circuit resolved, optimized and folded, which every backend computes and every file contains.

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
from typing import Any, NamedTuple, final

from plica.arguments import flag
from plica.errors import DTypeError, UnsupportedError
from plica.forks import cached_property
from plica.graph.limits import MAX_STEPS, warn_of_limit
from plica.graph.strategy import OptMatchStrategy, Strategy
from plica.ir.dtypes import DType
from plica.lower.call_parameters import CallParameters
from plica.lower.cascade import FROM, cascade
from plica.lower.checks import check_operation, check_semiring, has_signs
from plica.lower.data import samples_dtype
from plica.lower.fold.groups import FoldedCircuit, fold_circuit, single_groups
from plica.lower.layer_map import LayerMap
from plica.lower.leaves import Leaf, Owners, leaf_keys, opaque_keys
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
from plica.lower.programs import Programs
from plica.lower.queries.query import Query
from plica.lower.queries.score import Lowered, lower_score
from plica.lower.queries.table import QUERIES
from plica.lower.registry import CompilationRules
from plica.lower.resolve import Resolver
from plica.single_flight import Deferred
from plica.symbolic.circuit import Circuit
from plica.symbolic.operators.complete import complete_form
from plica.symbolic.parameters import TensorParameter
from plica.symbolic.semirings import LSE_SUM, Bound, Semiring, Stage


class Work(NamedTuple):
    """The work of computing one row of data.

    Args:
        widest: The most numbers that a group of layers computes.
        total: How many numbers all groups compute.
        depth: The most sums on a path from an output to an input.
        has_matrices: Whether a sum has several units of an input, so that a matrix product saves exponentials of its
            terms. Above vectors, whose densities take longer, only sums of several units count.
    """

    widest: int
    total: int
    depth: int
    has_matrices: bool

    @staticmethod
    def of(folded: FoldedCircuit) -> "Work":
        """The work of a folded circuit."""
        sizes = [group.num_folds * group.representative.num_output_units for group in folded.groups]
        has_vectors = any(group.kind == "input" and len(group.scope_idx[0]) > 1 for group in folded.groups)
        has_matrices = any(
            group.kind in ("sum", "fused")
            and group.representative.num_input_units > 1
            and (group.representative.num_output_units > 1 or not has_vectors)
            for group in folded.groups
        )
        return Work(max(sizes), sum(sizes), folded.depth(), has_matrices)


@final
class CompiledCircuit:
    """A circuit that backends compute; immutable, but for the Programs that it caches.

    Args:
        folded: The groups of layers that are computed as one.
        semiring: The semiring, with its number format.
        layer_map: The fold of each described layer.
        report: The report of the optimizer, if it ran.
        owners: The leaves that exist already, of circuits with which it shares tensors.
        queries: The queries of its context, by name; they come before the built-in ones.

    Attributes:
        programs: The Programs that score, by number format, dtypes of parameters and data, and leaves given.
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
        self.programs = Programs(owners)

    def __deepcopy__(self, memo: dict[int, Any]) -> "CompiledCircuit":
        """The same object: it has no numbers."""
        return self

    @property
    def symbolic(self) -> Circuit:
        """The circuit as it was described."""
        return self.layer_map.circuit

    @property
    def keys(self) -> Mapping[TensorParameter, str]:
        """The name of each tensor in state dicts and files."""
        return leaf_keys(self.folded.described)

    @property
    def opaque(self) -> Mapping[str, Any]:
        """The objects of a backend that layers hold, for example modules, by keys such as `3.module`."""
        return opaque_keys(self.folded.described)

    @cached_property
    def work(self) -> Work:
        """The work for a row of data in which a variable may be missing."""
        return Work.of(self.folded)

    @cached_property
    def complete_work(self) -> Work:
        """The work for a row of data in which no variable is missing."""
        return Work.of(self.folded.for_rows(complete=True))

    def work_of(self, *, complete: bool) -> Work:
        """The work for a row of data."""
        return self.complete_work if complete else self.work

    @property
    def queries(self) -> Mapping[str, Query[Any]]:
        """The queries that it answers, by name: those of its context, and the built-in ones."""
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
        """The dtype of rows that have a value of every variable, where real parameters are of `dtype`."""
        return samples_dtype(self.folded.described, dtype)

    @property
    def carriers(self) -> tuple[Semiring, ...]:
        """The number formats in which scores may be computed: those of its cascade, and the one for zeros."""
        at_zeros = self.semiring.at_zeros
        others = () if at_zeros is None else (at_zeros,)
        return (*others, *(stage.semiring for stage in cascade(self.semiring)))

    def stages(
        self,
        semiring: Semiring,
        rows: int,
        device: str,
        smallest: float,
        *,
        of_weights: bool = False,
        complete: bool = False,
    ) -> tuple[Stage, ...]:
        """The stages of a cascade that are worth trying for some rows; the last one is right for all.

        Args:
            semiring: The number format of the last one.
            rows: How many rows are computed.
            device: The kind of device.
            smallest: The smallest normal number of the dtype of the parameters.
            of_weights: Whether weights are constant, so that their bounds are computed once.
            complete: Whether no variable is missing.
        """
        work = self.work_of(complete=complete)
        count = rows * work.total if work.has_matrices else 0
        return tuple(
            stage
            for stage in cascade(semiring)
            if count >= FROM[stage.bound]
            and (of_weights or stage.bound is not Bound.OF_WEIGHTS)
            and stage.may_hold(device, work.depth, smallest)
        )

    @cached_property
    def leaves_alone(self) -> Mapping[TensorParameter, Leaf]:
        """The tensors without a value of their own, which calls pass, each as a leaf of one fold."""
        return {tensor: Leaf((tensor,)) for tensor in self.keys if tensor.initializer is None}

    def score(
        self,
        dtype: DType,
        input_dtype: DType,
        semiring: Semiring | None = None,
        given: CallParameters | None = None,
        *,
        complete: bool | None = None,
    ) -> Lowered:
        """The Program of the circuit's value for each row of data, made once: `lower_score` says more.

        Args:
            dtype: The dtype of its real parameters.
            input_dtype: The dtype of the data; in floats NaN means missing.
            semiring: One of `carriers`; by default its own.
            given: The parameters passed at call time; by default those without a value of their own.
            complete: Whether no variable is missing; by default, whether the data is no floats.
        """
        carrier = semiring or self.semiring
        leaves = dict.fromkeys(self.leaves_alone, False) if given is None else given
        known = input_dtype.kind != "float" if complete is None else complete
        uses_complete = known and self.folded.complete is not None
        names = tuple((self.keys[leaf], by_row) for leaf, by_row in leaves.items())

        def lower(owners: Owners) -> Lowered:
            every = {**owners, **self.leaves_alone}
            return lower_score(self.folded, carrier, dtype, input_dtype, every, leaves, complete=uses_complete)

        return self.programs.once((carrier.name, dtype, input_dtype, names, uses_complete), lower)


@final
class CircuitCompiler:
    """Resolves, optimizes and folds circuits by one set of rules.

    Args:
        semiring: The name of a semiring, or a `Semiring`.
        fold: Compute alike layers as one.
        optimize: Rewrite circuits and parameters first.
        rules: The four tables of rewrites.
        strategy: Which of the matches of rules that overlap is applied.
        max_steps: How many times the tables are applied at most, to a circuit and to a Program.
        compilation_rules: The registries of layers and parameters; by default the built-in ones.

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
        _check_options(rules, strategy, max_steps)
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
        """Compile a circuit.

        Args:
            circuit: The circuit.
            dtype: The dtype of its real parameters; rules may depend on it.
            device: The device of its tensors; rules may depend on it.
            owners: The leaves that exist already.
            resolved: The result of `resolver` for the circuit, if it is known.

        Raises:
            UnsupportedError: The semiring cannot carry the circuit's numbers, or has no integrals.
        """
        check_operation(circuit, self.semiring)
        resolved = self.resolver.circuit(circuit) if resolved is None else resolved
        rows = self.compilation_rules.layers.own
        check_semiring(resolved, self.semiring, rows)
        context = self.context(dtype, device)
        folded, optimized = self._folded(resolved, resolved, context)
        if circuit.has_complete_form and not self._may_cancel(circuit):
            folded = replace(folded, complete=Deferred(partial(self._complete, circuit, resolved, context)))
        provenance, report = (Provenance(), None) if optimized is None else (optimized.provenance, optimized.report)
        queries = self.compilation_rules.queries.own
        return CompiledCircuit(folded, self.semiring, LayerMap(circuit, folded, provenance), report, owners, queries)

    def _folded(
        self, circuit: Circuit, described: Circuit, context: RuleContext
    ) -> tuple[FoldedCircuit, Optimized | None]:
        """A resolved circuit, optimized and folded; and what the optimizer did, if it ran."""
        optimized = self._optimized(circuit, context) if self.optimize else None
        computed = circuit if optimized is None else optimized.circuit
        rows = self.compilation_rules.layers.own
        folded = (fold_circuit if self.fold else single_groups)(computed, described, rows)
        return (folded if optimized is None else replace(folded, rewriting=optimized.rewriting)), optimized

    def _may_cancel(self, circuit: Circuit) -> bool:
        """Whether operands of a product may have signs that cancel in the product, and that the semiring lacks."""
        form = complete_form(circuit)
        return not self.semiring.negative and has_signs(self.resolver.circuit(form), self.compilation_rules.layers.own)

    def _complete(self, circuit: Circuit, described: Circuit, context: RuleContext) -> FoldedCircuit:
        """The folded circuit for rows in which no variable is missing, of a product of circuits."""
        form = complete_form(circuit)
        folded, _ = self._folded(self.resolver.circuit(form), described, context)
        return replace(folded, needs_all=True)

    def context(self, dtype: DType, device: str) -> RuleContext:
        """The context that rules may read."""
        return RuleContext(self.semiring, dtype, device)

    def _optimized(self, circuit: Circuit, context: RuleContext) -> Optimized:
        """Apply the rules; warns of rules that still fired when a limit ended them."""
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


def _check_options(rules: Any, strategy: Any, max_steps: Any) -> None:
    """Refuse wrong rules, a wrong strategy or limit, before any circuit is compiled."""
    check_rules(rules)
    if not callable(strategy):
        raise DTypeError(f"strategy must be a function, found {strategy!r}; pass cost_guided, for example.")
    if not isinstance(max_steps, int) or isinstance(max_steps, bool) or max_steps < 0:
        raise DTypeError(f"max_steps must be a whole number of steps from 0 on, found {max_steps!r}.")
