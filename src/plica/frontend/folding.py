"""`fold_constants`: a Program split into one that processes constants once, and one that runs at each call.

>>> import plica, plica.numpy as pnp
>>> def scaled(x, w):
...     return x @ pnp.permute_dims(w, (1, 0))
>>> program = plica.trace(scaled, plica.spec(("b", 4)), plica.spec((3, 4)))
>>> folded = plica.fold_constants(program, run_time=("w",))
>>> print(folded.entry)
{ lambda ; {b:i64[]} x:f32[b,4] a:f32[4,3] . let
    c:f32[b,3] = matmul x a
  in (c,) }
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from plica.constants.analysis.origins import print_origins
from plica.constants.fold import Folding, fold
from plica.constants.policy import FoldPolicy
from plica.constants.report import FoldReport
from plica.constants.store.cache import FoldCache, checked_cache
from plica.constants.store.shapes import sizes_of
from plica.errors import InputError
from plica.frontend.executors import Runner
from plica.frontend.folded_function import FoldedFunction
from plica.ir.program import Bound, Program
from plica.notebooks import explorer_html
from plica.passes.rewriting import Rewriting
from plica.tracing.trace import captured_values
from plica.tracing.trees import flatten

_FORMS = {"runtime": False, "split": True}


@dataclass(frozen=True, slots=True, eq=False)
class FoldedProgram:
    """A Program split by the folding of its constants.

    Args:
        program: The Program as it was given.
        leaves: The captured arrays that are known, by name.
        compile_time: The constants that are known now, by name.
        run_time: The names of constants that are known at the first call.
        form: "runtime" or "split".
        folding: The Programs that it was split into.

    >>> import plica, plica.numpy as pnp
    >>> program = plica.trace(lambda x, w: x @ pnp.exp(w), plica.spec(("b", 4)), plica.spec((4, 3)))
    >>> folded = plica.fold_constants(program, run_time=("w",))
    >>> print(folded.runtime_fold)
    { lambda ; w:f32[4,3] . let
        a:f32[4,3] = exp w
      in (a,) }
    >>> folded.kept, folded.arguments
    (('a',), {'x': 'x', 'w': None})
    """

    program: Program
    leaves: Mapping[str, Any]
    compile_time: Mapping[str, Any]
    run_time: tuple[str, ...]
    form: str
    folding: Folding

    def _repr_html_(self) -> str:
        """The explorer of the Program with the values that are folded, for notebooks."""
        return explorer_html(self)

    @property
    def compiletime_fold(self) -> Program | None:
        """The Program that may run now; None in the form "runtime", and if it would compute nothing."""
        return self.folding.split.compiletime_fold

    @property
    def runtime_fold(self) -> Program | None:
        """The Program that runs at the first call; None if it would compute nothing."""
        return self.folding.split.runtime_fold

    @property
    def entry(self) -> Program:
        """The Program that runs at each call."""
        return self.folding.split.entry

    @property
    def kept(self) -> tuple[str, ...]:
        """The names of the values that are kept between calls: the last arguments of `entry`, in this order."""
        return tuple(var.name for var in self.folding.split.kept)

    @property
    def arguments(self) -> dict[str, str | None]:
        """For each argument of the Program, its name in `entry`; None for an argument that is folded away."""
        staying = {var.name for var in self.entry.arguments}
        return {var.name: var.name if var.name in staying else None for var in self.program.arguments}

    def report(self) -> FoldReport:
        """The fate of each constant value, and its reason."""
        return self.folding.report

    def compile(
        self,
        backend: str = "torch",
        rewriting: Rewriting | None = None,
        *,
        cache: FoldCache | None = None,
        release_sources: bool = False,
    ) -> FoldedFunction:
        """Compile a function that folds the constants at its first call, and again where they change.

        In the form "split", values of arrays that are known are folded now.

        Args:
            backend: "torch" or "interpreter".
            rewriting: The rewrite rules for Programs; None for the default ones.
            cache: The cache of values; by default the one that functions share.
            release_sources: Whether references to constants that only folding reads are dropped after it. Their memory
                is freed once other owners, such as this object and modules, drop theirs. It is an error if an update or
                a gradient needs one again.

        Raises:
            InputError: There is no such backend, or `cache` is no `FoldCache`.
        """
        constants = [var.name for var in self.program.arguments if var.name in (*self.compile_time, *self.run_time)]
        known = {**self.leaves, **self.compile_time}
        cache = checked_cache("compile", cache)
        function = FoldedFunction(
            self.program, self.folding, constants, known, backend, rewriting, cache, release_sources=release_sources
        )
        if _FORMS[self.form]:
            function.fold_known()
        return function

    def marked(self) -> str:
        """The text of the Program; at the end of each line is the fate of its value."""
        return print_origins(self.folding.program, self.folding.origins)


def fold_constants(
    program: Program | Bound,
    *,
    compile_time: Mapping[Any, Any] | None = None,
    run_time: str | int | Sequence[str | int] = (),
    form: str = "runtime",
    policy: FoldPolicy | None = None,
) -> FoldedProgram:
    """Split a Program into the processing of its constants, which runs once, and the rest.

    Literals and captured arrays are constants. The order of the arguments never changes: `entry` takes those that it
    reads and those that are not constant, and then the kept values.

    Args:
        program: The Program, alone or with its captured arrays; `trace` remembers these. Arrays that the `bound` of a
            compiled function captures are known now. Arguments that are constant for the function are constant here.
        compile_time: Arguments and captured arrays whose values are known now, by name; arguments by index too.
        run_time: The names or indices of arguments that have one value for all calls.
        form: "runtime": one Program, `runtime_fold`, folds all constants. "split": `compiletime_fold` folds constants
            that are known now, and `runtime_fold` the others; it may read results of the former.
        policy: How much memory the folded values may take.

    Raises:
        InputError: The Program has no argument of a name or index, one is named twice, a value is no array or has
            another shape.
        DTypeError: An array has another dtype.
    """
    _check_kinds(program, compile_time, form, policy)
    keys = marks_of("fold_constants: run_time", run_time, "; arrays that are known belong in compile_time")
    if isinstance(program, Bound):
        leaves = {var.name: leaf for var, leaf in zip(program.program.consts, program.leaves, strict=True)}
        before, program = program.run_time, program.program
    else:
        leaves, before = captured_values(program), ()
    names = [var.name for var in program.arguments]
    marked = tuple(names_of("fold_constants", keys, names))
    given = names_of("fold_constants", list(compile_time or ()), names)
    _check_names(program, [*given, *marked])
    known = dict(zip(given, (compile_time or {}).values(), strict=True))
    marked = (*marked, *(name for name in before if name not in known and name not in marked))
    early = (*known, *(name for name in leaves if name not in known)) if _FORMS[form] else tuple(known)
    sizes = sizes_of(program, known)
    folding = fold(program, early, marked, sizes=sizes, policy=policy, is_two=_FORMS[form])
    return FoldedProgram(program, leaves, known, marked, form, folding)


def names_of(where: str, keys: Sequence[str | int], names: Sequence[str]) -> list[str]:
    """The names of arguments that are given by name or by index.

    Raises:
        InputError: There is no argument of an index.
    """
    for key in keys:
        if not isinstance(key, str) and not 0 <= key < len(names):
            raise InputError(
                f"{where}: there is no argument at position {key}; the {len(names)} arguments are {', '.join(names)}."
            )
    return [key if isinstance(key, str) else names[key] for key in keys]


def _check_kinds(program: Any, compile_time: Any, form: Any, policy: Any) -> None:
    """Refuse arguments of another kind than `fold_constants` takes."""
    if not isinstance(program, Program | Bound):
        raise InputError(
            f"fold_constants: expected a Program, found {program!r}; give the result of plica.trace, or the "
            "`bound` of a compiled function."
        )
    if compile_time is not None and not isinstance(compile_time, Mapping):
        raise InputError(
            f"fold_constants: compile_time is {type(compile_time).__name__}, expected arrays by name, as {{'w': w}}; "
            "names whose arrays are not known yet belong in run_time."
        )
    for key in compile_time or ():
        if not _is_key(key):
            raise InputError(f"fold_constants: compile_time has the key {key!r}; give names or positions of arguments.")
    if form not in list(_FORMS):
        raise InputError(f"fold_constants: the form is {form!r}; give 'runtime' or 'split'.")
    if policy is not None and not isinstance(policy, FoldPolicy):
        raise InputError(f"fold_constants: the policy is {policy!r}; give a plica.FoldPolicy, or None for the default.")


def marks_of(where: str, keys: Any, advice: str = "") -> tuple[str | int, ...]:
    """The names and indices of marked arguments as a tuple, from a sequence or a single name or index.

    Raises:
        InputError: An entry is neither a name nor an index.
    """
    marks = (keys,) if _is_key(keys) else tuple(keys) if isinstance(keys, Iterable) else (None,)
    if not all(map(_is_key, marks)):
        raise InputError(
            f"{where} is {keys!r}, expected the names or positions of arguments, as ('w', 'b') or (1, 2){advice}."
        )
    return marks


def _is_key(key: Any) -> bool:
    return isinstance(key, str | int) and not isinstance(key, bool)


def _check_names(program: Program, names: Sequence[str]) -> None:
    there = [var.name for var in (*program.consts, *program.arguments)]
    for index, name in enumerate(names):
        if name not in there:
            raise InputError(
                f"fold_constants: the program has no argument {name!r}; it has {', '.join(there) or 'none'}."
            )
        if name in names[:index]:
            raise InputError(f"fold_constants: {name!r} is named twice; name it once, in compile_time or in run_time.")


# Decorated functions


@dataclass(frozen=True, slots=True)
class _FoldedExecutor:
    """A folded Program as the executor of a compiled function.

    Args:
        function: The folded Program.
        names: The names of its arguments, in order.
    """

    function: FoldedFunction
    names: tuple[str, ...]

    @property
    def code(self) -> str:
        """The code that runs at each call, as text."""
        return self.function.code

    def specialize(self, leaves: Sequence[Any]) -> Runner:
        """The function that runs any leaves; it checks their kinds itself."""
        del leaves
        return lambda arguments: self.function.run(dict(zip(self.names, arguments, strict=True)))


def folded_executor(
    bound: Bound,
    names: Sequence[str],
    backend: str,
    rewriting: Rewriting | None,
    policy: FoldPolicy | None,
    cache: FoldCache | None,
) -> _FoldedExecutor:
    """The executor of a Program some of whose arguments are constant.

    Args:
        bound: The Program with its captured arrays, which are constant too.
        names: The names of constant arguments.
        backend: "torch" or "interpreter".
        rewriting: The rewrite rules for Programs; None for the default ones.
        policy: How much memory folding may take.
        cache: The cache of values; by default the one that functions share.
    """
    folded = fold_constants(bound, run_time=names, policy=policy)
    return _FoldedExecutor(
        folded.compile(backend, rewriting, cache=cache), tuple(var.name for var in bound.program.arguments)
    )


def constant_names(names: Sequence[str], constants: Sequence[str], trees: Sequence[Any], program: Program) -> list[str]:
    """The names in a Program of the leaves of constant arguments.

    Args:
        names: The names of the positional parameters of a function that are not static.
        constants: The names of its constant arguments.
        trees: The arguments that were given for the first of them.
        program: The Program that it was traced to.

    Raises:
        InputError: The function has no argument of a name.
    """
    for name in constants:
        if name not in names:
            there = ", ".join(names) or "none"
            raise InputError(
                f"jit: constants must be positional arguments that are not static, found {name!r}; the function has "
                f"{there}."
            )
    owners = [name for name, tree in zip(names, trees, strict=False) for _ in flatten(tree)[0]]
    return [var.name for name, var in zip(owners, program.arguments, strict=False) if name in constants]
