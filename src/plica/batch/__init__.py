"""Questions to a model about batches of rows, for engines that deal out rows: Ray Data, Spark, Dask, processes.

    scorer = plica.batch.Scorer("model.plica")
    ray.data.read_parquet("rows/").map_batches(scorer, batch_format="pyarrow")

Importing this package loads little; `plica score ... --engine` runs `run`.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from plica.batch.callables import Completer, Predictor, Sampler, Scorer

__all__ = ["Completer", "Predictor", "Sampler", "Scorer"]


def __dir__() -> list[str]:
    return sorted({*(name for name in globals() if name.startswith("__")), *__all__})


def __getattr__(name: str) -> Any:
    """A public name, loaded when it is first used."""
    if name not in __all__:
        raise AttributeError(f"module 'plica.batch' has no attribute {name!r}")
    from plica.batch import callables

    value = globals()[name] = getattr(callables, name)
    return value
