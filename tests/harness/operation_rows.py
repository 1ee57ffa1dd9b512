"""What every row of a table of operations must be, Plica's own or a backend's private one.

check_types(case, NATIVE_OPS)
"""

from collections.abc import Iterable

import numpy as np

from plica.ir.dtypes import as_dtype
from plica.ir.interpret import interpret_program
from plica.ir.op import Op, OpTable, Sample, Unsupported
from plica.ir.ranges import ANYTHING, Range, excludes_negative_zero, range_of_values
from plica.ir.text import parse_program
from plica.ir.types import array_type, resolve
from plica.ir.verify import verify_program
from plica.ops import OPS
from plica.passes.results import own_results
from tests.harness.programs import Array, assert_same, one_equation, reference
from tests.harness.samples import Case


def check_types(case: Case, table: OpTable = OPS) -> None:
    """The type rule says what the reference gives, and the interpreter computes the reference."""
    op, (inputs, params) = table[case.op], (case.inputs, case.params)
    results = reference(case.op, inputs, params, table)
    sizes = [int(array) if array.dtype == np.int64 and array.ndim == 0 else None for array in inputs]
    declared = op.types([array_type(array.shape, as_dtype(array.dtype)) for array in inputs], params, sizes)
    types = [
        resolve(type_, lambda place: int(results[place])) for type_ in declared
    ]  # sizes that are results themselves
    found = interpret_program(own_results(one_equation(case.op, inputs, params, table=table)), table, inputs)
    for type_, one, result in zip(types, found, results, strict=True):
        expected = np.asarray(result)
        assert type_.shape == expected.shape
        assert_same(one, expected.astype(type_.dtype.value))
        # Types are the reference's, but for the widths that the standard gives: sums and indices of 64 bits.
        if case.op not in ("erf", "erfinv"):  # computed in float64 number by number
            assert np.dtype(type_.dtype.value).kind == expected.dtype.kind
            assert type_.dtype.value == expected.dtype or expected.dtype.kind in "iu"


def check_text(case: Case, table: OpTable = OPS) -> None:
    """The text of the operation is read back."""
    program = one_equation(case.op, case.inputs, case.params, table=table)
    verify_program(program, table)
    assert parse_program(str(program), table) == program
    assert str(parse_program(str(program), table)) == str(program)


def check_samples(ops: Iterable[Op], table: OpTable = OPS) -> None:
    """Rows have samples with something in them."""
    for op in ops:
        samples = list(op.samples())
        if isinstance(op.reference, Unsupported):  # what an object of a backend computes
            assert not samples, op.name
            continue
        assert samples, op.name
        results = [reference(op.name, sample.inputs, sample.params, table) for sample in samples]
        assert any(np.size(one) > 1 for result in results for one in result), op.name
        assert all(isinstance(sample, Sample) for sample in samples), op.name


def _own_range(array: Array) -> Range | None:
    """The range of an operand as a Program knows it at best; integers have none."""
    numbers = array[~np.isnan(array)]
    return ANYTHING if array.dtype.kind in "biu" or not numbers.size else range_of_values(numbers)


def outside(op: Op, case: Case, table: OpTable = OPS) -> list[float]:
    """The numbers of the results that lie outside the range that a row states, whatever is known of the operands."""
    found = []
    for known in (
        [None if array.dtype.kind == "c" else ANYTHING for array in case.inputs],
        map(_own_range, case.inputs),
    ):
        low, high = stated = op.range_of(known, case.params)
        for result in map(np.asarray, reference(case.op, case.inputs, case.params, table)):
            if result.dtype.kind == "f":
                numbers = result[~np.isnan(result)]
                least, most = np.asarray([low, high]).astype(result.dtype)
                # a rounding more than the bound, which is exact at zero
                least, most = least - abs(np.spacing(least)) if low else 0, most + abs(np.spacing(most)) if high else 0
                wrong = (numbers < least) | (numbers > most)
                if excludes_negative_zero(stated):
                    wrong |= (numbers == 0) & np.signbit(numbers)
                found += numbers[wrong].tolist()
    return found
