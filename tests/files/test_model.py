import json
import stat
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.numpy import save_file

from plica.backend.torch.compiler import TorchCompiler
from plica.errors import DTypeError, FileFormatError, UnsupportedError
from plica.files.model import load_model, save_model
from plica.files.versions import VERSION
from plica.symbolic.circuit import Circuit
from plica.symbolic.dtypes import DataType
from plica.symbolic.initializers import NormalInitializer
from plica.symbolic.layers import CategoricalLayer, SumLayer
from plica.symbolic.parameters import ClampParameter, ConstantParameter, Parameter, ParameterOp, TensorParameter
from plica.symbolic.semirings import LSE_SUM
from tests.harness.circuits import CIRCUITS, chain, coin, data


def weights(circuit: Circuit) -> tuple[Any, dict[str, Any]]:
    compiled = TorchCompiler().compile(circuit)
    return compiled, {name: value.numpy() for name, value in compiled.state_dict().items()}


@pytest.mark.parametrize("name", CIRCUITS)
def test_a_loaded_model_computes_the_same(tmp_path: Path, name: str) -> None:
    circuit = CIRCUITS[name]()
    compiled, tensors = weights(circuit)
    save_model(tmp_path / "m.plica", circuit, tensors, {"semiring": "lse-sum"})
    loaded = load_model(tmp_path / "m.plica")
    again = TorchCompiler().compile(loaded.circuit)
    again.load_state_dict({name: torch.from_numpy(value) for name, value in loaded.tensors.items()})
    x = torch.from_numpy(data(circuit, 5))
    torch.testing.assert_close(again(x), compiled(x), rtol=0, atol=0)


def test_options_and_dtypes_survive(tmp_path: Path) -> None:
    circuit = chain(coin([0], 2), SumLayer(2, 1))
    tensors = {"0.logits": np.arange(4.0).reshape(2, 2).T, "1.weight": np.zeros((1, 2), np.float16)}
    options = {"semiring": "lse-sum", "image_shape": [1, 2, 3], "nested": {"a": None}}
    save_model(tmp_path / "m.plica", circuit, tensors, options)
    loaded = load_model(tmp_path / "m.plica")
    assert loaded.options == options
    for name, value in tensors.items():
        assert loaded.tensors[name].dtype == value.dtype
        np.testing.assert_array_equal(loaded.tensors[name], value)


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_complex_tensors_survive(tmp_path: Path, dtype: type) -> None:
    weight = TensorParameter(1, 2, initializer=NormalInitializer(), dtype=DataType.COMPLEX)
    circuit = chain(coin([0], 2), SumLayer(2, 1, weight=weight))
    tensors = {"0.logits": np.zeros((2, 2)), "1.weight": np.array([[1 + 2j, -3j]], dtype)}
    save_model(tmp_path / "m.plica", circuit, tensors, {})
    found = load_model(tmp_path / "m.plica").tensors["1.weight"]
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, tensors["1.weight"])


def test_weights_of_nan_are_neither_saved_nor_loaded(tmp_path: Path) -> None:
    """A file whose digest is right too: every answer would be NaN."""
    path = saved(tmp_path)
    good = load_model(path)
    damaged = good.tensors | {"1.weight": np.array([[np.nan, 0.5]])}
    message = "1.weight: 1 of 2 entries are NaN"
    with pytest.raises(FileFormatError, match=f"save_model: tensors do not fit the circuit: {message}"):
        save_model(path, good.circuit, damaged, {})
    assert load_model(path).tensors.keys() == good.tensors.keys()
    with pytest.MonkeyPatch.context() as patch:  # as a version that did not look wrote it
        patch.setattr(np, "isnan", lambda value: np.zeros(np.shape(value), bool))
        save_model(path, good.circuit, damaged, {})
    with pytest.raises(FileFormatError, match=message):
        load_model(path)


@pytest.mark.parametrize("name", CIRCUITS)
def test_every_weight_is_looked_at(tmp_path: Path, name: str) -> None:
    circuit = CIRCUITS[name]()
    _, tensors = weights(circuit)
    for key, value in tensors.items():
        if value.dtype.kind in "fc":
            damaged = value.copy()
            damaged.flat[-1] = np.nan
            with pytest.raises(FileFormatError, match=f"{key}: 1 of {value.size} entries are NaN"):
                save_model(tmp_path / "m.plica", circuit, {**tensors, key: damaged}, {})


