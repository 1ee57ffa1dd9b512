"""The loop over rule tables: parameters, then shattering, then fusing, until nothing fires or the limit is reached.

Custom rules come first in their table, so that of two matches of one size theirs is taken:

    rules = DEFAULT_RULES.adding(fuse=[my_rule])
    optimize_circuit(circuit, rules)
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from plica.errors import DTypeError, GraphError
from plica.graph.limits import MAX_STEPS, limit_reached
from plica.graph.optimize import Applied, Rule, made_before, optimize_graph
from plica.graph.strategy import OptMatchStrategy, Strategy
from plica.graph.view import GraphView, NearMiss, is_a, kind_fits
from plica.lower.leaves import leaf_keys
from plica.lower.optimize.checks import TABLES, check_layers, check_parameters, check_rule
from plica.lower.optimize.context import RuleContext
from plica.lower.optimize.costs import layers_cost, nodes_cost
from plica.lower.optimize.layers import FUSE_RULES, SHATTER_RULES
from plica.lower.optimize.parameters import (
    PARAMETER_RULES,
    fits_parameter,
    parameter_view,
    share_nodes,
    with_own_nodes,
)
from plica.lower.optimize.provenance import Provenance, Step
from plica.lower.optimize.report import Change, Fired, LeftOut, Missed, Report
from plica.passes.algebra import ALGEBRA
from plica.passes.rewriting import Rewriting
from plica.symbolic.circuit import Circuit
from plica.symbolic.layers import Layer
from plica.symbolic.parameters import Parameter
from plica.symbolic.semirings import LSE_SUM, SUM_PRODUCT, Law, Semiring

_SHARE = ("share", "f(x), f(x) -> f(x) once")


@dataclass(frozen=True, slots=True, eq=False)
class Rules:
    """The four tables: three of the loop over a circuit, and one for the Programs that it is lowered to.

    Args:
        parameters: Rules on the graphs of parameters.
        shatter: Rules on layers that make several of one.
        fuse: Rules on layers that make one of several.
        programs: Rules on equations; patterns name operations.

    Raises:
        GraphError: Two rules have one name, or a rule does not fit its table.
    """

    parameters: tuple[Rule, ...] = ()
    shatter: tuple[Rule, ...] = ()
    fuse: tuple[Rule, ...] = ()
    programs: tuple[Rule, ...] = ()

    def __repr__(self) -> str:
        return f"Rules({', '.join(f'{len(getattr(self, table))} {table}' for table in TABLES)})"

    def __post_init__(self) -> None:
        known: dict[str, Rule] = {}
        for table in TABLES:
            for rule in getattr(self, table):
                check_rule(table, rule)
                if known.setdefault(rule.name, rule) is not rule:
                    raise GraphError(f"two rules are called {rule.name!r}; give yours another name")

    def adding(self, **tables: Iterable[Rule]) -> "Rules":
        """These tables with further rules in front: `adding(fuse=[rule])`."""
        unknown = [name for name in tables if name not in TABLES]
        if unknown:
            raise GraphError(f"there is no table {unknown[0]!r}; there are {', '.join(TABLES)}")
        for name, rules in tables.items():
            if not isinstance(rules, Iterable):
                raise GraphError(f"rules are added as a list: adding({name}=[...]); found {rules!r}")
        return replace(self, **{name: (*rules, *getattr(self, name)) for name, rules in tables.items()})

    def under(self, laws: Iterable[Law]) -> "tuple[Rules, dict[str, tuple[str, ...]]]":
        """These tables without rules on layers that need other laws; and the laws that each of those lacks, by name."""
        known = frozenset(laws)
        lacks = {
            rule.name: sorted(law.value for law in (rule.laws or ()) if law not in known) for rule in self.on_layers
        }
        left_out = {name: tuple(missing) for name, missing in lacks.items() if missing}
        return self._leaving_out(left_out), left_out

    def without(self, kinds: Iterable[type[Layer]]) -> "tuple[Rules, dict[str, str]]":
        """These tables without rules on layers whose patterns fit one of `kinds`; and its class, by the rule's name."""
        fitting = {
            rule.name: kind.__name__
            for rule in self.on_layers
            for kind in kinds
            if any(kind_fits(is_a, kind, entry) for entry in rule.pattern.entries)
        }
        return self._leaving_out(fitting), fitting

    def _leaving_out(self, names: Collection[str]) -> "Rules":
        if not names:
            return self
        shatter, fuse = (tuple(rule for rule in table if rule.name not in names) for table in (self.shatter, self.fuse))
        return replace(self, shatter=shatter, fuse=fuse)

    @property
    def on_layers(self) -> tuple[Rule, ...]:
        """The rules on layers, whose equations are in the circuit's algebra; parameters are ordinary numbers."""
        return (*self.shatter, *self.fuse)


