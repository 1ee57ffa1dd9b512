"""Every operation that has a form in StableHLO gives, run by XLA, what the interpreter gives on its samples."""

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

import numpy as np
import pytest

from plica.backend.native.decompositions import DECOMPOSITIONS
from plica.backend.native.stablehlo.emit import emit
from plica.errors import UnsupportedError
from plica.frontend.programs import interpret
from plica.ops import OPS
from tests.harness.many import given, one_program
from tests.harness.programs import assert_same, unique
from tests.harness.samples import CASES, SAMPLES, Case
from tests.harness.stablehlo import run

_DATA = "depends on the values of arrays"
REFUSED = {
    "nonzero": _DATA,
    "unique": _DATA,
    "for_loop": "the size of a carried array changes between iterations",
    "while_loop": "the size of a carried array changes between iterations",
    "cond": "the branches return results of different sizes",
}
"""Operations of which StableHLO has not every sample, and what is said of those."""

OF_ORDER = ("sort", "argsort", "searchsorted", "max", "min", "argmax", "argmin")

MOST_TEXT = 10_000  # what is longer (special functions, random numbers) takes XLA seconds: for the full product
SUBNORMAL = "search_cumulative-2"  # numbers that XLA takes to be 0


def _brief() -> Iterator[Case]:
    """One sample of each operation for each kind of numbers; of more than two kinds, those but the first take turns."""
    samples: dict[str, dict[tuple[str, ...], Case]] = {}
    for case in SAMPLES:
        if case.op not in DECOMPOSITIONS:
            samples.setdefault(case.op, {}).setdefault(tuple(one.dtype.kind for one in case.inputs), case)
    for place, kinds in enumerate(samples.values()):
        first, *others = kinds.values()
        yield first
        yield from others[place % 2 :: 2] or others


def _supported(cases: Iterable[Case], most: float = math.inf) -> Iterator[Case]:
    """Those that have a form, of at most so many characters."""
    for case in cases:
        if str(case).startswith(SUBNORMAL):
            continue
        try:
            text = emit(one_program([case]))
        except UnsupportedError:
            continue
        if len(text) < most:
            yield case


def _groups(cases: Iterator[Case], size: int) -> Iterator[list[Case]]:
    while group := list(islice(cases, size)):
        yield group


def _check(cases: Sequence[Case]) -> None:
    arrays = [one for case in cases for one in given(case)]
    found = iter(run(emit(one_program(cases)), *arrays))
    for case in cases:
        expected = interpret(one_program([case]), *given(case))
        results = unique(case.op, tuple(islice(found, len(expected))))
        for one, other in zip(results, unique(case.op, expected), strict=True):
            try:
                assert_same(one, other, OPS[case.op].tolerance)
            except AssertionError as error:
                error.add_note(f"case: {case}")
                raise


@pytest.mark.parametrize("turn", [0, pytest.param(1, marks=pytest.mark.full)])
def test_operations_give_what_the_interpreter_gives(turn: int) -> None:
    short = list(_supported(islice(_brief(), turn, None, 2), MOST_TEXT))
    assert len(short) > 75
    for group in _groups(iter(short), 150):
        _check(group)


def test_nan_stands_where_the_interpreter_has_it() -> None:
    """In order, in what is searched, and among the largest and smallest numbers."""
    cases = [case for case in CASES if case.op in OF_ORDER and any(_has_nan(array) for array in case.inputs)]
    assert {case.op for case in cases} == {*OF_ORDER}
    _check(list(_supported(cases)))


def _has_nan(array: np.ndarray) -> bool:
    return array.dtype.kind == "f" and bool(np.isnan(array).any())


@pytest.mark.full
@pytest.mark.parametrize("op", list(OPS))
def test_samples_and_edges_give_what_the_interpreter_gives(op: str) -> None:
    """Every second of them; the default suite has others of some."""
    cases = list(_supported([case for case in CASES if case.op == op]))
    _check(cases[len(cases) % 2 :: 2] or cases)


def _refusals(cases: Iterable[Case]) -> dict[str, str]:
    """What is said of operations that have no form, by the first such case of each."""
    found: dict[str, str] = {}
    for case in cases:
        try:
            emit(one_program([case]))
        except UnsupportedError as error:
            found.setdefault(case.op, str(error))
    return found


def test_what_has_no_form_is_refused_by_name() -> None:
    refused = _refusals(case for case in SAMPLES if case.op in REFUSED)
    assert refused.keys() == REFUSED.keys()
    for op, message in refused.items():
        assert re.match(f"{op}.*{REFUSED[op]}", message)


@pytest.mark.full
def test_everything_else_has_a_form() -> None:
    assert not _refusals(case for case in SAMPLES if case.op not in REFUSED)
