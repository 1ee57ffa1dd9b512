"""Splits a Program into one that runs once, which folds constants, and one that runs at each call.

    original(x, c) == entry(x, *fold(c))

`entry` takes the arguments that are not constant and the constants that it reads itself, in the order of the original.
Then it takes the kept values, results of `fold` that stay in memory between calls, in order of definition. Variables
keep their names, which map old arguments to new ones. `fold` takes the constants that it reads, and returns each kept
value once.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from plica.constants.analysis.facts import is_size_arithmetic
from plica.constants.analysis.origins import makers_of, needed_by
from plica.graph.components import DisjointSets, strongly_connected
from plica.ir.program import Equation, Program, Var, size_variables
from plica.ir.sizes import Size


@dataclass(frozen=True, slots=True, eq=False)
class Split:
    """The Programs that a Program was split into; None for a fold that would compute nothing.

    Args:
        compiletime_fold: Runs once the values of compile-time constants are known, and needs these alone.
        runtime_fold: Runs at the first call, which brings the values of run-time constants.
        entry: Runs at each call.
        kept: The values that are kept between calls, the last arguments of `entry` in this order.
        handed: The values that `compiletime_fold` makes for `runtime_fold` alone.
    """

    compiletime_fold: Program | None
    runtime_fold: Program | None
    entry: Program
    kept: tuple[Var, ...]
    handed: tuple[Var, ...] = ()


@dataclass(frozen=True, slots=True)
class Cut:
    """A Program and how to split it.

    Args:
        program: The Program.
        constants: The consts, arguments and implicit sizes that are constant.
        known: The compile-time constants, and the results that depend on these alone.
        foldable: The equations that depend on constants alone, so that they may run once, in order.
        runs: The foldable equations that run at each call all the same: to keep their results would cost more.
    """

    program: Program
    constants: Mapping[Var, None]
    known: Mapping[Var, None]
    foldable: Sequence[Equation]
    runs: Mapping[Equation, None]


def entry_equations(cut: Cut) -> list[Equation]:
    """The equations of `entry`: those that depend on other values than constants, and those of `cut.runs`."""
    folded = dict.fromkeys(equation for equation in cut.foldable if equation not in cut.runs)
    return [equation for equation in cut.program.equations if equation not in folded]


def split(cut: Cut, *, is_two: bool) -> Split:
    """The Programs of a cut; with `is_two`, a fold for compile-time constants and one for the others, else one for all.

    Assumes:
        `entry` reads only those results of other equations that may be kept.
    """
    program = cut.program
    equations = entry_equations(cut)
    computed = dict.fromkeys(var for equation in equations for var in equation.outputs)
    needed = needed_by(equations, program.outputs)
    results = dict.fromkeys(var for equation in cut.foldable for var in equation.outputs)
    kept = [var for var in results if var in needed and var not in computed]
    entry, kept = _entry(cut, equations, needed, kept)
    if not is_two:
        return Split(None, _fold(cut, kept, {}), entry, tuple(kept))
    early = [var for var in kept if var in cut.known]
    late = [var for var in kept if var not in cut.known]
    handed = _handed(cut, late)
    not_kept = tuple(var for var in results if var in handed and var not in early)
    return Split(_fold(cut, [*early, *not_kept], {}), _fold(cut, late, handed), entry, tuple(kept), not_kept)


def _entry(
    cut: Cut, equations: Sequence[Equation], needed: Mapping[Var, None], kept: Sequence[Var]
) -> tuple[Program, list[Var]]:
    """The Program of each call, and the kept values that it takes as further arguments.

    An implicit size is read off an argument with an axis of exactly this size. A constant size that no argument has is
    kept as a number. If the type of an argument needs it, a constant with such an axis stays an argument instead.
    """
    program = cut.program
    consts = tuple(var for var in program.consts if var in needed or var not in cut.constants)
    staying = [var for var in program.arguments if var in needed or var not in cut.constants]
    while missing := _sizes_without_axis(cut, staying, kept):
        holders = [var for var in program.arguments if Size.of(missing[0]) in var.type.shape]
        staying = [var for var in program.arguments if var in (*staying, holders[0])]
    arrays = (*staying, *kept)
    axes = dict.fromkeys(dim for var in arrays for dim in var.type.shape)
    in_types = dict.fromkeys(size for var in arrays for size in size_variables(var.type))
    read = {**needed, **in_types}
    sizes = [var for var in program.inputs[: program.num_implicit_inputs] if var in read]
    numbers = [var for var in sizes if Size.of(var) not in axes]
    implicit = [var for var in sizes if Size.of(var) in axes]
    implicit += [var for var in in_types if var not in sizes and var not in consts]
    explicit = [var for var in staying if var not in implicit]
    kept = [*numbers, *(var for var in kept if var not in implicit)]
    inputs = (*implicit, *explicit, *kept)
    outputs = program.num_implicit_outputs
    return Program(consts, inputs, tuple(equations), program.outputs, len(implicit), outputs), kept


def _sizes_without_axis(cut: Cut, staying: Sequence[Var], kept: Sequence[Var]) -> list[Var]:
    """The implicit sizes that types of arguments need but that are the length of no axis, so that none gives them."""
    implicit = cut.program.inputs[: cut.program.num_implicit_inputs]
    axes = dict.fromkeys(dim for var in (*staying, *kept) for dim in var.type.shape)
    in_types = dict.fromkeys(size for var in (*staying, *kept) for size in size_variables(var.type))
    return [var for var in implicit if var in in_types and Size.of(var) not in axes]


def components(cut: Cut, split: Split) -> list[Program]:
    """The folds of a split in parts, each a Program that computes some of the values that are kept or handed on.

    A part may read kept values of the parts before it, and no other results of theirs. So a change of a constant runs
    only the parts that depend on it. Values that compile-time constants alone determine have parts of their own.
    """
    values = dict.fromkeys((*split.handed, *split.kept))
    running, _ = makers_of(cut.foldable, values)
    made = dict.fromkeys(var for equation in running for var in equation.outputs)
    sets: DisjointSets[Var] = DisjointSets()
    for equation in running:
        inside = (operand for operand in needed_by((equation,), ()) if operand in made and operand not in values)
        sets.join(*equation.outputs, *inside)
    groups: dict[Var, tuple[list[Equation], list[Var]]] = {}
    for var in values:
        groups.setdefault(sets.find(var), ([], []))[1].append(var)
    reads: dict[Var, dict[Var, None]] = {root: {} for root in groups}
    for equation in reversed(running):
        root = sets.find(equation.outputs[0])
        groups[root][0].append(equation)
        values_read = (operand for operand in needed_by((equation,), ()) if operand in made and operand in values)
        reads[root].update((operand, None) for operand in values_read if sets.find(operand) is not root)
    order = {equation: index for index, equation in enumerate(cut.foldable)}
    programs = []
    for component in strongly_connected(groups, lambda root: [sets.find(var) for var in reads[root]]):
        equations = sorted((equation for root in component for equation in groups[root][0]), key=order.__getitem__)
        results = [var for root in component for var in groups[root][1]]
        others = dict.fromkeys(var for root in component for var in reads[root] if sets.find(var) not in component)
        programs.append(_fold(replace(cut, foldable=equations), results, others))
    return [program for program in programs if program is not None]


def constant_results(split: Split) -> list[int]:
    """The positions of the results of `entry` that depend on kept values alone."""
    constant = dict.fromkeys(split.kept)
    for equation in split.entry.equations:
        if all(operand in constant for operand in equation.inputs if isinstance(operand, Var)):
            constant.update(dict.fromkeys(equation.outputs))
    return [index for index, operand in enumerate(split.entry.results) if operand in constant]


def _handed(cut: Cut, late: Sequence[Var]) -> dict[Var, None]:
    """The values that the compile-time fold computes and the run-time fold reads."""
    handed: dict[Var, None] = {}
    needed = needed_by((), late)
    for equation in reversed(cut.foldable):
        outputs_needed = [var for var in equation.outputs if var in needed]
        if not outputs_needed:
            continue
        if all(var in cut.known for var in equation.outputs) and not is_size_arithmetic(equation):
            handed.update(dict.fromkeys(outputs_needed))
        else:
            needed.update(needed_by((equation,), ()))
    return handed


def _fold(cut: Cut, results: Sequence[Var], handed: Mapping[Var, None]) -> Program | None:
    """The Program that makes `results` from constants and `handed` values; None where there are no results."""
    if not results:
        return None
    program = cut.program
    equations, needed = makers_of(cut.foldable, results, handed)
    equations.reverse()
    consts = tuple(var for var in program.consts if var in needed)
    handed_arguments = [var for var in handed if var in needed]
    arguments = [var for var in program.arguments if var in needed and var in cut.constants]
    for size in program.inputs[: program.num_implicit_inputs]:
        if size in needed and not any(Size.of(size) in var.type.shape for var in (*arguments, *handed_arguments)):
            constants = [var for var in program.arguments if var in cut.constants]
            source = next(var for var in constants if Size.of(size) in var.type.shape)
            arguments = [var for var in program.arguments if var in (*arguments, source)]
    inside = dict.fromkeys(var for equation in equations for var in equation.outputs)
    in_types = dict.fromkeys(size for var in (*arguments, *handed_arguments) for size in size_variables(var.type))
    sizes = [var for var in program.inputs[: program.num_implicit_inputs] if var in needed or var in in_types]
    sizes += [var for var in in_types if var not in sizes and var not in consts]
    arguments = [var for var in arguments if var not in sizes]
    handed_arguments = [var for var in handed_arguments if var not in sizes]
    implicit = dict.fromkeys(size for var in results for size in size_variables(var.type) if size in inside)
    inputs = (*sizes, *arguments, *handed_arguments)
    return Program(consts, inputs, tuple(equations), (*implicit, *results), len(sizes), len(implicit))
