"""Times of the parts of a circuit."""

from typing import Any

import pytest
import torch

import plica
from plica.backend.torch.profile import profile
from plica.errors import InputError
from tests.harness.circuits import pixels


@pytest.fixture
def circuit() -> Any:
    return plica.compile(pixels())


def test_every_group_has_its_time(circuit: Any) -> None:
    before = {name: value.clone() for name, value in circuit.state_dict().items()}
    parts = profile(circuit, torch.randint(3, (5, 4)), rounds=2)
    names = [part.name for part in parts]
    groups = [line.strip("# ") for line in circuit.code.splitlines() if line.lstrip().startswith("# group")]
    assert [name for name in names if name.startswith("group")] == groups
    assert len(groups) == len(circuit.layers)
    assert all(part.seconds >= 0 for part in parts)
    assert all(torch.equal(value, before[name]) for name, value in circuit.state_dict().items())


def test_rows_that_do_not_fit_are_refused(circuit: Any) -> None:
    with pytest.raises(InputError, match="none of the 3 states"):
        profile(circuit, torch.full((1, 4), 7))
