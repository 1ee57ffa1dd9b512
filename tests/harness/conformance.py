"""What is checked of every layer, from its case alone: each column of its row, its constructor, files and circuits.

    for check in checks_of(case).values():
        check(case)

A check raises where the layer, its row and the case's reference differ.
"""

import copy
import inspect
import json
import pickle
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

from plica.backend.torch.compiler import TorchCompiler
from plica.backend.torch.queries import SamplingQuery
from plica.errors import InputError, ShapeError
from plica.files.structure import CLASSES, class_table, decode_circuit, encode_circuit
from plica.ir.op import Unsupported
from plica.lower.fold.settings import own_settings_of
from plica.lower.leaves import leaf_keys, opaque_keys
from plica.symbolic.circuit import Circuit
from plica.symbolic.layers import LAYER_ROWS, SumLayer, held_layers
from plica.symbolic.parameters import ReferenceParameter, normal
from tests.harness.case_circuits import UNITS, circuit_of, data_of
from tests.harness.comparison import DIRECTED_WAYS, OTHER_SUMS, WAYS, Way, compare, compare_algebras
from tests.harness.derivative_checks import check_derivatives
from tests.harness.layer_cases import LAYER_CASES, InnerCase, InputCase, LayerCase, references
from tests.harness.oracle import Oracle, held_values, numbers
from tests.harness.random_circuits import Draw
from tests.harness.row_checks import COLUMNS, SAMPLES, check_reference, follows, input_layer

Array = Any


def layers_of(case: LayerCase) -> list[Any]:
    """A layer of a case, and those that must fold with it."""
    if isinstance(case, InnerCase):
        return [case.build()]
    return [build(range(case.num_variables), UNITS) for build in (case.build, *case.alike)]


def own_settings(layer: Any) -> Any:
    """What layers that may be computed as one have in common; of layers that never are, their type and settings."""
    if not layer.opaque:
        return own_settings_of(layer)
    return type(layer), {name: value for name, value in layer.config.items() if name not in layer.opaque}


def check_layer(case: LayerCase) -> None:
    """A layer can be rebuilt, copied, pickled and shared, and its parameters have the shapes of the constructor."""
    for layer in layers_of(case):
        for other in (type(layer)(**layer.config, **layer.params), copy.copy(layer)):
            assert other != layer, "layers are compared by identity"
            assert (other.config, other.all_params) == (layer.config, layer.all_params)
            assert own_settings(other) == own_settings(layer)
        assert own_settings(pickle.loads(pickle.dumps(layer))) == own_settings(layer)
        shared = layer.copyref()
        assert own_settings(shared) == own_settings(layer)
        for name, parameter in shared.all_params.items():
            for mine, theirs in zip(parameter.leaves, layer.all_params[name].leaves, strict=True):
                assert mine is theirs or (isinstance(mine, ReferenceParameter) and mine.deref() is theirs)


def check_constructor(case: LayerCase) -> None:
    """Wrong shapes and numbers, two ways to give a parameter, and what the case lists are refused by name."""
    layer = layers_of(case)[0]
    cls, known = type(layer), inspect.signature(type(layer)).parameters
    for name, parameter in layer.params.items():
        wrong = normal((*parameter.shape, 2))
        with pytest.raises(ShapeError, match=f"{cls.__name__}: expected {name} of shape"):
            cls(**layer.config, **{**layer.params, name: wrong})
        if f"{name}_factory" in known:
            with pytest.raises(InputError, match=f"{name} and {name}_factory exclude each other"):
                cls(**layer.config, **layer.params, **{f"{name}_factory": normal})
    may_be_zero = case.may_be_zero if isinstance(case, InputCase) else ()
    for name, value in layer.config.items():
        if isinstance(value, int) and not isinstance(value, bool):
            least = 0 if name in may_be_zero else 1
            with pytest.raises(ShapeError, match=f"{cls.__name__}: {name} must be at least {least}, found {least - 1}"):
                cls(**{**layer.config, **layer.params, name: least - 1})
    with pytest.raises(ShapeError, match="with_params: expected parameters of shapes"):
        layer.with_params({**layer.params, "other": normal((1,))})
    for refused in case.refused:
        with pytest.raises(refused.error, match=refused.message):
            refused.make()


