r"""`fold` splits a Program into one that folds constants, once, and `entry`, which runs at each call.

The steps are functions that can be called one by one, to look at each result:

    hoist, remove dead code, share equations    move constant work out of loops, and compute nothing twice
    read_splats                                 read an array filled with one number as that number
    by_states                                   compute operations on looked-up rows once for each row of the table
    postpone                                    move operations that expand constants below elementwise ones
    find_origins                                find which values are constant, and which constants they depend on
    facts_of, work_of                           find the bits and the work of each, and why one may not be kept
    choose                                      choose the values to keep between calls: the cut
    split, components                           make the Programs

>>> from plica.ir.types import spec
>>> from plica.tracing.trace import trace
>>> program = trace(lambda x, w: x * (w + 1), spec(3), spec(3))
>>> folding = fold(program, run_time=("w",))
>>> print(folding.split.runtime_fold, folding.split.entry, sep="\n")
{ lambda ; w:f32[3] . let
    a:f32[3] = add w 1.0:f32[]
  in (a,) }
{ lambda ; x:f32[3] a:f32[3] . let
    b:f32[3] = multiply x a
  in (b,) }
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from plica.constants.analysis.facts import Fact, Sizes, bytes_of, facts_of, work_of
from plica.constants.analysis.origins import Origins, find_origins, needed_by
from plica.constants.cut.choice import Choice, Operation, Problem, choose
from plica.constants.cut.split import Cut, Split, components, split
from plica.constants.policy import FoldPolicy
from plica.constants.report import Fate, FoldReport, ValueReport
from plica.constants.rewrites.postpone import postpone
from plica.constants.rewrites.states import CONTRACTED, by_states
from plica.ir.op import Memory
from plica.ir.program import Equation, Operand, Program, Var, size_variables
from plica.ir.sizes import Size
from plica.ops import OPS
from plica.passes.cse import share_equations
from plica.passes.dead_code import eliminate_dead_code
from plica.passes.hoist import hoist
from plica.passes.inline import inline
from plica.passes.memory import plan_memory
from plica.passes.reshapes import copying_reshapes
from plica.passes.splats import read_splats


@dataclass(frozen=True, slots=True, eq=False)
class Folding:
    """The result of `fold`.

    Args:
        program: The rewritten Program, before the split.
        origins: Which of its values are constant, and which constants they depend on.
        split: The Programs that fold constants, and `entry`.
        components: The folding of constants in parts. Each runs again only if a constant that it reads changes. One
            part reads a value of another only if that is kept, or handed on.
        report: For each constant value whether it is kept, and why.
        policy: The limits of the values that are kept.
    """

    program: Program
    origins: Origins
    split: Split
    components: tuple[Program, ...]
    report: FoldReport
    policy: FoldPolicy


def fold(
    program: Program,
    compile_time: Collection[str] = (),
    run_time: Collection[str] = (),
    *,
    sizes: Sizes | None = None,
    policy: FoldPolicy | None = None,
    is_two: bool = False,
    sources_stay: bool = False,
) -> Folding:
    """Split a Program into one or two that fold its constants, and the Program of each call.

    Args:
        program: The Program.
        compile_time: The names of arguments and consts whose values are known when the Program is compiled.
        run_time: The names of arguments that have one value for all calls. Consts that are in neither are run-time
            constants too.
        sizes: The implicit sizes that are known.
        policy: The limits of the values that are kept.
        is_two: Whether two Programs fold: one the values of compile-time constants, one the others.
        sources_stay: Whether the constants stay in memory whatever is folded, since something else holds them. Then
            each kept value adds to memory, except views of constants.
    """
    policy = FoldPolicy() if policy is None else policy
    captured = [var.name for var in program.consts if var.name not in compile_time]
    program = read_splats(share_equations(eliminate_dead_code(hoist(inline(program)))))
    program = eliminate_dead_code(program)

    def origins_of(program: Program) -> Origins:
        return find_origins(program, compile_time, (*run_time, *captured))

    def folded(program: Program) -> Folding:
        postponed = postpone(program, origins_of(program).foldable(program), widen=policy.widen)
        program = eliminate_dead_code(share_equations(postponed.program))
        known = {} if sizes is None else sizes
        return _Folder(program, origins_of(program), known, policy, is_two, sources_stay, postponed.moved).run()

    return _with_tables(program, origins_of(program), folded)


def _with_tables(program: Program, origins: Origins, folded: Callable[[Program], Folding]) -> Folding:
    """The folding after `by_states`, which computes operations on looked-up rows for each row of the table.

    A new table must be kept: otherwise each call would compute all of it. If the policy has no room for one, the lookup
    that reads it is rewritten less (`limits`), and folding is tried again. So are all lookups if their tables take the
    room of other constants, such that a call does more work than without them.
    """
    limits: dict[Var, int] = {}
    unrewritten: Folding | None = None
    refused: dict[Var, None] = {}
    while (rewritten := by_states(program, origins, limits)).tables:
        folding = folded(eliminate_dead_code(share_equations(rewritten.program)))
        computed_by_calls = dict.fromkeys(var for equation in folding.split.entry.equations for var in equation.outputs)
        too_large = dict.fromkeys(lookup for table, lookup in rewritten.tables.items() if table in computed_by_calls)
        if not too_large and any(folding.report.of(Fate.CUT)):
            unrewritten = folded(program) if unrewritten is None else unrewritten
            if folding.report.work_after > unrewritten.report.work_after:
                too_large = dict.fromkeys(rewritten.tables.values())
        if not too_large:
            return replace(folding, report=folding.report.with_values(_states_report(rewritten.moved, refused)))
        refused.update(too_large)
        limits.update((lookup, limits.get(lookup, CONTRACTED) - 1) for lookup in too_large)
    folding = folded(program) if unrewritten is None else unrewritten
    return replace(folding, report=folding.report.with_values(_states_report((), refused)))


def _states_report(moved: Sequence[Equation], refused: Iterable[Var]) -> Iterator[ValueReport]:
    for equation in moved:
        for var in equation.outputs:
            why = "computed once for each state of a table, and looked up"
            yield ValueReport(var.name, str(var.type), equation.op.name, Fate.STATES, why, equation.source)
    for var in refused:
        why = "a table of its values for each state would exceed the policy's limits"
        yield ValueReport(var.name, str(var.type), "lookup", Fate.REFUSED, why)


class _Folder:
    """The steps from `facts_of` on, for a rewritten Program."""

    def __init__(
        self,
        program: Program,
        origins: Origins,
        sizes: Sizes,
        policy: FoldPolicy,
        is_two: bool,
        sources_stay: bool,
        postponed: Mapping[Var, None],
    ) -> None:
        self.program, self.origins, self.sizes, self.policy, self.is_two = program, origins, sizes, policy, is_two
        self.postponed = postponed
        self.copying = copying_reshapes(program)
        self.sources = [var for var in (*program.consts, *program.inputs) if origins.of[var].is_constant]
        self.foldable = list(origins.foldable(program))
        self.facts = facts_of(self.sources, self.foldable, sizes, policy)
        self.work = [work_of(equation, sizes) for equation in self.foldable]
        self.free = self._free() if sources_stay else {}

    def run(self) -> Folding:
        limit = None if self.policy.max_growth is None else 8 * self.policy.max_growth
        problem = self._problem()
        choice = choose(problem, limit, None if self.policy.max_peak is None else self._fits)
        programs = self._split(choice)
        parts = tuple(components(self._cut(choice), programs))
        report = self._report(choice, programs, parts)
        return Folding(self.program, self.origins, programs, parts, report, self.policy)

    def _problem(self) -> Problem:
        """The choice of a cut as a `Problem`, in which values are numbered: sources first, then results in order."""
        values = [*self.sources, *(var for equation in self.foldable for var in equation.outputs)]
        numbers = {var: number for number, var in enumerate(values)}
        operations = [
            Operation(
                tuple(
                    numbers[var] for var in needed_by((equation,), ()) if var in numbers and var not in equation.outputs
                ),
                tuple(numbers[var] for var in equation.outputs),
                work,
            )
            for equation, work in zip(self.foldable, self.work, strict=True)
        ]
        foldable = dict.fromkeys(self.foldable)
        call_equations = [equation for equation in self.program.equations if equation not in foldable]
        read_by_calls = {**needed_by(call_equations, self.program.outputs), **dict.fromkeys(self._giving_sizes())}
        read = {**read_by_calls, **needed_by(self.foldable, ())}
        bits = [self._bits(var) if var in read else 0 for var in values]
        needed = [numbers[var] for var in read_by_calls if var in numbers]
        return Problem(operations, bits, range(len(self.sources)), needed)

    def _bits(self, var: Var) -> int | None:
        """How many bits keeping a value takes: none for a size of an argument. None if it may not be kept."""
        if var in self.free or var in self.program.inputs[: self.program.num_implicit_inputs]:
            return 0
        fact = self.facts[var]
        return None if fact.obstacle else fact.bits or 0

    def _free(self) -> dict[Var, None]:
        """The values that take no memory of their own: sources, which stay in memory, and views of them."""
        free: dict[Operand, None] = dict.fromkeys(self.sources)
        for equation in self.foldable:
            if self._is_view(equation) and all(operand in free for operand in equation.inputs):
                free.update((var, None) for var in equation.outputs if not self.facts[var].obstacle)
        return dict.fromkeys(var for var in free if isinstance(var, Var))

    def _is_view(self, equation: Equation) -> bool:
        """Whether results lie in the memory of an operand."""
        return OPS[equation.op.name].memory is Memory.VIEW and equation not in self.copying

    def _giving_sizes(self) -> Iterator[Var]:
        """The constants that calls must read for a size: it stands in the type of another argument, but not alone.

        For example, the size `n` of arguments `x: f32[n+1]` and `w: f32[n]` with a constant `w` is read off `w`.
        """
        varying = [var for var in self.program.arguments if not self.origins.of[var].is_constant]
        for size in dict.fromkeys(size for var in varying for size in size_variables(var.type)):
            if not any(Size.of(size) in var.type.shape for var in varying):
                yield next(var for var in self.program.arguments if Size.of(size) in var.type.shape)

    def _cut(self, choice: Choice) -> Cut:
        """The cut of the Program that a choice says."""
        runs = dict.fromkeys(self.foldable[index] for index in choice.runs)
        known = dict.fromkeys(var for var, origin in self.origins.of.items() if origin.is_known)
        return Cut(self.program, dict.fromkeys(self.sources), known, self.foldable, runs)

    def _split(self, choice: Choice) -> Split:
        return split(self._cut(choice), is_two=self.is_two)

    def _fits(self, choice: Choice) -> bool:
        """Whether folding stays below the limit for bytes that are alive at once."""
        assert self.policy.max_peak is not None, "asked only where there is a limit"
        programs = self._split(choice)
        return self._peak(programs, components(self._cut(choice), programs)) <= self.policy.max_peak

    def _peak(self, programs: Split, parts: Sequence[Program]) -> int:
        """The most bytes alive at once while folding, by the one or two Programs or by components, results included."""
        folds = [program for program in (programs.compiletime_fold, programs.runtime_fold) if program is not None]
        return max(self._peak_of(folds), self._peak_of(parts))

    def _peak_of(self, programs: Sequence[Program]) -> int:
        rows = max(self.sizes.values(), default=0)
        before = peak = 0
        for program in programs:
            peak = max(peak, before + plan_memory(program, rows).peak + self._copied_bytes(program))
            before += self._bytes(program.results)
        return peak

    def _copied_bytes(self, program: Program) -> int:
        """The bytes of copies: a result that is a view or is packed is copied, and a packed argument is unpacked."""
        views = dict.fromkeys(
            var for equation in program.equations if self._is_view(equation) for var in equation.outputs
        )
        unpacked = (
            replace(operand.type, dtype=operand.type.dtype.carrier)
            for operand in program.arguments
            if _is_packed(operand)
        )
        copied = [operand.type for operand in program.results if operand in views or _is_packed(operand)]
        return sum(bytes_of(type_, self.sizes) or 0 for type_ in (*copied, *unpacked))

    def _bytes(self, operands: Sequence[Operand]) -> int:
        return sum(bytes_of(operand.type, self.sizes) or 0 for operand in operands)

    # The report

    def _report(self, choice: Choice, programs: Split, parts: Sequence[Program]) -> FoldReport:
        fates = self._fates(choice, programs)
        values = tuple(
            ValueReport(var.name, str(var.type), equation.op.name, *fates[var], equation.source)
            for equation in self.program.equations
            for var in equation.outputs
            if var in fates
        )
        implicit = dict.fromkeys(self.program.inputs[: self.program.num_implicit_inputs])
        given = [var for var in self.sources if var not in implicit]
        staying = [*programs.entry.consts, *(var for var in programs.entry.arguments if var in self.facts)]
        if self.free:
            staying = [*given, *(var for var in programs.kept if var not in self.free)]
        is_known = all(self.facts[var].bits is not None for var in (*self.sources, *programs.kept))
        before, peak = self._bytes(given), self._peak(programs, parts)
        after = self._bytes([var for var in staying if var not in implicit])
        work = sum(self.work)
        left = sum(self.work[index] for index in choice.runs)
        if not is_known:
            return FoldReport(values, None, None, None, work, left)
        return FoldReport(values, before, after, peak, work, left)

    def _fates(self, choice: Choice, programs: Split) -> Mapping[Var, tuple[Fate, str]]:
        fates: dict[Var, tuple[Fate, str]] = {}
        kept = dict.fromkeys(programs.kept)
        runs = dict.fromkeys(choice.runs)
        for index, equation in enumerate(self.foldable):
            for var in equation.outputs:
                fates[var] = self._fate(self.facts[var], is_kept=var in kept, is_run=index in runs)
                if index not in runs and var in kept and var in self.free:
                    fates[var] = (Fate.FOLDED, "kept: a part of a constant, which takes no memory of its own")
                if index in runs and var in self.postponed:
                    fates[var] = (Fate.POSTPONED, f"{equation.op.name} was moved below the elementwise operations")
        for equation in self.program.equations:
            for var in equation.outputs:
                if var not in fates and self._is_almost_foldable(equation, var):
                    fates[var] = (Fate.REFUSED, self._why_not(equation))
        return fates

    def _fate(self, fact: Fact, *, is_kept: bool, is_run: bool) -> tuple[Fate, str]:
        if is_run and fact.obstacle:
            return Fate.REFUSED, fact.obstacle
        if is_run:
            return Fate.CUT, f"computed at each call: keeping its {_bytes_text(fact)} would exceed the policy's limits"
        if is_kept:
            return Fate.FOLDED, f"kept, {_bytes_text(fact)}"
        return Fate.FOLDED, "only other folded values read it"

    def _is_almost_foldable(self, equation: Equation, var: Var) -> bool:
        """Whether only the operation of a value is a reason not to fold it: all that it reads is constant."""
        if self.origins.of[var].is_constant or equation not in self.origins.impure:
            return self.origins.of[var].is_constant
        read = needed_by((equation,), ())
        return all(operand in equation.outputs or self.origins.of[operand].is_constant for operand in read)

    def _why_not(self, equation: Equation) -> str:
        """Why an equation that is almost foldable is not."""
        if equation in self.origins.impure:
            return f"{equation.op.name} is not pure"
        return f"{equation.op.name} as a whole reads values that are not constant"


def _is_packed(operand: Operand) -> bool:
    return operand.type.dtype.is_storage


def _bytes_text(fact: Fact) -> str:
    return "unknown number of bytes" if fact.bits is None else f"{-(-fact.bits // 8)} bytes"
