"""Mutations of model files: the JSON of the header, the tensors, the bytes; each is a file that somebody might meet.

base = ModelParts.read(path)
for name, make in json_mutations(base):
    path.write_bytes(make())
"""

import copy
import json
import random
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

Json = Any
Mutation = tuple[str, Callable[[], bytes]]  # what it is called, and how it is made

DEEP: Json = []
for _ in range(300):
    DEEP = [DEEP]

REPLACEMENTS: tuple[Json, ...] = (
    None, True, -1, 0, 1, 2, 3, 40, 70, 10**5, 2**31, 2**40, 2**63, 10**30, 10**400, 0.5, -0.25, 1e300, "x", "", [], {},
    [[]], [0] * 70, [-1], [2**40], [3, 1], ["x"], {"a": 1}, {"float": "nan"}, {"float": "inf"}, {"float": "x"},
    {"float": 1}, {"complex": [1.0, 2.0]}, {"complex": [1.0]}, {"complex": ["x", {}]}, {"array": "array.0"},
    {"array": "missing"}, {"array": []}, {"tuple": []}, {"tuple": [0, 0]}, {"tuple": [0] * 70}, {"tuple": ["x"]},
    {"tuple": {}}, {"scope": [0]}, {"scope": []}, {"scope": [2**40]}, {"scope": [10**5]}, {"scope": [-1]},
    {"scope": ["x"]}, {"scope": 3}, {"kind": "COMPLEX"}, {"kind": "INTEGER"}, {"kind": "x"}, {"kind": []}, {"node": 0},
    {"node": 10**9}, {"node": -1}, {"node": "x"}, {"parameter": {"nodes": [0], "output": 0}},
    {"parameter": {"nodes": [], "output": 0}}, {"parameter": 3}, {"initializer": {"class": "x", "config": {}}},
    {"initializer": {"class": "NormalInitializer", "config": {"mean": 10**400}}},
    {"initializer": {"class": "UniformInitializer", "config": {"a": {"float": "-inf"}, "b": {"float": "inf"}}}},
    {"initializer": {"class": "ConstantTensorInitializer", "config": {"value": {"tuple": ["a", "b"]}}}},
    {"layer": {"class": "HadamardLayer", "config": {"num_input_units": 2}, "params": {}}}, {"layer": []}, DEEP,
)  # fmt: skip
"""What stands in place of any value of the JSON: each type, small, huge and negative numbers, each kind of value."""


@dataclass(frozen=True)
class ModelParts:
    """A model file taken apart; what is put together again may be anything.

    Attributes:
        description: The JSON in the metadata.
        header: The other entries of the safetensors header: dtype, shape and offsets of each tensor.
        data: The bytes of the tensors.
    """

    description: Json
    header: dict[str, Any]
    data: bytes

    @staticmethod
    def read(path: Path) -> "ModelParts":
        """The parts of a good file but for its digest, which would find every mutation that the checks let through."""
        content = path.read_bytes()
        (length,) = struct.unpack("<Q", content[:8])
        header = json.loads(content[8 : 8 + length])
        description = json.loads(header.pop("__metadata__")["plica-model"])
        data = content[8 + length :]
        start, end = header.pop("sha256", {"data_offsets": (len(data), len(data))})["data_offsets"]
        assert end == len(data), "the digest is the last tensor"
        return ModelParts(description, header, data[:start])

    def content(self, text: str | None = None) -> bytes:
        """The bytes of the file, with another text of the description where one is given."""
        described = json.dumps(self.description) if text is None else text
        header = json.dumps({"__metadata__": {"plica-model": described}, **self.header}).encode()
        return struct.pack("<Q", len(header)) + header + self.data


def json_mutations(base: ModelParts, replacements: tuple[Json, ...] = REPLACEMENTS) -> Iterator[Mutation]:
    """Every value of the description deleted, repeated, or replaced by each replacement."""
    for path in paths(base.description):
        name = ".".join(map(str, path))
        for number, value in enumerate(replacements):
            yield (
                f"{name} = {str(value)[:40]} ({number})",
                partial(_with, base, path, lambda at, key, v=value: _set(at, key, v)),
            )
        yield f"{name} deleted", partial(_with, base, path, lambda at, key: at.pop(key))
        yield f"{name} in a list", partial(_with, base, path, lambda at, key: _set(at, key, [at[key]]))
        if isinstance(path[-1], int):
            yield f"{name} twice", partial(_with, base, path, lambda at, key: at.insert(key, copy.deepcopy(at[key])))
        else:
            yield f"{name} renamed", partial(_with, base, path, lambda at, key: at.update({f"{key}_": at.pop(key)}))
            yield f"{name} one more", partial(_with, base, path, lambda at, key: at.update({f"{key}_": at[key]}))


def grafts(base: ModelParts, seed: int) -> Iterator[Mutation]:
    """Values of the description in place of others, without end."""
    generator = random.Random(seed)
    places = list(paths(base.description))
    while True:
        source, target = generator.choice(places), generator.choice(places)
        value = copy.deepcopy(_at(base.description, source))
        name = f"{'.'.join(map(str, source))} at {'.'.join(map(str, target))}"
        yield name, partial(_with, base, target, lambda at, key, v=value: _set(at, key, v))