DEFAULT_RULES = Rules(PARAMETER_RULES, SHATTER_RULES, FUSE_RULES, ALGEBRA)


def check_rules(rules: Any) -> None:
    """Check that `rules` are tables of rules.

    Raises:
        DTypeError: `rules` is something else.
    """
    if not isinstance(rules, Rules):
        raise DTypeError(
            f"rules must be tables, found {rules!r}; give DEFAULT_RULES.adding(fuse=[...]), or Rules(...)."
        )


@dataclass(frozen=True, slots=True, eq=False)
class Optimized:
    """An optimized circuit, which computes the same, and how it was made.

    Args:
        circuit: The circuit as it is to be lowered; its leaves are those of the circuit as it was described.
        report: The rules that fired, and what they saved.
        provenance: The layers that each layer became.
        rewriting: The rewriting of the Programs that it is lowered to; None for the default.
    """

    circuit: Circuit
    report: Report
    provenance: Provenance
    rewriting: Rewriting | None = None


def optimize_circuit(
    circuit: Circuit,
    rules: Rules = DEFAULT_RULES,
    max_steps: int = MAX_STEPS,
    *,
    semiring: Semiring = LSE_SUM,
    context: RuleContext | None = None,
    strategy: Strategy = OptMatchStrategy.LARGEST_MATCH,
    overridden: Iterable[type[Layer]] = (),
) -> Optimized:
    """Apply rules until none fires or `max_steps` is reached.

    Args:
        circuit: The circuit as it was described; the result shares its leaves, and is itself where no rule fired.
        rules: The tables.
        max_steps: How many times to go through them at most.
        semiring: The semiring to compute in; rules whose laws its algebra does not grant are left out.
        context: The context that rules read as `match.context`; by default the semiring with circuits' other defaults.
        strategy: Which of the matches that overlap is applied.
        overridden: Classes of layers that a context overrides with its own entries: no rule knows what they compute.

    Raises:
        GraphError: A rule dropped a tensor, or its replacement reads what its match does not offer, or does not fit.
    """
    context = context or RuleContext(semiring)
    granted, left_out = rules.under(context.algebra.laws)
    granted, fitting = granted.without(tuple(overridden))
    loop = _Loop(circuit, granted, strategy, context)
    steps, size = 0, loop.size
    limit = limit_reached(0, max_steps, before=size, now=size, fired=())
    while limit is None:
        steps += 1
        fired = loop.step()
        if not fired:
            break
        limit = limit_reached(steps, max_steps, before=size, now=loop.size, fired=fired)
    result, report = loop.circuit(), loop.report(steps, limit)
    _check_leaves(circuit, result, report)
    missing = [LeftOut.by_laws(rule, context.algebra.name, laws) for rule, laws in left_out.items()]
    missing += [LeftOut.by_row(rule, kind) for rule, kind in fitting.items()]
    rewriting = program_rewriting(rules, strategy, max_steps, context)
    return Optimized(result, replace(report, left_out=tuple(missing)), loop.provenance(), rewriting)


def program_rewriting(
    rules: Rules,
    strategy: Strategy = OptMatchStrategy.LARGEST_MATCH,
    max_steps: int = MAX_STEPS,
    context: RuleContext | None = None,
) -> Rewriting | None:
    """The rewriting of Programs by their table; None for the default."""
    settings = (rules.programs, strategy, max_steps)
    by_default = (DEFAULT_RULES.programs, OptMatchStrategy.LARGEST_MATCH, MAX_STEPS)
    return None if settings == by_default else Rewriting(*settings, context or RuleContext(SUM_PRODUCT))


def _check_leaves(before: Circuit, after: Circuit, report: Report) -> None:
    """Refuse a result that has lost a tensor: its state dict would lack a key."""
    if after is before:
        return
    remaining = leaf_keys(after)
    lost = [key for tensor, key in leaf_keys(before).items() if tensor not in remaining]
    if lost:
        fired = ", ".join(entry.rule for entry in report.fired)
        raise GraphError(
            f"one of the rules {fired} dropped the tensor {lost[0]!r}. A rewritten circuit must read every tensor of "
            "the circuit as described, so that state dicts fit both; use the `params` of the match"
        )


