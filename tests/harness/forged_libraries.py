"""Native files whose code is another one and whose hashes are right: each is refused or answers, and no process dies.

The code is cut short, its head says something else, a segment is said to be longer, or it is no library of Plica. Other
bytes of the code are not changed: whoever makes hashes right could as well write what the code does.

Run as a program, it loads such files and asks those that load: `python -m tests.harness.forged_libraries FILE COUNT
SEED LIBRARY ...`. It prints what each is before it loads it, and then how many there were and how many loaded.
"""

import random
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from plica.errors import NativeFileError
from plica.runtime.container import read, write
from plica.runtime.module import NativeModule, load
from tests.harness.forged_files import ask

_HEAD = 64  # bytes
_SEGMENT = 56
_LENGTH = (32, 40)  # bytes of the description of a segment: how long it is in the file


def ask_libraries(path: Path, count: int, others: Sequence[Path] = ()) -> int:
    """How many forgeries of the code of a file loaded; another process asks them, which must live."""
    command = [sys.executable, "-m", "tests.harness.forged_libraries", str(path), str(count), "0", *map(str, others)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2])
    told = done.stdout.splitlines()
    assert done.returncode == 0, f"{told[-1:]}: {done.stderr[-2000:]}"
    asked, loaded = told[-1].split()
    assert int(asked) == count + len(others)
    return int(loaded)


def forgeries(code: bytes, count: int, seed: int) -> Iterator[tuple[str, bytes]]:
    """`count` other libraries made from a good one, each with a word about what was changed."""
    draw = random.Random(seed)
    (segments,), (number,) = struct.unpack_from("<Q", code, 32), struct.unpack_from("<H", code, 56)
    while count:
        data, told = bytearray(code), ""
        match draw.choice(("cut", "cut", "head", "segment", "longer")):
            case "cut":
                length = draw.choice((draw.randrange(1, len(code)), draw.randrange(1, 200), len(code) - 1))
                data, told = data[:length], f"cut to {length} bytes"
            case "longer":
                data += draw.randbytes(draw.choice((1, 64, 5000)))
                told = "longer"
            case "head":
                place = draw.randrange(_HEAD)
                data[place] = draw.choice((0, 1, 2, 3, 183, 255, data[place] ^ 1 << draw.randrange(8)))
                told = f"byte {place} is {data[place]}"
            case "segment":  # which is said to be longer: a shorter one would be other code
                start = segments + _SEGMENT * draw.randrange(number) + draw.randrange(*_LENGTH)
                data[start] |= 1 << draw.randrange(8)
                told = f"byte {start} of a segment is {data[start]}"
        if data != code:
            yield told, bytes(data)
            count -= 1


def _loaded(path: Path) -> tuple[NativeModule | None, str]:
    """A module, or why there is none."""
    try:
        return load(path), ""
    except NativeFileError as error:
        return None, str(error)


def main() -> None:
    """Ask forgeries of the code of a file."""
    path, count, seed, others = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:]
    image = read(path)
    part = image.manifest.targets[0].part
    codes = [*forgeries(bytes(image.part(part)), count, seed), *((other, Path(other).read_bytes()) for other in others)]
    loaded = 0
    with tempfile.TemporaryDirectory() as folder:
        for number, (told, code) in enumerate(codes):
            print(ascii(told), flush=True)
            forged = Path(folder) / f"{number}.plicab"
            write(forged, {**{name: image.part(name) for name in image.parts}, part: code}, image.manifest)
            module, refusal = _loaded(forged)
            assert "\n" not in refusal, refusal
            if module is not None:
                loaded += 1
                with module:
                    ask(module)
    print(len(codes), loaded)


if __name__ == "__main__":
    main()
