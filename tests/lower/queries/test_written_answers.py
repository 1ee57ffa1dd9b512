"""Answers of circuits and of all queries belong to whoever asks: writing to them changes nothing else."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import plica.queries
from plica.backend.torch.queries import IntegrateQuery
from plica.tracing.trees import flatten
from tests.harness import query_checks
from tests.harness.layer_cases import LayerCase
from tests.harness.tables.queries import NEEDS
from tests.harness.written_results import check_written
from tests.lower.queries.test_table import FIRST, asked_of

SOME = [case for case in FIRST if case.name in ("categorical by log-softmax", "hadamard of 1")]


def _tensors(tree: Any) -> list[torch.Tensor]:
    return [one for one in flatten(tree)[0] if isinstance(one, torch.Tensor)]


def _checked(ask: Callable[..., Any]) -> Callable[..., Any]:
    """A question that is asked twice; between the two its answers are written to."""

    def asked(*args: Any, **settings: Any) -> Any:
        given = _tensors([one for one in args if isinstance(one, torch.Tensor)])
        check_written(lambda: _tensors(ask(*args, **settings)), given, str(ask))
        return ask(*args, **settings)

    return asked


def _check_case(case: LayerCase, monkeypatch: pytest.MonkeyPatch) -> None:
    names = {name: _checked(getattr(plica.queries, name)) for name in plica.queries.__all__ if name.islower()}
    monkeypatch.setattr(query_checks, "queries", SimpleNamespace(**names))
    monkeypatch.setattr(query_checks, "IntegrateQuery", lambda *args: _checked(IntegrateQuery(*args)))
    asked = asked_of(case)
    layer = next(layer for layer in asked.circuit.layers if type(layer) is case.row.layer)
    x = torch.from_numpy(asked.data(0.4))
    for is_training in (False, True):
        asked.compiled.train(is_training)
        with torch.no_grad():
            _checked(asked.compiled)(x)
            for needs in NEEDS:
                if needs.lacking(case.row, layer) is None:
                    query_checks.QUERY_CHECKS[needs.function](asked)
    answers = _checked(asked.compiled)(x)  # with gradients
    assert answers.requires_grad == any(one.requires_grad for one in asked.compiled.parameters())


@pytest.mark.one_in(2)
@pytest.mark.parametrize("case", SOME, ids=str)
def test_answers_are_written_to(case: LayerCase, monkeypatch: pytest.MonkeyPatch) -> None:
    _check_case(case, monkeypatch)


@pytest.mark.full
@pytest.mark.parametrize("case", [case for case in FIRST if case not in SOME], ids=str)
def test_answers_of_all_layers_are_written_to(case: LayerCase, monkeypatch: pytest.MonkeyPatch) -> None:
    _check_case(case, monkeypatch)
