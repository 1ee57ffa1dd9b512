"""Checks of rules, also built-in ones: whether they fit their table, and what they make fits the graph."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from plica.errors import GraphError
from plica.graph.kinds import form_of, misfits
from plica.graph.optimize import Applied, Rule
from plica.graph.pattern import Entry
from plica.ops import OPS
from plica.passes.forms import operation_form
from plica.symbolic.layers import InputLayer, Layer
from plica.symbolic.parameters import ParameterNode
from plica.symbolic.scope import Scope
from plica.symbolic.semirings import SUM_PRODUCT, Law


@dataclass(frozen=True, slots=True)
class _Table:
    """The kinds that the rules of a table may name.

    Args:
        kinds: The kinds in words, for messages.
        not_a: The class that no named class may derive from; None where no classes may be named.
        operations: Whether operations may be named.
        is_ordinary: Whether the rules are on ordinary numbers, whatever the algebra of the circuit.
    """

    kinds: str
    not_a: type | None
    operations: bool
    is_ordinary: bool


TABLES: Mapping[str, _Table] = {
    "parameters": _Table("classes of parameter nodes, or operations", Layer, operations=True, is_ordinary=True),
    "shatter": _Table("classes of layers", ParameterNode, operations=False, is_ordinary=False),
    "fuse": _Table("classes of layers", ParameterNode, operations=False, is_ordinary=False),
    "programs": _Table("operations", None, operations=True, is_ordinary=True),
}


def check_rule(name: str, rule: Rule) -> None:
    """Refuse a rule that its table can never apply, or whose laws cannot be checked.

    Raises:
        GraphError: The pattern names what graphs of the table do not have, or a law is none of `Law`.
    """
    if not isinstance(rule, Rule):
        raise GraphError(f"the table {name!r} has rules, found {rule!r}; construct a plica.graph.optimize.Rule")
    problem = next(_problems(TABLES[name], rule), None)
    if problem is not None:
        raise GraphError(f"rule {rule.name} in the table {name!r}: {problem}")


def _problems(table: _Table, rule: Rule) -> Iterator[str]:
    laws = rule.laws if rule.laws is not None else ()
    if not isinstance(laws, Iterable):
        yield f"its laws are {laws!r}; give a set of them"
        return
    for law in laws:
        if not isinstance(law, Law):
            yield f"{law!r} is no law; there are {', '.join(f'Law.{known.name}' for known in Law)}"
        elif table.is_ordinary and law not in SUM_PRODUCT.algebra.laws:
            yield f"it needs {law.value}, which does not hold for ordinary numbers, and this table has rules on those"
    for entry in rule.pattern.entries:
        for kind in entry.kind if isinstance(entry.kind, tuple) else (entry.kind,):
            yield from _kind_problems(table, entry, kind)
        yield from misfits(entry.kind, entry.config, entry.sub_patterns, entry.inputs, _form)
        for pattern in entry.sub_patterns.values():
            for inner in pattern.entries:
                for kind in inner.kind if isinstance(inner.kind, tuple) else (inner.kind,):
                    yield from _kind_problems(TABLES["parameters"], inner, kind, "in a parameter")


def _form(kind: Hashable) -> Any:
    return operation_form(kind) if isinstance(kind, str) else form_of(kind)


def _kind_problems(table: _Table, entry: Entry, kind: Hashable, where: str = "in this table") -> Iterator[str]:
    if kind is None:
        return
    if isinstance(kind, str) and table.operations:
        if operation_form(kind) is None:
            near = get_close_matches(kind, OPS, 3)
            hint = f"did you mean {' or '.join(near)}?" if near else "docs/ir.md lists all of them"
            yield f"there is no operation {kind!r}; {hint}"
    elif not (isinstance(kind, type) and table.not_a is not None and not issubclass(kind, table.not_a)):
        shown = kind.__name__ if isinstance(kind, type) else repr(kind)
        yield f"its pattern wants {entry.name!r} to be {shown}, but {where} patterns name {table.kinds}"


def check_layers(applied: Applied[Layer], scopes: dict[Layer, Scope]) -> None:
    """Refuse new layers whose numbers of inputs or units do not fit, or that read other variables.

    Args:
        applied: The applied rule.
        scopes: The scopes of layers so far; those of the new layers are added.

    Raises:
        GraphError: The numbers or the variables of a new layer do not fit.
    """
    for layer, inputs in applied.replacement.nodes:
        if not isinstance(layer, Layer):
            raise GraphError(f"{_where(applied)}: it made {layer!r}, which is no layer")
        scopes[layer] = layer.scope if isinstance(layer, InputLayer) else Scope.union(*map(scopes.__getitem__, inputs))
        given = [child.num_output_units for child in inputs]
        wanted = list(layer.input_widths)
        if given != wanted:
            raise GraphError(f"{_where(applied)}: it made {layer!r}, which reads {wanted} units, and gave it {given}")
    _check_output(applied, lambda layer: layer.num_output_units, "unit(s)")
    _check_output(applied, scopes.__getitem__, "as its scope")


def check_parameters(applied: Applied[Any]) -> None:
    """Refuse new nodes of a parameter whose shapes do not fit.

    Raises:
        GraphError: The shapes of a new node do not fit.
    """
    for node, inputs in applied.replacement.nodes:
        if not isinstance(node, ParameterNode):
            raise GraphError(f"{_where(applied)}: it made {node!r}, which is no node of a parameter")
        wanted = getattr(node, "in_shapes", ())
        given = tuple(child.shape for child in inputs)
        if given != wanted:
            raise GraphError(f"{_where(applied)}: it made {node!r}, which reads shapes {wanted}, and gave it {given}")
    _check_output(applied, lambda node: node.shape, "as its shape")


def _check_output(applied: Applied[Any], size: Callable[[Any], Any], what: str) -> None:
    old, new = size(applied.match.root), size(applied.replacement.output)
    if old != new:
        raise GraphError(
            f"{_where(applied)}: expected a replacement with {old} {what}, found {new}; make one that computes the "
            "same numbers"
        )


def _where(applied: Applied[Any]) -> str:
    return f"rule {applied.rule.name} at {applied.match.graph.describe(applied.match.root)}"
