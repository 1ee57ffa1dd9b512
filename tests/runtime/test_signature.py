import subprocess
import sys
from pathlib import Path

import pytest

from plica.errors import NativeFileError
from plica.runtime.container import beside, read, write
from plica.runtime.module import load
from plica.runtime.signature import make_keys, sign
from tests.harness.native_files import MANIFEST, native_file, parts


def test_a_signed_file_loads_with_its_key(tmp_path: Path) -> None:
    public, private = make_keys()
    path = native_file(tmp_path / "signed.plicab", private)
    with load(path, public_key=public) as module:
        assert module.signer == public
    load(path).close()  # a signature stops nobody who does not ask for it
    assert read(path).manifest == read(native_file(tmp_path / "plain.plicab")).manifest


def test_other_keys_and_no_signature_are_refused(path: Path, tmp_path: Path) -> None:
    public, private = make_keys()
    other, _ = make_keys()
    signed = native_file(tmp_path / "signed.plicab", private)
    with pytest.raises(NativeFileError, match=f"is signed with the key {public.hex()}, expected {other.hex()}"):
        load(signed, public_key=other)
    with pytest.raises(NativeFileError, match="is not signed"):
        load(path, public_key=public)
    with pytest.raises(NativeFileError, match="expected a public key of 32 bytes"):
        load(signed, public_key=public[:-1])


def test_a_signature_of_another_file_is_refused(tmp_path: Path) -> None:
    """Whoever changes a file can mend its hashes, and cannot mend its signature."""
    public, private = make_keys()
    signed = native_file(tmp_path / "signed.plicab", private).read_bytes()
    other = native_file(tmp_path / "other.plicab", private, provenance={"source": "changed by hand"}).read_bytes()
    (tmp_path / "mixed.plicab").write_bytes(other[:64] + signed[64 : 64 + 128] + other[64 + 128 :])
    with pytest.raises(NativeFileError, match="its signature does not belong to its contents"):
        load(tmp_path / "mixed.plicab", public_key=public)


def test_a_signature_covers_a_part_beside_the_file(tmp_path: Path) -> None:
    public, private = make_keys()
    path, forged = tmp_path / "signed.plicab", tmp_path / "forged.plicab"
    write(path, parts(), MANIFEST, private, beside=["tensors"])
    load(path, public_key=public).close()
    write(forged, parts() | {"tensors": bytes(192)}, MANIFEST, beside=["tensors"])
    [weights], [other] = beside(path), beside(forged)
    (tmp_path / other).replace(tmp_path / weights)
    with pytest.raises(NativeFileError, match=f"is the file {weights}, which does not have the hash that was written"):
        load(path, public_key=public)


def test_a_key_of_32_bytes_signs() -> None:
    with pytest.raises(NativeFileError, match=r"expected a private key of 32 bytes, found 5 bytes$"):
        sign(b"short", b"head")


def test_a_key_of_another_form_is_not_told() -> None:
    for key, found in (("5ec3e7" * 8, "str"), (bytearray(b"secret"), "bytearray"), (b"-----BEGIN", "10 bytes")):
        with pytest.raises(NativeFileError, match=f"expected a private key of 32 bytes, found {found}$"):
            sign(key, b"head")  # type: ignore[arg-type]


def test_the_library_is_imported_only_for_signatures(path: Path) -> None:
    code = f"import sys, plica.native; plica.native.load({str(path)!r}); print('cryptography' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "False\n"
