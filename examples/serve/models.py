"""The file that is served, and how another one takes its place.

A file is copied before it is loaded, with the weights beside it: whatever is written over the original, the copy that
answers stays whole.
"""

import hashlib
import logging
import os
import shutil
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from plica.errors import FileFormatError
from plica.native import NativeModule, load
from plica.runtime.container import beside, place_of

log = logging.getLogger("serve")
Stamp = tuple[int, int, int] | None


@dataclass(frozen=True, slots=True)
class Model:
    """A file that is loaded.

    Args:
        module: What answers.
        digest: The SHA-256 of the file, which holds that of its weights: which model gave an answer.
        since: When it was loaded.
    """

    module: NativeModule
    digest: str
    since: str


class Models:
    """The model at a path: the newest one that could be loaded.

    Args:
        path: The native file.
        public_key: The Ed25519 key of whoever must have signed it; None: anyone.

    Raises:
        FileFormatError: There is no such file, or it cannot be loaded.
    """

    def __init__(self, path: str | os.PathLike[str], public_key: bytes | None = None) -> None:
        self.path = Path(path)
        self.refused = ""
        self._key = public_key
        self._stamps: tuple[Stamp, ...] = ()
        self._current = self._loaded()

    @property
    def current(self) -> Model:
        """What answers calls that begin now; those that have begun keep the one that they have."""
        return self._current

    def refresh(self) -> bool:
        """Whether the file at the path is another one than before, and was loaded.

        One that cannot be loaded is refused: the old one goes on to answer, and `refused` says why. One that could
        not be copied, as where a disk was full, is tried again the next time.
        """
        stamps = self._seen()
        if stamps[0] is None or stamps == self._stamps:
            return False
        try:
            model = self._loaded()
        except (FileFormatError, OSError) as error:
            if isinstance(error, OSError):
                self._stamps = ()
            if str(error) != self.refused or self._stamps:  # one that is tried again and again is logged once
                log.error("refused, the old model goes on: %s", error)
            self.refused = str(error)
            return False
        self.refused = ""
        changed = model.digest != self._current.digest
        self._current = model  # one assignment: no call sees half of it
        log.info("now %s", model.digest)
        return changed

    def _seen(self) -> tuple[Stamp, ...]:
        return tuple(_stamp(path) for path in (self.path, *self._beside))

    def _loaded(self) -> Model:
        with tempfile.TemporaryDirectory(prefix="serve-") as folder:
            copy = Path(folder) / self.path.name
            self._beside: list[Path] = []
            self._stamps = self._seen()  # before it is read: what changes meanwhile is seen
            try:
                shutil.copyfile(self.path, copy)
                self._beside = [Path(place_of(self.path, name)) for name in beside(copy)]
                self._stamps = (self._stamps[0], *self._seen()[1:])
                for path in self._beside:
                    if path.is_file():  # else it is refused when it is loaded
                        shutil.copyfile(path, copy.with_name(path.name))
                with copy.open("rb") as file:
                    digest = hashlib.file_digest(file, "sha256").hexdigest()
                module = load(copy, public_key=self._key)  # which maps it: the name is not needed any more
            except FileNotFoundError as error:
                raise FileFormatError(f"{self.path}: there is no such file; write one with plica export") from error
            except OSError as error:
                self._stamps = ()
                raise FileFormatError(f"{self.path}: cannot be copied: {error.strerror or error}") from error
            except FileFormatError as error:
                raise type(error)(str(error).replace(str(copy), str(self.path))) from error
        return Model(module, digest, datetime.now(UTC).isoformat(timespec="seconds"))


def _stamp(path: Path) -> Stamp:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns
