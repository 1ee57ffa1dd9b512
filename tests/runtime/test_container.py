from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from plica.errors import FileFormatError, NativeFileError
from plica.runtime.container import PAGE, read, write
from plica.runtime.module import load
from tests.harness.damaged_files import damaged_files
from tests.harness.native_files import MANIFEST, SHIFT, native_file, parts


def test_a_file_says_what_was_written(path: Path) -> None:
    image = read(path)
    assert image.manifest == MANIFEST
    assert {name: bytes(image.part(name)) for name in image.parts} == parts()
    assert all(part.offset % PAGE == 0 for part in image.parts.values())
    assert image.signer == b""


def test_files_of_the_same_parts_are_the_same(path: Path, tmp_path: Path) -> None:
    assert native_file(tmp_path / "again.plicab").read_bytes() == path.read_bytes()


def test_tensors_are_mapped_and_not_read(path: Path) -> None:
    """What the module holds of a constant lies within the mapped file."""
    with load(path) as module:
        view = np.frombuffer(read(path).view, np.uint8)
        assert np.array_equal(module.constants["shift"], SHIFT)
        base = module.constants["shift"]
        while isinstance(base, np.ndarray) and base.base is not None:
            base = base.base
        assert isinstance(base, memoryview)
        assert len(base.obj) == len(view)


@pytest.mark.parametrize("count", [2000, pytest.param(20_000, marks=pytest.mark.full)])
def test_damaged_files_are_refused_in_one_line(path: Path, tmp_path: Path, count: int) -> None:
    damaged = tmp_path / "damaged.plicab"
    accepted, unclear, made = [], [], 0
    for name, data in damaged_files(path.read_bytes(), count):
        made += 1
        damaged.write_bytes(data)
        try:
            load(damaged).close()
            accepted.append(name)
        except NativeFileError as error:
            message = str(error)
            if "\n" in message or not message.startswith(f"{damaged}: ") or len(message) > 700:
                unclear.append((name, message))
    assert made >= count
    assert accepted == []
    assert unclear == []


def test_a_file_with_a_signature_is_covered_by_hashes_too(tmp_path: Path) -> None:
    """Without a public key too, and without the library that checks signatures."""
    whole = native_file(tmp_path / "signed.plicab", bytes(range(32))).read_bytes()
    for byte in range(64, 64 + 128):
        damaged = bytearray(whole)
        damaged[byte] ^= 16
        (tmp_path / "damaged.plicab").write_bytes(damaged)
        with pytest.raises(NativeFileError, match="its signature does not hash to what was written"):
            read(tmp_path / "damaged.plicab")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda _: None, "no such file"),
        (lambda path: path.mkdir(), "is a folder"),
        (lambda path: path.write_bytes(b""), "the file is empty"),
        (lambda path: path.write_bytes(b"PK\3\4"), "is no native file of Plica"),
        (lambda path: path.write_bytes(bytes(10_000)), "is no native file of Plica"),
    ],
)
def test_what_is_no_native_file_is_said(tmp_path: Path, make, message: str) -> None:
    make(tmp_path / "x.plicab")
    with pytest.raises(FileFormatError, match=message):
        load(tmp_path / "x.plicab")


def test_a_part_may_be_a_file_of_its_own(tmp_path: Path) -> None:
    whole = native_file(tmp_path / "whole.plicab")
    path, weights = tmp_path / "split.plicab", tmp_path / "hand.weights"
    write(path, parts(), MANIFEST, files={"tensors": weights.name})
    assert weights.read_bytes() == parts()["tensors"]
    x = np.eye(4, dtype=np.float32)
    with load(whole) as one, load(path) as two:
        assert np.array_equal(one(x), two(x))
    weights.write_bytes(bytes(192))
    with pytest.raises(NativeFileError, match=r"its part tensors is not the file hand.weights that lies beside it"):
        load(path)
    weights.write_bytes(b"")
    with pytest.raises(NativeFileError, match=r"the file is empty"):
        load(path)
    weights.unlink()
    with pytest.raises(NativeFileError, match=r"is the file hand.weights, which is not beside it; copy both"):
        load(path)


def test_writing_is_all_or_nothing(tmp_path: Path) -> None:
    path = native_file(tmp_path / "kept.plicab")
    before = path.read_bytes()
    with pytest.raises(NativeFileError, match="there is no part code/host"):
        write(path, {"tensors": b""}, MANIFEST)
    with pytest.raises(TypeError):
        write(path, parts() | {"more": ["no bytes"]}, MANIFEST)  # type: ignore[dict-item]
    assert path.read_bytes() == before
    assert [one.name for one in tmp_path.iterdir()] == ["kept.plicab"]


def test_a_loaded_file_may_be_replaced(tmp_path: Path) -> None:
    """A module answers from the file that it loaded, whatever is written over it."""
    path = native_file(tmp_path / "model.plicab")
    with load(path) as module:
        other = parts() | {"tensors": bytes(192)}
        write(path, other, MANIFEST)
        x = np.eye(4, dtype=np.float32)
        assert module(x).any()
        with load(path) as new:
            assert not new(x).any()


def test_targets_are_chosen_by_the_machine(tmp_path: Path) -> None:
    [host] = MANIFEST.targets
    better = replace(host, name="better", features=("avx9000",))
    other = replace(host, name="other", architecture="riscv64")
    path = native_file(tmp_path / "x.plicab", targets=(better, other, host))
    assert load(path).target == host
    with pytest.raises(
        NativeFileError, match="better needs avx9000, which the processor of this machine does not have"
    ):
        load(path, target="better")
    with pytest.raises(NativeFileError, match="has no target none; it has better, other, host"):
        load(path, target="none")
    path = native_file(tmp_path / "x.plicab", targets=(better, other))
    with pytest.raises(NativeFileError, match=r"no code for this machine: better needs avx9000.*; other needs riscv64"):
        load(path)
