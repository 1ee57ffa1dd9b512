"""Signs and verifies files: an Ed25519 signature of the head, which holds the hash of everything else.

Hashes detect damage; they do not prove who wrote the file. Signing and verifying import `cryptography`.

>>> public, private = make_keys()
>>> block = sign(private, b"head")
>>> check_signature(public, b"head", block, block[:32])
>>> check_signature(public, b"beat", block, block[:32])
Traceback (most recent call last):
    ...
plica.errors.NativeFileError: its signature does not belong to its contents; ...
"""

import hashlib

from plica.errors import NativeFileError
from plica.extras import require

PublicKey = bytes  # 32 of them
PrivateKey = bytes  # 32 of them

_ED25519 = "cryptography.hazmat.primitives.asymmetric.ed25519"
_CONTEXT = b"plica native file\0"  # signed with the bytes, so that a signature of other data never fits a file
SIGNATURE = 32 + 64 + 32  # bytes: public key, signature, SHA-256 of the two


def make_keys() -> tuple[PublicKey, PrivateKey]:
    """A new pair of keys, the public one first. Both are 32 bytes, so no check tells them apart.

    Raises:
        MissingExtraError: `cryptography` is not installed.
    """
    key = require(_ED25519).Ed25519PrivateKey.generate()
    return key.public_key().public_bytes_raw(), key.private_bytes_raw()


def sign(key: PrivateKey, head: bytes) -> bytes:
    """The signature of a head, with the public key that verifies it."""
    _check_length("private", key)
    private = require(_ED25519).Ed25519PrivateKey.from_private_bytes(key)
    signed: bytes = private.public_key().public_bytes_raw() + private.sign(_CONTEXT + head)
    return signed + hashlib.sha256(signed).digest()


def check_signature(key: PublicKey, head: bytes, block: bytes, signer: bytes) -> None:
    """Raise unless a head was signed with a key.

    Args:
        key: The public key that must have signed.
        head: The bytes that must have been signed.
        block: The result of `sign`.
        signer: The public key that the file names; empty if it is not signed.

    Raises:
        NativeFileError: The file is not signed, is signed by another key, or the signature is of other bytes.
    """
    _check_length("public", key)
    if not signer:
        raise NativeFileError("is not signed; load it without a public key, or ask for a signed file")
    if signer != key:
        raise NativeFileError(
            f"is signed with the key {signer.hex()}, expected {key.hex()}; ask whom the key belongs to"
        )
    ed25519, exceptions = require(_ED25519), require("cryptography.exceptions")
    try:
        ed25519.Ed25519PublicKey.from_public_bytes(key).verify(block[32:96], _CONTEXT + head)
    except exceptions.InvalidSignature:
        raise NativeFileError(
            "its signature does not belong to its contents; ask whoever signed it for the original"
        ) from None


def _check_length(kind: str, key: bytes) -> None:
    """Raise unless a key is 32 bytes; the message does not show a wrong key, since it may be a secret."""
    if not isinstance(key, bytes) or len(key) != 32:
        shown = f"{len(key)} bytes" if isinstance(key, bytes) else type(key).__name__
        raise NativeFileError(f"expected a {kind} key of 32 bytes, found {shown}")
