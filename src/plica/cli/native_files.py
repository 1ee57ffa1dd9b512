"""The option `--public-key` of the commands that read native files."""

import click

from plica.errors import InputError

KEY_OPTION = click.option(
    "--public-key", metavar="HEX", help="Ed25519 public key, 64 hexadecimal digits, that must have signed the file."
)


def public_key_of(text: str | None) -> bytes | None:
    """The key of the option, from its hexadecimal digits."""
    if text is None:
        return None
    try:
        key = bytes.fromhex(text)
    except ValueError:
        key = b""
    if len(key) != 32:
        raise InputError(f"--public-key {text:.80}: expected 64 hexadecimal digits")
    return key