def text_mutations(base: ModelParts) -> Iterator[Mutation]:
    """The text of the description: literals that are no JSON, repeated keys, nesting, cuts."""
    text = json.dumps(base.description)
    for literal in ("NaN", "Infinity", "-Infinity", "1e999", "9" * 5000, "[" * 100_000, "{" * 3, '"\\ud800"'):
        yield f"value = {literal[:20]}", partial(base.content, text.replace(": 2", f": {literal}", 1))
        yield f"all of it = {literal[:20]}", partial(base.content, literal)
    yield "nested objects", partial(base.content, '{"a":' * 50_000 + "1" + "}" * 50_000)
    yield "a key twice", partial(base.content, text.replace('"version": ', '"version": 1, "version": ', 1))
    yield (
        "a setting twice",
        partial(base.content, text.replace('"config": {', '"config": {"arity": 1, "arity": 1, ', 1)),
    )
    yield "no text", partial(base.content, "")
    for part in range(1, 8):
        yield f"cut after {part}/8", partial(base.content, text[: len(text) * part // 8])


DTYPES = {
    "BOOL": 1, "U8": 1, "I8": 1, "F8_E5M2": 1, "F8_E4M3": 1, "F16": 2, "BF16": 2, "I16": 2, "U16": 2, "F32": 4,
    "I32": 4, "U32": 4, "F64": 8, "I64": 8, "U64": 8, "C64": 8, "F128": 16, "x": 8, "": 1,
}  # fmt: skip


def tensor_mutations(base: ModelParts) -> Iterator[Mutation]:
    """Each tensor with every dtype, other shapes, other offsets, renamed, removed, and one more."""
    for name, entry in base.header.items():
        start, end = entry["data_offsets"]
        for dtype, size in DTYPES.items():
            count = (end - start) // size
            for shape in (entry["shape"], [count], [1] * 70 + [count], [2**62, 0], [-1]):
                yield (
                    f"{name}: {dtype} {str(shape)[:20]}",
                    partial(_entry, base, name, {"dtype": dtype, "shape": shape}),
                )
        for shape in ([], [0], [2**40], [2**40] * 3, [2**63], "x", None, [0.5], [[1]]):
            yield f"{name}: shape {shape}", partial(_entry, base, name, {"shape": shape})
        for offsets in ([0, 0], [start, end + 8], [end, start], [-8, end], [0, 2**63], [], "x"):
            yield f"{name}: offsets {offsets}", partial(_entry, base, name, {"data_offsets": offsets})
        rest = {key: value for key, value in base.header.items() if key != name}
        for other in (f"{name}x", name.partition("/")[2], "", "weight/", "setting/", "__metadata__"):
            yield f"{name}: called {other!r}", ModelParts(base.description, {**rest, other: entry}, base.data).content
        yield f"{name}: removed", ModelParts(base.description, rest, base.data).content
        more = {**base.header, "weight/more": {**entry, "data_offsets": [len(base.data), len(base.data) + end - start]}}
        yield f"{name}: one more", ModelParts(base.description, more, base.data + base.data[start:end]).content


def byte_mutations(base: ModelParts, flips: int, cuts: int, seed: int) -> Iterator[Mutation]:
    """Bytes flipped at random places, files cut short, lengthened, and with other lengths of the header."""
    content = base.content()
    generator = random.Random(seed)
    for _ in range(flips):
        place, bit = generator.randrange(len(content)), generator.randrange(8)
        yield f"bit {bit} of byte {place}", partial(_flipped, content, place, bit)
    for cut in range(cuts):
        yield f"cut {cut}", partial(_joined, content[: len(content) * cut // cuts])
    for length in (0, 1, len(content), 2**31, 2**63, 2**64 - 1):
        yield f"a header of {length}", partial(_joined, struct.pack("<Q", length), content[8:])
    yield "longer", partial(_joined, content, b"\0" * 8)
    for byte in (b"\0", b"\xff", b"{"):
        yield f"all {byte!r}", partial(_joined, byte * len(content))


def paths(value: Json) -> Iterator[tuple[Any, ...]]:
    """The path of every value within a JSON value, the whole excepted."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield (key,)
        yield from ((key, *rest) for rest in paths(item))


def _flipped(content: bytes, place: int, bit: int) -> bytes:
    return content[:place] + bytes([content[place] ^ (1 << bit)]) + content[place + 1 :]


def _joined(*parts: bytes) -> bytes:
    return b"".join(parts)


def _at(value: Json, path: tuple[Any, ...]) -> Json:
    for key in path:
        value = value[key]
    return value


def _set(at: Json, key: Any, value: Json) -> None:
    at[key] = value


def _with(base: ModelParts, path: tuple[Any, ...], change: Any) -> bytes:
    description = copy.deepcopy(base.description)
    change(_at(description, path[:-1]), path[-1])
    return ModelParts(description, base.header, base.data).content()


def _entry(base: ModelParts, name: str, change: dict[str, Any]) -> bytes:
    header = {**base.header, name: base.header[name] | change}
    return ModelParts(base.description, header, base.data).content()
