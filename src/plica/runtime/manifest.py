"""The manifest of a native file: its entry points, their types, its constants, its targets and its provenance.

The head of the file holds the manifest as JSON. `decode.py` reads it back; `checks.py` refuses a manifest whose parts
do not fit together. A size of a shape is a number, a symbol (`"n"`) or a formula of symbols as Programs print it
(`"2*n^2"`, `"max(n-1,0)"`). Keys of the JSON are the names of fields.

>>> score = Entry(
...     "log_likelihood",
...     function="scaled",
...     arguments=(ArrayType("x", "int64", ("n", 64)),),
...     results=(ArrayType("score", "float32", ("n",)), ArrayType("holds", "bool", ("n",))),
...     rows=Rows("n", chunk=128),
...     fallback=Fallback("log_space", bound="holds"),
... )
>>> score.shown, str(score.arguments[0])
((ArrayType(name='score', dtype='float32', shape=('n',)),), 'x: int64[n, 64]')
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

Dim = int | str


@dataclass(frozen=True, slots=True)
class ArrayType:
    """An argument, a result, or an array of uniforms that the host draws.

    Args:
        name: The name for callers and messages.
        dtype: A name of the Array API standard: `float32`, `bool`, ...
        shape: Numbers, symbols, and formulas of symbols.
    """

    name: str
    dtype: str
    shape: tuple[Dim, ...]

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype}[{', '.join(map(str, self.shape))}]"


@dataclass(frozen=True, slots=True)
class Tree:
    """The nesting of arguments or results; a leaf is the index of an array, or None where there is no array.

    Args:
        kind: `tuple`, `list`, `dict`, or `named`: an object with fields, which comes back as a named tuple.
        items: The parts.
        keys: The key of each part of a dict or a named tuple.
        name: The name of a named tuple's class.
    """

    kind: str
    items: tuple["Tree | int | None", ...]
    keys: tuple[str | int, ...] = ()
    name: str = ""


@dataclass(frozen=True, slots=True)
class Rows:
    """Marks an entry that computes each row independently, so that rows can be passed in pieces.

    Args:
        symbol: The size of the axis of rows in the shapes of arguments, draws and results.
        chunk: The most rows that one call of the function gets; None: all.
        alone: Up to this many rows, the calling thread computes alone, since waking other threads would take longer
            than the computation. Of more rows, each thread gets half as many on average, or more.
    """

    symbol: str
    chunk: int | None = 128
    alone: int = 0


@dataclass(frozen=True, slots=True)
class Fallback:
    """The fallback of an entry: it computes the rows whose bound fails.

    Args:
        entry: The name of another entry, of the same arguments, draws and results.
        bound: The result of shape (rows,) and dtype `bool` that says where the bound holds; callers do not see it.
    """

    entry: str
    bound: str


@dataclass(frozen=True, slots=True)
class Fault:
    """An error that ends a function.

    Args:
        error: The name of a class in `plica.errors`.
        message: The pieces of its message: text, and indices of the numbers that the function reports.
    """

    error: str
    message: tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Entry:
    """One question that the file answers, by a function of its code.

    The function is called with the arguments, then the draws, then the constants, and returns the results.

    Args:
        name: The attribute that users call: `module.name(...)`.
        function: The name of the function in the code of every target.
        arguments: The arrays that callers pass.
        results: The arrays that the function returns, in order.
        draws: Uniforms in [0, 1) that the host draws, from the seed of the call.
        constants: The tensors of the file that the function reads; they are passed as arguments.
        rows: Set if rows are independent of each other.
        fallback: Set if the function says for which rows its bound holds.
        public: Whether users see the entry; they do not see an entry that is only a fallback.
        text: One sentence for `help` and `plica inspect`.
        takes: The arguments by the names of parameters, a dict of trees of `arguments`; None where each is an array.
        gives: The tree of `results` that callers get; None where it is an array, or a tuple of arrays.
        faults: The errors that end the function, by the number that it returns, from 1 on.
    """

    name: str
    function: str
    arguments: tuple[ArrayType, ...]
    results: tuple[ArrayType, ...]
    draws: tuple[ArrayType, ...] = ()
    constants: tuple[str, ...] = ()
    rows: Rows | None = None
    fallback: Fallback | None = None
    public: bool = True
    text: str = ""
    takes: Tree | None = None
    gives: Tree | None = None
    faults: tuple[Fault, ...] = ()

    @property
    def shown(self) -> tuple[ArrayType, ...]:
        """The results that callers get."""
        return tuple(result for result in self.results if self.fallback is None or result.name != self.fallback.bound)


@dataclass(frozen=True, slots=True)
class Tensor:
    """A constant array, stored once for all targets.

    Entries and folds that name it among their constants get it as an argument, in the mapped memory of the file.

    Args:
        name: Unique in the file.
        dtype: As in `ArrayType`.
        shape: Numbers.
        part: The part of the file that holds it.
        offset: Its first byte in that part: the first multiple of `ALIGNMENT` after the tensor listed before it.
        updatable: Whether users may replace it.
        parts: The names by which users replace the arrays along its first axis; an empty name for an array that is
            fixed. An empty tuple if users replace the whole tensor.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    part: str
    offset: int = 0
    updatable: bool = False
    parts: tuple[str, ...] = ()

    @property
    def updates(self) -> Mapping[str, tuple[ArrayType, int | None]]:
        """The replaceable arrays by name: the type of each, and its index along the first axis (None: the whole)."""
        if not self.updatable:
            return {}
        if not self.parts:
            return {self.name: (self.type, None)}
        return {
            name: (ArrayType(name, self.dtype, self.shape[1:]), index) for index, name in enumerate(self.parts) if name
        }

    @property
    def type(self) -> ArrayType:
        """The tensor's type as an argument or a result."""
        return ArrayType(self.name, self.dtype, self.shape)