@dataclass(slots=True)
class _Tally:
    """The changes that one rule made."""

    stage: str
    equation: str
    changes: list[Change] = field(default_factory=list)


class _Loop:
    """The circuit between two steps, as nodes and edges."""

    def __init__(self, circuit: Circuit, rules: Rules, strategy: Strategy, context: RuleContext) -> None:
        self._original, self._rules, self._strategy, self._context = circuit, rules, strategy, context
        self._nodes: tuple[Layer, ...] = circuit.layers
        self._inputs = circuit.layers_inputs
        self._outputs: tuple[Layer, ...] = circuit.outputs
        self._scopes = {layer: circuit.layer_scope(layer) for layer in circuit.layers}
        self._stands_for: dict[Layer, Layer] = {}
        self._moved: dict[Layer, Layer] = {}  # from a layer to the same one before its parameters changed
        self._described = dict.fromkeys(circuit.layers)
        self._parameters: dict[Parameter, Parameter] = {}
        self._roots: dict[type, bool] = {}
        self._sizes: dict[Parameter, int] = {}  # how many nodes a parameter was described with
        self._added = 0
        self._steps: dict[Layer, Step] = {}
        self._rewritings: dict[Parameter, dict[tuple[str, str], None]] = {}
        self._constructed: dict[Any, None] = {}
        self._fired: dict[str, _Tally] = {}
        self._missed: dict[tuple[str, str], list[str]] = {}
        self._parameter_misses: dict[tuple[str, str], list[str]] = {}

    def step(self) -> tuple[str, ...]:
        """Apply the tables once: parameters, shattering, fusing. Returns the rules that fired."""
        self._missed.clear()
        before = {name: len(tally.changes) for name, tally in self._fired.items()}
        self._optimize_parameters()
        self._optimize_layers("shatter", self._rules.shatter)
        self._optimize_layers("fuse", self._rules.fuse)
        return tuple(name for name, tally in self._fired.items() if len(tally.changes) != before.get(name))

    @property
    def size(self) -> int:
        """The number of layers, and of nodes that rules have added to one parameter."""
        return len(self._nodes) + self._added

    def circuit(self) -> Circuit:
        """The circuit now; the original one where nothing was done."""
        if not self._fired:
            return self._original
        original = self._original
        return Circuit(
            self._nodes, self._inputs, self._outputs, operation=original.operation, data_scope=original.data_scope
        )

    def provenance(self) -> Provenance:
        """The layers that each layer became so far."""
        return Provenance(dict(self._steps))

    def report(self, steps: int, limit: str | None) -> Report:
        """The rules that fired so far, and the near misses."""
        fired = tuple(
            Fired(tally.stage, name, tally.equation, tuple(tally.changes)) for name, tally in self._fired.items()
        )
        misses = {**self._parameter_misses, **self._missed}
        missed = tuple(Missed(rule, why, tuple(details)) for (rule, why), details in misses.items())
        layers = (len(self._original.layers), len(self._nodes))
        return Report(layers, fired, missed, steps, limit)

    def _optimize_layers(self, stage: str, rules: Sequence[Rule]) -> None:
        view: GraphView[Layer] = GraphView(
            self._nodes,
            self._outputs,
            self._inputs.__getitem__,
            sub_graph=self._carried,
            describe=self._name,
            context=self._context,
        )
        result = optimize_graph(view, rules, self._strategy, lambda rule, miss: self._miss(self._missed, rule, miss))
        if result is None:
            return
        for applied in result.applied:
            check_layers(applied, self._scopes)
            root, fused, new = applied.match.root, applied.match.fused, applied.replacement.new
            self._stands_for.update((layer, root) for layer in new if layer not in fused)
            change = Change(self._name(root), fused, new, layers_cost)
            self._count(stage, applied.rule.name, applied.rule.equation, change)
            self._remember(stage, applied, change, result.exit_points[applied.match])
        self._nodes, self._inputs, self._outputs = result.nodes, result.inputs, result.outputs

    def _carried(self, layer: Layer, name: str) -> GraphView[Any] | None:
        parameter = layer.params.get(name)
        return None if parameter is None else parameter_view(parameter, self._context)

    def _remember(self, stage: str, applied: Applied[Layer], change: Change, output: Layer) -> None:
        """Note the step of each layer of a match."""
        rules = ((applied.rule.name, applied.rule.equation),)
        entries = (entry for entry in applied.match.pattern.entries if not entry.preserved)
        for entry, layer in zip(entries, change.before, strict=True):
            self._steps[layer] = Step(stage, rules, entry.name, change.before, change.after, output)

    def _optimize_parameters(self) -> None:
        """Rewrite the parameters that were not seen before, and give layers theirs."""
        moved: dict[Layer, Layer] = {}
        for layer in self._nodes:
            old = layer.all_params
            new = {name: self._parameter(layer, parameter) for name, parameter in old.items()}
            if any(new[name] is not parameter for name, parameter in old.items()):
                moved[layer] = layer.with_params(new)
                self._moved[moved[layer]], self._scopes[moved[layer]] = layer, self._scopes[layer]
                rules = {rule: None for parameter in old.values() for rule in self._rewritings.get(parameter, ())}
                new_layer = moved[layer]
                self._steps[layer] = Step("parameters", tuple(rules), "", (), (new_layer,), new_layer)
        if moved:
            current = {layer: moved.get(layer, layer) for layer in self._nodes}
            self._inputs = {
                current[layer]: tuple(current[child] for child in self._inputs[layer]) for layer in self._nodes
            }
            self._nodes, self._outputs = tuple(current.values()), tuple(current[layer] for layer in self._outputs)

    def _parameter(self, layer: Layer, parameter: Parameter) -> Parameter:
        """The parameter after one pass; one that no rule changes is not tried again."""
        if parameter not in self._parameters:
            is_unmatched = len(parameter.nodes) < 3 and not any(self._is_root(type(node)) for node in parameter.nodes)
            self._parameters[parameter] = parameter if is_unmatched else self._rewritten(layer, parameter)
        return self._parameters[parameter]

    def _is_root(self, kind: type) -> bool:
        """Whether the root of some rule fits a kind; none does in most parameters."""
        if kind not in self._roots:
            self._roots[kind] = any(
                kind_fits(fits_parameter, kind, rule.pattern.root) for rule in self._rules.parameters
            )
        return self._roots[kind]

    def _rewritten(self, layer: Layer, parameter: Parameter) -> Parameter:
        before, size = parameter, self._sizes.get(parameter, len(parameter.nodes))
        rules = self._rewritings[parameter] = {}
        misses: list[tuple[Rule, NearMiss[Any]]] = []
        result = optimize_graph(
            parameter_view(parameter, self._context),
            self._rules.parameters,
            self._strategy,
            lambda *miss: misses.append(miss),
        )
        if result is None:
            for rule, miss in misses:
                self._miss(self._parameter_misses, rule, miss, f"{self._name(layer)}: ")
        else:
            for applied in result.applied:
                check_parameters(applied)
                self._check_made(applied)
            parameter = Parameter(result.nodes, result.inputs, result.outputs)
            for applied in result.applied:
                change = Change(self._name(layer), applied.match.fused, applied.replacement.new, nodes_cost)
                self._count("parameters", applied.rule.name, applied.rule.equation, change)
                rules[applied.rule.name, applied.rule.equation] = None
        self._sizes[parameter] = size
        self._added = max(self._added, len(parameter.nodes) - size)
        shared = share_nodes(parameter)
        if shared is not parameter:
            change = Change(self._name(layer), parameter.nodes, shared.nodes, nodes_cost)
            self._count("parameters", *_SHARE, change)
            rules[_SHARE] = None
        own = with_own_nodes(shared, before)
        self._sizes[own] = size
        return own

    def _check_made(self, applied: Applied[Any]) -> None:
        """Refuse a node that a rule has put in several parameters: nodes are known by identity."""
        for node in applied.replacement.new:
            if node in self._constructed:
                raise GraphError(made_before(applied, node))
            if node not in applied.match.fused:
                self._constructed[node] = None

    def _count(self, stage: str, rule: str, equation: str, change: Change) -> None:
        self._fired.setdefault(rule, _Tally(stage, equation)).changes.append(change)

    def _miss(self, misses: dict[tuple[str, str], list[str]], rule: Rule, miss: NearMiss[Any], where: str = "") -> None:
        misses.setdefault((rule.name, miss.why), []).append(f"{where}{miss.detail}")

    def _name(self, layer: Layer) -> str:
        while layer in self._moved:
            layer = self._moved[layer]
        if layer in self._described:
            return self._original.layer_name(layer)
        if layer not in self._stands_for:
            return repr(layer)
        return f"{layer!r} for {self._name(self._stands_for[layer]).removeprefix('the layer for ')}"
