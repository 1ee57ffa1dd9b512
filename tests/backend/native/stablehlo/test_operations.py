"""Every operation that has a form in StableHLO gives, run by XLA, what the interpreter gives on its samples."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice

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

REFUSED = {
    "nonzero": "depends on the values of arrays",
    "unique": "depends on the values of arrays",
}
"""Operations of which StableHLO has no sample, and what is said of them."""

GROWING = ("for_loop", "while_loop", "cond")  # some of their samples make arrays whose size depends on data
SUBNORMAL = "search_cumulative-2"  # numbers that XLA takes to be 0


def _brief() -> Iterator[Case]:
    """One sample of each operation for each kind of numbers, three of those with parameters."""
    seen: Counter[tuple[str, ...]] = Counter()
    for case in SAMPLES:
        kinds = (case.op, *(one.dtype.kind for one in case.inputs))
        if case.op not in DECOMPOSITIONS and seen[kinds] < (3 if case.params else 1):
            yield case
        seen[kinds] += 1


def _supported(cases: Sequence[Case]) -> Iterator[Case]:
    for case in cases:
        if str(case).startswith(SUBNORMAL):
            continue
        try:
            emit(one_program([case]))
        except UnsupportedError:
            continue
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


def test_operations_give_what_the_interpreter_gives() -> None:
    for group in _groups(_supported(tuple(_brief())), 250):
        _check(group)


@pytest.mark.full
@pytest.mark.parametrize("op", list(OPS))
def test_every_sample_and_edge_gives_what_the_interpreter_gives(op: str) -> None:
    _check(list(_supported([case for case in CASES if case.op == op])))


@pytest.mark.parametrize("op", list(REFUSED))
def test_what_has_no_form_is_refused_by_name(op: str) -> None:
    for case in (case for case in SAMPLES if case.op == op):
        with pytest.raises(UnsupportedError, match=f"{op}.*{REFUSED[op]}"):
            emit(one_program([case]))


def test_every_other_operation_has_a_form() -> None:
    refused = {op: sum(case.op == op for case in SAMPLES) for op in OPS}
    for case in _supported(SAMPLES):
        refused[case.op] -= 1
    assert {op for op, count in refused.items() if count and op not in GROWING} == {*REFUSED}