@dataclass(frozen=True, slots=True)
class Fold:
    """A function that computes tensors from others, run when one of its inputs is updated.

    Args:
        function: Its name in the code of every target.
        inputs: Tensors, passed in this order.
        outputs: Tensors that it computes, in this order; the file contains their first values.
        faults: As of `Entry`.
    """

    function: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    faults: tuple[Fault, ...] = ()


@dataclass(frozen=True, slots=True)
class NonNegativeCheck:
    """Refuses an update that would make one of these numbers negative.

    Args:
        tensor: The numbers, of one axis, stored or computed, such as the smallest entry of each of several weights.
        names: The weights that each number stands for, for messages.
    """

    tensor: str
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Target:
    """The code for one kind of machine.

    Args:
        name: The name for `plica export --target`.
        architecture: `x86_64` or `aarch64`.
        features: The features that the processor must have, by the names of `machine.py`.
        part: The part of the file that holds it, a shared library.
    """

    name: str
    architecture: str
    features: tuple[str, ...]
    part: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """The description of a file: everything except the bytes of its parts.

    Args:
        main: The entry that `module(x)` calls.
        entries: Every entry, fallbacks included.
        targets: The best first: a machine takes the first that it can run.
        tensors: The constants.
        folds: In an order in which each can run.
        provenance: The origin of the file: `plica` (the version), `made` (the time), `source` (the model).
        also: Entries that `module(x)` calls instead of the main one if their argument has the kind of the data's dtype.
            For example, one for floats if the main entry takes integers.
        non_negative: The checks that an update must pass.
        encoding: The columns of the table that rows come from, as JSON (`files/encoding.py` reads it); None if rows are
            plain numbers.
    """

    main: str
    entries: tuple[Entry, ...]
    targets: tuple[Target, ...]
    tensors: tuple[Tensor, ...] = ()
    folds: tuple[Fold, ...] = ()
    provenance: Mapping[str, str] = field(default_factory=dict)
    also: tuple[str, ...] = ()
    non_negative: tuple[NonNegativeCheck, ...] = ()
    encoding: Mapping[str, Any] | None = None

    def entry(self, name: str) -> Entry:
        """The entry of a name, which must exist (`checks.py` checks the names in a manifest)."""
        return next(entry for entry in self.entries if entry.name == name)

    def functions(self) -> "Iterator[Function]":
        """The functions of the code, once for each entry and each fold."""
        types = {tensor.name: tensor.type for tensor in self.tensors}
        for entry in self.entries:
            inputs = (*entry.arguments, *entry.draws, *(types[name] for name in entry.constants))
            yield Function(entry.function, inputs, entry.results, entry.faults)
        for fold in self.folds:
            inputs, outputs = (tuple(types[name] for name in names) for names in (fold.inputs, fold.outputs))
            yield Function(fold.function, inputs, outputs, fold.faults)


@dataclass(frozen=True, slots=True)
class Function:
    """A function of the code, as a manifest describes it.

    Args:
        name: Its name.
        inputs: The types of what it takes, in order.
        results: The types of what it returns.
        faults: The errors that end it.
    """

    name: str
    inputs: tuple[ArrayType, ...]
    results: tuple[ArrayType, ...]
    faults: tuple[Fault, ...]


ALIGNMENT = 64  # bytes: each tensor begins at a multiple
