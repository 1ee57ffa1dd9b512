"""Operations of native code of circuits alone: their types, text and ranges."""

from plica.backend.native.circuits.operations import NATIVE_OPS, PRIVATE
from tests.harness.operation_rows import check_samples, check_text, check_types, outside
from tests.harness.samples import Case, over, samples_of


@over(samples_of(PRIVATE))
def test_rows_are_what_their_references_are(case: Case) -> None:
    check_types(case, NATIVE_OPS)
    check_text(case, NATIVE_OPS)
    assert not outside(NATIVE_OPS[case.op], case, NATIVE_OPS)


def test_rows_have_samples() -> None:
    check_samples(PRIVATE, NATIVE_OPS)
