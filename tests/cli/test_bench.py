"""`plica bench`."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from click.testing import Result

Plica = Callable[..., Result]


def test_tables(plica: Plica, tmp_path: Path) -> None:
    out = tmp_path / "figures.json"
    result = plica(
        *("bench", "tables", "--sets", "iris", "--methods", "mean,nearest", "--holes", ".2", "--seeds", "1,2"),
        *("-o", str(out)),
    )
    assert result.exit_code == 0, result.output
    assert "iris           20%      1.000" in result.output
    figures = json.loads(out.read_text())
    assert [(t["method"], t["seed"]) for t in figures["trials"]] == [
        (method, seed) for seed in (1, 2) for method in ("mean", "nearest")
    ]
    assert figures["trials"][1]["figures"]["error"] < 0.8
    assert "numpy" in figures["versions"]


def test_debd(plica: Plica, tmp_path: Path) -> None:
    bits = np.packbits(np.random.default_rng(0).integers(2, size=(60, 4)), axis=1)
    np.savez(tmp_path / "debd_toy.npz", train=bits[:40], valid=bits[40:50], test=bits[50:], num_variables=4)
    out = tmp_path / "figures.json"
    result = plica("bench", "debd", str(tmp_path), "-o", str(out))
    assert result.exit_code == 0, result.output
    (run,) = json.loads(out.read_text())["runs"]
    assert run["name"] == "toy"
    assert run["published"] is None
    assert (run["recipe"]["structure"], run["recipe"]["trees"]) == ("hidden-tree", 4)
    assert run["seconds"] > 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("tables", "--sets", "irises"), "--sets: there is no 'irises'"),
        (("tables", "--methods", "none"), "--methods: there is no 'none'; there are plica"),
        (("tables", "--holes", "a"), "--holes: 'a' is no list of numbers"),
        (("tables", "--holes", "1.5"), "1.5 does not lie between 0 and 1"),
        (("tables", "--seeds", "-1"), "-1 does not lie between 0 and"),
        (("debd", "."), "expected files debd_NAME.npz"),
    ],
)
def test_words_that_are_wrong(plica: Plica, words: tuple[str, ...], message: str) -> None:
    result = plica("bench", *words)
    assert result.exit_code == 2
    assert message in result.output
