"""Damaged model files: each loads to a circuit that compiles and shows, or is refused by a message that says where."""

import re
import resource
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from plica.backend.torch.compiler import TorchCompiler
from plica.cli.show import layer_table
from plica.errors import FileFormatError
from plica.files.model import load_model, save_model
from plica.lower.optimize import optimize_circuit
from plica.symbolic.circuit import Circuit
from plica.symbolic.initializers import (
    ConstantTensorInitializer,
    DirichletInitializer,
    NormalInitializer,
    UniformInitializer,
)
from plica.symbolic.layers import CategoricalLayer, GaussianLayer, HadamardLayer, KroneckerLayer, SumLayer
from plica.symbolic.parameters import (
    ClampParameter,
    ConstantParameter,
    EinsumParameter,
    FlattenParameter,
    IndexParameter,
    OuterSumParameter,
    Parameter,
    ReferenceParameter,
    ScaledSigmoidParameter,
    SoftmaxParameter,
    TensorParameter,
)
from plica.symbolic.semirings import Semiring
from plica.tables.build import compile_circuit
from tests.harness.model_mutations import (
    ModelParts,
    Mutation,
    byte_mutations,
    grafts,
    json_mutations,
    tensor_mutations,
    text_mutations,
)

PLACES = (
    r"layer \d+", r"parameter node \d+", r"circuit\b", r"the circuit", r"options\b", r"tensors?\b", r"complex\b",
    r"version\b", r"model format version", r"the description of the model", r"a safetensors file", r"the file is empty",
    r"not a readable model file", r"a model of version",
)  # fmt: skip


MOST_BYTES = 3 << 29  # what a small file may ask for, and what it takes to make it


def varied() -> Circuit:
    """A circuit with settings of every kind that a file can hold."""
    table = TensorParameter(2, 4, initializer=NormalInitializer(0.5, 2.0), name="table")
    chosen = IndexParameter((2, 4), indices=(2, 0, 3)), ClampParameter((2, 3), vmin=-4.0, vmax=float("inf"))
    first = CategoricalLayer([0], 2, num_categories=3, logits=Parameter.from_sequence(table, *chosen))
    probs = TensorParameter(2, 2, initializer=DirichletInitializer((0.5, 2.0)), learnable=False)
    second = CategoricalLayer([1], 2, num_categories=2, probs=probs)
    third = CategoricalLayer([2], 2, num_categories=4, logits=ReferenceParameter(table))
    shift = ConstantParameter(2, 1, value=0.5)
    fourth = CategoricalLayer(
        [2], 2, num_categories=4, logits=Parameter.from_binary(OuterSumParameter((2, 4), (2, 1)), table, shift)
    )
    raw = TensorParameter(4, initializer=ConstantTensorInitializer(np.arange(4.0)))
    stddev = Parameter.from_sequence(raw, ScaledSigmoidParameter((4,), 0.5, 2.0))
    fifth = GaussianLayer([3], 4, mean=ConstantParameter(4, value=[0.5, -1.0, 2.0, 0.0]), stddev=stddev)
    factors = [TensorParameter(4, 2, initializer=UniformInitializer(0.1, 1.0)) for _ in range(2)]
    weight = Parameter.from_binary(EinsumParameter((4, 2), (4, 2), equation="ka,kb->kab"), *factors)
    flat = Parameter.from_sequence(weight, FlattenParameter((4, 2, 2), start=1, end=2), SoftmaxParameter((4, 4)))
    pairs, mixed, total, root = (
        KroneckerLayer(2, 2),
        SumLayer(2, 4, 2, weight=flat),
        HadamardLayer(4, 3),
        SumLayer(4, 1),
    )
    edges: dict[Any, Any] = {
        pairs: [first, second],
        mixed: [third, fourth],
        total: [pairs, mixed, fifth],
        root: [total],
    }
    return Circuit([first, second, third, fourth, fifth, *edges], edges, [root])


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> ModelParts:
    path = tmp_path_factory.mktemp("base") / "varied.plica"
    circuit = varied()
    tensors = {name: value.numpy() for name, value in TorchCompiler().compile(circuit).state_dict().items()}
    save_model(path, circuit, tensors, {"semiring": "lse-sum", "dtype": "float32", "data": "toy", "num_values": None})
    return ModelParts.read(path)


