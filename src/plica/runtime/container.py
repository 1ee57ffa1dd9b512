"""The native file: a head with the offsets and hashes of the parts, and the parts, aligned to pages.

| bytes | what |
|---|---|
| 8 | `MAGIC`; a byte that no text has, and a line break that tools for text would change |
| 4 | version of the format |
| 4 | bytes of the signature that follows these 64: 0 or `SIGNATURE` |
| 8 | bytes of the description |
| 8 | bytes of the whole file |
| 32 | SHA-256 of the description |
| 0 or 128 | signature: public key, Ed25519 signature of the 64 bytes above, SHA-256 of the two |
| ... | description: JSON with the manifest and, for each part, name, offset, length and SHA-256 |
| ... | the parts, each at the next multiple of `PAGE`; the bytes between them are zero |

Reading checks every byte: by a hash, by comparison, or for being zero. Numbers are little-endian. The parts are mapped,
not read, so processes that load the same file share its memory. A part may be a separate file in the same folder. The
name of that file contains its hash, so several native files can share constants.
"""

import hashlib
import json
import mmap
import os
import struct
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass

from plica.errors import NativeFileError
from plica.runtime.checks import check_manifest
from plica.runtime.decode import many, number, parse, read_manifest, record, word, word_or_empty
from plica.runtime.manifest import Manifest
from plica.runtime.signature import SIGNATURE, PrivateKey, PublicKey, check_signature, sign

MAGIC = b"\x93PLICAB\n"
VERSION = 4
"""The version of the format. Versions 2 and 3 had code that another runtime ran."""
TABLE_VERSION = 5
"""The version of files with an encoding of tables, which readers of version 4 alone refuse."""
PAGE = 4096

_HEAD = struct.Struct("<8sIIQQ32s")
_MOST_DESCRIPTION = 64 * 2**20  # bytes
_DIGITS = 32  # of the hash, in the name of a file that is a part

Bytes = bytes | bytearray | memoryview


@dataclass(frozen=True, slots=True)
class Part:
    """Where a part of the file is.

    Args:
        name: Unique in the file.
        offset: Its first byte, a multiple of `PAGE`.
        length: Its bytes.
        sha256: The hash of these bytes, as hexadecimal digits.
        file: The name of its separate file, in the same folder; empty if the part is within this file.
    """

    name: str
    offset: int
    length: int
    sha256: str
    file: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Image:
    """A mapped file, every byte of which was checked.

    Args:
        path: The file.
        manifest: Its manifest.
        parts: Its parts by name.
        signer: The public key that the file names as its signer's; empty if it is not signed.
        digest: SHA-256 of its head, which holds the hash of the description: files of equal digests are equal.
        view: All its bytes.
        views: The bytes of each part.
    """

    path: str
    manifest: Manifest
    parts: Mapping[str, Part]
    signer: bytes
    digest: str
    view: memoryview
    views: Mapping[str, memoryview]

    def part(self, name: str) -> memoryview:
        """The bytes of a part."""
        return self.views[name]


def version_of(manifest: Manifest) -> int:
    """The version of the format that a manifest needs."""
    return VERSION if manifest.encoding is None else TABLE_VERSION


def write(
    path: str | os.PathLike[str],
    parts: Mapping[str, Bytes],
    manifest: Manifest,
    key: PrivateKey | None = None,
    *,
    beside: Collection[str] = (),
) -> None:
    """Write a file, whole or not at all.

    Args:
        path: The file. An existing file is replaced in one step; processes that loaded it keep its old contents. If
            the path is a link, its target is replaced.
        parts: The bytes of each part: code and tensors.
        manifest: The manifest, which names the parts.
        key: The Ed25519 private key to sign with, as 32 bytes.
        beside: Parts that become separate files in the same folder, named by their hashes.

    Raises:
        NativeFileError: The manifest does not fit the parts.
        FileFormatError: Nothing can be written there.
    """
    from plica.paths import replacing

    views = {name: memoryview(data).cast("B") for name, data in parts.items()}
    check_manifest(manifest, {name: len(view) for name, view in views.items()})
    # The offsets of the parts depend on the length of the description, which contains the offsets: repeat until stable.
    signed = 0 if key is None else SIGNATURE
    rows: list[Part] = []
    start = 0
    description = b""
    hashes = {name: hashlib.sha256(view).hexdigest() for name, view in views.items()}
    while not rows or start < _HEAD.size + signed + len(description):
        start = _page(_HEAD.size + signed + len(description))
        rows = _part_table(views, hashes, start, beside)
        description = _description(manifest, rows)
    inside = [row for row in rows if not row.file]
    length = inside[-1].offset + inside[-1].length if inside else _HEAD.size + signed + len(description)
    head = _HEAD.pack(
        MAGIC, version_of(manifest), signed, len(description), length, hashlib.sha256(description).digest()
    )
    signature = b"" if key is None else sign(key, head)
    with replacing(path) as temporary:
        with temporary.open("wb") as file:
            file.write(head + signature + description)
            for row in inside:
                file.write(bytes(row.offset - file.tell()))
                file.write(views[row.name])
        for row in rows:  # before the native file takes its name: it needs them
            if row.file:
                with replacing(temporary.with_name(row.file)) as part_file:
                    part_file.write_bytes(views[row.name])


