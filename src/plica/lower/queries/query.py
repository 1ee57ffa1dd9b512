"""A `Query` is a question to a circuit as data: the function by which users ask it, and the policy of its passes.

A policy says what the passes through a circuit compute: `Choosing` fills in rows of data, `Flowing` passes probability
down, `Upward` leaves the rest to a backend's code. `Composed` reads the answer off circuits that operators make of one
circuit, or of several. In this file *columns* are fields of the registry entries of layers (`InputRow`, `SumRow`, ...):
a query works on each layer whose entry has the columns that it needs.

>>> from plica.lower.queries.mpe import LARGEST
>>> from plica.symbolic.semirings import LSE_SUM
>>> def greedy(circuit, x):
...     "Completions in which each sum takes its most probable term, given what is known."
...     return ask(circuit, "greedy", x)
>>> GREEDY = Query(greedy, "greedy decoding", Choosing(LSE_SUM, LARGEST))
>>> GREEDY.function, GREEDY.needs.inputs
('greedy', ('marginal', 'mode'))

The table is in `table.py`; a context takes further rows (`PipelineContext.add_query_rule`).
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeAlias, TypeVar, get_args

from plica.errors import DTypeError, UnsupportedError
from plica.lower.queries.choose import Chooser
from plica.lower.queries.composed import Composition
from plica.lower.queries.needs import Needs
from plica.lower.queries.posterior import Reading
from plica.lower.queries.units import has_states
from plica.symbolic.layers import InputLayer, InputRow
from plica.symbolic.semirings import Semiring
from plica.tracing.tracer import Tracer

_BACKENDS = {"torch": "plica.backend.torch.queries"}


@dataclass(frozen=True, slots=True)
class Upward:
    """The policy of a query whose driver, a module of a backend, reads the values of upward passes.

    Args:
        inputs: The columns that it needs of input layers.
        sums: The columns that it needs of sum layers.
        products: The columns that it needs of product layers, and of layers that multiply and sum.
        spared: Whether an input layer needs none of the columns; None if every input layer needs them.
        signed: Whether it computes with negative and complex numbers if the circuit's own semiring has these.
        instead: A column of input layers that serves in place of `inputs`; empty for none.
    """

    inputs: tuple[str, ...]
    sums: tuple[str, ...] = ()
    products: tuple[str, ...] = ()
    spared: Callable[[InputLayer], bool] | None = None
    signed: bool = False
    instead: str = ""

    def problem(self) -> str | None:
        """What is wrong with it, or None."""
        return _wrong_columns("inputs", self.inputs)

    def needs(self, function: str, name: str) -> Needs:
        """The properties that a query of this policy needs a circuit to have."""
        return Needs(
            function,
            name,
            self.inputs,
            self.sums,
            self.products,
            spared=self.spared,
            signed=self.signed,
            instead=self.instead,
        )


@dataclass(frozen=True, slots=True)
class Flowing:
    """The policy of a query that passes probability down, and computes its answer from the flows of units.

    The flow of a unit is the probability, given the row of data, that the unit takes part (`flows.py`).

    Args:
        read: Computes the results of the Program from a `Reading` of the flows.
        moments: The columns that it needs of input layers whose variables have no states, such as normal ones.
        rows: The axis of the results along which rows of data lie.
        of_sums: Whether it reads the flows of the terms of sums too. Then the circuit is lowered without fused layers,
            as the user described it, so that its sums are there.
    """

    read: Callable[[Reading], list[Tracer]]
    moments: tuple[str, ...] = ()
    rows: int = 0
    of_sums: bool = False

    def problem(self) -> str | None:
        """What is wrong with it, or None."""
        if not callable(self.read):
            return f"read must be a function, found {self.read!r:.80}"
        return _wrong_columns("moments", self.moments)

    def needs(self, function: str, name: str) -> Needs:
        """The properties that a query of this policy needs a circuit to have."""
        return Needs(function, name, self.moments, sums=("choose",), products=("route",), spared=has_states)


@dataclass(frozen=True, slots=True)
class Choosing:
    """The policy of a query that fills in rows of data: every sum chooses a term, every input layer a value.

    Args:
        semiring: The semiring of the upward pass. It also sums, or maximizes, over variables that are not known.
        chooser: The rules by which the downward pass chooses.
    """

    semiring: Semiring
    chooser: Chooser

    def problem(self) -> str | None:
        """What is wrong with it, or None."""
        if not isinstance(self.semiring, Semiring) or not self.semiring.logarithmic or self.semiring.negative:
            found = getattr(self.semiring, "name", self.semiring)
            return f"semiring must be one of logarithms without signs, such as LSE_SUM, found {found!r:.80}"
        if not isinstance(self.chooser, Chooser):
            return f"chooser must be a Chooser, such as DRAW or LARGEST, found {self.chooser!r:.80}"
        if self.chooser.column not in ("sample", "mode"):
            return f"the column of a chooser is 'sample' or 'mode', found {self.chooser.column!r}"
        return None

    def needs(self, function: str, name: str) -> Needs:
        """The properties that a query of this policy needs a circuit to have."""
        inputs = (self.semiring.algebra.reduction.value, self.chooser.column)
        return Needs(function, name, inputs, sums=("choose",), products=("route",), semiring=self.semiring)


@dataclass(frozen=True, slots=True)
class Composed:
    """The policy of a query whose answer is read off circuits that operators make, of one circuit or of several.

    The circuits of a call become the outputs of one circuit, so that they share tensors, and what several of them
    need is computed once.

    Args:
        compose: Makes the circuits, and the function that reads the answer off their values: of an `Operands`, the
            circuits of the call, and its settings.
        operators: The operators of `plica.symbolic.functional` that it is made of, for the documentation.
        needs_deterministic: The circuits that must be deterministic, for the documentation.
    """

    compose: Callable[..., Composition]
    operators: str
    needs_deterministic: str = ""

    def problem(self) -> str | None:
        """What is wrong with it, or None."""
        return None if callable(self.compose) else f"compose must be a function, found {self.compose!r:.80}"


def _wrong_columns(field: str, names: Any) -> str | None:
    """Why `names` are not columns of the registry entries of input layers; None if they are."""
    columns = InputRow.__dataclass_fields__
    if isinstance(names, tuple) and all(name in columns for name in names):
        return None
    return f"{field} must be a tuple of columns of input rows, such as ('mean', 'variance'), found {names!r:.80}"


def _draws(policy: Any) -> bool:
    """Whether answers are random."""
    return isinstance(policy, Choosing) and policy.chooser.draws


Policy = TypeVar("Policy", Upward, Flowing, Choosing, Composed, covariant=True)


_Data: TypeAlias = Literal["usual", "floats", "none"]


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry point of native files that answers a query.

    Args:
        name: Its name in `plica.native.compile`. In the file, `_` replaces `-`.
        text: One sentence for `help`.
        data: The rows of data that it takes: `usual`, in the circuit's usual dtype; `floats`, with NaN for missing
            entries; or `none`.
    """

    name: str
    text: str
    data: _Data = "floats"

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.function.isidentifier():
            raise DTypeError(f"an entry's name is made of letters, digits and '-', found {self.name!r}.")
        if self.data not in get_args(_Data):
            raise DTypeError(f"the entry {self.name!r} takes {', '.join(get_args(_Data))}, found {self.data!r}.")

    @property
    def function(self) -> str:
        """Its name in the file."""
        return self.name.replace("-", "_")


