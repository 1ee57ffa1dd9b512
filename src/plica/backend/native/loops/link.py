"""Object code becomes a shared library, by the linker in the `ziglang` wheel."""

import re
import subprocess
import tempfile
from errno import ENOSPC
from pathlib import Path

from plica.errors import UnsupportedError, WriteError
from plica.extras import require

_OPTIONS = (
    "-shared",
    "--gc-sections",
    "--strip-all",
    "-z",
    "noexecstack",
    "--no-undefined",
    "--warn-unresolved-symbols",
)
_OF_LIBC = {"malloc", "realloc", "free", "memcpy", "memmove", "memset"}
_UNDEFINED = re.compile(r"undefined symbol: (\S+)")


def shared_library(code: bytes) -> bytes:
    """The shared library of an object file for Linux; it allocates memory by the C library of its process.

    Raises:
        UnsupportedError: The linker refuses the code.
        MissingExtraError: ziglang is not installed.
        WriteError: The folder for temporary files is full, or cannot be written to.
    """
    linker = Path(require("ziglang").__path__[0]) / "zig"
    try:
        with tempfile.TemporaryDirectory() as folder:
            source, target = Path(folder) / "code.o", Path(folder) / "code.so"
            source.write_bytes(code)
            command = [str(linker), "ld.lld", *_OPTIONS, str(source), "-o", str(target)]
            run = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
            missing = {*_UNDEFINED.findall(run.stderr)} - _OF_LIBC
            if missing:
                raise UnsupportedError(
                    f"the processor of this machine has no instructions for {', '.join(sorted(missing))}; use a newer "
                    "machine."
                )
            if run.returncode and "no space left" in run.stderr.lower():
                raise OSError(ENOSPC, "no space left on device")
            if run.returncode:
                message = " ".join(run.stderr.split())[:200]
                raise UnsupportedError(f"the linker cannot link this code: {message or 'it gives no reason'}")
            return target.read_bytes()
    except OSError as error:
        raise WriteError(
            f"a shared library needs a folder for temporary files ({(error.strerror or str(error)).lower()}); set "
            "TMPDIR to another folder"
        ) from error
