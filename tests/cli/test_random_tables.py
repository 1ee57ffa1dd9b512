"""Random tables are completed into the users' own, and damaged encodings are read right or refused with one line."""

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from plica.errors import FileFormatError
from plica.files.model import KEY, load_model
from plica.tables.model import open_model
from tests.harness.tables_of_users import read, run, untrained, write

_TEXTS = (
    "",
    " ",
    "cat",
    " dog ",
    "01",
    "1",
    "1.0",
    "-3",
    "0.50",
    "1e3",
    "true",
    "FALSE",
    'say "a, b"',
    "two\nlines",
    "a line\rend",
    "\u2603",
)
_COLUMNS: dict[str, Any] = {
    "texts": lambda rng: rng.choice(_TEXTS),
    "codes": lambda rng: rng.choice(["007", "7", "070", ""]),
    "whole": lambda rng: rng.choice(["1", "2", "+3", "-4", "5.0", "", "  "]),
    "longer": lambda rng: str(2**64 * int(rng.integers(-2, 3))),
    "long": lambda rng: str(2**53 + int(rng.integers(4))),
    "counts": lambda rng: "" if rng.random() < 0.2 else str(rng.integers(0, 1000)),
    "reals": lambda rng: rng.choice(["", f"{rng.normal():.3f}", f" {rng.normal():.1e}", f"{rng.normal()}"]),
    "truths": lambda rng: rng.choice(["true", "false", ""]),
}


def random_table(rng: np.random.Generator) -> list[list[str]]:
    makers = [_COLUMNS[name] for name in rng.choice(list(_COLUMNS), int(rng.integers(1, 6)))]
    rows = [[str(make(rng)) for make in makers] for _ in range(int(rng.integers(30, 60)))]
    return [[rng.choice(["c ", "  c", ' "c"', "c, "]) + str(place) for place in range(len(makers))], *rows]


def check_round_trip(folder: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    table, model = random_table(rng), folder / "model.plica"
    write(folder / "a.csv", table)
    encoding = untrained(model, folder / "a.csv")
    for method in ("sample", "mpe", "mean"):
        full = folder / "full.csv"
        result = run("complete", model, folder / "a.csv", "-o", full, "--method", method, "--batch", 1 + seed % 40)
        assert result.exit_code == 0, (result.output, result.exception)
        completed = read(full)
        assert len(completed) == len(table)
        assert completed[0] == table[0]
        for before, after in zip(table[1:], completed[1:], strict=True):
            for old, new, column in zip(before, after, encoding.columns, strict=True):
                assert new == old if old.strip() else new.strip(), column
                assert old.strip() or column.kind != "categorical" or new in [_text(one) for one in column.categories]
        assert run("score", model, full, "-o", folder / "s.npy").exit_code == 0
        scores = np.load(folder / "s.npy")
        assert np.isfinite(scores).all()
        stored = folder / "full.parquet"
        assert run("complete", model, full, "-o", stored).exit_code == 0
        assert run("score", model, stored, "-o", folder / "s.npy").exit_code == 0
        np.testing.assert_allclose(np.load(folder / "s.npy"), scores, rtol=1e-9)
    in_batches = []
    for batch in (1, 1000):
        assert run("score", model, folder / "a.csv", "-o", folder / "s.npy", "--batch", batch).exit_code == 0
        in_batches.append(np.load(folder / "s.npy"))
    np.testing.assert_allclose(in_batches[0], in_batches[1], rtol=1e-12)


def _text(category: Any) -> str:
    return {True: "true", False: "false"}[category] if isinstance(category, bool) else str(category)


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.full) for seed in (1, 2))])
def test_complete_gives_back_the_users_own_table(tmp_path: Path, seed: int) -> None:
    check_round_trip(tmp_path, seed)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(100, 125))
def test_complete_gives_back_many_tables(tmp_path: Path, seed: int) -> None:
    check_round_trip(tmp_path, seed)


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Each (container, key) in a JSON value."""
    keys = value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in list(keys):
        yield value, key
        yield from places(value[key])


_VALUES: tuple[Any, ...] = (
    None,
    True,
    0,
    -1,
    2**70,
    1.5,
    "",
    "cat",
    "count",
    "real",
    "categorical",
    "ignored",
    [],
    {},
    ["cat", "cat"],
    [1, True],
)


def check_mutation(folder: Path, whole: bytes, seed: int) -> None:
    """Mutates the encoding in the header of a file."""
    rng = np.random.default_rng(seed)
    length = int.from_bytes(whole[:8], "little")
    header = json.loads(whole[8 : 8 + length])
    description = json.loads(header["__metadata__"][KEY])
    encoding = description["options"]
    for _ in range(1 + seed % 2):
        found = list(places({"encoding": encoding["encoding"]})) if isinstance(encoding["encoding"], dict) else []
        if not found:
            break
        container, key = found[int(rng.integers(len(found)))]
        container = encoding if list(container) == ["encoding"] else container
        action = int(rng.integers(4))
        if action == 0 and isinstance(container, list):
            container.append(copy.deepcopy(container[key]))
        elif action == 1:
            del container[key]
            if container is encoding:
                break
        else:
            container[key] = copy.deepcopy(_VALUES[int(rng.integers(len(_VALUES)))])
    header["__metadata__"][KEY] = json.dumps(description)
    text = json.dumps(header).encode()
    path = folder / "mutated.plica"
    path.write_bytes(len(text).to_bytes(8, "little") + text + whole[8 + length :])
    try:
        open_model(path, "cpu")
    except FileFormatError:
        return
    words = ("complete", path, folder / "a.csv", "-o", folder / "full.csv", "--method", "mpe")
    result = run(*words)
    assert result.exit_code in (0, 2), (encoding, result.exception)
    assert len(result.output.splitlines()) == result.exit_code // 2
    result = run("sample", path, "-o", folder / "drawn.csv", "-n", 3)
    assert result.exit_code == 0, (encoding, result.output, result.exception)


@pytest.fixture(scope="module")
def pets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pets")
    rng = np.random.default_rng(0)
    rows = [
        [str(rng.choice(["cat", "dog"])), str(rng.choice([2, 4])), f"{rng.normal()}", f"{rng.poisson(50)}"]
        for _ in range(60)
    ]
    write(folder / "a.csv", [["pet", "legs", "weight", "visits"], *rows, ["", "", "", ""]])
    untrained(folder / "model.plica", folder / "a.csv")
    assert load_model(folder / "model.plica").options["encoding"]
    return folder


def test_damaged_encodings_are_read_right_or_refused(pets: Path, tmp_path: Path) -> None:
    check_mutations(pets, tmp_path, range(40))


@pytest.mark.full
def test_many_damaged_encodings(pets: Path, tmp_path: Path) -> None:
    check_mutations(pets, tmp_path, range(1000, 1500))


def check_mutations(pets: Path, folder: Path, seeds: range) -> None:
    (folder / "a.csv").write_bytes((pets / "a.csv").read_bytes())
    for seed in seeds:
        check_mutation(folder, (pets / "model.plica").read_bytes(), seed)
