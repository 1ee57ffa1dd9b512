"""`plica.save` and `plica.load`: a compiled circuit again, whatever it was compiled with."""

import errno
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import plica
from plica.errors import DTypeError, FileFormatError, UnsupportedError, WriteError
from plica.files.model import load_model, save_model
from plica.symbolic.semirings import LSE_SUM
from plica.templates.data_modalities import image_data
from tests.harness.pairwise import flagged

_X = torch.tensor([[0, 1, 2, 1], [2, 2, 0, 1]])


def _circuit(**settings: Any) -> plica.Circuit:
    options = {"input_layer": "categorical", "num_values": 3, "num_input_units": 2, "num_sum_units": 2, **settings}
    return image_data((1, 2, 2), "quad-tree-2", sum_product_layer="cp", **options)


@flagged(
    semiring=["lse-sum", "sum-product", "max-sum"],
    dtype=[torch.float32, torch.float64],
    how=[{}, {"fold": False}, {"fold": False, "optimize": False}],
)
def test_the_same_circuit(semiring: str, dtype: torch.dtype, how: dict[str, Any], tmp_path: Path) -> None:
    """Of the same tensors, dtype, semiring and values, however either was folded."""
    circuit = plica.compile(_circuit(), semiring=semiring, dtype=dtype, **how)
    plica.save(circuit, tmp_path / "one.plica")
    again = plica.load(tmp_path / "one.plica")
    assert (again.semiring, again.dtype, again.training) == (circuit.semiring, dtype, True)
    assert again.state_dict().keys() == circuit.state_dict().keys()
    assert all(torch.equal(tensor, again.state_dict()[key]) for key, tensor in circuit.state_dict().items())
    torch.testing.assert_close(again(_X), circuit(_X))
    assert torch.equal(plica.load(tmp_path / "one.plica", **how)(_X), circuit(_X))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_reals_of_16_bits_are_loaded_in_32(dtype: torch.dtype, tmp_path: Path) -> None:
    circuit = plica.compile(_circuit()).to(dtype)
    plica.save(circuit, tmp_path / "half.plica")
    again = plica.load(tmp_path / "half.plica")
    assert again.dtype == torch.float32
    for key, tensor in circuit.state_dict().items():
        assert torch.equal(tensor.float(), again.state_dict()[key])


def test_options_and_contexts(tmp_path: Path) -> None:
    """Options take the place of what the file says; a context has its own."""
    circuit = plica.compile(_circuit())
    path = tmp_path / "one.plica"
    plica.save(circuit, path)
    assert plica.load(path, dtype=torch.float64).dtype == torch.float64
    linear = plica.PipelineContext(semiring="sum-product")
    torch.testing.assert_close(plica.load(path, linear)(_X).log(), circuit(_X))
    with linear:
        assert plica.load(path).semiring.name == "sum-product"
        with pytest.raises(UnsupportedError, match="context"):
            plica.load(path, fold=False)


def test_what_a_file_says_beside_is_written_again(tmp_path: Path) -> None:
    """The columns of a table that the command line trained on, for instance."""
    symbolic = _circuit()
    tensors = {key: tensor.numpy() for key, tensor in plica.compile(symbolic).state_dict().items()}
    save_model(tmp_path / "one.plica", symbolic, tensors, {"semiring": "lse-sum", "image_shape": [1, 2, 2], "a": 1})
    circuit = plica.load(tmp_path / "one.plica")
    assert circuit.saved_with == {"image_shape": [1, 2, 2], "a": 1}
    plica.save(circuit, tmp_path / "two.plica")
    again = load_model(tmp_path / "two.plica")
    assert again.options == {"semiring": "lse-sum", "dtype": "float32", "image_shape": [1, 2, 2], "a": 1}
    assert all(np.array_equal(again.tensors[key], value) for key, value in tensors.items())


def test_refused(tmp_path: Path) -> None:
    """What is no compiled circuit, a semiring that no file names, and a file that is none; nothing is written."""
    path = tmp_path / "one.plica"
    with pytest.raises(DTypeError, match=r"takes a compiled circuit, found Circuit\(.*compile it first"):
        plica.save(_circuit(), path)  # type: ignore[arg-type]
    with pytest.raises(UnsupportedError, match="semiring 'lse-sum' is a custom one"):
        plica.save(plica.compile(_circuit(), semiring=replace(LSE_SUM, faster=())), path)
    assert not path.exists()
    with pytest.raises(FileFormatError, match=r"one\.plica"):
        plica.load(path)


@pytest.mark.parametrize(
    ("name", "error", "message"),
    [
        ("n" * 300, FileFormatError, "cannot be reached: file name too long; choose another path"),
        ("a\0b", FileFormatError, r"no file can have that name \(it has a null byte\); choose another"),
        ("\ud800", FileFormatError, "no file can have that name .*surrogates"),
        (".", FileFormatError, "is a folder"),
        (None, DTypeError, "expected the path of a file, found None of type NoneType; pass text"),
        (5, DTypeError, "expected the path of a file, found 5 of type int"),
        (b"model.plica", DTypeError, "expected the path of a file, found b'model.plica' of type bytes"),
    ],
)
def test_names_that_no_file_has(name: Any, error: type[Exception], message: str, tmp_path: Path) -> None:
    path: Any = f"{tmp_path}/{name}" if isinstance(name, str) else name
    with pytest.raises(error, match=message):
        plica.save(plica.compile(_circuit()), path)
    with pytest.raises(error, match=message):
        plica.load(path)
    assert not list(tmp_path.iterdir())


def test_options_that_do_not_exist(tmp_path: Path) -> None:
    path = tmp_path / "one.plica"
    plica.save(plica.compile(_circuit()), path)
    with pytest.raises(DTypeError, match=r"no option 'device'; there are backend, semiring.*circuit\.to\(\"cuda\"\)"):
        plica.load(path, device="gpu")
    with pytest.raises(DTypeError, match="max_bytes must be an integer, found '1' of type str"):
        plica.load(path, max_bytes="1")  # type: ignore[arg-type]


def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Is said in words of Plica, and the file that was there stays."""
    path = tmp_path / "one.plica"
    circuit = plica.compile(_circuit())
    plica.save(circuit, path)
    before = path.read_bytes()

    def full(target: Path, *_: Any) -> None:
        target.write_bytes(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("plica.files.model._write", full)
    with pytest.raises(
        WriteError, match=r"one\.plica: cannot be written: no space left on device; free some space there"
    ):
        plica.save(circuit, path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]
