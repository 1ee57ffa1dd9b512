"""What an operation stands for in terms of others computes what it does."""

from plica.frontend.programs import interpret, trace
from plica.ir.op import Unsupported
from plica.ir.types import spec
from plica.ops import OPS
from plica.tracing import namespace
from tests.harness.programs import assert_same, one_equation
from tests.harness.samples import CASES, Case, over


@over(case for case in CASES if not isinstance(OPS[case.op].decompose, Unsupported))
def test_decompositions_are_what_they_stand_for(case: Case) -> None:
    decompose = OPS[case.op].decompose
    specs = [spec(array.shape, array.dtype) for array in case.inputs]
    program = trace(lambda *arrays: decompose(namespace, *arrays, **case.params), *specs)
    expected = interpret(one_equation(case.op, case.inputs, case.params), *case.inputs)
    for found, one in zip(interpret(program, *case.inputs), expected, strict=True):
        assert_same(found, one)
