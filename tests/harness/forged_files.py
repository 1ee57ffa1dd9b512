"""Native files with a drawn change whose hashes are right: each is refused, or answers calls, and no process dies.

Sizes that arguments share are as they were, and so are tensors of integers: code reads wherever these say. Whoever
makes hashes right could as well change the code; signatures keep such files away.

Run as a program, it loads forgeries of a file and asks each for all its entries:
`python -m tests.harness.forged_files FILE COUNT SEED`. It prints what each forgery is before it loads it, and then how
many there were and how many loaded.
"""

import copy
import hashlib
import json
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from plica.errors import PlicaError
from plica.runtime.checks import ITEM_SIZES
from plica.runtime.container import beside
from plica.runtime.manifest import ArrayType
from plica.runtime.module import NativeModule, load
from plica.runtime.sizes import symbols
from tests.harness.damaged_files import description_of, with_description

Json = Any
_OF_THE_MACHINE = ("architecture", "features", "provenance")
_SIZES = (0, 1, 9)
_FLOATS = (np.nan, np.inf, -np.inf, -1.0, 1e30)


def ask_forgeries(path: Path, count: int) -> int:
    """How many of `count` forgeries of a file loaded; another process asks them, which must live."""
    command = [sys.executable, "-m", "tests.harness.forged_files", str(path), str(count), "0"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2])
    told = done.stdout.splitlines()
    assert done.returncode == 0, f"{told[-1:]}: {done.stderr[-2000:]}"
    asked, loaded = told[-1].split()
    assert int(asked) == count
    return int(loaded)


def random_forgeries(whole: bytes, count: int, seed: int) -> Iterator[tuple[str, bytes]]:
    """`count` files made from a good one, each with a word about what was changed: the description, or numbers."""
    draw = random.Random(seed)
    while count:
        good = description_of(whole)
        forge = draw.choice((_describe, _describe, _describe, _write_number))
        told, data = forge(whole, copy.deepcopy(good), draw)
        if data != whole:
            yield told, data
            count -= 1


def _describe(whole: bytes, good: Json, draw: random.Random) -> tuple[str, bytes]:
    """Some values of the manifest are others of the same kind."""
    told = []
    for _ in range(draw.choice((1, 1, 2))):
        values = [one for one in _values(good["manifest"]) if one[2] != "shape"]
        values += _values(good["manifest"]["tensors"] or [], "tensors")
        owner, key, name = draw.choice(values)
        old = owner[key]
        alike = [one[at] for one, at, called in values if called == name and type(one[at]) is type(old)]
        alike = [one for one in alike if one != old]
        owner[key] = copy.deepcopy(_other(old, name, alike, draw))
        told.append(f"{name}: {old!r:.60} is {owner[key]!r:.60}")
    return "; ".join(told), with_description(whole, json.dumps(good).encode())


def _values(owner: Json, name: str = "") -> Iterator[tuple[Json, str | int, str]]:
    """All values within a value of JSON: what holds each, at which key, and the last name that leads to it."""
    for key, value in list(owner.items()) if isinstance(owner, dict) else list(enumerate(owner)):
        called = key if isinstance(key, str) else name
        if called not in _OF_THE_MACHINE:
            if not isinstance(value, dict):
                yield owner, key, called
            if isinstance(value, dict | list):
                yield from _values(value, called)


def _other(value: Json, name: str, alike: list[Json], draw: random.Random) -> Json:
    """Another value of the same kind, from elsewhere in the file or near by."""
    match value:
        case bool():
            return not value
        case int():
            return draw.choice([value + 1, value - 1, 2 * value, value + 64, value - 64, 0, *alike])
        case list() if value and draw.random() < 0.7:
            return draw.choice(([*value, value[0]], value[1:], value[::-1]))
        case str() if value in ITEM_SIZES:
            return draw.choice(list(ITEM_SIZES))
        case _ if name == "shape":
            return draw.choice([*alike, *_SIZES])
        case _:
            return draw.choice([*alike, None, ""])


def _write_number(whole: bytes, good: Json, draw: random.Random) -> tuple[str, bytes]:
    """One number of a tensor of floats is another one, and the hash of its part is right."""
    parts = {one["name"]: one for one in good["parts"]}
    floats = [one for one in good["manifest"]["tensors"] if one["dtype"].startswith("float") and all(one["shape"])]
    if not floats:
        return "", whole
    tensor = draw.choice(floats)
    part, number = parts[tensor["part"]], np.array(draw.choice(_FLOATS), tensor["dtype"]).tobytes()
    count = int(np.prod(tensor["shape"]))
    start = part["offset"] + tensor["offset"] + draw.randrange(count) * len(number)
    data = whole[:start] + number + whole[start + len(number) :]
    part["sha256"] = hashlib.sha256(data[part["offset"] :][: part["length"]]).hexdigest()
    return f"a number of {tensor['name']}", with_description(data, json.dumps(good).encode())


def ask(module: NativeModule) -> None:
    """Ask a module for all its entries, at several sizes, and put other values in place of constants."""
    for name in module.entries:
        entry = module[name]
        wanted = entry.entry
        for size in (3, 0, 1):
            given: dict[str, Any] = {one.name: _array(one, size) for one in wanted.arguments}
            if wanted.draws:
                bound = {dim for one in wanted.arguments for dim in one.shape}
                loose = {symbol for one in wanted.draws for dim in one.shape for symbol in symbols(dim)}
                given |= {"seed": 1, **dict.fromkeys(loose - bound, size)}
            _try(partial(entry.arrays, **given))
    for tensor in module.manifest.tensors:
        _try(partial(module.update, {tensor.name: np.ones(tensor.shape, tensor.dtype)}))


def _array(wanted: ArrayType, size: int) -> Any:
    shape = tuple(min(dim, 1000) if isinstance(dim, int) else size for dim in wanted.shape)
    return np.ones(shape, "float32" if wanted.dtype == "bfloat16" else wanted.dtype)


def _try(call: Callable[[], Any]) -> Any:
    """What a call returns; None where it is refused, in one line."""
    try:
        return call()
    except PlicaError as error:
        message = str(error)
    assert "\n" not in message, message
    return None


def main() -> None:
    """Ask forgeries of a file."""
    path, count, seed = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    assert not beside(path), "all parts are within the file"
    loaded = 0
    with tempfile.TemporaryDirectory() as folder:
        forged = Path(folder) / "forged.plicab"
        for told, data in random_forgeries(path.read_bytes(), count, seed):
            print(ascii(told), flush=True)
            forged.unlink(missing_ok=True)  # the one before stays mapped
            forged.write_bytes(data)
            module = _try(lambda: load(forged))
            if module is not None:
                loaded += 1
                with module:
                    ask(module)
    print(count, loaded)


if __name__ == "__main__":
    main()
