"""Random circuits as native code, against the brute-force oracle: any number of rows, missing entries among them."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from plica.errors import UnsupportedError
from tests.harness.native_circuits import compiled, native_file
from tests.harness.oracle import Oracle, numbers
from tests.harness.random_circuits import FAMILIES, Draw, draw_circuit

_JOINT = ("several variables", "several variables, missing")  # their layer is that of another case
_FAMILIES = tuple(one for one in FAMILIES if one not in _JOINT)
_TOLERANCE = {torch.float32: 2e-5, torch.float64: 1e-9}


def _compiled(draw: Draw) -> Any:
    return compiled(draw.circuit, "sum-product" if draw.signed else "lse-sum", draw.dtype, draw.seed)


def _rows(draw: Draw, dtype: str, *, missing: bool) -> np.ndarray:
    x = draw.x.double().numpy() if draw.x.dtype == torch.bfloat16 else draw.x.numpy()
    if not dtype.startswith("float"):
        return x[np.isfinite(x).all(axis=1)].astype(dtype)
    x = x.astype(dtype)
    if missing:
        rng = np.random.default_rng(draw.seed)
        x[rng.random(x.shape) < 0.3] = np.nan
        x[-1:] = np.nan
    return x


def _check(path: Path, draws: list[Draw], queries: list[str]) -> None:
    """Compare every row of each draw, and 0 to 130 rows at once, with the oracle."""
    models = {f"m{draw.seed}": _compiled(draw) for draw in draws}
    with native_file(path / "random.plicab", models, queries) as module:
        for draw, (name, model) in zip(draws, models.items(), strict=True):
            oracle = Oracle(draw.circuit, numbers(model))
            for query in queries:
                ask = module[f"{name}_{query.replace('-', '_')}"]
                dtype = ask.entry.arguments[0].dtype
                x = _rows(draw, dtype, missing=query == "marginal")
                with np.errstate(all="ignore"):
                    expected = oracle.linear(x) if draw.signed else oracle.log(x)
                if x.dtype.kind == "f" and not (draw.circuit.is_smooth and draw.circuit.is_decomposable):
                    read = x[:, sorted(draw.circuit.scope)]
                    expected[np.isnan(read).any(axis=1)] = np.nan  # as an impossible value (adr/0003)
                for count in (len(x), 0, 1, 64, 130) if len(x) else (0,):
                    places = np.resize(np.arange(len(x)), count)
                    found = ask(np.asfortranarray(x[places]))
                    np.testing.assert_allclose(
                        found,
                        expected[places].astype(float),
                        rtol=_TOLERANCE[draw.dtype],
                        atol=_TOLERANCE[draw.dtype],
                        err_msg=f"{draw}, {query}",
                    )


@pytest.mark.parametrize(("family", "seed"), [("missing", 2), pytest.param("tiny weights", 1, marks=pytest.mark.full)])
def test_small_random_circuits(family: str, seed: int, tmp_path: Path) -> None:
    """Some of the smallest of those whose scaled numbers prove only some rows."""
    _check(tmp_path, [draw_circuit(family, seed)], ["log-likelihood"])


@pytest.mark.full
@pytest.mark.parametrize("family", _FAMILIES)
def test_random_circuits(family: str, tmp_path: Path) -> None:
    """The first of each family that is not refused; its marginals too, of every second one."""
    draws = (draw_circuit(family, seed) for seed in range(4))
    queries = ["log-likelihood", "marginal"][_FAMILIES.index(family) % 2 :]
    _check(tmp_path, [next(filter(_is_supported, draws))], queries)


def _is_supported(draw: Draw) -> bool:
    try:
        _compiled(draw)
    except UnsupportedError:
        return False
    return True