def read(path: str | os.PathLike[str], public_key: PublicKey | None = None) -> Image:
    """Map a file and check every byte of it; nothing of it runs.

    Args:
        path: The file.
        public_key: The Ed25519 public key, as 32 bytes, of the required signer; None: anyone.

    Raises:
        NativeFileError: The file is damaged, of another version, or not signed by that key.
        FileFormatError: There is no such file.
    """
    where = os.fspath(path)
    view = _mapped(where)
    try:
        image = _checked(where, view)
        if public_key is not None:
            check_signed(image, public_key)
    except NativeFileError as error:
        raise NativeFileError(f"{where}: {error}") from None
    return image


def beside(path: str | os.PathLike[str]) -> tuple[str, ...]:
    """The names of the files that are parts of a native file; the files need not exist.

    Raises:
        NativeFileError: The description is damaged or of another version.
        FileFormatError: There is no such file.
    """
    where = os.fspath(path)
    try:
        description, _, _ = _described(_mapped(where))
    except NativeFileError as error:
        raise NativeFileError(f"{where}: {error}") from None
    return tuple(part.file for part in description.parts if part.file)


def place_of(path: str | os.PathLike[str], name: str) -> str:
    """The path of the file of a part: in the folder of the native file, or of the file that it is a link to."""
    folders = map(os.path.dirname, (path, os.path.realpath(path)))
    paths = [os.path.join(folder, name) for folder in folders]  # noqa: PTH118
    return next(filter(os.path.isfile, paths), paths[0])


def check_signed(image: Image, public_key: PublicKey) -> None:
    """Raise unless a file was signed with a key.

    Raises:
        NativeFileError: The file was not signed with this key.
    """
    head, block = bytes(image.view[: _HEAD.size]), bytes(image.view[_HEAD.size :][:SIGNATURE])
    check_signature(public_key, head, block, image.signer)


def _mapped(path: str) -> memoryview:
    if not os.path.isfile(path):  # noqa: PTH113 - the modules that know more about paths take 5 ms to import
        _raise_no_file(path)
    with open(path, "rb") as file:  # noqa: PTH123
        if os.fstat(file.fileno()).st_size == 0:
            raise NativeFileError(f"{path}: the file is empty (0 bytes); copy or export it again")
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


def _raise_no_file(path: str) -> None:
    from pathlib import Path

    from plica.paths import check_is_file

    check_is_file(Path(path))


def _checked(path: str, view: memoryview) -> Image:
    description, begin, end = _described(view)
    views = _parts(path, description.parts, view, end)
    check_manifest(description.manifest, {part.name: part.length for part in description.parts})
    identity = hashlib.sha256(view[:begin]).hexdigest()
    signer = bytes(view[_HEAD.size : begin])[:32]
    return Image(
        path, description.manifest, {part.name: part for part in description.parts}, signer, identity, view, views
    )


