"""Names of other libraries: a small table here, so that a build needs no network.

`PLICA_DOCS_INTERSPHINX=1 make docs` fetches the whole inventories instead.
"""

import os
import zlib
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.config import Config

_HEAD = (
    "# Sphinx inventory version 2\n# Project: {name}\n# Version: \n"
    "# The remainder of this file is compressed using zlib.\n"
)
_ADDRESSES = {
    "python": "https://docs.python.org/3",
    "numpy": "https://numpy.org/doc/stable",
    "torch": "https://docs.pytorch.org/docs/stable",
    "sklearn": "https://scikit-learn.org/stable",
}
_NAMES = {
    "python": (
        ("ValueError", "exception", "library/exceptions.html"),
        ("TypeError", "exception", "library/exceptions.html"),
        ("OSError", "exception", "library/exceptions.html"),
        ("pathlib.Path", "class", "library/pathlib.html"),
        ("collections.abc.Mapping", "class", "library/collections.abc.html"),
        ("collections.abc.Sequence", "class", "library/collections.abc.html"),
    ),
    "numpy": (
        ("numpy.ndarray", "class", "reference/generated/numpy.ndarray.html"),
        ("numpy.dtype", "class", "reference/generated/numpy.dtype.html"),
    ),
    "torch": (
        ("torch.Tensor", "class", "tensors.html"),
        ("torch.nn.Module", "class", "generated/torch.nn.Module.html"),
        ("torch.compile", "function", "generated/torch.compile.html"),
    ),
    "sklearn": (
        ("sklearn.base.BaseEstimator", "class", "modules/generated/sklearn.base.BaseEstimator.html"),
        ("sklearn.impute.IterativeImputer", "class", "modules/generated/sklearn.impute.IterativeImputer.html"),
        ("sklearn.impute.KNNImputer", "class", "modules/generated/sklearn.impute.KNNImputer.html"),
    ),
}


def _write(app: Sphinx, config: Config) -> None:
    if os.environ.get("PLICA_DOCS_INTERSPHINX"):
        config.intersphinx_mapping = {name: (address, None) for name, address in _ADDRESSES.items()}
        return
    folder = Path(app.outdir).parent / "inventories"
    folder.mkdir(parents=True, exist_ok=True)
    for name, rows in _NAMES.items():
        lines = "".join(f"{row} py:{kind} 1 {page}#$ -\n" for row, kind, page in rows)
        (folder / f"{name}.inv").write_bytes(_HEAD.format(name=name).encode() + zlib.compress(lines.encode()))
    config.intersphinx_mapping = {name: (address, str(folder / f"{name}.inv")) for name, address in _ADDRESSES.items()}


def setup(app: Sphinx) -> dict[str, bool]:
    """Sets `intersphinx_mapping` before intersphinx reads it."""
    app.connect("config-inited", _write, priority=100)
    return {"parallel_read_safe": True}