def problem_of(path: Path, content: bytes) -> str | None:
    """What is wrong with how a file is read: None where it is refused well, or can be compiled and shown."""
    path.write_bytes(content)
    before = peak()
    problem = _problem_of(path)
    return f"took {peak() - before} bytes more than before" if peak() > before + MOST_BYTES else problem


def peak() -> int:
    """The most memory that this process has had, in bytes."""
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _problem_of(path: Path) -> str | None:
    try:
        loaded = load_model(path)
    except FileFormatError as error:
        reason = str(error).removeprefix(f"{path}: ")
        if not str(error).startswith(f"{path}: ") or not re.match("|".join(PLACES), reason) or "\n" in reason:
            return f"refused without its place: {error}"
        return None if len(reason) < 700 else f"refused at length: {error}"
    except Exception as error:
        return f"loading ended in {error!r}"
    try:
        layer_table(loaded.circuit)
        optimize_circuit(loaded.circuit, semiring=Semiring.from_name(loaded.options.get("semiring", "lse-sum")))
        compiled = compile_circuit(loaded.circuit, loaded.options)
        _ = str(compiled.program), compiled.code
    except Exception as error:
        return f"loaded, and then {error!r}"
    return None


def check_all(tmp_path: Path, mutations: Iterable[Mutation]) -> None:
    path = tmp_path / "m.plica"
    found = {name: problem for name, make in mutations if (problem := problem_of(path, make())) is not None}
    assert not found, "\n".join(f"{name}: {problem}" for name, problem in found.items())


def test_the_file_itself_is_good(tmp_path: Path, base: ModelParts) -> None:
    path = tmp_path / "m.plica"
    path.write_bytes(base.content())
    assert load_model(path).circuit.num_variables == 4
    check_all(tmp_path, [("itself", base.content)])


def test_texts_of_the_description(tmp_path: Path, base: ModelParts) -> None:
    check_all(tmp_path, text_mutations(base))


def test_more_inputs_than_a_file_lists_are_refused_before_they_have_memory(tmp_path: Path, base: ModelParts) -> None:
    name = f"circuit.layers.7.config.arity = {2**31}"
    make = next(make for other, make in json_mutations(base) if other.startswith(name))
    check_all(tmp_path, [(name, make)])
    with pytest.raises(FileFormatError, match="layer 7: expects 2147483648 inputs, found 3"):
        load_model(tmp_path / "m.plica")


# What is made, and of how many one is tried: in each run of the suite, and with the full marks.
SAMPLED: dict[str, tuple[Callable[[ModelParts], Iterator[Mutation]], int, int]] = {
    "json": (json_mutations, 149, 5),
    "grafts": (lambda base: islice(grafts(base, seed=0), 3000), 60, 3),
    "tensors": (tensor_mutations, 13, 1),
    "bytes": (lambda base: byte_mutations(base, flips=2000, cuts=200, seed=0), 40, 2),
}


@pytest.mark.parametrize("kind", SAMPLED)
def test_some_mutations(tmp_path: Path, base: ModelParts, kind: str) -> None:
    make, step, _ = SAMPLED[kind]
    check_all(tmp_path, islice(make(base), 0, None, step))


@pytest.mark.full
@pytest.mark.parametrize("kind", SAMPLED)
def test_all_mutations(tmp_path: Path, base: ModelParts, kind: str) -> None:
    make, _, step = SAMPLED[kind]
    check_all(tmp_path, islice(make(base), 0, None, step))