def saved(tmp_path: Path) -> Path:
    circuit = chain(coin([0], 2), SumLayer(2, 1))
    path = tmp_path / "m.plica"
    save_model(path, circuit, weights(circuit)[1], {})
    return path


def rewrite(path: Path, change: Any) -> None:
    """Write the file anew with other tensors, description or metadata."""
    with safe_open(path, framework="numpy") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        description = json.loads(file.metadata()["plica-model"])
    parts = SimpleNamespace(description=description, tensors=tensors, metadata=None)
    change(parts)
    metadata = {"plica-model": json.dumps(parts.description)} if parts.metadata is None else parts.metadata
    save_file(parts.tensors, path, metadata=metadata)


def test_files_are_plain_and_readable_by_others(tmp_path: Path) -> None:
    path = saved(tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["m.plica"]
    assert stat.S_IMODE(path.stat().st_mode) & 0o600 == 0o600
    (tmp_path / "plain").touch()
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE((tmp_path / "plain").stat().st_mode)
    assert b"pickle" not in path.read_bytes()


def values(path: Path) -> dict[str, Any]:
    return {name: value.tolist() for name, value in load_model(path).tensors.items()}


def test_no_bit_of_a_file_changes_the_numbers_that_are_loaded(tmp_path: Path) -> None:
    """Wrong numbers of the right shape and kind pass every other check."""
    path = saved(tmp_path)
    content, expected = path.read_bytes(), values(path)
    refused = 0
    for place in range(8, len(content), 7):
        path.write_bytes(content[:place] + bytes([content[place] ^ 1 << place % 8]) + content[place + 1 :])
        try:
            assert values(path) == expected, f"byte {place}"
        except FileFormatError:
            refused += 1
    assert refused > 0.95 * len(range(8, len(content), 7))  # all but the name of the digest itself
    path.write_bytes(content[:-40] + bytes([content[-40] ^ 1]) + content[-39:])  # the last weight
    with pytest.raises(FileFormatError, match=r"m\.plica: the file is damaged: its digest does not match its contents"):
        load_model(path)


def test_files_without_a_digest_are_read(tmp_path: Path) -> None:
    path = saved(tmp_path)
    expected = values(path)
    rewrite(path, lambda f: f.tensors.pop("sha256"))
    assert values(path) == expected


DAMAGED = {
    "a tensor of another shape": (
        lambda f: f.tensors.update({"weight/1.weight": np.zeros((2, 2), np.float32)}),
        r"tensors do not fit the circuit: 1\.weight: expected real \(1, 2\), found float32 \(2, 2\)",
    ),
    "a tensor of another kind": (
        lambda f: f.tensors.update({"weight/1.weight": np.zeros((1, 2), np.int64)}),
        r"1\.weight: expected real \(1, 2\), found int64 \(1, 2\)",
    ),
    "a missing tensor": (lambda f: f.tensors.pop("weight/0.logits"), r"0\.logits: expected real \(2, 2\), found none"),
    "one tensor more": (
        lambda f: f.tensors.update({"weight/9.x": np.zeros(1)}),
        r"tensors do not fit .*9\.x: not expected",
    ),
    "a later version": (
        lambda f: f.description.update(version=VERSION + 1),
        rf"model format version {VERSION + 1}, expected .*{VERSION}; .*save it anew",
    ),
    "another format": (lambda f: setattr(f, "metadata", {"format": "pt"}), r"not a model of Plica \(no 'plica-model'"),
    "no metadata": (lambda f: setattr(f, "metadata", {}), r"not a model of Plica \(no 'plica-model'"),
    "no circuit": (lambda f: f.description.pop("circuit"), r"the description of the model: 'circuit' is missing"),
    "no JSON": (lambda f: setattr(f, "metadata", {"plica-model": "{"}), r"description of the model is damaged \(JSON"),
    "deep JSON": (
        lambda f: setattr(f, "metadata", {"plica-model": "[" * 100_000}),
        r"the description of the model is damaged \(RecursionError",
    ),
    "a list": (
        lambda f: setattr(f, "metadata", {"plica-model": "[]"}),
        r"the description of the model: expected dict, found \[\]",
    ),
    "an unknown tensor": (
        lambda f: f.description.update(complex=["x"]),
        r"complex: there is no tensor 'x' in the file",
    ),
    "no pairs": (
        lambda f: (f.description.update(complex=["odd"]), f.tensors.update(odd=np.zeros(3))),
        r"tensor 'odd': .*pairs of floats, found float64 \(3,\)",
    ),
    "another structure": (
        lambda f: f.description["circuit"]["layers"][1].update({"class": "Popen"}),
        r"m\.plica: layer 1: the file names 'Popen', which is not a known Layer",
    ),
}


@pytest.mark.parametrize("case", DAMAGED)
def test_what_does_not_fit_is_refused(tmp_path: Path, case: str) -> None:
    change, message = DAMAGED[case]
    path = saved(tmp_path)
    rewrite(path, change)
    with pytest.raises(FileFormatError, match=message) as caught:
        load_model(path)
    assert str(path) in str(caught.value)


def test_many_problems_are_counted(tmp_path: Path) -> None:
    circuit = chain(coin([0], 2), *[SumLayer(2, 2) for _ in range(9)])
    with pytest.raises(FileFormatError, match=r"save_model: tensors .*found none; and 4 more$"):
        save_model(tmp_path / "m.plica", circuit, {}, {})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("keep", [0.0, 0.01, 0.3, 0.99])
def test_a_file_cut_short_is_refused(tmp_path: Path, keep: float) -> None:
    path = saved(tmp_path)
    content = path.read_bytes()
    path.write_bytes(content[: int(keep * len(content))])
    with pytest.raises(FileFormatError, match=r"m\.plica: (the file is empty|not a readable model file)"):
        load_model(path)


def test_other_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.plica").write_text("plain text")
    with pytest.raises(FileFormatError, match=r"a\.plica: not a readable model file"):
        load_model(tmp_path / "a.plica")
    with pytest.raises(FileFormatError, match=r"b\.plica: no such file"):
        load_model(tmp_path / "b.plica")
    with pytest.raises(FileFormatError, match=r": is a folder, expected a file"):
        load_model(tmp_path)


def test_a_failed_save_keeps_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = saved(tmp_path)
    before = path.read_bytes()

    def broken(target: Path, *_: Any) -> None:
        target.write_bytes(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr("plica.files.model._write", broken)
    with pytest.raises(KeyboardInterrupt):
        saved(tmp_path)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["m.plica"]


def test_options_must_be_json(tmp_path: Path) -> None:
    circuit = chain(coin([0], 2))
    for value in (object(), float("nan")):
        with pytest.raises(UnsupportedError, match="the options cannot be saved as JSON"):
            save_model(tmp_path / "m.plica", circuit, {"0.logits": np.zeros((2, 2))}, {"a": value})
    assert not list(tmp_path.iterdir())


def test_the_structure_is_json_in_the_header(tmp_path: Path) -> None:
    with safe_open(saved(tmp_path), framework="numpy") as file:
        description = json.loads(file.metadata()["plica-model"])
    assert [layer["class"] for layer in description["circuit"]["layers"]] == ["CategoricalLayer", "SumLayer"]


def test_complex_numbers_are_checked_with_the_semiring(tmp_path: Path) -> None:
    def saved(*ops: ParameterOp, semiring: str = "sum-product") -> Path:
        leaf = CategoricalLayer([0], 2, num_categories=3)
        weight = Parameter.from_sequence(ConstantParameter(1, 2, value=1.0 + 2.0j), *ops)
        total = SumLayer(2, 1, weight=weight)
        path = tmp_path / "m.plica"
        tensors = {"0.logits": np.zeros((2, 3), dtype=np.float32)}
        save_model(path, Circuit([leaf, total], {total: [leaf]}, [total]), tensors, {"semiring": semiring})
        return path

    assert load_model(saved()).circuit.num_variables == 1
    with pytest.raises(FileFormatError, match=r"options.semiring: SumLayer.*complex numbers"):
        load_model(saved(semiring="lse-sum"))
    with pytest.raises(
        FileFormatError, match=r"options.semiring: maximum.*SumLayer.*found complex64, expected int or float.*$"
    ):
        load_model(saved(ClampParameter((1, 2), vmin=0.0)))


def test_a_row_among_the_classes(tmp_path: Path) -> None:
    with pytest.raises(DTypeError, match=r"expected classes or LeafRows.*plica.compile\(circuit, semiring=row\)"):
        load_model(saved_coin(tmp_path), classes=[LSE_SUM])  # type: ignore[list-item]


def saved_coin(folder: Path) -> Path:
    layer, path = coin([0], 2), folder / "m.plica"
    circuit = Circuit([layer], {}, [layer])
    tensors = {key: value.numpy() for key, value in TorchCompiler().compile(circuit).state_dict().items()}
    save_model(path, circuit, tensors, {})
    return path
