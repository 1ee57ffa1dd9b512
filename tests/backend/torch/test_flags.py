"""Whatever the flags: the same values, gradients, initial values and checkpoints; and tensors shared while folded."""

import copy
import itertools
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

from plica.backend.torch.circuits import TorchCircuit
from plica.backend.torch.compiler import TorchCompiler
from plica.symbolic.circuit import Circuit
from plica.symbolic.layers import HadamardLayer
from plica.symbolic.parameters import mixing_weight_factory
from plica.templates.region_graph import FullyFactorized, LinearTree, QuadGraph, QuadTree, RandomBinaryTree
from tests.harness.case_circuits import circuit_of
from tests.harness.circuits import (
    CIRCUITS,
    INPUTS,
    WEIGHTS,
    bag,
    chain,
    coin,
    data,
    share_sums,
    with_interior_outputs,
)
from tests.harness.comparison import WAYS, Way, compare
from tests.harness.conformance import is_signed, turns
from tests.harness.layer_cases import LAYER_CASES
from tests.harness.oracle import Oracle, keys, numbers
from tests.harness.pairwise import pairwise
from tests.harness.random_circuits import Draw

FLAGS = {
    "": (False, False),
    "fold": (True, False),
    "optimize": (False, True),
    "fold, optimize": (True, True),
}
GRAPHS: dict[str, Callable[[], Any]] = {
    "factorized": lambda: FullyFactorized(3, num_repetitions=2),
    "binary tree": lambda: RandomBinaryTree(4, num_repetitions=2),
    "linear tree": lambda: LinearTree(3, num_repetitions=2, randomize=True),
    "quad-tree-2": lambda: QuadTree((1, 2, 3), num_patch_splits=2),
    "quad-tree-4": lambda: QuadTree((1, 2, 2), num_patch_splits=4),
    "quad-graph": lambda: QuadGraph((1, 2, 2)),
}
VARIANTS: dict[str, Callable[[Circuit], Circuit]] = {
    "plain": lambda circuit: circuit,
    "shared": share_sums,
    "interior outputs": with_interior_outputs,
}


def template(
    graph: str, sum_product: str, inputs: str, weight: str = "softmax", mixes: bool = True, variant: str = "plain"
) -> Circuit:
    """A circuit of a template."""
    factory = WEIGHTS[weight]
    circuit = GRAPHS[graph]().build_circuit(
        input_factory=INPUTS[inputs],
        sum_product=sum_product,
        sum_weight_factory=factory,
        nary_sum_weight_factory=partial(mixing_weight_factory, param_factory=factory) if mixes else factory,
        num_input_units=2,
        num_sum_units=2,
        num_classes=2,
    )
    return VARIANTS[variant](circuit)


KINDS: dict[str, Callable[[], Circuit]] = {
    **CIRCUITS,
    **{str(case): partial(circuit_of, case) for case in LAYER_CASES if not is_signed(case)},
}


def check(name: str, circuit: Circuit, dtype: torch.dtype, ways: Iterable[Way]) -> None:
    """Values and gradients of a circuit in some ways."""
    draw = Draw(name, 1, circuit, dtype, torch.from_numpy(data(circuit, 4)))
    failures = compare(draw, ways)
    assert not failures, "\n".join(failures[:3])


PRODUCT: dict[str, list[Any]] = {"graph": list(GRAPHS), "sum_product": ["cp", "cp-t", "tucker"], "inputs": list(INPUTS)}
REST: dict[str, list[Any]] = {"weight": list(WEIGHTS), "mixes": [True, False], "variant": list(VARIANTS)}
DTYPES = [torch.float32, torch.float64]
FLAG = [False, True]
CARRIERS = list(dict.fromkeys((way.semiring, way.scaled) for way in WAYS))
HOW: dict[str, list[Any]] = {"carrier": CARRIERS, "fold": FLAG, "optimize": FLAG, "dtype": DTYPES}


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("name", "turn"), [(name, place % 4) for place, name in enumerate(CIRCUITS)])
def test_circuits_of_every_kind(name: str, turn: int) -> None:
    """Every carrier, and each flag on and off, in one dtype each: half of the ways."""
    circuit = CIRCUITS[name]()
    for fold in (False, True):
        ways = [way for way in WAYS if (way.fold, way.optimize) == (fold, fold ^ (turn % 2 > 0))]
        check(name, circuit, DTYPES[fold ^ (turn > 1)], ways)


