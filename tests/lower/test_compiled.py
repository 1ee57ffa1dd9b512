"""`CompiledCircuit`: one for every backend, without numbers, and the Programs that it remembers."""

import copy
import pickle
import threading
from typing import Any

import pytest

import plica
from plica.errors import DTypeError, UnsupportedError
from plica.ir.dtypes import DType
from plica.lower.compiled import CircuitCompiler, CompiledCircuit
from plica.lower.leaves import Leaf
from plica.symbolic.semirings import SEMIRINGS
from tests.harness.circuits import CIRCUITS

F32, I64 = DType.FLOAT32, DType.INT64


def _compiled(**how: Any) -> CompiledCircuit:
    return CircuitCompiler(**how).compile(CIRCUITS["mixing"]())


def test_a_program_is_made_once() -> None:
    compiled = _compiled()
    assert compiled.score(F32, I64) is compiled.score(F32, I64, compiled.semiring)
    assert compiled.score(F32, I64) is not compiled.score(F32, F32)
    at_once = _compiled()
    found: list[Any] = []
    threads = [threading.Thread(target=lambda: found.append(at_once.score(F32, I64))) for _ in range(8)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert len({id(one) for one in found}) == 1


def test_all_programs_read_the_same_leaves() -> None:
    compiled = _compiled()
    leaves = [
        {one for one in compiled.score(dtype, data, carrier).captured if isinstance(one, Leaf)}
        for dtype in (F32, DType.FLOAT64)
        for data in (I64, dtype)
        for carrier in compiled.carriers
    ]
    assert all(one == leaves[0] for one in leaves)


def test_a_copy_is_itself_and_a_pickle_makes_the_same_programs() -> None:
    compiled = _compiled()
    before = str(compiled.score(F32, I64).program)
    assert copy.deepcopy(compiled) is compiled
    again = pickle.loads(pickle.dumps(compiled))
    assert str(again.score(F32, I64).program) == before


@pytest.mark.parametrize("semiring", SEMIRINGS)
@pytest.mark.parametrize(("fold", "optimize"), [(True, True), (False, False)])
def test_torch_computes_what_is_compiled_here(semiring: str, fold: bool, optimize: bool) -> None:
    circuit = CIRCUITS["mixing"]()
    own = CircuitCompiler(semiring, fold, optimize).compile(circuit)
    other = plica.compile(circuit, semiring=semiring, fold=fold, optimize=optimize).compiled
    data = own.usual_input(F32)
    assert str(own.score(F32, data).program) == str(other.score(F32, data).program)


def test_what_cannot_be_compiled_by_is_refused() -> None:
    for how, error in (({"semiring": "sum"}, UnsupportedError), ({"max_steps": -1}, DTypeError)):
        with pytest.raises(error):
            CircuitCompiler(**how)
