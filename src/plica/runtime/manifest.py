"""What a native file says of itself: its entry points, their types, its constants, its targets and where it comes from.

A manifest is written into the head of the file as JSON (`decode.py` reads it back, `checks.py` refuses one whose parts
do not fit together). A size of a shape is a number, a symbol (`"n"`) or a formula of symbols as Programs print it
(`"2*n^2"`, `"max(n-1,0)"`).

>>> score = Entry(
...     "log_likelihood",
...     function="scaled",
...     arguments=(ArrayType("x", "int64", ("n", 64)),),
...     results=(ArrayType("score", "float32", ("n",)), ArrayType("proven", "bool", ("n",))),
...     rows=Rows("n", chunk=128),
...     way_out=WayOut("log_space", proven="proven"),
... )
>>> score.shown, str(score.arguments[0])
((ArrayType(name='score', dtype='float32', shape=('n',)),), 'x: int64[n, 64]')
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

Dim = int | str


@dataclass(frozen=True, slots=True)
class ArrayType:
    """An argument, a result, or an array of uniforms that the host draws.

    Args:
        name: As callers and messages call it.
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
    """What arguments or results are parts of: numbers of arrays, None where there is nothing, and trees of these.

    Args:
        kind: `tuple`, `list`, `dict`, or `named`: an object with fields, which comes back as a named tuple.
        items: The parts.
        keys: Of a dict and of a named tuple, the key of each part.
        name: Of a named tuple.
    """

    kind: str
    items: tuple["Tree | int | None", ...]
    keys: tuple[str | int, ...] = ()
    name: str = ""


@dataclass(frozen=True, slots=True)
class Rows:
    """That an entry answers each row by itself, so that many rows are asked for in pieces.

    Args:
        symbol: The size of the axis of rows, wherever it stands in the shapes of arguments, draws and results.
        chunk: How many rows one call of the function gets at most; None: all.
        alone: Up to how many rows the thread that calls answers alone, though the driver has threads that could help:
            waking them would take longer than the answer.
    """

    symbol: str
    chunk: int | None = 128
    alone: int = 0


@dataclass(frozen=True, slots=True)
class WayOut:
    """Who answers the rows whose answer is not proven.

    Args:
        entry: Another entry, of the same arguments, draws and results.
        proven: The result of shape (rows,) and dtype `bool` that says whose answers are; callers do not see it.
    """

    entry: str
    proven: str


@dataclass(frozen=True, slots=True)
class Entry:
    """One question that the file answers, by a function of its code.

    The function is called with the arguments, then the draws, then the constants, and gives the results.

    Args:
        name: As users call it: `module.name(...)`.
        function: Its name in the code of every target.
        arguments: What callers pass.
        results: What the function gives, in order.
        draws: Uniforms in [0, 1) that the host draws, from the seed of the call.
        constants: Tensors of the file that are passed as arguments: those that `NativeModule.update` may change.
        rows: Set where rows are answered one by one.
        way_out: Set where the function says which of its rows are proven.
        public: Whether users see it; an entry that is only a way out is not.
        text: One sentence for `help` and `plica inspect`.
        takes: The arguments by the names of parameters, a dict of trees of `arguments`; None where each is an array.
        gives: The tree of `results` that callers get; None where it is an array, or a tuple of arrays.
    """

    name: str
    function: str
    arguments: tuple[ArrayType, ...]
    results: tuple[ArrayType, ...]
    draws: tuple[ArrayType, ...] = ()
    constants: tuple[str, ...] = ()
    rows: Rows | None = None
    way_out: WayOut | None = None
    public: bool = True
    text: str = ""
    takes: Tree | None = None
    gives: Tree | None = None

    @property
    def shown(self) -> tuple[ArrayType, ...]:
        """The results that callers get."""
        return tuple(one for one in self.results if self.way_out is None or one.name != self.way_out.proven)


@dataclass(frozen=True, slots=True)
class Tensor:
    """A constant array, stored once for all targets.

    Code gets it as a parameter of the scope `SCOPE` under its name (`#stream.parameter.named<"plica"::"name">`), in the
    mapped memory of the file itself, or as an argument where an entry names it among its constants.

    Args:
        name: Unique in the file.
        dtype: As in `ArrayType`.
        shape: Numbers.
        part: The part of the file that holds it.
        offset: Where in that part it begins: the first multiple of `ALIGNMENT` after the tensor listed before it.
        updatable: Whether users may replace it.
        parts: The names by which they replace the arrays along its first axis, an empty one where one stays; empty
            where they replace all of it.
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
        """By the names of what users replace: its type, and where along the first axis it stands; None: all of it."""
        if not self.updatable:
            return {}
        if not self.parts:
            return {self.name: (self.type, None)}
        return {
            name: (ArrayType(name, self.dtype, self.shape[1:]), place) for place, name in enumerate(self.parts) if name
        }

    @property
    def type(self) -> ArrayType:
        """What it is as an argument or a result."""
        return ArrayType(self.name, self.dtype, self.shape)


@dataclass(frozen=True, slots=True)
class Fold:
    """A function that computes tensors from others, run when one of its inputs is updated.

    Args:
        function: Its name in the code of every target.
        inputs: Tensors, passed in this order.
        outputs: Tensors that it gives, in this order; the file holds their first values.
    """

    function: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Floor:
    """Numbers none of which may be negative: an update that would make one so is refused.

    Args:
        tensor: The numbers, of one axis, given or computed.
        names: What has each of them.
    """

    tensor: str
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Target:
    """The code for one kind of machine.

    Args:
        name: As `plica export --target` calls it.
        architecture: `x86_64`, `aarch64`, or empty where the processor does not matter.
        features: What the processor must be able to, in the words of `machine.py`.
        driver: The driver of the IREE runtime that runs it.
        part: The part of the file that holds it.
    """

    name: str
    architecture: str
    features: tuple[str, ...]
    part: str
    driver: str = "local-sync"


@dataclass(frozen=True, slots=True)
class Manifest:
    """Everything but the bytes of the parts.

    Args:
        main: The entry that `module(x)` asks.
        entries: Every entry, ways out included.
        targets: The best first: the first that fits the machine is taken.
        iree: The version of the compiler; a runtime of the same major and minor version runs the code.
        tensors: The constants.
        folds: In an order in which they can run.
        provenance: Words about where the file comes from (`plica`: its version, `made`: when, `source`: of what).
        also: Other entries that `module(x)` asks instead, where data is of the kind of theirs (floats, not integers)
            and not of that of the main one.
        floors: What is checked before an update counts.
    """

    main: str
    entries: tuple[Entry, ...]
    targets: tuple[Target, ...]
    iree: str
    tensors: tuple[Tensor, ...] = ()
    folds: tuple[Fold, ...] = ()
    provenance: Mapping[str, str] = field(default_factory=dict)
    also: tuple[str, ...] = ()
    floors: tuple[Floor, ...] = ()

    def entry(self, name: str) -> Entry:
        """The entry of a name; names are checked before (`checks.py`)."""
        return next(one for one in self.entries if one.name == name)


SCOPE = "plica"  # of parameters in the code
ALIGNMENT = 64  # bytes: what the code that IREE makes expects of every array
