"""Every cell of the tables of queries: those that say yes agree with the oracle, the others refuse by name."""

import re
from typing import Any

import pytest
import torch

from plica.backend.torch.compiler import TorchCompiler
from plica.errors import UnsupportedError
from plica.lower.queries.needs import Needs
from plica.lower.queries.table import QUERIES
from plica.symbolic.layers import LAYER_ROWS
from tests.harness.case_circuits import circuit_of
from tests.harness.layer_cases import CASES, LAYER_CASES, LayerCase
from tests.harness.queries import one_unit
from tests.harness.query_checks import QUERY_CHECKS, Asked

# The first case of each layer, and those of a user's own layers whose rows lack columns.
FIRST = list({case.row.layer: case for case in reversed(CASES)}.values())[::-1]


def asked_of(case: LayerCase, semiring: str = "lse-sum", dtype: str = "float64", **flags: Any) -> Asked:
    """A circuit around a layer, compiled."""
    torch.manual_seed(1)
    compiler = TorchCompiler(semiring, dtype=dtype, **flags)
    if case.row.layer not in LAYER_ROWS:
        compiler.add_layer_rule(case.row)
    circuit = one_unit(circuit_of(case))
    return Asked(circuit, compiler.compile(circuit), [*LAYER_CASES, case])


def check_cell(asked: Asked, needs: Needs, case: LayerCase) -> None:
    """The query answers as the oracle does, or names the layer and the reason."""
    layer = next(layer for layer in asked.circuit.layers if type(layer) is case.row.layer)
    lacking = needs.lacking(case.row, layer)
    if lacking is None:
        QUERY_CHECKS[needs.function](asked)
        return
    name = case.row.layer.__name__
    with pytest.raises(UnsupportedError, match=rf"{needs.name} .*{name}\(.*{re.escape(lacking.why[:20])}"):
        QUERY_CHECKS[needs.function](asked)


def test_every_query_has_a_check() -> None:
    assert [needs.function for needs in QUERIES] == list(QUERY_CHECKS)


@pytest.mark.parametrize("case", FIRST, ids=str)
def test_cells_of_layers(case: LayerCase) -> None:
    asked = asked_of(case)
    for needs in QUERIES:
        check_cell(asked, needs, case)
