r"""Reads sentential decision diagrams; the module `sdd_format` describes their files.

>>> import tempfile
>>> path = Path(tempfile.mkdtemp()) / "implication.sdd"
>>> _ = path.write_text("sdd 5\nL 0 0 1\nL 1 0 -1\nL 2 2 2\nT 3\nD 4 1 2 0 2 1 3\n")
>>> SDD.load(path).model_count()
3
"""

from pathlib import Path
from typing import final

from plica.templates.logic.graph import LogicalCircuit, circuit_of
from plica.templates.logic.sdd_format import read_sdd


@final
class SDD:
    """Sentential decision diagrams in files."""

    @staticmethod
    def load(file: str | Path, vtree: str | Path | None = None) -> LogicalCircuit:
        """The logical circuit of a file; variable v is the file's variable v + 1.

        Args:
            file: A file of the SDD package.
            vtree: The file of its vtree. With it the circuit's variables are those of the vtree, and the circuit stays
                structured decomposable when it is made smooth.

        Raises:
            FileFormatError: A file is missing, empty, damaged, of another format, or the vtree is that of another
                diagram.
        """
        return circuit_of(read_sdd(file, vtree))
