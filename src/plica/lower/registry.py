"""The registries of a context: its own rows come before the built-in ones, which never change.

>>> from plica.symbolic.layers import LAYER_ROWS, SumLayer
>>> rules = CompilationRules()
>>> rules.layers.find(SumLayer) is LAYER_ROWS[SumLayer]
True
>>> rules.layers.add(LAYER_ROWS[SumLayer])
Traceback (most recent call last):
plica.errors.UnsupportedError: SumLayer has a row already; pass override=True to replace it in this context alone.
"""

from collections.abc import Callable, Collection, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar, final

from plica.errors import DTypeError, UnsupportedError
from plica.lower.queries.query import Query
from plica.lower.queries.table import QUERIES
from plica.symbolic import initializers, parameters
from plica.symbolic.initializers import Initializer, InitializerRow
from plica.symbolic.layers import (
    LAYER_ROWS,
    OPERATOR_ROWS,
    FusedLayer,
    FusedRow,
    InnerLayer,
    InputLayer,
    InputRow,
    Layer,
    LayerRow,
    OperatorRow,
    ProductLayer,
    ProductRow,
    SumRow,
)
from plica.symbolic.parameters import LeafRow, OperationRow, ParameterInput, ParameterNode, ParameterOp, ParameterRow

Row = TypeVar("Row")


@dataclass(frozen=True, slots=True)
class RowKind:
    """One class of rows that a registry takes.

    Args:
        row: The class of the rows.
        subject: The field of a row with the class, or the tuple of classes, that it is for; empty for no class.
        base: The base class of these classes.
        functions: The fields of a row that must be functions.
        optional: Those that may be None instead.
        other: Classes under `base` that have rows of another kind.
    """

    row: type
    subject: str
    base: type
    functions: tuple[str, ...]
    optional: tuple[str, ...] = ()
    other: tuple[type, ...] = ()

    def problem(self, row: Any) -> str | None:
        """The reason why a row is wrong, or None."""
        subject = getattr(row, self.subject) if self.subject else ()
        for class_ in subject if isinstance(subject, tuple) else (subject,):
            if not isinstance(class_, type) or not issubclass(class_, self.base) or issubclass(class_, self.other):
                return (
                    f"its {self.subject} must be a class under {self.base.__name__}{self._but()}, found {_name(class_)}"
                )
        for name in self.functions:
            if not callable(getattr(row, name)):
                return f"its {name} must be a function, found {getattr(row, name)!r}"
        for name in self.optional:
            if getattr(row, name) is not None and not callable(getattr(row, name)):
                return f"its {name} must be a function or None, found {getattr(row, name)!r}"
        return None

    def _but(self) -> str:
        return f" (not {' or '.join(class_.__name__ for class_ in self.other)})" if self.other else ""


@final
class Registry(Generic[Row]):
    """Rows by the class, or other key, that they are for; those of one context come before the built-in ones.

    Args:
        method: The method of a context that adds rows, for messages.
        kinds: The classes of rows.
        key: Gives the key of a row.
        built_in: The rows that every context has.
        needing_none: Built-in classes that need no row, as their methods do its work.
    """

    def __init__(
        self,
        method: str,
        kinds: tuple[RowKind, ...],
        key: Callable[[Row], Hashable],
        built_in: Mapping[Any, Row] | None = None,
        needing_none: Collection[type] = (),
    ) -> None:
        self._method, self._kinds, self._key = method, kinds, key
        self._built_in: Mapping[Any, Row] = built_in or {}
        self._needing_none = frozenset(needing_none)
        self._own: dict[Any, Row] = {}

    @property
    def own(self) -> dict[Any, Row]:
        """The rows of the context, as they are now."""
        return dict(self._own)

    def add(self, row: Row, *, override: bool = False) -> None:
        """Add a row; circuits that are compiled already stay as they are.

        Args:
            row: The row.
            override: Whether it may replace a row, or the definition of a built-in class, in this context.

        Raises:
            DTypeError: `row` is no entry of this registry, or for a class that has another kind of entry.
            UnsupportedError: There is a row already, and `override` is false.
        """
        kind = next((kind for kind in self._kinds if isinstance(row, kind.row)), None)
        if kind is None:
            expected = " or ".join(kind.row.__name__ for kind in self._kinds)
            raise DTypeError(f"{self._method} takes {_article(expected)} {expected}, found {_name(row)}.")
        problem = kind.problem(row)
        if problem is not None:
            raise DTypeError(f"{self._method}: the {kind.row.__name__} is wrong: {problem}.")
        key = self._key(row)
        if not override and (key in self._own or key in self._built_in or key in self._needing_none):
            raise UnsupportedError(
                f"{_key_name(key)} has a row already; pass override=True to replace it in this context alone."
            )
        self._own[key] = row

    def find(self, key: Any) -> Row | None:
        """The row of a key; None where there is none."""
        return self._own.get(key) or self._built_in.get(key)