@pytest.mark.full
@pytest.mark.parametrize("name", CIRCUITS)
def test_circuits_of_every_kind_in_every_way(name: str) -> None:
    circuit = CIRCUITS[name]()
    for dtype, ways in turns(WAYS).items():
        check(name, circuit, dtype, ways)


# Every pair of choices but that of an input layer, which conformance compiles in every way; these take turns.
OTHERS = list(pairwise({name: values for name, values in {**PRODUCT, **REST, **HOW}.items() if name != "inputs"}))
PAIRS = [
    {**OTHERS[place % len(OTHERS)], "inputs": inputs}
    for place, inputs in zip(range(max(len(OTHERS), len(INPUTS))), itertools.cycle(INPUTS), strict=False)
]


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "case",
    [pytest.param(case, marks=[] if place % 2 else pytest.mark.full) for place, case in enumerate(PAIRS)],
    ids=lambda case: "-".join(map(str, case.values())).replace(" ", "_"),
)
def test_templates(case: dict[str, Any]) -> None:
    circuit = template(*[case[name] for name in (*PRODUCT, *REST)])
    semiring, scaled = case["carrier"]
    check("template", circuit, case["dtype"], [Way(semiring, case["fold"], case["optimize"], scaled)])


@pytest.mark.full
@pytest.mark.parametrize("graph", GRAPHS)
def test_templates_in_full(graph: str) -> None:
    """The product of templates; flags, dtypes, weights, mixing and variants take turns."""
    rest = itertools.cycle(itertools.product(*REST.values()))
    first = list(GRAPHS).index(graph)
    for turn, (sum_product, inputs) in enumerate(itertools.product(*list(PRODUCT.values())[1:]), first):
        circuit = template(graph, sum_product, inputs, *next(rest))
        check(f"{graph}, {sum_product}, {inputs}", circuit, DTYPES[turn // 6 % 2], WAYS[turn % 6 :: 6])


@pytest.mark.full
@pytest.mark.parametrize("name", CIRCUITS)
def test_circuits_in_full(name: str) -> None:
    for dtype in DTYPES:
        check(name, CIRCUITS[name](), dtype, WAYS)


# Initial values and checkpoints.


def compiled_under(circuit: Circuit, flags: str, semiring: str = "lse-sum", seed: int = 0) -> TorchCircuit:
    torch.manual_seed(seed)
    fold, optimize = FLAGS[flags]
    return TorchCompiler(semiring, fold=fold, optimize=optimize, dtype="float64").compile(circuit)


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("name", "flags"),
    [
        pytest.param(name, flags, marks=[] if place % 6 == turn else pytest.mark.full)  # they take turns
        for place, name in enumerate(KINDS)
        for turn, flags in enumerate(list(FLAGS)[1:])
    ],
)
def test_initial_values_are_the_same_bits(name: str, flags: str) -> None:
    circuit = KINDS[name]()
    first = compiled_under(circuit, "")
    others = [compiled_under(circuit, flags), compiled_under(circuit, "fold, optimize", "sum-product")]
    for reset in (None, 3):
        states = [one.state_dict() for one in (first, *others)]
        for state in states[1:]:
            assert list(state) == list(states[0])
            assert all(torch.equal(state[key], states[0][key]) for key in state)
        for one in (first, *others):
            one.reset_parameters(reset or 3)
    if states[0]:
        assert any(
            not torch.equal(states[0][key], value) for key, value in compiled_under(circuit, "").state_dict().items()
        )


SAVED = ["random tree, cp", "quad graph, tucker", "quad graph, mixing", "shared", "several sizes"]


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("name", "saved", "loaded"),
    [
        pytest.param(name, *pair, marks=pytest.mark.full if (place + turn) % 3 else [])
        for place, name in enumerate(SAVED)
        for turn, pair in enumerate(itertools.permutations(FLAGS, 2))
    ],
)
def test_checkpoints_load_under_any_flags(name: str, saved: str, loaded: str) -> None:
    circuit = KINDS[name]()
    source, target = compiled_under(circuit, saved, seed=1), compiled_under(circuit, loaded, seed=2)
    x = torch.from_numpy(data(circuit, 5))
    assert not torch.allclose(source(x), target(x))
    for assign in (False, True):
        target.load_state_dict(source.state_dict(), assign=assign)
        torch.testing.assert_close(target(x), source(x), rtol=1e-12, atol=1e-12)
        target.reset_parameters()