def turns(ways: Sequence[Way]) -> dict[torch.dtype, list[Way]]:
    """Half of the ways in each dtype, such that each flag is on and off in both; ways that share a circuit stay so."""
    found: dict[torch.dtype, list[Way]] = {torch.float32: [], torch.float64: []}
    flags: dict[str, dict[tuple[bool, bool], int]] = {}
    for way in ways:
        known = flags.setdefault(way.semiring, {})
        place = known.setdefault((way.fold, way.optimize), len(known))
        found[(torch.float32, torch.float64)[place.bit_count() % 2]].append(way)
    return found


def some_ways_of(case: LayerCase) -> dict[torch.dtype, list[Way]]:
    """A quarter of the ways, in one dtype: every semiring, with and without fusing; other cases have other ways."""
    number = zlib.crc32(str(case).encode())
    ways = [way for way in WAYS if way.fold == number & 1 and (way.fold ^ way.optimize) == number // 2 & 1]
    return {(torch.float32, torch.float64)[number // 4 % 2]: [*ways, DIRECTED_WAYS[number // 8 % len(DIRECTED_WAYS)]]}


def check_circuit(case: LayerCase, ways: Mapping[torch.dtype, Sequence[Way]] | None = None) -> None:
    """Values, missing entries and gradients of compiled circuits, in a quarter of the ways if not said."""
    circuit = circuit_of(case)
    own = [] if case.row.layer in LAYER_ROWS else [case]
    for dtype, some in (ways or some_ways_of(case)).items():
        x = torch.from_numpy(data_of(circuit, [*LAYER_CASES, *own], 6, 0.2)).to(dtype)
        failures = compare(Draw(str(case), 0, circuit, dtype, x, signed=is_signed(case)), some, own)
        assert not failures, "\n".join(failures[:3])


def is_signed(case: LayerCase) -> bool:
    """Whether the numbers of a case have any sign, so that not every semiring carries them."""
    return isinstance(case, InputCase) and case.signed


class Mixture:
    """Distributions of SciPy in some shares, under its names."""

    def __init__(self, shares: Array, kinds: list[Any]) -> None:
        self._shares, self._kinds = shares, kinds
        if hasattr(kinds[0], "pmf") and not hasattr(kinds[0], "pdf"):
            self.pmf = partial(self._weighted, "pmf")

    def _weighted(self, name: str, *points: Array) -> Array:
        return sum(share * getattr(kind, name)(*points) for share, kind in zip(self._shares, self._kinds, strict=True))

    def along(self, direction: Array) -> "Mixture":
        """The mixture of the variables, weighted and added."""
        return Mixture(self._shares, [kind.along(direction) for kind in self._kinds])

    def cdf(self, points: Array) -> Array:
        return self._weighted("cdf", points)

    def mean(self) -> Array:
        return self._weighted("mean")

    def var(self) -> Array:
        squares = [kind.var() + kind.mean() ** 2 for kind in self._kinds]
        return np.dot(self._shares, squares) - self.mean() ** 2


def check_algebras(case: LayerCase, every: bool = False) -> None:
    """Values of compiled circuits in the algebras of other sums: in a third of the semirings if not said."""
    circuit = circuit_of(case)
    own = [] if case.row.layer in LAYER_ROWS else [case]
    x = torch.from_numpy(data_of(circuit, [*LAYER_CASES, *own], 6, 0.0))
    names = [] if every else OTHER_SUMS[zlib.crc32(str(case).encode()) % 3 :: 3]
    failures = compare_algebras(Draw(str(case), 0, circuit, torch.float64, x), own, names or OTHER_SUMS)
    assert not failures, "\n".join(failures)


def check_sampling(case: LayerCase) -> None:
    """A compiled mixture of the units of one layer is sampled in the shares of its weights and their totals."""
    if not isinstance(case, InputCase):
        return  # sums and products say how they choose, which the columns of their rows are checked for
    if not case.num_variables:
        return  # nothing to draw
    layer = input_layer(case)
    total = SumLayer(UNITS, 1)
    compiler = TorchCompiler(dtype="float64")
    for row in [case.row] if case.row.layer not in LAYER_ROWS else []:
        compiler.add_layer_rule(row)
    torch.manual_seed(7)
    circuit = Circuit([layer, total], {total: [layer]}, [total])
    compiled = compiler.compile(circuit)
    samples, _ = SamplingQuery(compiled)(SAMPLES, generator=torch.Generator().manual_seed(8))
    oracle = Oracle(circuit, numbers(compiled), references([case]))
    params = {name: oracle.parameter(one) for name, one in layer.all_params.items()}
    params |= held_values(circuit, layer, numbers(compiled))
    shares = oracle.parameter(total.weight)[0] * case.totals(layer, params)
    shares = (shares / shares.sum()).astype(float)
    follows(case.encode(layer, samples.numpy().astype(float)), Mixture(shares, case.distributions(layer, params)))


def settings(layer: Any) -> list[Any]:
    """The config of a layer and of those that it holds, which it lists among its own."""
    return [
        {name: value for name, value in one.config.items() if not any(key.startswith(name) for key in one.sub_layers)}
        for _, one in held_layers(layer)
    ]


def check_file(case: LayerCase) -> None:
    """A circuit of the layers survives a file; modules that it holds are given again."""
    circuit = circuit_of(case)
    classes = class_table(dict.fromkeys([*CLASSES.values(), case.row.layer]))
    structure, arrays = encode_circuit(circuit, classes)
    again = decode_circuit(
        json.loads(json.dumps(structure, allow_nan=False)), arrays, classes, modules=opaque_keys(circuit)
    )
    if not layers_of(case)[0].opaque:  # else layers fold with themselves alone
        found, expected = ([own_settings_of(layer) for layer in one.layers] for one in (again, circuit))
        assert found == expected
    assert [settings(layer) for layer in again.layers] == [settings(layer) for layer in circuit.layers]
    assert list(leaf_keys(again).values()) == list(leaf_keys(circuit).values())


# What is checked beside the row; the constructors of layers of a user's own are the user's.
BESIDE: tuple[Callable[[Any], None], ...] = (
    check_layer,
    check_circuit,
    check_algebras,
    check_sampling,
    check_file,
)


def checks_of(case: LayerCase) -> dict[str, Callable[[Any], None]]:
    """The checks of a case by name: of its reference, of the columns that its row has, and beside the row.

    Raises:
        KeyError: A column of the row that no check knows.
    """
    found: dict[str, Callable[[Any], None]] = {"reference": check_reference} if isinstance(case, InputCase) else {}
    if not layers_of(case)[0].opaque:
        found["derivatives"] = check_derivatives
    known = COLUMNS[type(case.row)]
    left_out = _OF_DISTRIBUTIONS if is_signed(case) else ()
    is_run_here = not layers_of(case)[0].opaque  # else circuits alone run it, and the checks beside the row
    for field in fields(case.row) if is_run_here else ():
        check = known[field.name]
        if field.name in left_out:
            continue
        value = getattr(case.row, field.name)
        if check is not None and value is not None and not isinstance(value, Unsupported):
            found[field.name] = check
    beside = (check_constructor, *BESIDE) if case.row.layer in LAYER_ROWS else BESIDE
    checks = {check.__name__.removeprefix("check_"): check for check in beside}
    return found | {name: check for name, check in checks.items() if name not in left_out}


# What is asked of distributions alone.
_OF_DISTRIBUTIONS = (
    "sample",
    "mode",
    "maximum",
    "mean",
    "variance",
    "covariance",
    "interval",
    "algebras",
    "sampling",
    "closed_form",
)
