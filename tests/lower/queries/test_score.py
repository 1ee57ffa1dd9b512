"""Lowered Programs: well-formed, printable, pure, and the same under the interpreter as in torch."""

import numpy as np
import pytest
import torch
from hypothesis import given

import plica
from plica.backend.torch.compiler import TorchCompiler
from plica.errors import InputError
from plica.ir.builder import Names
from plica.lower.data import column_domains, input_width
from plica.symbolic.circuit import Circuit
from plica.symbolic.domains import REALS, finite
from plica.symbolic.layers import CategoricalLayer, SumLayer
from tests.harness.circuits import CIRCUITS, chain, circuits, coin, constant, data, is_finite, several_sizes, tensor
from tests.harness.oracle import Oracle, numbers
from tests.harness.pairwise import by_turns
from tests.harness.together import grouped

ALL = grouped("name", CIRCUITS)
FOLD = pytest.mark.parametrize("fold", [True, False])
BOUND = 1e-5  # of float32, where the interpreter and torch round in different orders


def consts(leaves, program) -> list[np.ndarray]:
    """The values of what a Program captures, in order."""
    return [getattr(leaves, var.name).detach().numpy() for var in program.consts]


def interpreted(compiled, x: torch.Tensor, **settings) -> np.ndarray:
    compiled(x)  # constants of this input's Program are kept from now on
    program = compiled.lowered(x.dtype).program
    (result,) = plica.interpret(program, x.numpy(), consts=consts(compiled.leaves, program), **settings)
    return result


def assert_well_formed(program) -> None:
    plica.verify(program)
    assert plica.parse(str(program)) == program
    assert str(plica.parse(str(program))) == str(program)


@pytest.mark.one_in(3)
@by_turns(name=list(CIRCUITS), fold=[True, False], semiring=["lse-sum", "sum-product"])
def test_the_interpreter_agrees_with_torch(name: str, fold: bool, semiring: str) -> None:
    circuit = CIRCUITS[name]()
    compiled = TorchCompiler(semiring, fold=fold).compile(circuit)
    for rows, dtype in ((4, None), (1, None), (0, None), (3, torch.float32), (3, torch.float64), (3, torch.int32)):
        x = torch.from_numpy(data(circuit, rows))
        x = x if dtype is None else x.to(dtype)
        program = compiled.lowered(x.dtype).program
        assert_well_formed(program)
        found = interpreted(compiled, x)
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, compiled(x).detach(), rtol=BOUND, atol=BOUND)


@ALL
def test_the_interpreter_in_float64_agrees_with_the_oracle(name: str) -> None:
    """Declared in float32 and widened, or declared in float64."""
    circuit = CIRCUITS[name]()
    compiled = TorchCompiler(dtype="float32").compile(circuit)
    x = torch.from_numpy(data(circuit, 4))
    expected = Oracle(circuit, numbers(compiled)).log(x.numpy()).astype(float)
    found = interpreted(compiled, x, precise=True)
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(interpreted(compiled.double(), x), expected, rtol=1e-12, atol=1e-12)


@given(circuits())
def test_programs_of_random_circuits(circuit: Circuit) -> None:
    compiled = TorchCompiler(dtype="float64").compile(circuit)
    x = torch.from_numpy(data(circuit, 3))
    assert_well_formed(compiled.lowered(x.dtype).program)
    np.testing.assert_allclose(interpreted(compiled, x), compiled(x).detach(), rtol=1e-12, atol=1e-12)
    if is_finite(circuit):
        missing = x.double()
        missing[0] = torch.nan
        assert_well_formed(compiled.lowered(torch.float64).program)
        np.testing.assert_allclose(interpreted(compiled, missing), compiled(missing).detach(), rtol=1e-12, atol=1e-12)


@ALL
@FOLD
def test_compiling_twice_gives_one_text(name: str, fold: bool) -> None:
    circuit = CIRCUITS[name]()
    texts = {str(TorchCompiler(fold=fold).compile(circuit).program) for _ in range(2)}
    assert len(texts) == 1


@ALL
@FOLD
def test_groups_hold_every_layer_once_and_name_its_inputs(name: str, fold: bool) -> None:
    circuit = CIRCUITS[name]()
    folded = TorchCompiler(fold=fold).compile(circuit).folded
    circuit = folded.circuit  # as optimized
    place = {
        layer: (number, fold) for number, group in enumerate(folded.groups) for fold, layer in enumerate(group.members)
    }
    assert sorted(map(circuit.layer_index, place)) == list(range(len(circuit.layers)))
    for number, group in enumerate(folded.groups):
        assert len({layer.fold_settings() for layer in group.members}) == 1
        for layer, inputs in zip(group.members, group.in_fold_idx, strict=True):
            assert inputs == tuple(place[one] for one in circuit.layer_inputs(layer))
            assert all(source < number for source, _ in inputs)
    assert folded.out_fold_idx == tuple(place[layer] for layer in circuit.outputs)


def test_no_variable_is_called_like_a_word_of_the_text() -> None:
    """Deep circuits have so many variables that their names pass `inf` and `nan`."""
    names = Names()
    taken = {names.fresh() for _ in range(20_000)}
    assert {"ing", "nam", "lam"} <= taken
    assert not taken & {"inf", "nan", "let", "in"}


def test_a_program_in_full() -> None:
    layer = CategoricalLayer([0], 2, num_categories=3, probs=tensor(np.full((2, 3), 1 / 3)))
    circuit = chain(layer, SumLayer(2, 1, weight=constant([[0.25, 0.75]])))
    compiled = TorchCompiler("sum-product", fold=False, optimize=False).compile(circuit)
    (name,) = (var.name for var in compiled.program.consts if var.name.startswith("constant"))
    assert str(compiled.program).replace(name, "constant") == GOLDEN


GOLDEN = """\
{ lambda probs_0:f32[1,2,3] constant:f32[1,1,2] ; {b:i64[]} x:i64[b,1] . let
    a:i64[1,b] = permute_dims[axes=(1,0)] x
    c:i64[1,b] = clip a 0:i64[] 2:i64[]
    d:bool[1,b] = not_equal c a
    g:f32[1,b,2] = lookup probs_0 c
    h:f32[1,2,1] = permute_dims[axes=(0,2,1)] constant
    i:f32[1,b,1] = matmul g h
    j:f32[b,1,1] = permute_dims[axes=(1,0,2)] i
    k:bool[b] = any[axis=(0,) keepdims=False] d
    l:bool[b,1,1] = reshape[shape=(b,1,1)] k
    m:f32[b,1,1] = where l nan:f32[] j
  in (m,) }"""


def test_limits_are_those_of_the_narrowest_layer() -> None:
    circuit = several_sizes()
    assert column_domains(circuit) == (finite(2), finite(4), REALS, REALS)
    assert input_width(circuit) == 4
    wide, narrow = coin([0], 1, 5), coin([0], 1, 3)
    assert column_domains(Circuit([wide, narrow], {}, [wide, narrow])) == (finite(3),)


def test_sizes_are_checked_on_entry() -> None:
    compiled = TorchCompiler().compile(chain(coin([0], 2)))
    program = compiled.program
    with pytest.raises(InputError):
        plica.interpret(program, np.zeros((3, 2), np.int64), consts=consts(compiled.leaves, program))
