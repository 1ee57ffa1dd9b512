"""Options of commands on native files: `--size NAME=NUMBER`, and `--public-key`.

>>> sizes_of(("n=10", "b=3"))
{'n': 10, 'b': 3}
"""

from collections.abc import Sequence

import click

from plica.errors import InputError

_DIGITS = 18  # of a size
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


def sizes_of(words: Sequence[str]) -> dict[str, int]:
    """Sizes by name.

    Raises:
        InputError: A word is no name with a number.
    """
    sizes = {}
    for word in words:
        name, _, number = word.partition("=")
        if not number.isdecimal() or len(number) > _DIGITS:
            raise InputError(f"--size {word:.60}: expected a name and a number, as n=10")
        sizes[name] = int(number)
    return sizes