def _described(view: memoryview) -> tuple["_Description", int, int]:
    """The description, and where it begins and ends."""
    if bytes(view[: len(MAGIC)]) != MAGIC:
        raise NativeFileError("is no native file of Plica (its first bytes differ); make one with `plica export`")
    if len(view) < _HEAD.size:
        raise _damaged(f"it ends after {len(view)} bytes")
    _, version, signed, described, length, digest = _HEAD.unpack(view[: _HEAD.size])
    if version not in (VERSION, TABLE_VERSION):
        raise NativeFileError(
            f"has version {version} of the format, expected {VERSION} or {TABLE_VERSION}; export the model again"
        )
    if length != len(view):
        raise _damaged(f"it has {len(view)} bytes, and {length} were written")
    begin = _HEAD.size + signed
    if signed not in (0, SIGNATURE) or described > _MOST_DESCRIPTION or begin + described > len(view):
        raise _damaged(f"its header announces {signed} + {described} bytes, but it has {len(view)}")
    description = bytes(view[begin : begin + described])
    if hashlib.sha256(description).digest() != digest:
        raise _damaged("the hash of its description is not the one in its header")
    signature = bytes(view[_HEAD.size : begin])
    if signed and hashlib.sha256(signature[:-32]).digest() != signature[-32:]:
        raise _damaged("the hash of its signature is not the one that was written")
    record: _Description = _DESCRIPTION(parse(description, "its description"), "its description")
    if version != version_of(record.manifest):
        raise _damaged(f"its description is of version {version_of(record.manifest)}, and its head of {version}")
    for part in record.parts:
        if part.file and (part.file != os.path.basename(part.file) or part.offset):  # noqa: PTH119
            raise NativeFileError(f"its part {part.name}: {part.file} is no name of a file in the same folder")
    return record, begin, begin + described


def _parts(path: str, parts: tuple[Part, ...], view: memoryview, end: int) -> dict[str, memoryview]:
    """The bytes of each part: they follow each other, each on the next page, with zeros between, up to the end."""
    views: dict[str, memoryview] = {}
    for part in parts:
        where = f"its part {part.name}"
        if part.name in views:
            raise NativeFileError(f"{where} occurs twice")
        if part.file:
            views[part.name] = _file_of(path, part)
            continue
        if part.offset != _page(end) or part.offset + part.length > len(view):
            raise _damaged(
                f"{where} lies at bytes {part.offset} to {part.offset + part.length}, but it has {len(view)} bytes"
            )
        if bytes(view[end : part.offset]).strip(b"\0"):
            raise _damaged(f"expected zeros before its part {part.name}, found other bytes")
        end = part.offset + part.length
        views[part.name] = view[part.offset : end]
        if hashlib.sha256(views[part.name]).hexdigest() != part.sha256:
            raise _damaged(f"the hash of {where} is not the one that was written")
    if end != len(view):
        raise _damaged(f"its parts end at byte {end}, but it has {len(view)} bytes")
    return views


def _file_of(path: str, part: Part) -> memoryview:
    """The bytes of a part that is a separate file in the same folder."""
    where = place_of(path, part.file)
    part_name_and_file = f"its part {part.name} is the file {part.file}"
    if not os.path.isfile(where):  # noqa: PTH113
        raise NativeFileError(f"{part_name_and_file}, which is not in the same folder; copy both")
    size = os.stat(where).st_size  # noqa: PTH116
    if size != part.length:
        raise NativeFileError(
            f"{part_name_and_file}, which has {size} bytes, and {part.length} were written; copy both again"
        )
    view = _mapped(where)
    if hashlib.sha256(view).hexdigest() != part.sha256:
        raise NativeFileError(f"{part_name_and_file}, which does not have the hash that was written; copy both again")
    return view


def _damaged(problem: str) -> NativeFileError:
    return NativeFileError(f"the file is damaged: {problem}; copy or export it again")


def _page(offset: int) -> int:
    return -(-offset // PAGE) * PAGE


def _part_table(
    views: Mapping[str, memoryview], hashes: Mapping[str, str], start: int, beside: Collection[str]
) -> list[Part]:
    rows = []
    for name, view in views.items():
        is_separate = name in beside and len(view)  # an empty file cannot be mapped
        file = f"weights-{hashes[name][:_DIGITS]}.bin" if is_separate else ""
        rows.append(Part(name, 0 if file else start, len(view), hashes[name], file))
        start = start if file else _page(start + len(view))
    return rows


def _description(manifest: Manifest, rows: list[Part]) -> bytes:
    fields = asdict(manifest)
    if manifest.encoding is None:
        del fields["encoding"]  # as version 4 has it
    description = {"manifest": fields, "parts": [asdict(row) for row in rows]}
    return json.dumps(description, separators=(",", ":"), allow_nan=False).encode()


@dataclass(frozen=True, slots=True)
class _Description:
    manifest: Manifest
    parts: tuple[Part, ...]


_PART = record(Part, name=word, offset=number, length=number, sha256=word, file=word_or_empty)
_DESCRIPTION = record(_Description, manifest=read_manifest, parts=many(_PART))