@dataclass(frozen=True, slots=True, eq=False)
class Query(Generic[Policy]):
    """A question to a circuit.

    Args:
        ask: The function by which users ask it. The query has its name, and its first parameter is the circuit.
        name: The query's name in messages.
        policy: What its passes compute.
        driver: The module of a backend's `queries/` that answers, by its function of the query's name. Without one, the
            results of the policy's Program are the answer.
        entries: The entry points of native files that answer it.
    """

    ask: Callable[..., Any]
    name: str
    policy: Policy
    driver: str = ""
    entries: tuple[Entry, ...] = ()

    def __post_init__(self) -> None:
        if not callable(self.ask) or not getattr(self.ask, "__name__", "").isidentifier():
            raise DTypeError(f"{self.name}: ask must be a named function, found {self.ask!r:.80}.")
        if not isinstance(self.policy, Upward | Flowing | Choosing | Composed):
            raise DTypeError(
                f"{self.name}: a policy is Flowing(...), Choosing(...) or Composed(...), found {self.policy!r:.80}."
            )
        if isinstance(self.policy, Upward) and not self.driver:
            raise DTypeError(f"{self.name}: Upward(...) needs a driver; read flows by Flowing(...), for instance.")
        problem = self.policy.problem()
        if problem is not None:
            raise DTypeError(f"{self.name}: {problem}.")
        if not isinstance(self.entries, tuple) or not all(isinstance(entry, Entry) for entry in self.entries):
            raise DTypeError(f"{self.name}: entries are a tuple of Entry(...), found {self.entries!r:.80}.")
        if any(entry.data == "none" for entry in self.entries) and not _draws(self.policy):
            raise DTypeError(f"{self.name}: an entry without data is of a query that draws; leave out data='none'.")
        if isinstance(self.policy, Flowing | Composed) and self.entries:
            kind = type(self.policy).__name__
            raise DTypeError(f"{self.name}: native files do not answer a query of {kind}(...); leave out the entries.")

    @property
    def function(self) -> str:
        """The name of `ask`, by which tables find the query."""
        return self.ask.__name__

    @property
    def needs(self) -> Needs:
        """The properties that it needs a circuit to have; operators check those of a composed query.

        Raises:
            UnsupportedError: The query is composed.
        """
        if isinstance(self.policy, Composed):
            raise UnsupportedError(f"{self.name}: the operators that make its circuits say what they need.")
        return self.policy.needs(self.function, self.name)


def ask(circuit: Any, query: str, *arguments: Any) -> Any:
    """Ask a query by its name, which the table has or the context in which the circuit was compiled.

    Args:
        circuit: A compiled circuit.
        query: The name.
        arguments: The arguments of the query after the circuit.

    Raises:
        UnsupportedError: `circuit` is no compiled circuit, or has no such query.
    """
    backend = getattr(circuit, "backend", None)
    if backend not in _BACKENDS:
        raise UnsupportedError(
            f"{query} takes a compiled circuit, found {type(circuit).__name__}; compile it: plica.compile(circuit)."
        )
    return importlib.import_module(_BACKENDS[backend]).answer(circuit, query, *arguments)
