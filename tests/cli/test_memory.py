from pathlib import Path

import pytest

from plica.cli.memory import check_fits, machine_memory
from plica.errors import InputError


def test_what_fits_and_what_does_not() -> None:
    check_fits(50, "float32", memory=1000)
    for number, dtype in ((51, "float32"), (26, "float64"), (10**30, "float32")):
        with pytest.raises(InputError, match=rf"the model would have {number:,} parameters, .* choose smaller --units"):
            check_fits(number, dtype, memory=1000)


def test_the_memory_of_a_container(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("plica.cli.memory._LIMIT", tmp_path / "memory.max")
    whole = machine_memory()
    assert whole is None or whole > 2**20
    for text, expected in (("max\n", whole), ("4096\n", None if whole is None else 4096)):
        (tmp_path / "memory.max").write_text(text)
        assert machine_memory() == expected
