"""Random circuits of all families in random steps of training, loading, copying: eval mode is never stale."""

import pytest

from plica.backend.torch import sources, watch
from plica.errors import UnsupportedError
from plica.lower import cascade
from plica.symbolic.semirings import Bound
from tests.harness.circuit_lives import Life


def _live(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(cascade.FROM, Bound.OF_ROWS, (0, 10**12)[seed % 2])
    for module in (sources, watch):
        monkeypatch.setattr(module, "SMALL", (0, 2**16)[seed % 3 > 0])
    try:
        life = Life(seed)
    except UnsupportedError:
        return  # the semiring does not carry the numbers of this circuit: tested where semirings are
    life.run()


@pytest.mark.parametrize("seed", range(2))
def test_eval_mode_is_never_stale(seed, monkeypatch) -> None:
    _live(seed, monkeypatch)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(2, 64))
def test_eval_mode_is_never_stale_on_many(seed, monkeypatch) -> None:
    _live(seed, monkeypatch)