_INPUT_COLUMNS = ("body", "marginal", "sample", "maximum", "mode", "mean", "variance", "covariance", "interval")
_LAYER_KINDS = (
    RowKind(InputRow, "layer", InputLayer, _INPUT_COLUMNS, ("partial", "partial_maximum", "conditional", "states")),
    RowKind(SumRow, "layer", InnerLayer, ("body",), other=(ProductLayer, FusedLayer)),
    RowKind(ProductRow, "layer", ProductLayer, ("body", "route")),
    RowKind(FusedRow, "layer", FusedLayer, ("body",)),
)
_PARAMETER_KINDS = (
    RowKind(OperationRow, "operation", ParameterOp, ("evaluate",)),
    RowKind(LeafRow, "leaf", ParameterInput, ("parameter",), other=(parameters.ReferenceParameter,)),
)
_INITIALIZER_KINDS = (RowKind(InitializerRow, "initializer", Initializer, ("draw",)),)
_OPERATOR_KINDS = (RowKind(OperatorRow, "layers", Layer, ("rule",)),)
_QUERY_KINDS = (RowKind(Query, "", object, ()),)


@dataclass(frozen=True, slots=True)
class CompilationRules:
    """The registries of one context."""

    layers: Registry[LayerRow] = field(
        default_factory=lambda: Registry("add_layer_compilation_rule", _LAYER_KINDS, lambda row: row.layer, LAYER_ROWS)
    )
    parameters: Registry[ParameterRow] = field(
        default_factory=lambda: Registry(
            "add_parameter_compilation_rule",
            _PARAMETER_KINDS,
            lambda row: row.leaf if isinstance(row, LeafRow) else row.operation,
            needing_none=_public(parameters, ParameterNode),
        )
    )
    initializers: Registry[InitializerRow] = field(
        default_factory=lambda: Registry(
            "add_initializer_compilation_rule",
            _INITIALIZER_KINDS,
            lambda row: row.initializer,
            needing_none=_public(initializers, Initializer),
        )
    )
    operators: Registry[OperatorRow] = field(
        default_factory=lambda: Registry(
            "add_operator_rule", _OPERATOR_KINDS, lambda row: (row.operator, row.layers), OPERATOR_ROWS
        )
    )
    queries: Registry[Query[Any]] = field(
        default_factory=lambda: Registry("add_query_rule", _QUERY_KINDS, lambda query: query.function, QUERIES)
    )

    @property
    def overridden_layers(self) -> tuple[type[Layer], ...]:
        """The built-in classes of layers that have another row here."""
        added = self.layers.own
        return tuple(layer for layer in LAYER_ROWS if layer in added)


def _public(module: Any, base: type) -> frozenset[type]:
    """The classes of a module that are under `base`."""
    attributes = (getattr(module, name) for name in dir(module))
    return frozenset(
        attribute for attribute in attributes if isinstance(attribute, type) and issubclass(attribute, base)
    )


def _name(value: Any) -> str:
    return value.__name__ if isinstance(value, type) else f"{type(value).__name__} {value!r}"


def _article(noun: str) -> str:
    return "an" if noun[0] in "AEIOU" else "a"


def _key_name(key: Any) -> str:
    if isinstance(key, tuple):
        operator, layers = key
        return f"{operator}({', '.join(layer.__name__ for layer in layers)})"
    return key if isinstance(key, str) else str(key.__name__)
