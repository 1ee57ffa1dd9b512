"""Tables as users have them: without names, with columns of every kind and distribution, in files of every ending."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import Result

from plica.cli.build import build_circuit
from plica.cli.settings import Settings
from plica.errors import InputError
from plica.files.columns import KINDS, TableColumn
from plica.files.datasets import Dataset
from plica.files.encoding import Encoding
from plica.symbolic.layers import DISTRIBUTIONS

Plica = Callable[..., Result]
MODEL = "out/model.plica"


def train(plica: Plica, data: str, *words: Any) -> None:
    result = plica("train", data, "--out", "out", "--units", 2, "--epochs", 1, "--quiet", *words)
    assert result.exit_code == 0, result.output


def done(result: Result) -> None:
    assert result.exit_code == 0, (result.output, result.exception)
    assert not result.output


def refused(result: Result, message: str) -> None:
    assert result.exit_code == 2, (result.output, result.exception)
    assert message in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_a_text_without_names_stays_without(plica: Plica) -> None:
    Path("rows.csv").write_text("".join(f"{row % 2},{row % 3},{row % 2}\n" for row in range(30)))
    train(plica, "rows.csv")
    Path("holes.csv").write_text("1,,0\n,,\n")
    done(plica("complete", MODEL, "holes.csv", "-o", "full.csv"))
    done(plica("sample", MODEL, "-n", 3, "-o", "drawn.csv"))
    for name, count in (("full.csv", 2), ("drawn.csv", 3)):
        assert len(Path(name).read_text().splitlines()) == count
        done(plica("score", MODEL, name, "-o", "scores.npy"))
        assert np.load("scores.npy").shape == (count,)
    assert Path("full.csv").read_text().startswith("1,")
    Path("holes.csv").write_text("a,b,c\n1,,0\n")
    done(plica("complete", MODEL, "holes.csv", "-o", "full.csv"))
    assert Path("full.csv").read_text().startswith("a,b,c\n1,")


def test_arrays_with_ignored_columns(plica: Plica) -> None:
    values = np.random.default_rng(0).integers(0, 3, (30, 3)).astype(np.float32)
    np.save("rows.npy", values)
    Path("columns.json").write_text('{"1": "ignored"}')
    train(plica, "rows.npy", "--columns", "columns.json")
    values[0, 0] = np.nan
    np.save("holes.npy", values)
    for ending in ("csv", "parquet", "npy", "npz"):
        done(plica("complete", MODEL, "holes.npy", "-o", f"full.{ending}"))
        done(plica("score", MODEL, f"full.{ending}", "-o", "scores.npy"))
        assert np.load("scores.npy").shape == (30,)
    assert Path("full.csv").read_text().splitlines()[0] == "0,1,2"
    full = np.load("full.npy")
    assert full.dtype == np.float32
    np.testing.assert_array_equal(full[1:], values[1:])
    np.testing.assert_array_equal(np.load("full.npz")["rows"], full)


def test_means_where_no_variable_has_states(plica: Plica) -> None:
    np.save("rows.npy", np.random.default_rng(0).normal(size=(30, 2)))
    train(plica, "rows.npy", "--input", "gaussian")
    np.save("holes.npy", np.array([[np.nan, 1.0], [0.5, np.nan]]))
    done(plica("complete", MODEL, "holes.npy", "-o", "full.npy", "--method", "mean"))
    assert np.isfinite(np.load("full.npy")).all()


@pytest.mark.parametrize("name", DISTRIBUTIONS)
@pytest.mark.parametrize("kind", tuple(KINDS))
def test_a_column_has_a_distribution_of_its_kind_or_is_refused(name: str, kind: Any) -> None:
    categories = ("x", "y") if kind == "categorical" else ()
    rows = np.array([[0.0, 0.5], [1.0, 0.2]])
    encoding = Encoding((TableColumn("a", kind, categories, name), TableColumn("b", "real")))
    data = Dataset("t", rows, rows, rows, None, None, encoding)
    words: dict[str, Any] = dict.fromkeys(Settings.__dataclass_fields__) | {"input": "", "layer": "cp", "units": 2}
    settings = Settings(**words | {"seed": 0, "dtype": "float32"})
    distribution = DISTRIBUTIONS[name]
    takes_states = distribution.settings is not None or distribution.domain().num_states == 2
    whole = takes_states or distribution.domain().whole
    if {"categorical": takes_states, "count": whole and distribution.settings is None, "real": not whole}[kind]:
        circuit, _ = build_circuit(settings, data)
        encoding.check_domains([circuit.domains[0], circuit.domains[1]])
    else:
        with pytest.raises(InputError, match="column 'a'.*(kind|categories)"):
            build_circuit(settings, data)


def test_values_outside_the_domain_of_a_typed_column_are_named(plica: Plica) -> None:
    rng = np.random.default_rng(0)
    rows = "".join(f"{rng.uniform(0.1, 0.9):.3f},{rng.normal():.3f}\n" for _ in range(30))
    Path("rows.csv").write_text("share,x\n" + rows)
    Path("columns.json").write_text(json.dumps({"share": {"kind": "real", "input": "beta"}}))
    train(plica, "rows.csv", "--columns", "columns.json")
    Path("wrong.csv").write_text("note,x,share\n,1,0.5\n,1,1.5\n")
    result = plica("score", MODEL, "wrong.csv", "-o", "scores.csv")
    refused(result, "wrong.csv, line 3, column 'share': 1.5 is not between 0 and 1; rescale the data")
    assert not Path("scores.csv").exists()
