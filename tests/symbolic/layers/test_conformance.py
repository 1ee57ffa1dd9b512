"""Every layer by its cases: the columns of its row, its constructor, its file and circuits of it."""

import inspect
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from typing import Any

import pytest
import torch

from plica.symbolic.layers import LAYER_ROWS
from plica.symbolic.layers.rows import FusedRow, InputRow, LayerRow, ProductRow, SumRow
from plica.symbolic.semirings import Params
from tests.harness.comparison import DIRECTED_WAYS, WAYS
from tests.harness.conformance import check_algebras, check_circuit, checks_of, layers_of
from tests.harness.derivative_checks import check_derivatives
from tests.harness.layer_cases import CASES, LAYER_CASES, LayerCase
from tests.harness.layer_cases.cut_poisson import CASES as POISSON
from tests.harness.layer_cases.cut_poisson import log_masses
from tests.harness.naive_layers import NAIVE, WELL
from tests.harness.row_checks import COLUMNS
from tests.harness.together import in_parts

FIRST = list({id(case.row): case for case in reversed(CASES)}.values())
WHOLE = ("circuit", "algebras")
"""Checks of compiled circuits: the usual suite has them for one case of each row, the full one for all, in all ways."""
CHECKS = [[(case, name) for name in checks_of(case) if name not in WHOLE or case in FIRST] for case in CASES]


def without_case(rows: Iterable[LayerRow], cases: Iterable[LayerCase]) -> list[str]:
    """The layers that no case is about, and the parameters of their constructors that no case gives."""
    lacking = []
    for row in rows:
        layers = [layer for case in cases if case.row is row for layer in layers_of(case)]
        if not layers:
            lacking.append(row.layer.__name__)
            continue
        known = [name for name in inspect.signature(row.layer).parameters if not name.endswith("_factory")]
        given = [name for layer in layers for name in (*layer.config, *layer.params)]
        lacking += [f"{row.layer.__name__}.{name}" for name in known if name not in given]
    return lacking


def test_every_row_has_a_case_and_every_parameter_is_given_in_one() -> None:
    assert not without_case(LAYER_ROWS.values(), LAYER_CASES)


def test_what_has_no_case_is_found() -> None:
    rows = [*LAYER_ROWS.values(), POISSON[0].row]
    left_out = ("categorical by probs", "categorical by unnormalized probs", "gaussian with log_partition", "tucker")
    some = [case for case in LAYER_CASES if not case.name.startswith(left_out)]
    expected = {"CategoricalLayer.probs", "GaussianLayer.log_partition", "TuckerLayer", "CutPoissonLayer"}
    assert set(without_case(rows, some)) == expected


def test_every_column_of_a_row_has_a_check() -> None:
    for kind in (InputRow, SumRow, ProductRow, FusedRow):
        assert {field.name for field in fields(kind)} <= set(COLUMNS[kind])


def test_a_column_without_a_check_is_found() -> None:
    @dataclass(frozen=True)
    class More(InputRow):
        median: Any = None

    COLUMNS[More] = COLUMNS[InputRow]
    try:
        row = More(**{field.name: getattr(POISSON[0].row, field.name) for field in fields(POISSON[0].row)})
        with pytest.raises(KeyError, match="median"):
            checks_of(replace(POISSON[0], row=row))
    finally:
        del COLUMNS[More]


@pytest.mark.one_in(2)
@in_parts("case, name", CHECKS, ids=str)
def test_layers_conform(case: LayerCase, name: str) -> None:
    checks_of(case)[name](case)


@pytest.mark.full
@pytest.mark.parametrize("case", [case for case in CASES if "derivatives" in checks_of(case)], ids=str)
def test_derivatives_of_layers_in_full(case: LayerCase) -> None:
    check_derivatives(case, most_units=1000)


@pytest.mark.full
@pytest.mark.parametrize("case", CASES, ids=str)
def test_circuits_of_layers_in_full(case: LayerCase) -> None:
    check_circuit(case, dict.fromkeys((torch.float32, torch.float64), (*WAYS, *DIRECTED_WAYS)))


@pytest.mark.full
@pytest.mark.parametrize("case", [case for case in CASES if "algebras" in checks_of(case)], ids=str)
def test_algebras_of_layers_in_full(case: LayerCase) -> None:
    check_algebras(case, every=True)


# What the checks are worth: a Poisson row with one fault, and which checks find it.


def without_normalizer(xp, semiring, layer, params, x):  # noqa: ARG001
    rate = xp.expand_dims(params["rate"], axis=-1)
    return semiring.from_log(xp, xp.lookup(log_masses(xp, params) + rate, xp.astype(xp.squeeze(x, axis=-1), xp.int64)))


def without_gradient(xp, semiring, layer, params, x):
    return POISSON[0].row.body(xp, semiring, layer, Params.of(xp, {"rate": xp.stop_gradient(params["rate"])}), x)


def twice(xp, semiring, layer, params):
    return semiring.from_linear(
        xp, 2.0 * xp.ones((params["rate"].shape[0], 1, layer.num_output_units), dtype=params["rate"].dtype)
    )


def of_the_first_unit(xp, layer, params, units, uniforms):
    return POISSON[0].row.sample(xp, layer, params, units * 0, uniforms)


FAULTS: dict[str, tuple[dict[str, Any], set[str]]] = {
    "no normalizer": ({"body": without_normalizer}, {"body", "circuit", "algebras", "derivatives"}),
    "no gradient": ({"body": without_gradient}, {"circuit", "derivatives"}),
    "another total": ({"marginal": twice}, {"marginal", "circuit"}),
    "another sampler": ({"sample": of_the_first_unit}, {"sample", "sampling"}),
    "a promise of padding": ({"padding": {"rate": 0.0}}, {"padding"}),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_of_a_row_is_found(name: str) -> None:
    change, expected = FAULTS[name]
    case = replace(POISSON[0], row=replace(POISSON[0].row, **change))
    found = set()
    for name_, check in checks_of(case).items():
        try:
            check(case)
        except AssertionError:
            found.add(name_)
    assert found == expected


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_a_fault_is_found_in_every_way_of_compiling(way: Any) -> None:
    check_circuit(POISSON[0], {torch.float64: [way]})
    case = replace(POISSON[0], row=replace(POISSON[0].row, body=without_normalizer))
    with pytest.raises(AssertionError, match="values"):
        check_circuit(case, {torch.float64: [way]})


@pytest.mark.parametrize("case", WELL, ids=str)
def test_layers_of_ones_own_may_be_right(case: LayerCase) -> None:
    check_derivatives(case)


@pytest.mark.parametrize(("case", "message"), NAIVE, ids=[str(case) for case, _ in NAIVE])
def test_naive_layers_are_found(case: LayerCase, message: str) -> None:
    """Right in ordinary numbers, and so in the checks of values, but for derivatives at the ends."""
    checks = checks_of(case)
    for name in ("reference", "body", "marginal"):
        checks[name](case)
    with pytest.raises(AssertionError, match=message):
        checks["derivatives"](case)


@pytest.mark.parametrize("column", ["parameters", "points", "wrong", "sampled", "starts"])
def test_a_case_without_a_column_is_no_case(column: str) -> None:
    case = POISSON[0]
    given = {field.name: getattr(case, field.name) for field in fields(case) if field.name != column}
    with pytest.raises(TypeError, match=column):
        type(case)(**given)


def test_a_case_that_leaves_a_parameter_out_is_no_case() -> None:
    with pytest.raises(ValueError, match=r"'cut poisson' says what \[\] may be, of \['rate'\]"):
        replace(POISSON[0], parameters={})
