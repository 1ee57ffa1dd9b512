import re
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from plica.errors import FileFormatError, NativeFileError
from plica.runtime.container import PAGE, beside, read, write
from plica.runtime.module import load
from tests.harness.damaged_files import damaged_files, damaged_parts, forged
from tests.harness.forged_files import ask_forgeries
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


@pytest.mark.parametrize("count", [150, pytest.param(3000, marks=pytest.mark.full)])
def test_a_change_whose_hashes_are_right_ends_no_process(path: Path, count: int) -> None:
    loaded = ask_forgeries(path, count)
    assert count // 5 < loaded < count, "some are refused, others answer"


def test_a_file_with_a_signature_is_covered_by_hashes_too(tmp_path: Path) -> None:
    """Without a public key too, and without the library that checks signatures."""
    whole = native_file(tmp_path / "signed.plicab", bytes(range(32))).read_bytes()
    for byte in range(64, 64 + 128):
        damaged = bytearray(whole)
        damaged[byte] ^= 16
        (tmp_path / "damaged.plicab").write_bytes(damaged)
        with pytest.raises(NativeFileError, match="the hash of its signature is not the one that was written"):
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
    path, weights = _split(tmp_path / "split.plicab")
    assert weights.read_bytes() == parts()["tensors"]
    assert beside(whole) == ()
    x = np.eye(4, dtype=np.float32)
    with load(whole) as one, load(path) as two:
        assert np.array_equal(one(x), two(x))
        two.update(shift=SHIFT * 2)
        assert weights.read_bytes() == parts()["tensors"]


def test_a_part_that_is_another_file_is_refused(tmp_path: Path) -> None:
    path, weights = _split(tmp_path / "split.plicab")
    its = re.escape(f"{path}: its part tensors is the file {weights.name}, which ")
    good = weights.read_bytes()
    for _, data in damaged_parts(good):
        weights.write_bytes(data)
        found = "does not have the hash that was" if len(data) == len(good) else f"has {len(data)} bytes, and 192 were"
        with pytest.raises(NativeFileError, match=f"{its}{found}.* written; copy both again$"):
            load(path)
    weights.unlink()
    missing = f"{its}is not in the same folder; copy both$"
    with pytest.raises(NativeFileError, match=missing):
        load(path)
    weights.mkdir()
    with pytest.raises(NativeFileError, match=missing):
        load(path)
    for file in ("a/b.bin", "a/../../b.bin"):
        path.write_bytes(forged(path.read_bytes(), partial(_moved, file=file)))
        with pytest.raises(NativeFileError, match=f"{path}: its part tensors: {file} is no name of a file in the same"):
            beside(path)


def test_files_share_a_part_and_keep_it_when_one_is_replaced(tmp_path: Path) -> None:
    first, weights = _split(tmp_path / "first.plicab")
    second, same = _split(tmp_path / "second.plicab")
    assert same == weights
    x = np.eye(4, dtype=np.float32)
    with load(first) as old:
        _, other = _split(first, bytes(192))
        assert other != weights
        with load(first) as new, load(second) as kept:
            assert not new(x).any()
            assert np.array_equal(kept(x), old(x))
    with pytest.raises(FileFormatError, match="is a folder"):
        write(tmp_path, parts(), MANIFEST, beside=["tensors"])
    assert sorted(tmp_path.iterdir()) == sorted([first, second, weights, other])


def test_a_file_is_replaced_after_what_it_needs_is_there(tmp_path: Path) -> None:
    path, weights = _split(tmp_path / "other.plicab")
    weights.unlink()
    weights.mkdir()
    old = native_file(tmp_path / "old.plicab").read_bytes()
    with pytest.raises(FileFormatError, match=f"{weights.name}: is a folder"):
        _split(tmp_path / "old.plicab")
    assert (tmp_path / "old.plicab").read_bytes() == old
    assert sorted(tmp_path.iterdir()) == sorted([tmp_path / "old.plicab", path, weights])


def test_a_part_lies_beside_a_link_or_beside_what_that_leads_to(tmp_path: Path) -> None:
    for name in ("real", "links"):
        (tmp_path / name).mkdir()
    link = tmp_path / "links" / "m.plicab"
    link.symlink_to(tmp_path / "real" / "m.plicab")
    _, weights = _split(link)
    assert [one.name for one in link.parent.iterdir()] == ["m.plicab"]
    load(link).close()
    weights.rename(link.with_name(weights.name))
    load(link).close()


def _moved(description: Any, file: str) -> None:
    """Its first part is another file."""
    description["parts"][0]["file"] = file


def _split(path: Path, tensors: bytes | None = None) -> tuple[Path, Path]:
    """A file whose tensors are a file of their own, and that one."""
    write(path, parts() | ({} if tensors is None else {"tensors": tensors}), MANIFEST, beside=["tensors"])
    [name] = beside(path)
    return path, path.resolve().with_name(name)


def test_writing_is_all_or_nothing(tmp_path: Path) -> None:
    path = native_file(tmp_path / "kept.plicab")
    before = path.read_bytes()
    with pytest.raises(NativeFileError, match="its part code/host is missing or empty"):
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