# Circuits of one compiler share tensors also while folded.


def family() -> tuple[Circuit, Circuit, Circuit]:
    """A whole, one of its parts, and a circuit that shares one leaf with the part."""
    whole = GRAPHS["binary tree"]().build_circuit(
        input_factory=INPUTS["categorical by logits"], sum_product="cp", num_input_units=2, num_sum_units=2
    )
    part = whole.subgraph(next(layer for layer in whole.inner_layers if len(whole.layer_scope(layer)) == 2))
    first, *_ = part.input_layers
    return (
        whole,
        part,
        bag(HadamardLayer(2, 2), first, coin([max(whole.scope) + 1], 2, 3)),
    )


@pytest.mark.parametrize(
    ("flags", "order"),
    [
        pytest.param(flags, order, marks=pytest.mark.full if (place + turn) % 3 else [])
        for place, flags in enumerate(FLAGS)
        for turn, order in enumerate(itertools.permutations(range(3)))
    ],
)
def test_circuits_of_one_compiler_share_tensors(flags: str, order: tuple[int, ...]) -> None:
    symbolic = family()
    fold, optimize = FLAGS[flags]
    compiler = TorchCompiler(fold=fold, optimize=optimize, dtype="float64")
    compiled = {place: compiler.compile(symbolic[place]) for place in order}
    for place, one in compiled.items():
        assert list(one.state_dict()) == list(keys(symbolic[place]).values())  # its own keys alone
    assert_one_value(compiled.values())
    for one in compiled.values():
        before = [copy.deepcopy(numbers(other)) for other in compiled.values()]
        optimizer = torch.optim.SGD(one.parameters(), lr=0.5)
        one(torch.from_numpy(data(one.symbolic, 4))).sum().neg().backward()
        optimizer.step()
        optimizer.zero_grad()
        assert_one_value(compiled.values())
        own = dict.fromkeys(keys(one.symbolic))
        for other, old in zip(compiled.values(), before, strict=True):
            for leaf, key in keys(other.symbolic).items():
                changed = not np.array_equal(numbers(other)[key], old[key])
                assert changed == (leaf in own), "training changes what is shared, and nothing else"


@pytest.mark.parametrize("first", [0, 1])
def test_loading_a_part_leaves_other_folds_alone(first: int) -> None:
    whole, part, _ = family()
    compiler = TorchCompiler(dtype="float64")
    compiled = [compiler.compile(one) for one in ((whole, part) if first == 0 else (part, whole))]
    large, small = compiled if first == 0 else reversed(compiled)
    before = copy.deepcopy(numbers(large))
    small.load_state_dict({key: torch.zeros_like(value) for key, value in small.state_dict().items()})
    own = dict.fromkeys(keys(part))
    for leaf, key in keys(whole).items():
        after = numbers(large)[key]
        assert not after.any() if leaf in own else np.array_equal(after, before[key])
    assert_one_value([large, small])
    alone = copy.deepcopy(small)
    alone.load_state_dict({key: torch.ones_like(value) for key, value in alone.state_dict().items()})
    assert not any(value.any() for value in numbers(small).values())  # a copy has tensors of its own
    assert list(alone.state_dict()) == list(small.state_dict())


def assert_one_value(compiled: Any) -> None:
    """Each tensor has one value in all circuits, and each circuit computes from it."""
    values: dict[Any, Any] = {}
    for one in compiled:
        state = numbers(one)
        for leaf, key in keys(one.symbolic).items():
            np.testing.assert_array_equal(values.setdefault(leaf, state[key]), state[key])
        x = data(one.symbolic, 3)
        expected = Oracle(one.symbolic, state).log(x).astype(float)
        np.testing.assert_allclose(one(torch.from_numpy(x)).detach(), expected, rtol=1e-9)


def test_a_chain_needs_its_flags_not_at_all() -> None:
    """A circuit that neither folds nor rewrites gives one Program."""
    circuit = chain(coin([0], 2))
    assert len({str(compiled_under(circuit, flags).program) for flags in FLAGS}) == 1
